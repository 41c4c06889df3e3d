"""An unmodified PyTorch training loop on the simulated CUDA: the driver allocations in simcuda's log are the segments
that PyTorch's own memory_snapshot() reports: as many, at the same addresses, of the same sizes.

usage: segments_test.py SIMCUDA_FOLDER
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import driver_log
import torch_python

HERE = pathlib.Path(__file__).resolve().parent


def names_to_preload(folder: pathlib.Path) -> list[str]:
    lines = (folder / "preload.list").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def simulated_environment(folder: pathlib.Path, log: pathlib.Path) -> dict[str, str]:
    """As docs/simcuda.md says for a program whose wheels bring their own CUDA libraries."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("SIMCUDA_", "PYTORCH_", "CUDA_VISIBLE"))}
    environment["LD_LIBRARY_PATH"] = str(folder)
    environment["LD_PRELOAD"] = " ".join(names_to_preload(folder))
    environment["SIMCUDA_LOG"] = str(log)
    return environment


def segments_of(snapshot: list[dict]) -> dict[int, int]:
    return {segment["address"]: segment["total_size"] for segment in snapshot}


class TrainingOnSimcuda(unittest.TestCase):
    python: str
    simcuda: pathlib.Path

    def test_driver_allocations_are_pytorchs_segments(self) -> None:
        with tempfile.TemporaryDirectory(prefix="cuheap pytorch ") as name:
            folder = pathlib.Path(name)
            done = subprocess.run(
                [self.python, str(HERE / "mlp_training.py"), str(folder / "snapshot.json")],
                env=simulated_environment(self.simcuda, folder / "driver.log"), capture_output=True, text=True,
                check=False, timeout=600)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            snapshot = json.loads((folder / "snapshot.json").read_text(encoding="utf-8"))
            calls = driver_log.read_calls((folder / "driver.log").read_text(encoding="utf-8"))
        memory = driver_log.memory_before_teardown(calls)
        segments = segments_of(snapshot)
        self.assertGreater(len(segments), 3, "a training loop needs more memory than this")
        self.assertEqual(memory.live, segments)
        self.assertEqual(memory.allocations - memory.frees, len(segments))
        self.assertIn(f"reserved {sum(segments.values())}\n", done.stdout)
        self.assertGreater(sum(call.name == "cuLaunchKernel" and call.code == 0 for call in calls), 1000,
                           "the steps launched no kernels")


    def test_expandable_segments_are_mapped_as_pytorch_says(self) -> None:
        with tempfile.TemporaryDirectory(prefix="cuheap pytorch ") as name:
            folder = pathlib.Path(name)
            environment = simulated_environment(self.simcuda, folder / "driver.log")
            environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
            done = subprocess.run([self.python, str(HERE / "mlp_training.py")], env=environment, capture_output=True,
                                  text=True, check=False, timeout=600)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            calls = driver_log.read_calls((folder / "driver.log").read_text(encoding="utf-8"))
        mapped = sum(call.number("size") for call in calls if call.name == "cuMemMap" and call.code == 0)
        unmapped = sum(call.number("size") for call in calls if call.name == "cuMemUnmap" and call.code == 0)
        self.assertGreater(mapped, 0)
        self.assertIn(f"reserved {mapped - unmapped}\n", done.stdout)

    def test_layers_of_cudnn_run_without_it(self) -> None:
        with tempfile.TemporaryDirectory(prefix="cuheap pytorch ") as name:
            done = subprocess.run([self.python, str(HERE / "layers_training.py")],
                                  env=simulated_environment(self.simcuda, pathlib.Path(name) / "driver.log"),
                                  capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "cudnn False, 18 parameters\n")
        self.assertEqual(done.stderr, "", "something was not simulated")


class TheChecksCanFail(unittest.TestCase):
    LOG = ("# simcuda log 1 pid=1\n"
           "1 7 cuMemAlloc_v2 dptr=0x1 bytesize=100 *dptr=0x1000 -> 0\n"
           "2 7 cuMemAlloc_v2 dptr=0x1 bytesize=200 -> 2\n"
           "3 7 cuMemAlloc_v2 dptr=0x1 bytesize=300 *dptr=0x2000 -> 0\n"
           "4 7 cuMemFree_v2 dptr=0x0 -> 0\n"
           "5 7 cuMemFree_v2 dptr=0x1000 -> 0\n"
           "6 7 cuDevicePrimaryCtxRelease_v2 dev=0 -> 0\n"
           "7 7 cuMemFree_v2 dptr=0x2000 -> 4\n")

    def test_failed_calls_and_teardown_do_not_count(self) -> None:
        memory = driver_log.memory_before_teardown(driver_log.read_calls(self.LOG))
        self.assertEqual(memory.live, {0x2000: 300})
        self.assertEqual((memory.allocations, memory.frees), (2, 1))

    def test_a_damaged_log_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            driver_log.read_calls(self.LOG + "8 7 cuMemFree_v2 dptr=0x20")

    def test_strings_may_hold_spaces(self) -> None:
        call, = driver_log.read_calls('1 2 cuLibraryGetKernel name="a b\\" -> 5" library=0x5 -> 0\n')
        self.assertEqual(call.values["library"], "0x5")


if __name__ == "__main__":
    TrainingOnSimcuda.python = torch_python.find_or_skip()
    TrainingOnSimcuda.simcuda = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
