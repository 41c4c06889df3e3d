"""Line tables of many code objects of the standard library, decoded by us and by the interpreter that made them.

usage: python_lines_test.py READER PYTHON    exits 77 where there is no such interpreter
"""
import importlib.util
import pathlib
import subprocess
import sys

FRAMES_TEST = pathlib.Path(__file__).resolve().parents[1] / "interpose" / "python" / "interpreters.py"

# Runs in the interpreter: for each code object a line for the reader, and a line of what it must answer.
DUMP = r'''
import dis, glob, os, sys, types
SOURCES = ["argparse", "asyncio/base_events", "ast", "collections/__init__", "dataclasses", "difflib", "inspect", "json/decoder", "pickle",
           "subprocess", "tarfile", "textwrap", "turtle", "typing", "unittest/mock", "zipfile", "zipfile/__init__", "tokenize", "statistics"]
ODD = ["def f():\n  x = (\n    1,\n    " + "\n" * 300 + "g(),\n  )\n  return x\n", "def f(a):\n" + "  a = a + 1\n" * 400 + "\n" * 70000 + "  return a\n",
       "def f():\n  try:\n    return [\n i\n for i in\n range(3)]\n  finally:\n    g()\n", "x = 1; y = 2\nz = lambda: (\n\n3)\n", "\n" * 200 + "class A:\n  def b(self): pass\n"]

def lines_of(code):
    count = len(code.co_code) // 2
    lines = [0] * count
    if hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            for unit in range(start // 2, end // 2):
                lines[unit] = line or 0
    else:
        starts = list(dis.findlinestarts(code))
        line, following = code.co_firstlineno, 0
        for unit in range(count):
            while following < len(starts) and starts[following][0] <= unit * 2:
                line = starts[following][1]
                following += 1
            lines[unit] = line
    return lines

def walk(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from walk(constant)

library = os.path.dirname(os.__file__)
texts = [open(path, encoding="utf-8").read() for name in SOURCES for path in glob.glob(os.path.join(library, name + ".py"))]
for text in texts + ODD:
    for code in walk(compile(text, "<text>", "exec")):
        table = code.co_linetable if hasattr(code, "co_linetable") else code.co_lnotab
        print(sys.version_info[0] << 8 | sys.version_info[1], code.co_firstlineno, len(code.co_code), table.hex() or "-")
        print(*lines_of(code))
'''


def interpreters():
    spec = importlib.util.spec_from_file_location("interpreters", FRAMES_TEST)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    reader, wanted = sys.argv[1:]
    python = interpreters().find_python(wanted)
    if python is None:
        print(f"no Python {wanted} on this machine")
        return 77
    dumped = subprocess.run([python, "-W", "ignore", "-c", DUMP], capture_output=True, text=True, check=True).stdout.splitlines()
    questions, expected = dumped[0::2], dumped[1::2]
    answers = subprocess.run([reader], input="\n".join(questions) + "\n", capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(questions) > 1500, f"only {len(questions)} code objects"
    assert len(answers) == len(expected), f"{len(answers)} answers for {len(expected)} code objects"
    for question, answer, right in zip(questions, answers, expected):
        if answer != right:
            at = next(i for i, (a, b) in enumerate(zip(answer.split(), right.split())) if a != b)
            print(f"unit {at}: line {answer.split()[at]} instead of {right.split()[at]}, of: {question[:400]}")
            return 1
    print(f"{len(questions)} code objects")
    return 0


sys.exit(main())
