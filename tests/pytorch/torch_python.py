"""Finds a Python with a CUDA build of PyTorch for the tests that need one."""

import os
import pathlib
import subprocess
import sys

SKIPPED = 77  # what ctest takes as "can't run here"


def cache_folder() -> pathlib.Path:
    """Where tools/deps puts the private Python environment."""
    if os.environ.get("CUHEAP_CACHE"):
        return pathlib.Path(os.environ["CUHEAP_CACHE"])
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "cuheap"


def find_or_skip() -> str:
    """The interpreter: CUHEAP_TORCH_PYTHON, or the private environment's. Ends the process with 77 and the reason when
    it can't import a CUDA build of torch."""
    python = os.environ.get("CUHEAP_TORCH_PYTHON") or str(cache_folder() / "python/bin/python")
    question = "import torch; print(torch.version.cuda or '')"
    try:
        done = subprocess.run([python, "-c", question], capture_output=True, text=True, check=False, timeout=300)
    except OSError as error:
        skip(f"{python} does not start ({error}); set CUHEAP_TORCH_PYTHON, or install with tools/deps --for test")
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        skip(f"{python} has no torch that works: {last}")
    if not done.stdout.strip():
        skip(f"{python} has a torch without CUDA")
    return python


def run(command: list[str], environment: dict[str, str], timeout: float) -> subprocess.CompletedProcess:
    """Runs a script of PyTorch: once more, if PyTorch's autograd thread lost its race with the interpreter's end, which
    happens on machines without a free core (docs/roadmap.md)."""
    for _ in range(3):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=timeout)
        if done.returncode != -6 or "terminate called without an active exception" not in done.stderr:
            break
    return done


def skip(reason: str) -> None:
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)
