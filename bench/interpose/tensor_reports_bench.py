"""What a tensor costs in default mode: PyTorch's two reports about it (handed out, taken back), with a stand-in of PyTorch
whose own functions do nothing: bare, with the preload library but no journal, with stacks off, with all stacks.

usage: tensor_reports_bench.py PROGRAM LIBC10_CUDA PRELOAD_LIBRARY DRIVER_FOLDER [--rounds N] [--max-overhead-ns NS]

Printed are medians over the rounds, in nanoseconds a pair. The ways take turns, so that a machine that slows down slows
all of them down.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

# name: variables of the environment, or None for a run without us
WAYS = {
    "bare": None,
    "no journal": {},
    "stacks off": {"CUHEAP_STACKS": "0"},
    "full stacks": {"CUHEAP_STACKS": "1"},
}


def measure(args: argparse.Namespace, way: str, frames: int, window: int) -> float:
    preload = pathlib.Path(args.preload)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CUHEAP_", "LD_"))}
    environment["LD_LIBRARY_PATH"] = f"{args.drivers}:{preload.parent}"
    # Where files in memory are: what is measured is not the disk.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        if WAYS[way] is not None:
            environment["LD_PRELOAD"] = preload.name
            environment.update(WAYS[way])
            if way != "no journal":
                environment["CUHEAP_DIR"] = folder
        done = subprocess.run([args.program, args.library, str(frames), str(window)], env=environment,
                              capture_output=True, text=True, check=True, timeout=300)
        if way not in ("bare", "no journal") and not os.listdir(folder):
            raise RuntimeError(f"{way}: nothing was recorded")
    return float(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("program", "library", "preload", "drivers"):
        parser.add_argument(name)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--max-overhead-ns", type=float, help="fail if full stacks cost more than this over bare")
    args = parser.parse_args()
    worst = 0.0
    for frames, window in ((20, 1000), (20, 100000)):
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(args.rounds):
            for way in WAYS:
                times[way].append(measure(args, way, frames, window))
        print(f"{frames} frames, {window} tensors alive, ns a pair: "
              + ", ".join(f"{way} {statistics.median(values):.0f}" for way, values in times.items()))
        worst = max(worst, statistics.median(times["full stacks"]) - statistics.median(times["bare"]))
    if args.max_overhead_ns is not None and worst > args.max_overhead_ns:
        print(f"full stacks cost {worst:.0f} ns a pair, more than {args.max_overhead_ns:.0f}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
