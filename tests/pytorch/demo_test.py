"""docs/examples/leaky_training.py on the simulated CUDA: the report's first finding is the sum of validation losses, with
its bytes a step and the fix; the second the activations in a list; nothing else leaks.

usage: demo_test.py CUHEAP
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch_python

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "docs/examples/leaky_training.py"
STEPS = 24
# What a step adds: see the sizes at the top of the source. PyTorch's cache rounds each tensor up to 512 bytes.
BATCH, FEATURES, HIDDEN, CLASSES = 256, 512, 2048, 10
ACTIVATION = BATCH * HIDDEN * 4
SAVED = BATCH * FEATURES * 4 + BATCH * 8 + 2 * ACTIVATION + BATCH * CLASSES * 4


def line_with(text: str) -> int:
    number, = (number for number, line in enumerate(SOURCE.read_text(encoding="utf-8").splitlines(), 1)
               if line.strip() == text)
    return number


class LeakyTraining(unittest.TestCase):
    python: str
    cuheap: str

    def reports(self, *options: str) -> tuple[dict, str]:
        with tempfile.TemporaryDirectory(prefix="cuheap demo ") as folder:
            snapshot = str(pathlib.Path(folder) / "demo.json")
            done = subprocess.run([self.cuheap, "run", "--simulate", *options, "-o", snapshot, "--", self.python,
                                   str(SOURCE), str(STEPS)], capture_output=True, text=True, check=False, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.endswith(f"trained {STEPS} steps, {STEPS} activations in the history\n"))
            run = [subprocess.run([self.cuheap, "report", *more, snapshot], capture_output=True, text=True, check=True)
                   for more in (["--json"], [])]
        return json.loads(run[0].stdout), run[1].stdout

    def check(self, *options: str, scalar: int = 512) -> None:
        graph = SAVED + scalar  # the criterion saves the sum of its weights
        report, text = self.reports(*options)
        validation = line_with("validation_loss += criterion(model(inputs), targets)")
        features = line_with("features = torch.relu(self.second(hidden))")
        self.assertEqual(report["verdict"], "leaks")
        self.assertEqual([(leak["line"]["line"], leak["cause"], leak["bytes_per_step"], leak["bytes"], leak["step_count"])
                          for leak in report["leaks"]],
                         [(validation, "graph", graph, STEPS * graph, STEPS),
                          (features, "tensor", ACTIVATION, STEPS * ACTIVATION, STEPS)])
        self.assertEqual({leak["line"]["file"] for leak in report["leaks"]}, {str(SOURCE)})
        self.assertEqual((report["steps"]["source"], report["steps"]["count"]), ("optimizer", STEPS))
        first, second = re.split(r"^  2  ", text.split("\n  1  ")[1], maxsplit=1, flags=re.MULTILINE)
        self.assertRegex(first, rf"\A\S*leaky_training.py:{validation}  train\n")
        self.assertIn("       validation_loss += criterion(model(inputs), targets)\n", first)
        self.assertIn("+4.5 MiB every step", first)
        self.assertIn("torch.no_grad()", " ".join(first.split()))
        self.assertRegex(second, rf"leaky_training.py:{line_with('self.history.append(features)')}  self.history")

    def test_default_mode(self) -> None:
        self.check()

    def test_observing_only(self) -> None:
        self.check("--observe")

    def test_every_tensor_from_cuheaps_pool(self) -> None:
        self.check("--pool", scalar=4)


if __name__ == "__main__":
    LeakyTraining.python = torch_python.find_or_skip()
    LeakyTraining.cuheap = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
