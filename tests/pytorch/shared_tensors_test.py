"""torch.multiprocessing with CUDA tensors on the simulated CUDA: the same with and without cuheap, in default and in
observe mode, with PyTorch's segments shared by handle and, expandable ones, by file descriptor. Under --pool PyTorch
itself refuses, and cuheap says so at the start.

usage: shared_tensors_test.py CUHEAP SIMCUDA_LIBRARY_DIR
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch_python

HERE = pathlib.Path(__file__).resolve().parent
CUHEAP, SIMCUDA = sys.argv[1:3]
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
SHARE = """
import torch
tensor = torch.zeros(8).cuda()
try:
    tensor.untyped_storage()._share_cuda_()
except RuntimeError:
    print("refused")
"""


class SharedTensors(unittest.TestCase):
    def run_program(self, command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("SIMCUDA_", "CUHEAP_", "PYTORCH_", "CUDA_", "LD_"))} | more
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False,
                                  timeout=300)

    def shared(self, *options: str, bare: bool = False, **more: str) -> str:
        command = [PYTHON, str(HERE / "shared_tensors.py")]
        if bare:
            names = pathlib.Path(SIMCUDA, "preload.list").read_text(encoding="utf-8").splitlines()
            more |= {"LD_LIBRARY_PATH": SIMCUDA,
                     "LD_PRELOAD": " ".join(name for name in names if name and not name.startswith("#"))}
        else:
            command = [CUHEAP, "run", "--simulate", *options, "--", *command]
        done = self.run_program(command, **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_by_handle(self) -> None:
        native = self.shared(bare=True)
        self.assertIn("parent: cuda:0 (8,) [100.0, 101.0, 2.0, 3.0] 7.0", native)
        self.assertIn("child 1: cuda:0 (3145728,) [100.0, 1.0, 2.0, 3.0] 3145727.0", native)
        self.assertIn("of child 1: cuda:0 (1048576,) [1.0, 1.0, 1.0, 1.0] 1.0", native)
        self.assertIn("exit codes [0, 0]", native)
        self.assertEqual(native, self.shared())
        self.assertEqual(native, self.shared("--observe"))

    def test_by_descriptor(self) -> None:
        native = self.shared(bare=True, **EXPANDABLE)
        self.assertIn("exit codes [0, 0]", native)
        self.assertEqual(native, self.shared(**EXPANDABLE))

    def test_pool_mode_says_that_it_is_unavailable(self) -> None:
        done = self.run_program([CUHEAP, "run", "--simulate", "--pool", "--", PYTHON, "-c", SHARE])
        self.assertEqual(done.stdout.strip(), "refused")
        self.assertIn("sharing CUDA tensors between processes", done.stderr)


if __name__ == "__main__":
    PYTHON = torch_python.find_or_skip()
    unittest.main(argv=sys.argv[:1])
