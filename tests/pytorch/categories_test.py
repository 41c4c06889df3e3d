"""Categories of memory under `cuheap run`, beside PyTorch's own memory profiler in the very same run: the bytes of each at
the peak, at the end of each step, and at moments all along. profile_categories.py says how the words map.

usage: categories_test.py CUHEAP PRINT_CATEGORIES CACHE_FOLDER SCRIPT
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import profile_categories
import script_run
import torch_python
from scripts_test import needs_or_skip

HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT_S = 900

# Within 2 % of what the profiler says. What is next to nothing of the moment's memory is told by that: of 20 KB of inputs
# one mask is 40 %.
OF_CATEGORY, OF_ALL = 0.02, 0.001
# Of what is live at any moment: early in T5's first forward pass its masks are 2.04 %. They are reckoned from inputs alone, so
# the profiler calls them inputs, and we activations (docs/reports.md).
ALL_ALONG = 0.025
# torch.compile traces the first step, of which the profiler would note millions of Python calls.
FIRST_STEP = {"compiled": 1}
# What the profiler can't see of the peak at most: see profile_categories.py. What torch.compile makes is half of it.
NOT_SEEN = {"compiled": 0.5, "gpt2": 0.02, "encoder_decoder": 0.08}
MOMENTS = 300


class Categories(unittest.TestCase):
    cuheap: str
    print_categories: str
    python: str
    caches: pathlib.Path
    script: str
    profile: dict
    tensors: list[dict]
    report: dict
    moments: dict[str, profile_categories.Moment]  # by name; the peak, and the ends of steps
    along: list[profile_categories.Moment]

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="cuheap categories ")
        cls.addClassCleanup(folder.cleanup)
        where = pathlib.Path(folder.name)
        snapshot, profile = where / "snapshot.json", where / "profile.json"
        cls._run([cls.cuheap, "run", "--simulate", "-o", str(snapshot), "--", cls.python, str(HERE / "with_profile.py"),
                  str(profile), str(FIRST_STEP.get(cls.script, 0)), str(HERE / "scripts" / f"{cls.script}.py")],
                 env=script_run.environment(None, cls.caches, where / "log"))
        cls.profile = json.loads(profile.read_text(encoding="utf-8"))
        cls.tensors = json.loads(cls._run([cls.print_categories, str(snapshot)]))
        cls.report = json.loads(cls._run([cls.cuheap, "report", "--json", str(snapshot)]))
        cls._go_through()

    @staticmethod
    def _run(command: list[str], **more) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, **more)
        if done.returncode != 0:
            raise AssertionError(f"{command[:3]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    @classmethod
    def _go_through(cls) -> None:
        highest = max(profile_categories.Comparison(cls.profile, cls.tensors).moments())
        comparison = profile_categories.Comparison(cls.profile, cls.tensors)
        every = max(1, len(cls.profile["changes"]) // MOMENTS)
        steps = {changes: step for step, changes in enumerate(cls.profile["steps"], FIRST_STEP.get(cls.script, 0) + 1)}
        cls.moments, cls.along = {}, []
        for count, total in enumerate(comparison.moments()):
            if total == highest and "peak" not in cls.moments:
                cls.moments["peak"] = comparison.now()
            if comparison.changes in steps:
                cls.moments[f"end of step {steps[comparison.changes]}"] = comparison.now()
            if count % every == 0:
                cls.along.append(comparison.now())

    def check(self, moment: profile_categories.Moment) -> None:
        for category in profile_categories.COMPARED:
            allowed = max(OF_CATEGORY * moment.theirs.get(category, 0), OF_ALL * moment.total)
            self.assertLessEqual(abs(moment.difference(category)), allowed, f"{category}: {moment.row()}")

    def test_at_the_peak_and_at_the_ends_of_steps(self) -> None:
        print(f"{self.script}: torch {self.profile['torch']}, {len(self.profile['changes'])} allocations and frees")
        for name, moment in self.moments.items():
            print(f"{self.script}, {name}: {moment.row()}")
        self.assertGreater(len(self.profile["steps"]), 1)
        self.assertEqual(len(self.moments), 1 + len(self.profile["steps"]))
        for name, moment in self.moments.items():
            with self.subTest(name):
                self.check(moment)
                self.assertLessEqual(moment.not_seen, NOT_SEEN.get(self.script, 0) * moment.total)
        peak = self.moments["peak"]
        for category in ("parameters", "optimizer_state"):
            self.assertGreater(peak.theirs[category], 1 << 20, f"the profiler saw no {category}")

    def test_all_along(self) -> None:
        """At every moment looked at, what is called otherwise is a small part of what is live."""
        worst = max(self.along, key=lambda moment: self.otherwise(moment) / max(1, moment.total))
        print(f"{self.script}, worst of {len(self.along)} moments: {100 * self.otherwise(worst) / worst.total:.3f} % called "
              f"otherwise: {worst.row()}")
        for moment in self.along:
            self.assertLessEqual(self.otherwise(moment), max(ALL_ALONG * moment.total, 4096), moment.row())

    @staticmethod
    def otherwise(moment: profile_categories.Moment) -> int:
        return sum(abs(moment.difference(category)) for category in profile_categories.COMPARED) // 2

    def test_the_report_adds_up_to_the_same(self) -> None:
        """The report's own totals at the peak, from the categories of single tensors."""
        tensors, = self.report["tensors"]
        peak = {row["category"]: row["bytes"] for row in tensors["categories"]["at_peak"]}
        self.assertEqual(sum(peak.values()), tensors["peak"]["bytes"])
        if FIRST_STEP.get(self.script):
            return  # the run's peak need not be that of the profiler's part
        moment = self.moments["peak"]
        self.assertEqual(moment.total, tensors["peak"]["bytes"])
        self.assertEqual(peak.get("optimizer_state", 0), moment.ours["optimizer_state"])
        self.assertEqual(peak.get("gradients", 0), moment.ours.get("gradients", 0))
        self.assertEqual(peak["parameters"], moment.ours["parameters"] + moment.buffers)


if __name__ == "__main__":
    _, Categories.cuheap, Categories.print_categories, cache_folder, Categories.script = sys.argv
    Categories.python, Categories.caches = torch_python.find_or_skip(), pathlib.Path(cache_folder)
    needs_or_skip(Categories.python, Categories.script)
    unittest.main(argv=sys.argv[:1])
