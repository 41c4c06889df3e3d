"""Interpreters of other kinds: embedded late, unloaded, too old; each without a crash and with a word about it.

usage: builds_test.py CUHEAP EMBEDDING_PROGRAM
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from frames_snapshot import Stacks
from interpreters import clean_environment, find_library, find_python

CUHEAP, PROGRAM = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
DRIVER = "libcuda.so.1"  # found as programs find it

SCRIPT = """
def allocate(size):
    cuda_allocate(size)
def caller():
    allocate(2000)
    list(map(allocate, [2001, 2002]))
caller()
"""


class Builds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cuheap builds ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def record(self, *command):
        snapshot = self.folder / "snapshot.json"
        done = subprocess.run([CUHEAP, "run", "--quiet", "--simulate", "-o", str(snapshot), "--", *map(str, command)], capture_output=True, text=True,
                              timeout=120, env=clean_environment(), cwd=self.folder, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return Stacks(json.loads(snapshot.read_text(encoding="utf-8")))

    def embedded(self, version, *options):
        library = find_library(version)
        if library is None:
            self.skipTest(f"no shared libpython {version} on this machine")
        script = self.folder / "script.py"
        script.write_text(SCRIPT, encoding="utf-8")
        return self.record(PROGRAM, DRIVER, library, script, *options)

    def test_python_that_came_after_cuda_is_found(self):
        for version in ("3.9", "3.10", "3.11", "3.12", "3.13"):
            with self.subTest(version):
                stacks = self.embedded(version)
                by_size = stacks.by_size()
                self.assertEqual(stacks.python_of(by_size[1000]), [])
                self.assertEqual(stacks.python_of(by_size[2000]),
                                 [("<string>", 3, "allocate"), ("<string>", 5, "caller"), ("<string>", 7, "<module>")])
                self.assertEqual([frame[1:] for frame in stacks.python_of(by_size[2002])], [(3, "allocate"), (6, "caller"), (7, "<module>")])
                # The program's own main is outside of all of them.
                functions = [frame["function"] for frame in stacks.of(by_size[2000])]
                self.assertLess(functions.index("<module>"), functions.index("main"))
                self.assertEqual(stacks.why_no_python(by_size[3000]), "a thread of C++ that Python does not know")
                self.assertEqual(stacks.why_no_python(by_size[4000]), "the thread runs no Python code")
                self.assertEqual(stacks.why_no_python(by_size[2000]), "")

    def test_python_that_ended_and_was_unloaded_is_left_alone(self):
        for version in ("3.9", "3.11", "3.13"):
            with self.subTest(version):
                stacks = self.embedded(version, "unload")
                by_size = stacks.by_size()
                self.assertEqual([name for _, _, name in stacks.python_of(by_size[2000])], ["allocate", "caller", "<module>"])
                self.assertEqual(stacks.python_of(by_size[4000]), [])

    def test_old_versions_are_refused_with_a_note(self):
        tried = 0
        for version in ("2.7", "3.6", "3.7", "3.8"):
            python = find_python(version)
            if python is None:
                continue
            tried += 1
            script = self.folder / "script.py"
            script.write_text("import ctypes\ncuda = ctypes.CDLL('libcuda.so.1')\nassert cuda.cuInit(0) == 0\ncontext = ctypes.c_void_p()\n"
                              "assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\nassert cuda.cuCtxSetCurrent(context) == 0\n"
                              "assert cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(2000)) == 0\n", encoding="utf-8")
            stacks = self.record(python, script)
            notes = [note["text"] for note in stacks.snapshot["notes"] if note["code"] == "python_off"]
            self.assertEqual(len(notes), 1, version)
            self.assertRegex(notes[0], rf"Python {version}\.\d+: its frames are known from Python 3\.9 on")
            self.assertGreater(len(stacks.of(stacks.by_size()[2000])), 5)
            report = subprocess.run([CUHEAP, "report", "snapshot.json"], capture_output=True, text=True, cwd=self.folder, env=clean_environment(),
                                    check=True).stdout
            self.assertIn("python_off: Python " + version, report)
        if tried == 0:
            self.skipTest("no Python before 3.9 on this machine")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=1)
