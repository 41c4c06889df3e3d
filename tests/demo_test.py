"""The demo of the README: two leaks, both named with their line, count and bytes, and nothing else blamed.

usage: demo_test.py BUILD_DIR
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "docs/examples/leaky_training.cc"
STEPS = 60
KIB = 1024


def marked_lines() -> list[int]:
    """Lines of the source that carry the mark, in order."""
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if re.search(r";\s*// LEAK:", line)]


class LeakyTraining(unittest.TestCase):
    build: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="cuheap demo ")
        cls.addClassCleanup(folder.cleanup)
        snapshot = pathlib.Path(folder.name) / "a snapshot.json"
        cuheap = str(cls.build / "bin/cuheap")
        program = [str(cls.build / "examples/leaky_training"), str(STEPS)]
        cls.run_result = subprocess.run([cuheap, "run", "--simulate", "-o", str(snapshot), "--", *program],
                                        capture_output=True, text=True, check=False)
        cls.text = subprocess.run([cuheap, "report", str(snapshot)], capture_output=True, text=True, check=False)
        cls.json = subprocess.run([cuheap, "report", "--json", str(snapshot)], capture_output=True, text=True,
                                  check=False)

    def test_the_program_runs_as_without_cuheap(self) -> None:
        self.assertEqual(self.run_result.returncode, 0, self.run_result.stderr)
        self.assertEqual(self.run_result.stdout, f"trained {STEPS} steps, logged {STEPS} losses\n")

    def test_both_leaks_are_named_exactly_and_nothing_else(self) -> None:
        self.assertEqual(self.json.returncode, 0, self.json.stderr)
        report = json.loads(self.json.stdout)
        every_step, rare = marked_lines()
        found = [(pathlib.Path(leak["line"]["file"]).name, leak["line"]["line"], leak["blocks"], leak["bytes"])
                 for leak in report["leaks"]]
        self.assertEqual(found, [
            (SOURCE.name, every_step, STEPS, STEPS * 768 * KIB),
            (SOURCE.name, rare, STEPS // 20, STEPS // 20 * 5 * KIB * KIB),
        ])
        self.assertEqual(report["verdict"], "leaks")

    def test_steps_and_growth_are_seen(self) -> None:
        report = json.loads(self.json.stdout)
        self.assertEqual(report["steps"]["count"], STEPS)
        self.assertEqual(report["leaks"][0]["bytes_per_step"], 768 * KIB)

    def test_the_first_finding_of_the_terminal_report_is_the_leak_of_each_step(self) -> None:
        self.assertEqual(self.text.returncode, 0, self.text.stderr)
        named = re.findall(rf"{re.escape(SOURCE.name)}:(\d+)", self.text.stdout)
        self.assertTrue(named, self.text.stdout)
        self.assertEqual(int(named[0]), marked_lines()[0])
        self.assertIn(str(marked_lines()[1]), named)


if __name__ == "__main__":
    LeakyTraining.build = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
