"""`cuheap diff` from outside: two versions of the demo from two folders, PyTorch's snapshots, conditions, bad files.

usage: diff_test.py CUHEAP SIMCUDA COMPILER CUDA_INCLUDE
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

CUHEAP, SIMCUDA = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
COMPILER, CUDA_INCLUDE = sys.argv[3:5]
ROOT = pathlib.Path(__file__).resolve().parents[3]
DEMO = (ROOT / "docs" / "examples" / "leaky_training.cc").read_text()
PICKLES = sorted((ROOT / "tests" / "data" / "pytorch").glob("*.pickle.zst"))
KIB, MIB = 1 << 10, 1 << 20
STEPS = 60


def replace(text, old, new):
    """Exactly one place."""
    parts = text.split(old)
    if len(parts) != 2:
        raise AssertionError(f"{len(parts) - 1} times in the demo: {old}")
    return new.join(parts)


def branch_version():
    """Losses are freed, batches are three times as large, and a scratch buffer leaks; everything lies two lines further down."""
    text = replace(DEMO, "    loss_history_.push_back(loss);\n", "    CHECK_CUDA(cudaStreamSynchronize(compute_.get()));\n    CHECK_CUDA(cudaFree(loss));\n    loss_history_.push_back(loss);\n")
    text = replace(text, "kBatchBytes = 2 * kMiB", "kBatchBytes = 6 * kMiB")
    text = replace(text, "    const DeviceBuffer batch(kBatchBytes);\n", "    const DeviceBuffer batch(kBatchBytes);\n    void* scratch = nullptr;\n    CHECK_CUDA(cudaMalloc(&scratch, 256 * kKiB));\n")
    return "// One line more.\n// And another.\n" + text


def line_with(text, words):
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


class Diff(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="cuheap diff ")
        cls.addClassCleanup(folder.cleanup)
        cls.work = pathlib.Path(folder.name)
        cls.record("main", DEMO)
        cls.record("again", None, program="main")
        cls.record("branch", branch_version())
        cls.record("longer", None, program="main", steps=2 * STEPS)
        cls.record("lost", None, program="main", options=("--event-memory", "1m"), steps=20 * STEPS)

    @classmethod
    def record(cls, name, source, program=None, options=(), steps=STEPS):
        checkout = cls.work / (program or name)
        if source is not None:
            checkout.mkdir()
            (checkout / "training.cc").write_text(source)
            subprocess.run([COMPILER, "-std=c++17", "-g", "-O1", "-isystem", CUDA_INCLUDE, str(checkout / "training.cc"), "-o", str(checkout / "training"),
                            "-L" + SIMCUDA, "-l:libcudart.so.13", "-pthread", "-Wl,-rpath-link," + SIMCUDA], check=True)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("CUHEAP_", "SIMCUDA_", "LD_"))}
        done = subprocess.run([CUHEAP, "run", "--simulate", "-o", str(cls.work / f"{name}.json"), *options, "--", str(checkout / "training"), str(steps)],
                              cwd=checkout, env=kept, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    def diff(self, *words, status=0, text=None):
        done = subprocess.run([CUHEAP, "diff", *words], cwd=self.work, capture_output=True, text=True, timeout=120, input=text, env={**os.environ, "LC_ALL": "C.UTF-8"})
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def facts(self, *words):
        return json.loads(self.diff("--json", *words).stdout)

    def test_a_run_and_itself_and_the_same_program_again(self):
        for other in ("main.json", "again.json"):
            done = self.diff("--threshold", "0", "main.json", other)
            self.assertTrue(done.stdout.startswith("NO DIFFERENCE  every figure that was compared is the same\n"), done.stdout)
            self.assertEqual(done.stderr, "")
            self.assertFalse(self.facts("main.json", other)["different"])

    def test_the_change_is_told_exactly(self):
        branch = branch_version()
        facts = self.facts("main.json", "branch.json")
        found = [(leak["change"], pathlib.Path((leak["line"]["after"] or leak["line"]["before"])["file"]).name,
                  leak["line"]["before"] and leak["line"]["before"]["line"], leak["line"]["after"] and leak["line"]["after"]["line"],
                  leak["bytes"]) for leak in facts["leaks"]]
        loss, rare = "cudaMalloc(&loss,", "cudaMalloc(&predictions,"
        self.assertEqual(found, [
            ("new", "training.cc", None, line_with(branch, "cudaMalloc(&scratch"), {"before": 0, "after": STEPS * 256 * KIB}),
            ("gone", "training.cc", line_with(DEMO, loss), line_with(branch, loss), {"before": STEPS * 768 * KIB, "after": 0}),
            ("alike", "training.cc", line_with(DEMO, rare), line_with(branch, rare), {"before": 15 * MIB, "after": 15 * MIB}),
        ])
        device = facts["memory"][0]
        peak = device["peak_bytes"]
        # 45 MiB of losses less one that lives while the step does, 15 MiB of scratch more, and batches 4 MiB larger.
        self.assertEqual(device["live_bytes"]["after"] - device["live_bytes"]["before"], STEPS * (256 - 768) * KIB)
        self.assertEqual(peak["after"] - peak["before"], STEPS * (256 - 768) * KIB + 4 * MIB)
        self.assertEqual(device["allocations"]["after"] - device["allocations"]["before"], STEPS)
        self.assertEqual(device["allocated_bytes"]["after"] - device["allocated_bytes"]["before"], STEPS * (256 * KIB + 4 * MIB))
        self.assertEqual(facts["steps"], {"before": STEPS, "after": STEPS})
        text = self.diff("main.json", "branch.json").stdout
        self.assertTrue(text.startswith("NEW LEAK  1 new leak; 1 leak gone; peak of device 0 -26.0 MiB"), text)
        self.assertIn(f"(was line {line_with(DEMO, loss)})", text)
        self.assertNotIn("CUHEAP_DIR", text)

    def test_conditions_decide_the_exit_status(self):
        done = self.diff("--fail-on", "peak>+5%, leaks>+0", "--fail-on", "leak-bytes>1GiB", "main.json", "branch.json")
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout.count("passed"), 3)
        done = self.diff("--fail-on", "leaks>0,allocations>+5%", "--fail-on", "live>1GiB", "main.json", "branch.json", status=1)
        lines = done.stderr.splitlines()
        self.assertEqual(lines, ["cuheap: failed on leaks>0: from 2 to 2, no change",
                                 "cuheap: failed on allocations>+5%: from 614 to 674, +60 (+9.8 %)"])
        facts = json.loads(self.diff("--json", "--fail-on", "peak>+5%", "branch.json", "main.json", status=1).stdout)
        self.assertEqual([(entry["condition"], entry["met"], entry["where"]) for entry in facts["fail_on"]], [("peak>+5%", True, "device 0")])

    def test_a_wrong_condition_or_option_is_one_line(self):
        for words in (["--fail-on", "peak>5%"], ["--fail-on", "peaks>+5%"], ["--fail-on", ""], ["--threshold", "x"], ["--top", "0"],
                      ["--json", "--markdown", "-"], ["--color", "red"], ["--width", "7"]):
            done = self.diff(*words, "main.json", "branch.json", status=2)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
            self.assertIn("cuheap diff --help", done.stderr)
        self.assertIn("FIGURE: peak, live", self.diff("--fail-on", "peak>5%", "main.json", "branch.json", status=2).stderr)
        self.diff("main.json", status=2)
        self.diff("-", "-", status=2)

    def test_bad_files(self):
        (self.work / "bad.json").write_text("{")
        for words in (("main.json", "bad.json"), ("bad.json", "main.json"), ("none.json", "main.json"), ("main.json", "main")):
            done = self.diff(*words, status=2)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
        self.assertEqual(self.diff("none.json", "bad.json", status=2).stderr.count("\n"), 2)

    def test_events_that_were_lost(self):
        done = self.diff("main.json", "lost.json")
        self.assertIn("Numbers of allocations are not compared", done.stdout)
        facts = self.facts("main.json", "lost.json")
        self.assertIsNone(facts["memory"][0]["allocations"])
        live = facts["memory"][0]["live_bytes"]
        self.assertEqual(live["after"], 20 * live["before"])
        done = self.diff("--fail-on", "allocations>0", "main.json", "lost.json", status=2)
        self.assertIn("cuheap: cannot judge allocations>0: not known", done.stderr)
        self.diff("--fail-on", "allocations>0,leaks>0", "main.json", "lost.json", status=1)

    def test_a_longer_run_leaks_as_much_a_step(self):
        facts = self.facts("main.json", "longer.json")
        self.assertEqual([leak["change"] for leak in facts["leaks"]], ["alike", "alike"])
        self.assertIn("The runs made 60 and 120 steps", self.diff("main.json", "longer.json").stdout)

    def test_markdown(self):
        printed = self.diff("--markdown", "-", "main.json", "branch.json").stdout
        self.assertTrue(printed.startswith("### GPU memory: NEW LEAK\n"), printed)
        done = self.diff("--markdown", "comment.md", "main.json", "branch.json")
        self.assertTrue(done.stdout.startswith("NEW LEAK"))
        self.assertEqual((self.work / "comment.md").read_text(), printed)
        for there in ("main.json", "branch.json"):
            self.assertIn("--markdown", self.diff("--markdown", there, "main.json", "branch.json", status=2).stderr)
        self.assertIn("no/such/comment.md", self.diff("--markdown", "no/such/comment.md", "main.json", "branch.json", status=2).stderr)
        cells = {row.count("|") for row in printed.splitlines() if row.startswith("|")}
        self.assertEqual(cells, {6})

    def test_markdown_never_overwrites_a_snapshot(self):
        before = (self.work / "main.json").read_bytes()
        for words in (("main.json", "branch.json"), ("branch.json", "main.json"), ("main.json", "main.json")):
            self.assertRegex(self.diff("--markdown", "main.json", *words, status=2).stderr, "is (the|there and is a) snapshot")
            self.assertEqual((self.work / "main.json").read_bytes(), before)

    def test_same_input_same_bytes(self):
        for words in ((), ("--json",), ("--markdown", "-"), ("--threshold", "0")):
            self.assertEqual(self.diff(*words, "main.json", "branch.json").stdout, self.diff(*words, "main.json", "branch.json").stdout)

    def test_standard_input(self):
        text = (self.work / "branch.json").read_text()
        piped = self.diff("--width", "160", "main.json", "-", text=text).stdout
        named = self.diff("--width", "160", "main.json", "branch.json").stdout
        self.assertEqual(piped.replace(" -: ", " branch.json: "), named)

    def test_pickles_of_pytorch_against_each_other(self):
        self.assertGreater(len(PICKLES), 5)
        for before, after in zip(PICKLES, [*PICKLES[1:], PICKLES[0]]):
            with self.subTest(before=before.name, after=after.name):
                same = json.loads(self.diff("--json", "--threshold", "0", str(before), str(before)).stdout)
                self.assertEqual((same["different"], same["small_changes"]), (False, 0))
                there = json.loads(self.diff("--json", str(before), str(after)).stdout)
                back = json.loads(self.diff("--json", str(after), str(before)).stdout)
                self.assertTrue(there["different"])
                swapped = {"before": "after", "after": "before"}
                for one, other in zip(there["memory"], back["memory"]):
                    self.assertEqual(one["live_bytes"], {swapped[side]: value for side, value in other["live_bytes"].items()})
                    for line in one["lines"]:
                        self.assertIn(line["line"]["match"], ("same", "moved", "new", "gone"))
                self.assertTrue(self.diff(str(before), str(after)).stdout)

    def test_figures_of_a_pickle_are_those_of_its_report(self):
        training = next(path for path in PICKLES if "ctx128-training" in path.name)
        inference = next(path for path in PICKLES if "ctx1024-inference" in path.name)
        facts = self.facts(str(inference), str(training))
        reports = [json.loads(subprocess.run([CUHEAP, "report", "--json", str(path)], capture_output=True, text=True, check=True).stdout) for path in (inference, training)]
        sides = [{json.dumps(memory["scope"]): memory for memory in report["memory"] + report["tensors"]} for report in reports]
        for memory in facts["memory"]:
            scope = json.dumps(memory["scope"])
            self.assertEqual(memory["peak_bytes"], {"before": sides[0][scope]["peak"]["bytes"], "after": sides[1][scope]["peak"]["bytes"]})
            # Lines that are alike are left out; what differs adds up to the difference.
            if memory["scope"]["kind"] == "tensors":
                change = sum(line["live_bytes"]["after"] - line["live_bytes"]["before"] for line in memory["lines"])
                self.assertEqual(change, memory["live_bytes"]["after"] - memory["live_bytes"]["before"])
        shared = [line for memory in facts["memory"] for line in memory["lines"] if line["line"]["match"] in ("same", "moved")]
        self.assertTrue(shared, "both ran the same code")

    def test_help_teaches(self):
        text = self.diff("--help").stdout
        for words in ("BEFORE AFTER", "--fail-on 'peak>+5%", "Exit status", "64KiB,1%"):
            self.assertIn(words, text)
        self.assertLessEqual(max(len(re.sub(r"\s+$", "", line)) for line in text.splitlines()), 120)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
