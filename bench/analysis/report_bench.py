"""What reading long recordings costs: cuheap's report of a recorded run, as text, JSON and a page, and beside it the
page that PyTorch's own viewer makes of the same events.

usage: report_bench.py CUHEAP PROGRAM [--events N] [--pytorch PYTHON] [--keep FOLDER] [--max-mib M]

PROGRAM is bench/analysis/long_training.cc: it is recorded on the simulated CUDA, with room for all its events. PYTHON is
one that can import torch; the viewer reads the events as `cuheap export --format torch-snapshot` writes them, cuheap
reads that file too. Printed are wall and processor time (user and system), the most memory that was resident, and the
size of what came out. On a loaded machine compare processor times.
"""
import argparse
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20


class Cost:
    def __init__(self, name, wall, usage, result):
        self.name, self.wall, self.result = name, wall, result
        self.processor = usage.ru_utime + usage.ru_stime
        self.memory = usage.ru_maxrss * 1024

    def line(self):
        return (f"{self.name:<44} {self.wall:7.2f} s {self.processor:7.2f} s {self.memory / MIB:8.0f} MiB "
                f"{self.result / MIB:9.2f} MiB")


def measure(name, command, result):
    """Runs it; `result` is the file that it writes, or where its output goes."""
    to_file = str(result) not in command
    begin = time.monotonic()
    with open(result if to_file else os.devnull, "wb") as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE)
        errors = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: status {child.returncode}: {errors.decode(errors='replace')[-2000:]}")
    cost = Cost(name, time.monotonic() - begin, usage, os.stat(result).st_size)
    print(cost.line(), flush=True)
    return cost


def record(cuheap, program, events, snapshot):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CUHEAP_", "LD_"))}
    done = subprocess.run([cuheap, "run", "--simulate", "--event-memory", str(128 * events + (64 << 20)), "-o", str(snapshot),
                           "--", program, str(events)], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not snapshot.exists():
        raise RuntimeError(f"recording failed: {done.stderr[-2000:]}")
    print(f"recorded: {done.stdout.strip()}, {snapshot.stat().st_size / MIB:.0f} MiB of JSON")


def reports(cuheap, snapshot, folder, kind):
    costs = [measure(f"cuheap report, {kind}", [cuheap, "report", str(snapshot)], folder / "report.txt"),
             measure(f"cuheap report --json, {kind}", [cuheap, "report", "--json", str(snapshot)], folder / "report.json")]
    page = folder / "report.html"
    costs.append(measure(f"cuheap report --html, {kind}", [cuheap, "report", "--html", str(page), str(snapshot)], page))
    return costs


def compare(cuheap, python, snapshot, folder):
    pickle = folder / "snapshot.pickle"
    subprocess.run([cuheap, "export", "--quiet", "--format", "torch-snapshot", "-o", str(pickle), str(snapshot)], check=True)
    print(f"the same events as PyTorch's snapshot: {pickle.stat().st_size / MIB:.0f} MiB")
    ours = reports(cuheap, pickle, folder, "pickle")
    page = folder / "viewer.html"
    theirs = [measure(f"torch.cuda._memory_viz {name}", [python, "-m", "torch.cuda._memory_viz", name, str(pickle), "-o", str(page)], page)
              for name in ("trace_plot", "segment_plot")]
    text, html = ours[0], ours[-1]
    for viewer in theirs:
        print(f"{viewer.name} takes, of cuheap's page: {viewer.processor / html.processor:.1f} times the processor time, "
              f"{viewer.memory / html.memory:.1f} times the memory, {viewer.result / html.result:.1f} times the size; "
              f"of its text: {viewer.processor / text.processor:.1f} times the processor time, "
              f"{viewer.memory / text.memory:.1f} times the memory")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cuheap")
    parser.add_argument("program")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--pytorch", help="a Python with PyTorch, to run its viewer")
    parser.add_argument("--keep", help="where files go; default: a folder that is removed")
    parser.add_argument("--max-mib", type=float, help="fail if a report takes more memory")
    args = parser.parse_args()
    temporary = tempfile.TemporaryDirectory(prefix="cuheap report bench ")
    folder = pathlib.Path(args.keep or temporary.name)
    folder.mkdir(parents=True, exist_ok=True)
    snapshot = folder / "long.json"
    record(args.cuheap, args.program, args.events, snapshot)
    print(f"{'':<44} {'wall':>9} {'processor':>9} {'memory':>12} {'result':>13}")
    costs = reports(args.cuheap, snapshot, folder, "JSON")
    compressed = folder / "compressed.json.zst"
    if subprocess.run(["zstd", "-q", "-f", str(snapshot), "-o", str(compressed)], check=False).returncode == 0:
        costs += reports(args.cuheap, compressed, folder, "JSON in zstd")
    if args.pytorch:
        compare(args.cuheap, args.pytorch, snapshot, folder)
    most = max(cost.memory for cost in costs) / MIB
    if args.max_mib is not None and most > args.max_mib:
        print(f"a report took {most:.0f} MiB, more than {args.max_mib:.0f}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
