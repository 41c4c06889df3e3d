"""Generated PyTorch trainings (torch_programs.py) on the simulated CUDA: the report of a leaking one names the line, the
cause, and the bytes of each step exactly as PyTorch's own count grows; that of a clean one names none.

usage: torch_programs_test.py --cuheap CUHEAP [--leaking FIRST:LAST] [--clean FIRST:LAST] [--keep FOLDER]
"""

import argparse
import ast
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "pytorch"))

import torch_programs  # noqa: E402
import torch_python  # noqa: E402


def run(args, python, folder, name, source):
    """Runs the program, leaves its snapshot and what it printed in the folder."""
    script = folder / f"{name}.py"
    script.write_text(source, encoding="utf-8")
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("CUHEAP_", "SIMCUDA_", "PYTORCH_", "CUDA_VISIBLE", "LD_"))}
    done = subprocess.run([args.cuheap, "run", "--simulate", *args.options.split(), "-o", str(folder / f"{name}.json"),
                           "--", python, str(script)], env=env, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise AssertionError(f"status {done.returncode}:\n{done.stdout}{done.stderr}")
    (folder / f"{name}.out").write_text(done.stdout, encoding="utf-8")


def reports(args, folder, name):
    """Returns (report, text report, allocated bytes after each step) of a run."""
    snapshot = folder / f"{name}.json"
    books = re.search(r"^books (.*)$", (folder / f"{name}.out").read_text(encoding="utf-8"), re.MULTILINE)
    if books is None:
        raise AssertionError("the program printed no books")
    command = [args.cuheap, "report", str(snapshot)]
    report = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120, check=True)
    text = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(report.stdout), text.stdout, ast.literal_eval(books[1])


def line_of(finding):
    return (pathlib.Path(finding["line"]["file"]).name, finding["line"]["line"])


def check_leak(report, text, books, expected, script, exact):
    leaks = report["leaks"]
    if report["verdict"] != "leaks" or not leaks:
        raise AssertionError(f"verdict {report['verdict']}, no leak")
    first = leaks[0]
    found = [(line_of(leak), leak.get("cause"), leak["shape"], leak["bytes_per_occurrence"]) for leak in leaks]
    if first.get("cause") != expected.cause:
        raise AssertionError(f"cause {first.get('cause')}, not {expected.cause}: {found}")
    if expected.main and line_of(first) != (script, expected.main):
        raise AssertionError(f"named {line_of(first)}, not line {expected.main}: {found}")
    if len(leaks) != 1 + len(expected.others) or {line_of(leak)[1] for leak in leaks[1:]} != set(expected.others):
        raise AssertionError(f"{len(leaks)} findings: {found}")
    period = expected.period
    grown = (books[-1] - books[-1 - torch_programs.WINDOW]) * period / torch_programs.WINDOW
    told = sum(leak["bytes_per_occurrence"] for leak in leaks)
    # From cuheap's pool every tensor has the bytes that were asked for, and PyTorch counts what they occupy.
    rounding = 0 if exact else sum(512 * leak["blocks"] / (leak["last_step"] - leak["first_step"] + 1) * period
                                   for leak in leaks)
    if not told <= grown <= told + rounding:
        raise AssertionError(f"PyTorch's books grow by {grown} every {period} steps, told are {told}: {found}")
    shape = "every_step" if period == 1 else "every_few_steps"
    if any(leak["shape"] != shape or max(leak["period"], 1) != period for leak in leaks):
        raise AssertionError(f"not {shape} of {period}: {found}")
    if period == 1 and sum(leak["bytes_per_step"] for leak in leaks) != told:
        raise AssertionError(f"bytes_per_step is not {told}")
    if expected.main:
        named = re.search(r"^  1  (\S+):(\d+)", text, re.MULTILINE)
        if named is None or int(named[2]) != expected.main:
            raise AssertionError(f"the text names {named and named[0]!r}")
    if "\n     -> " not in text:
        raise AssertionError("the text has no remedy")
    return grown


def check_clean(report, books):
    if report["leaks"]:
        raise AssertionError(f"told as leaks: {[(line_of(leak), leak['bytes']) for leak in report['leaks']]}")
    if report["verdict"] not in ("no_leaks",):
        raise AssertionError(f"verdict {report['verdict']}")
    if books[-1] != books[-1 - torch_programs.WINDOW]:
        raise AssertionError(f"the program is not clean: {books}")


def seeds(text):
    if not text:
        return []
    first, last = text.split(":")
    return list(range(int(first), int(last) + 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuheap", required=True)
    parser.add_argument("--leaking", default="", type=seeds)
    parser.add_argument("--clean", default="", type=seeds)
    parser.add_argument("--keep", default="", help="a folder for the scripts and snapshots")
    parser.add_argument("--reuse", action="store_true", help="do not run them again: their snapshots are in --keep")
    parser.add_argument("--options", default="", help="further options of cuheap run")
    args = parser.parse_args()
    python = torch_python.find_or_skip()
    failures = 0
    with tempfile.TemporaryDirectory(prefix="cuheap campaign ") as scratch:
        folder = pathlib.Path(args.keep or scratch)
        for leaking, chosen in ((True, args.leaking), (False, args.clean)):
            for seed in chosen or []:
                source, expected, description = torch_programs.generate(seed, leaking)
                name = f"{'leaking' if leaking else 'clean'}_{seed}"
                try:
                    if not args.reuse:
                        run(args, python, folder, name, source)
                    report, text, books = reports(args, folder, name)
                    steps = f"{report['steps']['count']} steps by {report['steps']['source']}"
                    if leaking:
                        grown = check_leak(report, text, books, expected, f"{name}.py",
                                           "--pool" not in args.options.split())
                        print(f"{name}: line {expected.main}, {grown:.0f} bytes; {steps}; {description}", flush=True)
                    else:
                        check_clean(report, books)
                        print(f"{name}: none; {steps}; {description}", flush=True)
                    if report["steps"]["source"] == "optimizer" and report["steps"]["count"] != len(books):
                        raise AssertionError(f"{steps}, but there were {len(books)}")
                except (AssertionError, subprocess.SubprocessError, ValueError, KeyError) as error:
                    failures += 1
                    print(f"{name} FAILED: {error}\n    {description}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
