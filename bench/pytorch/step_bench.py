#!/usr/bin/env python3
"""What recording costs a training step: a CPU-bound PyTorch loop on the simulated CUDA, bare, with PyTorch's own recorder
of memory history, and under cuheap, in turns, so that a machine that slows down slows all of them down.

usage: step_bench.py CUHEAP [--steps N] [--rounds N] [--python PYTHON] [--only NAME ...] [--json]

Each run is a process of its own. Printed are, for each way of recording, the median over the rounds of the run's median
step, and the median over the rounds of its ratio to the bare run of the same round.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
LOOP = HERE / "cpu_bound_loop.py"

# name: (options of cuheap run or None for none, PyTorch's recorder)
WAYS = {
    "bare": (None, "none"),
    "PyTorch's recorder, Python stacks": (None, "python"),
    "PyTorch's recorder, all stacks": (None, "all"),
    "cuheap, full stacks": ([], "none"),
    "cuheap, stacks off": (["--stacks=off"], "none"),
    "cuheap --observe, full stacks": (["--observe"], "none"),
    "cuheap --pool, full stacks": (["--pool"], "none"),
}


def clean_environment():
    return {name: value for name, value in os.environ.items()
            if not name.startswith(("SIMCUDA_", "CUHEAP_", "PYTORCH_", "CUDA_VISIBLE", "LD_"))}


def simulated_environment(cuheap):
    """Of a bare run on the simulated CUDA: what `cuheap run --simulate` sets, without the preload library."""
    folder = pathlib.Path(cuheap).resolve().parent.parent / "lib/simcuda"
    names = [line.strip() for line in (folder / "preload.list").read_text(encoding="utf-8").splitlines()]
    environment = clean_environment()
    environment["LD_LIBRARY_PATH"] = str(folder)
    environment["LD_PRELOAD"] = " ".join(name for name in names if name and not name.startswith("#"))
    return environment


def run(args, options, recorder):
    command = [args.python, str(LOOP), str(args.steps), str(args.warm_up), recorder]
    if options is None:
        environment = simulated_environment(args.cuheap)
    else:
        environment = clean_environment()
        snapshot = str(pathlib.Path(args.folder) / "run.json")
        command = [args.cuheap, "run", "--simulate", *options, "-o", snapshot, "--", *command]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode != 0:
        raise SystemExit(f"step_bench: {' '.join(command)}: status {done.returncode}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(args):
    names = [name for name in WAYS if name == "bare" or not args.only or name in args.only]
    steps = {name: [] for name in names}
    ratios = {name: [] for name in names}
    allocations = 0
    for number in range(args.rounds):
        for name in names:
            if sys.stderr.isatty():
                print(f"\rround {number + 1} of {args.rounds}: {name}\033[K", end="", file=sys.stderr)
            result = run(args, *WAYS[name])
            steps[name].append(statistics.median(result["seconds"]))
            ratios[name].append(steps[name][-1] / steps["bare"][-1])
            if name == "bare":
                allocations = result["allocations_per_step"]
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return {"steps": args.steps, "rounds": args.rounds, "allocations_per_step": allocations,
            "ways": {name: {"step_ms": statistics.median(steps[name]) * 1e3, "ratio": statistics.median(ratios[name]),
                            "ratio_range": [min(ratios[name]), max(ratios[name])]} for name in names}}


def show(result):
    print(f"CPU-bound training step, {result['allocations_per_step']:.0f} tensor allocations; "
          f"{result['rounds']} rounds of {result['steps']} steps")
    print(f"{'':36}{'step, ms':>10}{'ratio':>8}   range")
    for name, way in result["ways"].items():
        low, high = way["ratio_range"]
        print(f"{name:36}{way['step_ms']:10.2f}{way['ratio']:8.2f}   {low:.2f}-{high:.2f}")


def main():
    sys.path.insert(0, str(HERE.parent.parent / "tests/pytorch"))
    import torch_python  # pylint: disable=import-outside-toplevel

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cuheap", help="the command, with lib/ beside its folder")
    parser.add_argument("--steps", type=int, default=300, help="timed steps of a run (default 300)")
    parser.add_argument("--warm-up", type=int, default=30, help="steps before them (default 30)")
    parser.add_argument("--rounds", type=int, default=5, help="times each way runs (default 5)")
    parser.add_argument("--python", help="a Python with torch (default: the private environment's)")
    parser.add_argument("--only", action="append", choices=list(WAYS), help="this way of recording; may be repeated")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    args = parser.parse_args()
    args.python = args.python or torch_python.find_or_skip()
    with tempfile.TemporaryDirectory(prefix="cuheap bench ") as folder:
        args.folder = folder
        result = measure(args)
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
