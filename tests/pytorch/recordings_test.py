"""A dry run against recordings of a real GPU (recordings/README.md): the requests are equal, one by one and in order; so
is what PyTorch's cache reserved.

usage: recordings_test.py SIMCUDA_FOLDER
"""

import gzip
import json
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

import script_run
import torch_python

HERE = pathlib.Path(__file__).resolve().parent


class PlainUnpickler(pickle.Unpickler):
    """Of PyTorch's snapshot files, which hold lists, dictionaries, strings and numbers only."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"{module}.{name} in a memory snapshot")


def summary(snapshot: dict) -> dict:
    """A PyTorch snapshot in the form of the recordings."""
    requests = [event["size"] if event["action"] == "alloc" else -event["size"] for event in snapshot["device_traces"][0]
                if event["action"] in ("alloc", "free_requested")]
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    return {"segments": sorted(segment["total_size"] for segment in snapshot["segments"]),
            "allocated": sum(block["size"] for block in blocks if block["state"] == "active_allocated"),
            "requests": requests}


def peak(recording: dict) -> int:
    """Most bytes alive during the recording."""
    live = highest = recording["allocated"] - sum(recording["requests"])
    for size in recording["requests"]:
        live += size
        highest = max(highest, live)
    return highest


class Recordings(unittest.TestCase):
    python: str
    simcuda: pathlib.Path

    def check(self, kind: str) -> None:
        recorded = json.loads(gzip.decompress((HERE / "recordings" / f"{kind}.json.gz").read_bytes()))
        with tempfile.TemporaryDirectory(prefix="cuheap pytorch ") as name:
            folder = pathlib.Path(name)
            environment = script_run.environment(self.simcuda, folder, folder / "driver.log", SIMCUDA_MODEL="a100-80g",
                                                 TORCH_CUBLAS_WORKSPACE_CACHE="1", SIMCUDA_LOG="", SIMCUDA_LOG_DATA="0")
            done = subprocess.run([self.python, str(HERE / "recordings/decoder.py"), kind, str(folder / "out.pickle")],
                                  env=environment, capture_output=True, text=True, check=False, timeout=900)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(folder / "out.pickle", "rb") as file:
                simulated = summary(PlainUnpickler(file).load())
        print(f"{kind}: {len(recorded['requests'])} requests; reserved {sum(recorded['segments'])} recorded, "
              f"{sum(simulated['segments'])} simulated; peak {peak(recorded)} recorded, {peak(simulated)} simulated")
        self.assertGreater(len(recorded["requests"]), 2000)
        self.assertEqual(len(simulated["requests"]), len(recorded["requests"]))
        self.assertEqual(next((pair for pair in enumerate(zip(recorded["requests"], simulated["requests"]))
                               if pair[1][0] != pair[1][1]), None), None, "the first request that differs")
        self.assertEqual(simulated["segments"], recorded["segments"])
        # One large block more or less that was not split: which of two equal ones is reused depends on addresses.
        self.assertLessEqual(abs(peak(simulated) - peak(recorded)), 0.001 * peak(recorded))

    def test_training(self) -> None:
        self.check("training")

    def test_inference(self) -> None:
        self.check("inference")


if __name__ == "__main__":
    Recordings.python = torch_python.find_or_skip()
    Recordings.simcuda = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
