"""Allocations of a backward pass name their node and the forward line it belongs to, and that line is the right one.

usage: backward_lines_test.py CUHEAP
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch_python

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "interpose" / "python"))

from frames_snapshot import Stacks  # noqa: E402

PROGRAM = HERE / "backward_training.py"


class BackwardLines(unittest.TestCase):
    python: str
    cuheap: str

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="cuheap backward ") as name:
            folder = pathlib.Path(name)
            environment = {key: value for key, value in os.environ.items() if not key.startswith(("CUHEAP_", "SIMCUDA_", "PYTORCH_", "LD_"))}
            done = subprocess.run([cls.cuheap, "run", "-q", "--simulate", "-o", str(folder / "snapshot.json"), "--", cls.python, str(PROGRAM),
                                   str(folder / "lines.json")], env=environment, capture_output=True, text=True, check=False, timeout=600)
            if done.returncode != 0:
                raise AssertionError(done.stdout + done.stderr)
            cls.stacks = Stacks(json.loads((folder / "snapshot.json").read_text(encoding="utf-8")))
            cls.lines = {int(size): line for size, line in json.loads((folder / "lines.json").read_text(encoding="utf-8")).items()}

    def allocations(self):
        """(bytes, stack index) of every tensor."""
        snapshot = self.stacks.snapshot
        events, words = snapshot["events"], snapshot["words"]
        for i, kind in enumerate(events["type"]):
            if words["event_type"][kind] == "allocate" and words["allocation_kind"][events["kind"][i]] == "tensor":
                yield events["bytes"][i], events["stack"][i]

    def forward_lines(self, stack):
        return [frame["line"] for frame in self.stacks.of(stack)
                if frame["kind"] == "python" and frame["reason"].startswith("forward pass of ") and frame["file"] == str(PROGRAM)]

    def text_of(self, column, stack):
        return self.stacks.snapshot["strings"][self.stacks.snapshot["stacks"][column][stack]]

    def test_gradients_of_weights_have_the_line_of_their_layer(self):
        seen = []
        for size, stack in self.allocations():
            if self.text_of("backward", stack) == "AddmmBackward0" and size in self.lines:
                self.assertEqual(self.forward_lines(stack)[:1], [self.lines[size]], size)
                seen.append(size)
        self.assertGreaterEqual(len(seen), 3 * len(self.lines))
        self.assertEqual(set(seen), set(self.lines))

    def test_nodes_of_other_kinds_are_told_too(self):
        told = {self.text_of("backward", stack) for _, stack in self.allocations() if self.forward_lines(stack)}
        self.assertLessEqual({"ReluBackward0", "TanhBackward0", "GeluBackward0", "AddmmBackward0"}, told)

    def test_every_tensor_has_a_line_or_a_reason(self):
        outside = lines = 0
        for _, stack in self.allocations():
            ran = [frame for frame in self.stacks.of(stack) if frame["kind"] == "python" and not frame["reason"]]
            if not ran:
                self.assertEqual(self.text_of("no_python", stack), "backward thread: autograd runs it without Python")
                continue
            outside += 1
            lines += any(frame["file"] == str(PROGRAM) and frame["line"] > 0 for frame in ran)
        self.assertGreater(outside, 40)
        self.assertEqual(lines, outside)


if __name__ == "__main__":
    BackwardLines.cuheap = str(pathlib.Path(sys.argv[1]).resolve())
    BackwardLines.python = torch_python.find_or_skip()
    unittest.main(argv=sys.argv[:1])
