"""`cuheap run`, `report` and `recover` from end to end on the simulated GPU.

usage: run_test.py CUHEAP DEMO PROCESSES    (the demo, and the program processes.cc beside this file)
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CUHEAP, DEMO, PROCESSES = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:4])
DEMO_SOURCE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "examples" / "leaky_training.cc"


def leak_lines():
    return [number for number, text in enumerate(DEMO_SOURCE.read_text().splitlines(), 1) if "// LEAK" in text]


def environment(**changes):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CUHEAP_", "SIMCUDA_", "LD_"))}
    return {**kept, "LC_ALL": "C.UTF-8", **changes}


class EndToEnd(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cuheap run ")
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        self.journals = self.work / "journals"
        self.journals.mkdir()

    def cuheap(self, *words, **keywords):
        return subprocess.run([CUHEAP, *words], cwd=self.work, capture_output=True, text=True, timeout=120, env=environment(), **keywords)

    def run_it(self, *words, options=()):
        return self.cuheap("run", "--simulate", "--journal-dir", "journals", *options, "--", *words)

    def report(self, name):
        done = self.cuheap("report", "--json", name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def snapshots(self):
        return sorted(path.name for path in self.work.glob("*.json"))

    def assert_no_journals(self):
        self.assertEqual(list(self.journals.iterdir()), [])


class Demo(EndToEnd):
    def test_first_finding_names_the_leaking_line(self):
        done = self.run_it(DEMO, options=["-o", "demo.json"])
        self.assertEqual((done.returncode, done.stdout), (0, "trained 60 steps, logged 60 losses\n"))
        lines = done.stderr.splitlines()
        self.assertTrue(3 <= len(lines) <= 6, done.stderr)
        self.assertTrue(all(line.startswith("cuheap: ") for line in lines), done.stderr)
        every_step, rare = leak_lines()
        self.assertIn(f"leaky_training.cc:{every_step}", done.stderr)
        self.assertIn("cuheap report demo.json", done.stderr)
        self.assertEqual((self.work / "demo.json").stat().st_mode & 0o777, 0o600)
        self.assert_no_journals()
        report = self.report("demo.json")
        self.assertEqual(report["verdict"], "leaks")
        found = [(leak["line"]["line"], leak["blocks"], leak["bytes"], leak["shape"], leak["period"]) for leak in report["leaks"]]
        self.assertEqual(found, [(every_step, 60, 60 * 768 * 1024, "every_step", 0), (rare, 3, 3 * 5 * 1024 * 1024, "every_few_steps", 20)])
        self.assertEqual(report["steps"]["count"], 60)
        memory = report["memory"][0]
        self.assertEqual(memory["peak"]["basis"], "exact")
        self.assertEqual(memory["peak"]["bytes"], memory["peak"]["composed_bytes"])
        self.assertTrue(report["process"]["simulated"])
        text = self.cuheap("report", "demo.json")
        self.assertEqual((text.returncode, text.stderr), (0, ""))
        self.assertRegex(text.stdout.split("\n\n")[1], rf"1  .*leaky_training\.cc:{every_step}  .*LogLoss\n.*768\.0 KiB every step.*\n.*60 blocks, 45\.0 MiB")

    def test_ignoring_a_wrapper_charges_its_callers(self):
        self.run_it(DEMO, "3", options=["-o", "demo.json", "-q"])
        done = self.cuheap("report", "--ignore", "DeviceBuffer", "demo.json")
        self.assertIn("Trainer::Trainer", done.stdout)
        self.assertNotIn("DeviceBuffer::DeviceBuffer\n", done.stdout)

    def test_observe_serves_nothing(self):
        self.run_it(DEMO, "5", options=["-o", "demo.json", "--observe", "-q"])
        report = self.report("demo.json")
        self.assertEqual(report["pools"], [])
        self.assertEqual(report["leaks"][0]["line"]["line"], leak_lines()[0])

    def test_without_stacks_the_totals_remain(self):
        done = self.run_it(DEMO, "5", options=["-o", "demo.json", "--stacks=off"])
        self.assertEqual(done.returncode, 0)
        report = self.report("demo.json")
        self.assertIn("stacks_off", [entry["code"] for entry in report["not_observed"]])
        self.assertGreater(report["memory"][0]["peak"]["bytes"], 40 << 20)

    def test_quiet_says_nothing(self):
        done = self.run_it(DEMO, "2", options=["--quiet"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(self.snapshots()), 1)

    def test_a_run_inside_a_run_is_told(self):
        inner = [CUHEAP, "run", "--simulate", "--journal-dir", "journals", "-o", "inner.json", "--", DEMO]
        told = "inside another one, which gets nothing of what this one records\n"
        done = self.run_it(*inner, options=["-o", "outer.json"])
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count(told), 1, done.stderr)
        self.assertEqual(self.snapshots(), ["inner.json"])
        self.assertNotIn(told, self.cuheap(*inner[1:]).stderr)

    def test_default_name_tells_program_and_process(self):
        done = self.run_it(DEMO, "2")
        pid = re.search(r"leaky_training \(process (\d+)\)", done.stderr).group(1)
        self.assertEqual(self.snapshots(), [f"cuheap.leaky_training.{pid}.json"])

    def test_out_of_memory_is_told_with_the_line(self):
        done = self.run_it(DEMO, "400", options=["-o", "demo.json", "--simulate-memory", "128MiB"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("cuheap: out of memory: ", done.stderr)
        report = self.report("demo.json")
        self.assertEqual(report["verdict"], "out_of_memory")
        self.assertIn("leaky_training.cc", report["failures"][0]["line"]["file"])


    def test_model_as_a_word_of_its_own_is_told(self):
        done = self.cuheap("run", "--simulate", "h200", "--", DEMO)
        self.assertEqual(done.returncode, 127)
        self.assertIn("h200: not found; for that GPU write --simulate=h200", done.stderr)

    def test_simulated_memory_in_the_usual_units(self):
        for size in ("128MB", "128m", "134217728"):
            done = self.run_it(DEMO, "400", options=["-o", "demo.json", "--simulate-memory", size])
            self.assertIn("cuheap: out of memory: ", done.stderr, size)
            device, = json.loads((self.work / "demo.json").read_text(encoding="utf-8"))["devices"]
            self.assertEqual(device["total_bytes"], 128 << 20, size)


class Processes(EndToEnd):
    """processes.cc: `leak N` leaks N blocks; `fork PROGRAM...` runs others; `wait FILE` leaks, then waits to be killed."""

    def test_every_process_that_used_cuda_gets_its_file(self):
        script = f"'{PROCESSES}' leak 3 & '{PROCESSES}' leak 5 & wait; exec '{PROCESSES}' leak 7"
        done = self.run_it("sh", "-c", script, options=["-o", "x.json"])
        self.assertEqual(done.returncode, 0)
        names = self.snapshots()
        self.assertEqual(len(names), 3, names)
        self.assertEqual(self.report("x.json")["memory"][0]["live_blocks"], 7)
        others = [self.report(name) for name in names if name != "x.json"]
        self.assertEqual(sorted(report["memory"][0]["live_blocks"] for report in others), [3, 5])
        for name, report in zip([name for name in names if name != "x.json"], others):
            self.assertEqual(name, f"x.{report['process']['pid']}.json")
        self.assertLessEqual(len(done.stderr.splitlines()), 6)
        self.assert_no_journals()
        listing = self.cuheap("report", ".")
        self.assertEqual(listing.returncode, 0, listing.stderr)
        for name in names:
            self.assertRegex(listing.stdout, rf"\n +{re.escape(name.removesuffix('.json'))}  ")
        self.assertIn("\nPROCESSES\n", listing.stdout)

    def test_status_and_signal_of_a_cuda_program(self):
        self.assertEqual(self.run_it(PROCESSES, "exit", "77", options=["-q"]).returncode, 77)
        self.assertEqual(self.run_it(PROCESSES, "abort", options=["-q"]).returncode, -signal.SIGABRT)
        self.assertEqual(self.run_it(PROCESSES, "quit", "5", options=["-q"]).returncode, 5)
        processes = [self.report(name)["process"] for name in self.snapshots()]
        ends = sorted((process["end"], process.get("exit_status"), process.get("exit_signal")) for process in processes)
        self.assertEqual(ends, [("exited", 77, None), ("killed", None, signal.SIGABRT), ("quit", 5, None)])
        lines = {self.cuheap("report", name).stdout.split("\n  process ")[1].splitlines()[0] for name in self.snapshots()}
        for wanted in ("exited with status 77;", "killed by SIGABRT (6);", "ended with status 5, without its exit handlers;"):
            self.assertTrue(any(wanted in line for line in lines), (wanted, lines))

    def test_a_process_that_goes_on_is_told(self):
        done = self.run_it("sh", "-c", f"'{PROCESSES}' wait started > /dev/null 2>&1 & while [ ! -e started ]; do sleep 0.05; done")
        try:
            self.assertEqual(done.returncode, 0)
            self.assertIn("still running: process ", done.stderr)
            self.assertEqual(len(self.snapshots()), 1)
            self.assertEqual(self.report(self.snapshots()[0])["process"]["end"], "running")
        finally:
            os.kill(int((self.work / "started").read_text()), signal.SIGKILL)
        folder = re.search(r"cuheap recover (.*)", done.stderr).group(1).strip("'")
        for name in self.snapshots():
            (self.work / name).unlink()
        time.sleep(0.2)
        done = self.cuheap("recover", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.report(self.snapshots()[0])["process"]["end"], "killed")

    def test_journals_survive_our_own_death(self):
        process = subprocess.Popen([CUHEAP, "run", "--simulate", "--journal-dir", "journals", "--", PROCESSES, "wait", "started"],
                                   cwd=self.work, env=environment())
        deadline = time.monotonic() + 30
        while not (self.work / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
        process.wait()
        time.sleep(0.3)
        folders = list(self.journals.iterdir())
        self.assertEqual(len(folders), 1)
        done = self.cuheap("recover", str(folders[0]), "-o", "recovered.json")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        report = self.report("recovered.json")
        self.assertEqual(report["memory"][0]["live_blocks"], 4)
        self.assertEqual(report["process"]["end"], "killed")
        one = next(folders[0].glob("*.journal"))
        self.assertEqual(self.cuheap("recover", "-q", str(one), "-o", "one.json").returncode, 0)

    def test_journals_that_somebody_removed_are_told(self):
        """Programs clean up /dev/shm, and what they did not make as well."""
        told = re.compile(r"^cuheap: no journal is left in .*: it could not be kept, or", re.MULTILINE)
        for clean in ("rm journals/*/*", "rm -r journals/*"):
            script = f"'{PROCESSES}' leak 3; {clean}"
            for command in ([script], [f"{script}; '{PROCESSES}' leak 2"]):
                done = self.run_it("sh", "-c", *command, options=["-o", "x.json"])
                self.assertEqual((done.returncode, self.snapshots()), (0, ["x.json"] if "leak 2" in command[0] and "-r" not in clean else []))
                self.assertEqual(len(told.findall(done.stderr)), 0 if self.snapshots() else 1, done.stderr)
                for name in self.snapshots():
                    (self.work / name).unlink()
        self.assertNotIn("no journal", self.run_it("true").stderr)

    def test_an_unwritable_result_keeps_the_journals(self):
        done = self.run_it("sh", "-c", f"mkdir -p gone; '{PROCESSES}' leak 2; mkdir x.json", options=["-o", "x.json"])
        self.assertEqual(done.returncode, 0)
        folder = re.search(r"cuheap recover (.*)", done.stderr).group(1).strip("'")
        self.assertEqual(self.cuheap("recover", folder, "-o", "y.json").returncode, 0)
        self.assertEqual(self.report("y.json")["memory"][0]["live_blocks"], 2)


class Refusals(EndToEnd):
    def refuse(self, *words):
        done = self.cuheap(*words)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("cuheap: "), done.stderr)
        return done.stderr

    def test_report_of_something_else(self):
        self.run_it(DEMO, "2", options=["-o", "good.json", "-q"])
        good = (self.work / "good.json").read_text()
        for name, text in (("cut", good[:len(good) // 2]), ("empty", ""), ("text", "hello"), ("list", "[]"), ("object", "{}"),
                           ("future", re.sub(r'"version": ?1\b', '"version": 999', good, count=1)), ("binary", "\0\1\2")):
            (self.work / name).write_text(text)
            with self.subTest(name):
                self.assertIn(name, self.refuse("report", name))
        self.assertIn("missing does not exist; cuheap run writes no snapshot for a program that makes no CUDA call",
                      self.refuse("report", "missing"))
        self.refuse("report", "journals")
        self.refuse("report")
        self.refuse("report", "--color", "blue", "good.json")
        for width in ("0", "10", "79", "161", "x"):
            self.assertIn("from 80 to 160", self.refuse("report", "--width", width, "good.json"))
        self.refuse("recover", "journals")
        self.refuse("recover", "missing")
        (self.journals / "1-2.journal").write_text("no journal")
        self.refuse("recover", "journals")

    def test_unknown_words_are_named(self):
        self.assertIn("unknown option '--versio'", self.refuse("--versio"))
        self.assertIn("unknown option '-x'", self.refuse("-x", "run"))
        self.assertIn("unknown command 'rum'", self.refuse("help", "rum"))
        self.assertIn("not 'report' too", self.refuse("help", "run", "report"))

    def test_help_is_the_same_by_command_and_by_option(self):
        for command in ("run", "report", "export", "recover"):
            asked = self.cuheap("help", command)
            self.assertEqual((asked.returncode, asked.stderr), (0, ""))
            self.assertEqual(asked.stdout, self.cuheap(command, "--help").stdout)
            self.assertIn(f"Usage: cuheap {command}", asked.stdout)
            self.assertNotIn("{", asked.stdout)
        self.assertEqual(self.cuheap("help").stdout, self.cuheap("--help").stdout)

    def test_report_reads_standard_input(self):
        self.run_it(DEMO, "2", options=["-o", "good.json", "-q"])
        good = (self.work / "good.json").read_text()
        piped = self.cuheap("report", "-", input=good)
        self.assertEqual((piped.returncode, piped.stderr), (0, ""))
        self.assertEqual(piped.stdout, self.cuheap("report", "good.json").stdout)
        cut = self.cuheap("report", "-", input=good[:100])
        self.assertEqual((cut.returncode, cut.stdout), (2, ""))
        self.assertIn("cut off", cut.stderr)

    def test_a_report_that_cannot_be_written_is_an_error(self):
        self.run_it(DEMO, "2", options=["-o", "good.json", "-q"])
        for redirection, reason in ((">/dev/full", "No space left"), (">&-", "standard output is closed")):
            for option in ("", "--json"):
                done = subprocess.run(["sh", "-c", f"'{CUHEAP}' report {option} good.json {redirection}"],
                                      cwd=self.work, capture_output=True, text=True)
                self.assertEqual(done.returncode, 2, (redirection, option))
                self.assertIn(reason, done.stderr)

    def test_report_goes_on_without_a_reader(self):
        self.run_it(DEMO, "2", options=["-o", "good.json", "-q"])
        done = subprocess.run(["sh", "-c", f"'{CUHEAP}' report --json good.json | head -1"], cwd=self.work, capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("{\n", ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
