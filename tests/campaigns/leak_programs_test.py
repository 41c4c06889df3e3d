#!/usr/bin/env python3
"""Generated programs whose leaks are known: each report must name exactly their lines, counts and bytes.

Clean programs must have no leak. After every run the live table must agree with the simulated driver's log, and every
fourth program is run again with --observe, where they must agree call for call.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile

import cuheap_run
import leak_programs


def build(args, source, folder, seed):
    path = os.path.join(folder, "program.cc")
    program = os.path.join(folder, "program")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    level = random.Random(seed).choice(["-O0", "-O1", "-O2", "-O3"])
    subprocess.run([args.compiler, "-std=c++17", "-g", level, "-Wno-unused-result", "-isystem", args.cuda_include, path, "-o", program,
                    "-L" + args.simcuda, "-l:libcudart.so.13", "-pthread", "-Wl,-rpath-link," + args.simcuda], check=True)
    return program


def leaks_of(report):
    found = {}
    for finding in report["leaks"]:
        line = finding["line"]
        if os.path.basename(line["file"]) != "program.cc":
            raise AssertionError(f"a leak is said to be at {line}")
        blocks, size = found.get(line["line"], (0, 0))
        found[line["line"]] = (blocks + finding["blocks"], size + finding["bytes"])
    return found


def check(args, seed, leaking):
    source, expected = leak_programs.generate(seed, leaking)
    with tempfile.TemporaryDirectory() as folder:
        program = build(args, source, folder, seed)
        extra = {"SIMCUDA_ORDER": ["late", "random", "eager"][seed % 3], "SIMCUDA_SEED": str(seed)}
        snapshot, report, calls = cuheap_run.run(args.cuheap, [program], folder, extra=extra)
        found = leaks_of(report)
        if found != expected:
            lines = {number: source.split("\n")[number - 1] for number in set(found) ^ set(expected)}
            raise AssertionError(f"expected {expected}\nreported {found}\nlines {lines}\nheld {report['held']}")
        if report["verdict"] != ("leaks" if leaking else "no_leaks"):
            raise AssertionError(f"the verdict is {report['verdict']}")
        cuheap_run.check_books(snapshot, calls)
        if seed % 4 == 0:
            snapshot, report, calls = cuheap_run.run(args.cuheap, [program], folder, ["--observe"], extra)
            if leaks_of(report) != expected:
                raise AssertionError(f"with --observe: expected {expected}, reported {leaks_of(report)}")
            cuheap_run.check_observed(snapshot, calls)
    return len(expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuheap", required=True)
    parser.add_argument("--simcuda", required=True)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--cuda-include", required=True)
    parser.add_argument("--programs", type=int, default=20, help="of each sort")
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    failures = 0
    for leaking in (True, False):
        for seed in range(args.first, args.first + args.programs):
            try:
                lines = check(args, seed, leaking)
                print(f"{'leaking' if leaking else 'clean'} program {seed}: {lines} leaking lines, all exact", flush=True)
            except (AssertionError, subprocess.SubprocessError, ValueError, KeyError) as error:
                failures += 1
                print(f"{'leaking' if leaking else 'clean'} program {seed} FAILED: {error}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
