"""What was freed during a capture stays as the graph knows it until the last graph is gone, and comes back then; without
that rule wrong bytes appear.

usage: captured_frees_test.py PROGRAM PRELOAD_LIBRARY DRIVER_FOLDER
"""

import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from twice import ORDERS, Runs  # noqa: E402


class CapturedFrees(Runs):
    def scenes(self) -> list[str]:
        done = subprocess.run([self.program, "--list"], env={"LD_LIBRARY_PATH": self.driver}, capture_output=True,
                              text=True, check=True, timeout=60)
        return [line.split()[0] for line in done.stdout.splitlines()]

    def test_replays_have_their_own_bytes_as_long_as_a_graph_lives(self) -> None:
        expected = [*(f"round {i}: right" for i in range(4)), "reused while the graph lived: 0", "in flight: right",
                    "reused after the graph: 1"]
        for scene in self.scenes():
            for order in ORDERS:
                with self.subTest(scene=scene, order=order):
                    ours, _ = self.run_scene([scene], preload=True, SIMCUDA_ORDER=order, SIMCUDA_SEED="7")
                    self.assertEqual(ours, expected)

    def test_without_the_rule_bytes_are_wrong(self) -> None:
        for scene in self.scenes():
            with self.subTest(scene=scene):
                ours, _ = self.run_scene([scene], preload=True, CUHEAP_TEST_NO_CAPTURE_PINS="1")
                self.assertTrue(any(line.endswith("wrong") for line in ours), ours)


if __name__ == "__main__":
    CapturedFrees.program, CapturedFrees.preload, CapturedFrees.driver = (sys.argv[1], pathlib.Path(sys.argv[2]),
                                                                         sys.argv[3])
    unittest.main(argv=sys.argv[:1])
