"""PyTorch's CUDA graphs on the simulated GPU: torch.cuda.graph bare and under cuheap in each mode and order of work, and
torch.compile(mode="reduce-overhead") in default and observe mode (with --pool PyTorch refuses it: its allocator for
cudaMallocAsync "does not yet support checkPoolLiveAllocations").

usage: graphs_test.py CUHEAP SIMCUDA_FOLDER CACHE_FOLDER
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import script_run
import torch_python

GRAPHS = script_run.HERE / "graphs"


class Graphs(unittest.TestCase):
    python: str
    cuheap: str
    simcuda: pathlib.Path
    caches: pathlib.Path

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="cuheap graphs ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_script(self, script: str, command: list[str], simcuda: pathlib.Path | None, order: str) -> str:
        environment = script_run.environment(simcuda, self.caches, self.folder / "log", SIMCUDA_ORDER=order)
        done = subprocess.run([*command, self.python, str(GRAPHS / f"{script}.py")], env=environment, capture_output=True,
                              text=True, check=False, timeout=script_run.TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("simcuda:", done.stderr)
        return done.stdout

    def under_cuheap(self, script: str, order: str, *options: str) -> tuple[str, dict]:
        snapshot = self.folder / "snapshot.json"
        printed = self.run_script(script, [self.cuheap, "run", "--simulate", *options, "-o", str(snapshot), "--"], None, order)
        return printed, json.loads(snapshot.read_text(encoding="utf-8"))

    def test_captured_work_replays_its_own_bytes(self) -> None:
        bare = self.run_script("captured", [], self.simcuda, "late")
        self.assertIn("refused: True", bare)
        for order in ("late", "random", "eager"):
            for options in ([], ["--observe"], ["--pool"]):
                with self.subTest(order=order, options=options):
                    printed, snapshot = self.under_cuheap("captured", order, *options)
                    self.assertEqual(printed, bare)
                    if options != ["--observe"]:
                        self.assertIn("capture", [note["code"] for note in snapshot["notes"]])

    def test_reduce_overhead(self) -> None:
        bare = self.run_script("reduce_overhead", [], self.simcuda, "late")
        self.assertIn("captured True", bare)
        for options in ([], ["--observe"]):
            with self.subTest(options=options):
                self.assertEqual(self.under_cuheap("reduce_overhead", "late", *options)[0], bare)


if __name__ == "__main__":
    Graphs.python = torch_python.find_or_skip()
    Graphs.cuheap, Graphs.simcuda, Graphs.caches = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1])
