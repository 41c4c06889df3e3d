"""Packs the GPU kit from a build and runs all of it, on this machine's GPU or on the driver in a folder.

usage: packed_test.py BUILD_FOLDER [DRIVER_FOLDER]
"""

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def main() -> int:
    build, *driver = sys.argv[1:]
    probe = subprocess.run([pathlib.Path(build, "tests/gpu/cuheap_gpu_probe")], capture_output=True, text=True, check=False,
                           timeout=120)
    if not driver and probe.returncode != 0:
        print(f"no GPU here: {probe.stdout.strip()}")
        return 77
    with tempfile.TemporaryDirectory(prefix="cuheap gpu kit ") as folder:
        kit = pathlib.Path(folder, "kit")
        subprocess.run([sys.executable, "-B", HERE / "pack.py", build, kit], check=True, timeout=300)
        # The simulated device of a loaded machine is given all the time it wants.
        limits = ["--as-gpu", driver[0], "--time", "3400", "--item-time", "600"] if driver else []
        done = subprocess.run([kit / "run.sh", *limits, "--results", folder], check=False)
        print(pathlib.Path(folder, "results.txt").read_text() if done.returncode not in (0, 77) else "")
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
