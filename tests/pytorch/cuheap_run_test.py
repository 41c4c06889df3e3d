"""An unmodified PyTorch training loop under `cuheap run --simulate`: the driver allocations that cuheap reports are the
segments of PyTorch's own memory_snapshot(), and the calls of simcuda's log: as many, at the same addresses, of the same
sizes.

usage: cuheap_run_test.py CUHEAP
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import cuheap_snapshot
import driver_log
import torch_python

HERE = pathlib.Path(__file__).resolve().parent


class TrainingUnderCuheap(unittest.TestCase):
    python: str
    cuheap: str

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="cuheap pytorch ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_training(self, *options: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("SIMCUDA_", "CUHEAP_", "PYTORCH_", "CUDA_VISIBLE", "LD_"))}
        return subprocess.run(
            [self.cuheap, "run", "--simulate", *options, "--simulate-log", str(self.folder / "driver.log"),
             "-o", str(self.folder / "cuheap.json"), "--",
             self.python, str(HERE / "mlp_training.py"), str(self.folder / "segments.json")],
            env=environment, capture_output=True, text=True, check=False, timeout=900)

    def read(self, name: str) -> object:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    def report(self) -> dict:
        done = subprocess.run([self.cuheap, "report", "--json", str(self.folder / "cuheap.json")],
                              capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check(self, *options: str) -> None:
        done = self.run_training(*options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\Astep 0: loss .*\n(step .*\n)+allocated \d+ reserved \d+\n\Z",
                         "cuheap run must not write on stdout")
        segments = {segment["address"]: segment["total_size"] for segment in self.read("segments.json")}
        self.assertGreater(len(segments), 3, "a training loop needs more memory than this")
        log = driver_log.read_calls((self.folder / "driver.log").read_text(encoding="utf-8"))
        driver = driver_log.memory_before_teardown(log)
        self.assertEqual(driver.live, segments)

        recorded = cuheap_snapshot.driver_memory(self.read("cuheap.json"))
        self.assertEqual(recorded.live, segments)
        self.assertEqual((recorded.allocations, recorded.frees), (driver.allocations, driver.frees))
        self.assertEqual(recorded.not_pytorchs, 0, "allocations of PyTorch's allocator were not known as its own")

        report = self.report()
        told, = report["framework_segments"]
        self.assertEqual((told["framework"], told["device"]), ("pytorch", 0))
        self.assertEqual({segment["address"]: segment["bytes"] for segment in told["segments"]}, segments)
        self.assertEqual((told["allocations"], told["frees"]), (driver.allocations, driver.frees))
        self.assertEqual((told["count"], told["bytes"]), (len(segments), sum(segments.values())))

        device, = (scope for scope in report["memory"] if scope["scope"].get("device") == 0)
        self.assertEqual(device["allocations"], driver.allocations)
        self.assertEqual(device["allocated_bytes"], sum(segments.values()))
        self.assertEqual(device["peak"]["bytes"], sum(segments.values()))
        self.assertEqual(device["peak"]["blocks"], len(segments))

    def test_default_mode(self) -> None:
        self.check()

    def test_observing_only(self) -> None:
        self.check("--observe")


if __name__ == "__main__":
    TrainingUnderCuheap.python = torch_python.find_or_skip()
    TrainingUnderCuheap.cuheap = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
