"""Published accounts of leaks, and of what looks like one: each program (leak_cases.cc) gets the right answer.

usage: leak_cases_test.py CUHEAP LEAK_CASES
"""
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

CUHEAP, PROGRAM = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
_folder = tempfile.TemporaryDirectory(prefix="cuheap cases ")
WORK = pathlib.Path(_folder.name)


def command(*words):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("CUHEAP_", "SIMCUDA_", "LD_"))}
    done = subprocess.run([CUHEAP, *words], cwd=WORK, env={**kept, "LC_ALL": "C.UTF-8"}, capture_output=True, text=True, timeout=120,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


@functools.cache
def run(case, *options):
    """What the program printed, and the report on it."""
    snapshot = WORK / f"{case}{len(options)}.json"
    done = command("run", "--simulate", "-o", str(snapshot), *options, "--", PROGRAM, case)
    return done.stdout, json.loads(command("report", "--json", str(snapshot)).stdout)


def text(case, *options):
    return command("report", "--width", "120", *options, str(WORK / f"{case}0.json")).stdout


def function(finding, member="line"):
    return finding[member]["function"].split("::")[-1].split("(")[0]


def by_function(findings):
    return {function(finding): finding for finding in findings}


def device(report):
    return next(entry for entry in report["memory"] if entry["scope"]["kind"] == "device")


class RunningSum(unittest.TestCase):
    """Each step's activations stay, since the sum of losses holds its graph. 8 GiB; cudaMalloc over 1 MiB takes whole pages
    of 2 MiB, smaller blocks share pages: as on a device without granularity the 116th step does not fit."""

    def check(self, *options):
        printed, report = run("running-sum", "--simulate-memory", "8GiB", *options)
        self.assertEqual(printed, "refused in step 116: Activations\n")
        self.assertEqual(report["verdict"], "out_of_memory")
        first, second = report["leaks"]
        self.assertEqual((function(first), function(second)), ("Activations", "Loss"))
        for finding, size in ((first, 64 * MIB), (second, 4 * KIB)):
            self.assertEqual((finding["shape"], finding["confidence"]), ("every_step", "high"))
            self.assertEqual((finding["blocks"], finding["bytes"]), (115, 115 * size))
            self.assertEqual((finding["bytes_per_step"], finding["slope_bytes_per_step"]), (size, size))
            self.assertAlmostEqual(finding["slope_r2"], 1.0)
            self.assertEqual((finding["first_step"], finding["last_step"]), (1, 115))
        weights = by_function(report["held"])["Weights"]
        self.assertEqual((weights["class"], weights["shape"], weights["blocks"], weights["bytes"]), ("held", "once", 3, 768 * MIB))
        failure, = report["failures"]
        self.assertEqual((function(failure), failure["request"], failure["verdict"]), ("Activations", 64 * MIB, "capacity"))
        self.assertIn("the leaks hold 7.2 GiB", failure["advice"])

    def test_pooled(self):
        self.check()

    def test_observed(self):
        self.check("--observe")

    def test_numbers_instead_of_tensors(self):
        _, report = run("running-sum-of-numbers")
        self.assertEqual((report["verdict"], report["leaks"]), ("no_leaks", []))
        self.assertEqual([function(finding) for finding in report["held"]], ["Weights"])
        self.assertEqual(report["steps"]["count"], 1000)
        self.assertEqual(report["replaced"], [])


class EarlyReturn(unittest.TestCase):
    SIZES = [96000, 64000, 33000, 32000, 1000, 1000]

    def test_each_site(self):
        printed, report = run("early-return")
        self.assertEqual(printed, "10 calls failed\n")
        self.assertEqual(report["verdict"], "leaks")
        self.assertEqual((report["leak_count"], report["leaked_bytes"]), (6, 2_270_000))
        self.assertEqual(sum(finding["blocks"] for finding in report["leaks"]), 60)
        self.assertEqual([finding["bytes"] for finding in report["leaks"]], [10 * size for size in self.SIZES])
        for finding in report["leaks"]:
            # In the calls that failed, and only in those: no steady growth.
            self.assertEqual((finding["shape"], finding["period"]), ("every_few_steps", 10))
            self.assertEqual(finding["steps"], list(range(10, 101, 10)))
            self.assertEqual((finding["line_allocations"], finding["line_frees"]), (100, 90))
            self.assertEqual(function(finding), "Process")
            self.assertEqual(len(finding["companions"]), 5)
            self.assertGreater(finding["reserved_bytes"], finding["bytes"])  # size classes of the pool

    def test_told_as_one_with_its_cause(self):
        run("early-return")
        report = text("early-return", "--no-stacks")
        self.assertIn("6 lines leak: 2.2 MiB (2,270,000 B) never freed and growing", report)
        self.assertIn("+221.7 KiB every 10 steps: 6 lines of one function, in the same steps (high confidence)", report)
        self.assertIn("60 blocks, 2.2 MiB (2,270,000 B), occupying ", report)
        self.assertIn("the lines made 600 allocations, 540 of them freed", report)
        self.assertIn("called by leak_cases.cc:", report)
        self.assertIn("Look for an early return", report)
        self.assertNotIn("\n  2  ", report)
        self.assertNotIn("other lines (--top", text("early-return", "--no-stacks", "--top", "1"))


class Caches(unittest.TestCase):
    MODEL = 77 * MIB

    def test_one_entry_is_held_until_replaced(self):
        _, report = run("cache-of-one")
        self.assertEqual((report["verdict"], report["leaks"]), ("no_leaks", []))
        memory = device(report)
        self.assertEqual((memory["live_bytes"], memory["peak"]["bytes"]), (self.MODEL, 2 * self.MODEL))
        held, = report["held"]
        self.assertEqual((held["class"], held["shape"], held["bytes"], held["blocks"]), ("replaced", "replaced", self.MODEL, 40))
        replaced, = report["replaced"]
        self.assertEqual((replaced["scope"], replaced["peak_bytes"], replaced["saving_bytes"]),
                         ({"kind": "device", "device": 0}, 2 * self.MODEL, self.MODEL))
        line, = replaced["lines"]
        self.assertEqual((function(line), line["times"], line["old_blocks"], line["old_bytes"], line["saving_bytes"]),
                         ("LoadModel", 4, 40, self.MODEL, self.MODEL))

    def test_the_saving_is_what_freeing_first_brings(self):
        _, report = run("freed-first")
        _, other = run("cache-of-one")
        self.assertEqual(report["replaced"], [])
        saved = device(other)["peak"]["bytes"] - device(report)["peak"]["bytes"]
        self.assertEqual(saved, other["replaced"][0]["saving_bytes"])

    def test_words(self):
        run("cache-of-one")
        report = text("cache-of-one", "--no-stacks")
        self.assertIn("HELD UNTIL REPLACED  77.0 MiB (80,740,352 B) in 40 blocks of 1 line", report)
        self.assertIn("Free the old one before making the new one", report)
        self.assertIn("would be 77.0 MiB instead of 154.0 MiB", report)

    def test_every_entry_stays(self):
        _, report = run("cache-of-all")
        finding, = report["leaks"]
        self.assertEqual((function(finding), finding["bytes"], finding["blocks"]), ("LoadModel", 5 * self.MODEL, 200))
        self.assertEqual((finding["shape"], finding["bytes_per_step"]), ("every_step", self.MODEL))
        self.assertEqual(report["replaced"], [])


class Moments(unittest.TestCase):
    def held(self, *options, case="cache-of-one"):
        run(case)
        return text(case, "--at", *options)

    def test_the_end_of_a_step(self):
        for step in (1, 3, 5):
            words = self.held(f"step:{step}")
            self.assertTrue(words.startswith(f"What was held at the end of step {step}, "), words)
            self.assertIn("HELD  GPU 0: 77.0 MiB (80,740,352 B)", words)
            self.assertRegex(words, r"77.0 MiB  100.0 %       40  leak_cases.cc:\d+  LoadModel")

    def test_peak_time_and_end(self):
        self.assertIn("HELD  GPU 0: 154.0 MiB (161,480,704 B)", self.held("peak"))
        self.assertIn("HELD  GPU 0: 77.0 MiB", self.held("end"))
        peak = device(run("cache-of-one")[1])["peak"]["time_ns"]
        self.assertIn("HELD  GPU 0: 154.0 MiB", self.held(f"{peak}ns"))
        self.assertIn("HELD  GPU 0: 0 B", self.held("0s"))
        self.assertIn("nothing was held", self.held("0s"))
        self.assertRegex(self.held("1000s"), r"1000 s after the start: at the end, for the run took \d")

    def test_leaked_by_library(self):
        words = self.held("leaked", "--by", "library", case="handle-per-call")
        self.assertRegex(words, r"406.2 MiB  100.0 %       50  libcublas_stand_in.so")

    def test_wrong_words(self):
        run("cache-of-one")
        for options, said in ((["--at", "step:6"], "the report finds 5 steps"), (["--at", "step:0"], "step:N"), (["--at", "noon"], "1.5s"),
                              (["--at", "end", "--json"], "--json"), (["--at", "end", "--by", "lifetime"], "by line or by library"),
                              (["--at", "end", "--map"], "leave out --map")):
            done = subprocess.run([CUHEAP, "report", *options, str(WORK / "cache-of-one0.json")], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(said, done.stderr)


class Events(unittest.TestCase):
    def test_never_destroyed(self):
        _, report = run("events")
        self.assertEqual((report["verdict"], report["leaks"]), ("no_leaks", []))
        events = next(entry for entry in report["driver_objects"] if entry["kind"] == "events")
        self.assertEqual((events["created"], events["destroyed"], events["piling_up"]), (20000, 0, True))
        self.assertIn("cudaEventDestroy", events["advice"])
        limit = next(entry for entry in report["not_observed"] if entry["code"] == "driver_objects")
        self.assertIn("events (20000 created, 0 destroyed)", limit["text"])
        words = text("events")
        self.assertIn("DRIVER OBJECTS  20,000 events were never destroyed", words)
        self.assertIn("20,000 events were never destroyed", words.split("\n")[0])

    def test_destroyed(self):
        _, report = run("events-destroyed")
        events = next(entry for entry in report["driver_objects"] if entry["kind"] == "events")
        self.assertEqual((events["created"], events["destroyed"], events["piling_up"]), (10000, 10000, False))
        self.assertNotIn("DRIVER OBJECTS", text("events-destroyed"))


class CompiledModel(unittest.TestCase):
    def test_the_slope_is_that_of_live_bytes(self):
        _, report = run("compiled-model")
        finding, = report["leaks"]
        self.assertEqual((function(finding), finding["shape"], finding["step_count"]), ("GraphPool", "every_step", 4))
        self.assertEqual((finding["bytes_per_step"], finding["slope_bytes_per_step"]), (59_772_416, 59_772_416))
        self.assertEqual(finding["bytes"], 4 * 59_772_416)
        self.assertEqual(round(finding["bytes_per_step"] / MIB, 3), 57.003)


class Workspaces(unittest.TestCase):
    BYTES = 8_519_680

    def held(self, case):
        _, report = run(case)
        self.assertEqual((report["verdict"], report["leaks"]), ("no_leaks", []))
        return by_function(report["held"])["Workspace"]

    def test_one(self):
        finding = self.held("one-workspace")
        self.assertEqual((finding["class"], finding["shape"], finding["bytes"]), ("held", "once", self.BYTES))
        self.assertIn("8.1 MiB never freed, but not growing", text("one-workspace"))

    def test_one_for_each_stream(self):
        finding = self.held("workspace-per-stream")
        self.assertEqual((finding["class"], finding["shape"], finding["bytes"]), ("held", "stopped", 34_078_720))

    def test_one_for_each_capture(self):
        _, report = run("workspace-per-capture")
        finding, = report["leaks"]
        self.assertEqual((function(finding), finding["shape"], finding["blocks"]), ("Workspace", "every_step", 50))
        self.assertEqual((finding["bytes_per_step"], finding["bytes"]), (self.BYTES, 50 * self.BYTES))


class Libraries(unittest.TestCase):
    def test_a_workspace_that_a_library_keeps(self):
        _, report = run("one-handle")
        self.assertEqual((report["verdict"], report["leaks"]), ("no_leaks", []))
        finding, = report["held"]
        self.assertEqual((finding["class"], finding["shape"], finding["library"], finding["bytes"]),
                         ("library", "once", "libcublas_stand_in.so", Workspaces.BYTES))
        self.assertEqual(device(report)["peak"]["by_library"],
                         [{"kind": "cuda_library", "name": "libcublas_stand_in.so", "bytes": Workspaces.BYTES, "blocks": 1},
                          {"kind": "program", "name": "leak_cases", "bytes": MIB, "blocks": 1}])
        self.assertIn("KEPT BY CUDA LIBRARIES  8.1 MiB", text("one-handle"))
        self.assertIn("libcublas_stand_in.so", text("one-handle", "--by", "library"))

    def test_a_handle_for_every_call(self):
        _, report = run("handle-per-call")
        finding, = report["leaks"]
        self.assertEqual((finding["shape"], finding["library"], finding["bytes_per_step"]), ("every_step", "libcublas_stand_in.so", Workspaces.BYTES))
        self.assertIn("asks once for each handle", finding["advice"])


class Pinned(unittest.TestCase):
    def test_powers_of_two_are_a_hint(self):
        _, report = run("pinned")
        host = next(entry for entry in report["memory"] if entry["scope"]["kind"] == "host")
        self.assertEqual((host["live_bytes"], host["live_blocks"]), (48 * GIB, 2))
        self.assertEqual(sum(entry["live_bytes"] + entry["peak"]["bytes"] for entry in report["memory"] if entry is not host), 0)
        self.assertEqual((host["powers_of_two"]["blocks"], host["powers_of_two"]["bytes"]), (2, 48 * GIB))
        self.assertEqual(report["leaks"], [])
        words = text("pinned")
        self.assertIn("PEAK  host memory, pinned: 48.0 GiB", words)
        self.assertIn("exactly a power of two", words)


class Documentation(unittest.TestCase):
    def test_the_examples_are_of_these_programs(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        source = (root / "tests" / "cases" / "leak_cases.cc").read_text().splitlines()
        shown = re.findall(r"leak_cases\.cc:(\d+)  (\w+)", (root / "docs" / "reports.md").read_text())
        self.assertGreater(len(shown), 5)
        for number, name in shown:
            heads = [match.group(1) for line in source[:int(number)] if (match := re.match(r"\w[^(]*?(\w+)\(.*\) \{", line))]
            self.assertEqual(heads[-1], name, f"line {number}")
            self.assertRegex(source[int(number) - 1], r"cuda|Load|Process|MathLibraryCreate")


class Teardown(unittest.TestCase):
    def test_freed_only_at_the_end(self):
        _, report = run("teardown")
        self.assertEqual((report["verdict"], report["leaks"]), ("no_leaks", []))
        finding, = report["held"]
        self.assertEqual((finding["class"], finding["shape"], finding["bytes_per_step"]), ("freed_at_end", "every_step", 2 * MIB))
        self.assertEqual((finding["bytes"], finding["freed_at_exit"]), (200 * MIB, 100))
        self.assertIn("FREED ONLY AT THE END  200.0 MiB", text("teardown"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
