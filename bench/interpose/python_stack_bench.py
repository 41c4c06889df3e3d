"""What a full stack costs: native and Python frames of a thread that is 10 Python frames deep.

Many short rounds, the best counts: on a busy machine a long one holds other programs' time.

usage: python_stack_bench.py LIBRARY [--count N] [--rounds N] [--depth N] [--python VERSION] [--max-ns N]
    (LIBRARY: python_stack_library.cc as a shared object)
"""
import argparse
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile


def measure(arguments):
    # PyDLL keeps the GIL: no time of releasing and taking it.
    library = ctypes.PyDLL(os.path.abspath(arguments.library))
    library.BenchCapture.restype = ctypes.c_double
    with tempfile.TemporaryDirectory(prefix="cuheap-bench-") as folder:
        os.chmod(folder, 0o700)
        if library.BenchStart(folder.encode()) != 1:
            raise SystemExit("python_stack_bench.py: no journal")

        def innermost():
            full = library.BenchCapture(1, arguments.count, arguments.rounds)
            native = library.BenchCapture(0, arguments.count, arguments.rounds)
            return full, native, library.BenchNativeDepth()

        def nested(depth):
            return innermost() if depth == 0 else nested(depth - 1)

        mine = 0
        frame = sys._getframe()
        while frame is not None:
            mine, frame = mine + 1, frame.f_back
        return nested(max(arguments.depth - mine - 2, 0))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--depth", type=int, default=10)
    parser.add_argument("--python", default="")
    parser.add_argument("--max-ns", type=float, default=0)
    arguments = parser.parse_args()
    if arguments.python:
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "interpose" / "python"))
        import interpreters
        python = interpreters.find_python(arguments.python)
        if python is None:
            print(f"no Python {arguments.python} on this machine")
            return 77
        words = [word for word in sys.argv[1:] if word not in ("--python", arguments.python)]
        return subprocess.run([python, __file__, *words], check=False).returncode
    full, native, native_depth = measure(arguments)
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"Python {version}: {native_depth} native and {arguments.depth} Python frames: {full:.0f} ns, native alone {native:.0f} ns, "
          f"a Python frame {(full - native) / arguments.depth:.1f} ns")
    if arguments.max_ns and full > arguments.max_ns:
        print(f"more than {arguments.max_ns:.0f} ns")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
