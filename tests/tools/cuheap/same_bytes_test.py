"""The same input gives the same bytes, whatever lies where in memory.

usage: same_bytes_test.py CUHEAP WRITE_SNAPSHOT...

Addresses are random in each process (address space layout randomisation), and Abseil's hash tables take them as their
seed, so that what is walked in the order of a hash table, or sorted by pointers, comes out differently from run to run.
Memory that is not written before it is read is filled differently each time as well.
"""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CUHEAP = str(pathlib.Path(sys.argv[1]).resolve())
WRITERS = [str(pathlib.Path(path).resolve()) for path in sys.argv[2:]]
ROOT = pathlib.Path(__file__).resolve().parents[3]
PICKLES = sorted((ROOT / "tests" / "data" / "pytorch").glob("*.pickle.zst"))
FORMATS = ("folded", "speedscope", "pprof", "chrome", "torch-snapshot", "csv", "ndjson")
TIMES = 4
FEW = 3  # the smallest: all exports of large ones take minutes


def addresses_are_random():
    return pathlib.Path("/proc/sys/kernel/randomize_va_space").read_text().strip() != "0"


class SameBytes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="cuheap same bytes ")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for writer in WRITERS:
            subprocess.run([writer, str(cls.folder)], check=True)
        pickles = sorted(PICKLES, key=lambda path: path.stat().st_size)[:FEW]
        cls.inputs = [str(path) for path in pickles] + sorted(str(path) for path in cls.folder.rglob("*.json"))

    def expect_same(self, *words):
        seen = set()
        for time in range(TIMES):
            environment = {**os.environ, "MALLOC_PERTURB_": str(37 * time), "LC_ALL": "C.UTF-8"}
            done = subprocess.run([CUHEAP, *words], capture_output=True, env=environment, timeout=300)
            self.assertLessEqual(done.returncode, 2, done.stderr)  # 2: nothing to export, which is said the same way
            # Of a program that allocated nothing, lines of JSON are none.
            self.assertTrue(done.stdout or done.stderr or "ndjson" in words, words)
            seen.add(hashlib.sha256(done.stdout + b"\0" + done.stderr).hexdigest())
        self.assertEqual(len(seen), 1, f"{words}: {TIMES} runs gave {len(seen)} results")

    @unittest.skipUnless(addresses_are_random(), "addresses are not random on this machine")
    def test_reports(self):
        self.assertTrue(self.inputs)
        for path in self.inputs:
            for words in (["report"], ["report", "--json"], ["report", "--no-stacks", "--top", "100"], ["report", "--html", "-"]):
                with self.subTest(f"{words} {path}"):
                    self.expect_same(*words, path)

    @unittest.skipUnless(addresses_are_random(), "addresses are not random on this machine")
    def test_exports(self):
        for path in self.inputs:
            for name in FORMATS:
                with self.subTest(f"{name} {path}"):
                    self.expect_same("export", "--format", name, "-o", "-", path)

    @unittest.skipUnless(addresses_are_random(), "addresses are not random on this machine")
    def test_comparisons(self):
        for first, second in zip(self.inputs, self.inputs[1:]):
            for words in (["diff"], ["diff", "--json"]):
                with self.subTest(f"{words} {first} {second}"):
                    self.expect_same(*words, first, second)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
