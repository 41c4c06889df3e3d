"""`cuheap run -o FOLDER/` and `cuheap report FOLDER`: many ranks, from end to end on simulated GPUs.

usage: ranks_test.py CUHEAP RANKS_PROGRAM    (the program is ranks_program.cc beside this file)
"""
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

CUHEAP, PROGRAM = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
SOURCE = pathlib.Path(__file__).resolve().parent / "ranks_program.cc"
MIB = 1 << 20
# As torchrun does: every rank its own process, with its number in the environment.
LAUNCHER = 'for rank in $RANKS; do RANK=$rank LOCAL_RANK=$rank "$@" & done; wait'


def line_of(mark):
    return next(number for number, text in enumerate(SOURCE.read_text().splitlines(), 1) if f"// {mark}" in text)


class Ranks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cuheap ranks ")
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)

    def environment(self, **changes):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("CUHEAP_", "SIMCUDA_", "LD_", "SLURM_", "OMPI_", "PMI_"))}
        return {**kept, "LC_ALL": "C.UTF-8", **changes}

    def cuheap(self, *words, environment=None, **keywords):
        return subprocess.run([CUHEAP, *words], cwd=self.work, capture_output=True, text=True, timeout=240,
                              env=environment or self.environment(), **keywords)

    def run_ranks(self, *arguments, output="ranks/", ranks="0 1 2 3", world="4", memory="1GiB"):
        done = self.cuheap("run", "--simulate", "--simulate-devices", "4", "--simulate-memory", memory, "-o", output, "--", "sh", "-c", LAUNCHER, "sh",
                           PROGRAM, *arguments, environment=self.environment(RANKS=ranks, WORLD_SIZE=world))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def report(self, *words, status=0):
        done = self.cuheap("report", "--json", *words)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)

    def names(self, folder="ranks"):
        return sorted(path.name for path in (self.work / folder).iterdir())


class FourRanks(Ranks):
    def test_one_leaks_and_one_has_a_larger_batch(self):
        done = self.run_ranks("20", "leak=2", "big=3")
        # The one that started first has its summary; that may be the one that leaks.
        self.assertRegex(done.stderr, r"and 3 other processes(, of which 1 leaks)?; all together: cuheap report ranks\n")
        self.assertRegex(done.stderr, r"1 line leaks|of which 1 leaks")
        names = self.names()
        for rank, name in enumerate(names):
            self.assertRegex(name, rf"^rank{rank}\.[\w.+-]+\.\d+\.json$")
        self.assertEqual(len(names), 4)
        self.assertEqual((self.work / "ranks").stat().st_mode & 0o777, 0o700)
        for name in names:
            self.assertEqual((self.work / "ranks" / name).stat().st_mode & 0o777, 0o600)
        report = self.report("ranks")
        self.assertEqual(report["verdict"], "leaks")
        self.assertEqual((report["world_size"], report["missing"], report["differences"]), (4, [], []))
        leak, = report["leaks"]
        self.assertEqual((leak["ranks"], leak["everywhere"], leak["bytes"], leak["blocks"]), ([2], False, 20 * MIB, 20))
        self.assertEqual(leak["most_bytes_per_step"], MIB)
        self.assertIn(line_of("LEAK"), (leak["line"]["line"], leak["caller"]["line"]))
        self.assertEqual([rank["devices"][0]["peak_bytes"] // MIB for rank in report["ranks"]], [12, 12, 32, 20])
        self.assertEqual([rank["main_device"] for rank in report["ranks"]], [0, 1, 2, 3])
        peak = next(figure for figure in report["figures"] if figure["figure"] == "peak_bytes")
        self.assertEqual([outlier["rank"] for outlier in peak["outliers"]], [2, 3])
        self.assertEqual(peak["imbalance"], 32 / ((12 + 12 + 32 + 20) / 4))
        largest = report["imbalance"]["lines"][0]
        self.assertEqual((largest["caller"]["line"], largest["largest_bytes"], largest["median_bytes"]), (line_of("LEAK"), 20 * MIB, 0))
        text = self.cuheap("report", "ranks").stdout
        self.assertTrue(text.startswith("LEAK  rank 2 leaks: 1 line, 20.0 MiB (20,971,520 B) held to the end and growing\n"), text)
        self.assertRegex(text, rf"called by ranks_program\.cc:{line_of('LEAK')}  LogLoss\n     only on rank 2: 20\.0 MiB")
        self.assertIn("stands out: rank 3 with 20.0 MiB, +66.7 %", text)
        self.assertRegex(text, r"\n     3  \S+ +\d+ +3   20\.0 MiB        0 B  no leaks +\S*[▁▂▃▄▅▆▇█]")

    def test_every_member_of_the_json_is_documented(self):
        self.run_ranks("5", "leak=0", "big=1", "device=0", "hungry=1", ranks="0 1", world="3")
        (self.work / "ranks" / "broken.json").write_text("")
        self.run_ranks("6", ranks="0", world="3")
        page = set(re.findall(r"`([a-z0-9_]+)`", (SOURCE.parents[3] / "docs" / "ranks.md").read_text()))
        page |= set(re.findall(r"`([a-z0-9_]+)`", (SOURCE.parents[3] / "docs" / "reports.md").read_text()))

        def members(value):
            if isinstance(value, dict):
                return set(value).union(*(members(inner) for inner in value.values()))
            return set().union(*(members(inner) for inner in value)) if isinstance(value, list) else set()

        report = self.report("ranks", status=2)
        self.assertTrue(report["leaks"] and report["shared_devices"] and report["unread"] and report["differences"])
        self.assertEqual(members(report) - page, set())

    def test_a_leak_everywhere_is_told_once(self):
        for rank in range(4):
            self.run_ranks("10", f"leak={rank}", ranks=str(rank))
        leak, = self.report("ranks")["leaks"]
        self.assertEqual((leak["ranks"], leak["everywhere"], leak["bytes"]), ([0, 1, 2, 3], True, 40 * MIB))
        self.assertIn("on all 4 ranks: 40.0 MiB", self.cuheap("report", "ranks").stdout)

    def test_who_ran_out_first_and_who_was_on_the_same_device(self):
        # Both on device 0, one after the other.
        self.run_ranks("2000", "device=0", "hungry=1", ranks="0", world="2")
        self.run_ranks("5", "device=0", "hungry=1", ranks="1", world="2")
        report = self.report("ranks")
        self.assertEqual((report["verdict"], report["refused"]), ("out_of_memory", [1]))
        refusal = report["ranks"][1]["refusal"]
        self.assertEqual((refusal["request"], refusal["caller"]["line"]), (64 * MIB, line_of("HUNGRY")))
        shared, = report["shared_devices"]
        self.assertEqual([user["rank"] for user in shared["users"]], [0, 1])
        text = self.cuheap("report", "ranks").stdout
        self.assertIn("\nOUT OF MEMORY  rank 1 first, alone\n", text)
        self.assertIn("SHARED DEVICES  1 device used by several", text)

    def test_missing_ranks_and_another_command(self):
        self.run_ranks("10", ranks="0 1", world="5")
        self.run_ranks("12", ranks="3", world="5")
        report = self.report("ranks")
        self.assertEqual(report["missing"], [[2, 2], [4, 4]])
        command, = [difference for difference in report["differences"] if difference["trait"] == "command"]
        self.assertEqual([value["ranks"] for value in command["values"]], [[0, 1], [2]])
        self.assertIn("missing         ranks 2, 4: ", self.cuheap("report", "ranks").stdout)


class TwoRuns(Ranks):
    def test_folders_are_compared(self):
        self.run_ranks("10", output="before/", ranks="0 1", world="2")
        self.run_ranks("10", "leak=1", "big=0", output="after/", ranks="0 1", world="2")
        done = self.cuheap("diff", "--json", "before", "after")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        diff = json.loads(done.stdout)
        leak, = diff["leaks"]
        self.assertEqual((leak["change"], leak["caller"]["after"]["line"], leak["bytes"]["after"]), ("new", line_of("LEAK"), 10 * MIB))
        lines = {line["caller"]["after"]["line"]: line["sum_bytes"] for line in diff["lines"]}
        self.assertEqual(lines, {line_of("LEAK"): {"before": 0, "after": 10 * MIB}, line_of("BATCH"): {"before": 8 * MIB, "after": 16 * MIB}})
        text = self.cuheap("diff", "before", "after").stdout
        self.assertTrue(text.startswith("DIFFERENT  1 leak new; the largest peak +10.0 MiB"), text)
        page = set(re.findall(r"`([a-z0-9_]+)`", (SOURCE.parents[3] / "docs" / "ranks.md").read_text()))
        self.assertLessEqual(set(diff) | set(leak) | set(diff["lines"][0]) | set(diff["figures"][0]), page)
        self.assertTrue(self.cuheap("diff", "after", "after").stdout.startswith("ALIKE"))

    def test_what_is_not_for_folders_is_refused(self):
        self.run_ranks("2", output="x/", ranks="0", world="1")
        file = "x/" + self.names("x")[0]
        for words, message in ((["x", file], "one of the two is a folder"), (["x", "x", "--fail-on", "peak>1"], "--fail-on compares two snapshots"),
                               (["x", "x", "--markdown", "y.md"], "--markdown compares two snapshots")):
            done = self.cuheap("diff", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(message, done.stderr)


class Names(Ranks):
    def test_words_after_percent(self):
        self.run_ranks("2", output="%e-%r-of-this%%.json.zst", ranks="0 1", world="2")
        self.assertEqual(sorted(path.name for path in self.work.glob("*.zst")),
                         ["cuheap_ranks_program-0-of-this%.json.zst", "cuheap_ranks_program-1-of-this%.json.zst"])
        self.assertEqual(len(self.report(*(str(path) for path in self.work.glob("*.zst")))["ranks"]), 2)

    def test_without_a_rank_the_process_tells_itself(self):
        done = self.cuheap("run", "-q", "--simulate", "-o", "out/", "--", PROGRAM, "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(self.names("out")[0], r"^cuheap_ranks_program\.[\w.+-]+\.\d+\.json$")

    def test_files_of_a_larger_world_are_listed_in_order(self):
        self.run_ranks("2", ranks="0 2 3", world="128")
        self.assertEqual([name[:7] for name in self.names()], ["rank000", "rank002", "rank003"])

    def test_what_cannot_be_written_is_told_before_the_program_starts(self):
        for output, words in (("no/such/folder/", "cannot be made: No such file"), ("%q.json", "after % in a snapshot's name use"),
                              ("x%", "after % in a snapshot's name use"), ("%h/x.json", "for the file's name, not for its folder")):
            done = self.cuheap("run", "--simulate", "-o", output, "--", "touch", "started")
            self.assertEqual(done.returncode, 2, output)
            self.assertIn(words, done.stderr)
            self.assertFalse((self.work / "started").exists())

    def test_no_file_of_a_folder_is_replaced(self):
        # Process ids come again, in containers at once: two journals of one process stand for that.
        self.run_ranks("2", ranks="0", world="1")
        first = (self.work / "ranks" / self.names()[0]).read_bytes()
        folder = self.work / "journals"
        folder.mkdir()
        self.cuheap("run", "-q", "--simulate", "--journal-dir", "journals", "-o", "ranks/", "--", "sh", "-c", f"exec env RANK=0 WORLD_SIZE=1 '{PROGRAM}' 3")
        self.assertEqual(len(self.names()), 2)
        self.assertEqual((self.work / "ranks" / next(name for name in self.names() if (self.work / "ranks" / name).read_bytes() == first)).read_bytes(), first)


class Folders(Ranks):
    """What else a folder may hold."""

    def setUp(self):
        super().setUp()
        self.run_ranks("5", ranks="0 1 2", world="3")

    def test_a_broken_file_does_not_lose_the_others(self):
        victim = next((self.work / "ranks").glob("rank1.*"))
        victim.write_bytes(victim.read_bytes()[:3000])
        done = self.cuheap("report", "ranks")
        self.assertEqual(done.returncode, 2)
        self.assertIn("NO LEAKS  nothing grows on 2 ranks; 1 file could not be read\n", done.stdout)
        self.assertRegex(done.stdout, r"\nNOT READ  1 file\n  - rank 1: ranks/rank1\S+\.json: ")
        self.assertIn("1 of 3 files could not be read; the first: ranks/rank1.", done.stderr)
        report = self.report("ranks", status=2)
        self.assertEqual((len(report["ranks"]), len(report["unread"]), report["unread"][0]["rank"]), (2, 1, 1))

    def test_an_empty_file_is_told(self):
        (self.work / "ranks" / "rank7.x.1.json").write_bytes(b"")
        self.assertEqual(self.report("ranks", status=2)["unread"][0]["rank"], 7)

    def test_files_of_others_are_left_out_and_named(self):
        (self.work / "ranks" / "config.json").write_text('{"lr": 0.1}')
        exported = self.work / "ranks" / "first.torch.pickle"
        done = self.cuheap("export", "ranks/" + self.names()[-1], "--format", "torch-snapshot", "-o", str(exported))
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.work / "ranks" / "notes.txt").write_text("hello")
        report = self.report("ranks")
        self.assertEqual((len(report["ranks"]), report["left_out"]), (3, ["ranks/config.json", "ranks/first.torch.pickle"]))
        self.assertIn("- ranks/config.json", self.cuheap("report", "ranks").stdout)

    def test_pickles_of_pytorch_get_their_rank_from_their_name(self):
        pickles = self.work / "pickles"
        pickles.mkdir()
        for rank, name in enumerate(self.names()):
            self.cuheap("export", "ranks/" + name, "--format", "torch-snapshot", "-o", f"pickles/rank{rank}_memory_snapshot.pickle", "-q")
        report = self.report("pickles")
        self.assertEqual([(rank["rank"], rank["rank_source"]) for rank in report["ranks"]], [(0, "file_name"), (1, "file_name"), (2, "file_name")])
        self.assertEqual([rank["devices"][0]["tensor_peak_bytes"] for rank in report["ranks"]], [12 * MIB] * 3)
        self.assertEqual(report["imbalance"]["of"], "tensor_peak_bytes")
        self.assertIn("by the names of their files only", self.cuheap("report", "pickles").stdout)

    def test_named_files_are_merged_too_each_once(self):
        names = ["ranks/" + name for name in self.names()]
        self.assertEqual(len(self.report(*names[:2])["ranks"]), 2)
        self.assertEqual(len(self.report("ranks", *names, "ranks/../ranks")["ranks"]), 3)

    def test_what_is_not_there_is_an_error(self):
        (self.work / "empty").mkdir()
        for words, message in ((["empty"], "holds no snapshots"), (["ranks", "no.json"], "no.json: No such file"), (["ranks", "-"], "standard input holds one snapshot")):
            done = self.cuheap("report", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(message, done.stderr)

    def test_the_same_folder_gives_the_same_bytes(self):
        for words in ([], ["--json"]):
            first = self.cuheap("report", *words, "ranks").stdout
            for _ in range(3):
                self.assertEqual(self.cuheap("report", *words, "ranks").stdout, first)


class Thousands(Ranks):
    def test_memory_does_not_grow_with_the_snapshots(self):
        """2,000 files; address space for some of them, by far not for all."""
        self.run_ranks("150", "leak=0", ranks="0", world="1")
        text = next((self.work / "ranks").iterdir()).read_text()
        many = self.work / "many"
        many.mkdir()
        for rank in range(2000):
            changed = text.replace('"RANK":"0"', f'"RANK":"{rank}"').replace('"WORLD_SIZE":"1"', '"WORLD_SIZE":"2000"')
            self.assertNotEqual(changed, text)
            (many / f"rank{rank:04}.json").write_text(changed)
        total = sum(path.stat().st_size for path in many.iterdir())
        self.assertGreater(total, 50 << 20)
        limit = 700 << 20  # of addresses: a thread of glibc takes 64 MiB for its arena and 8 MiB for its stack
        done = self.cuheap("report", "many", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("on all 2,000 ranks: ", done.stdout)
        self.assertIn("and 1,990 others, with peaks of ", done.stdout)
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(used, 150 << 10)  # KiB
        shutil.rmtree(many)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
