"""CSV and NDJSON: the same rows, whose sums are the report's; and the command's own refusals.

usage: table_test.py CUHEAP WRITER
"""
import collections
import csv
import io
import json
import os
import pathlib
import pty
import subprocess
import sys
import unittest

import exported


class TableTest(exported.ExportTest):
    def csv(self, snapshot):
        return list(csv.DictReader(io.StringIO(exported.export(snapshot, "csv").decode("utf-8"), newline="")))

    def ndjson(self, snapshot):
        return [json.loads(line) for line in exported.export(snapshot, "ndjson").decode("utf-8").split("\n")[:-1]]

    def test_both_have_the_same_rows(self):
        words = {None: "", True: "true", False: "false"}
        for snapshot in self.each_snapshot():
            rows = [{name: words[value] if value is None or isinstance(value, bool) else str(value)
                     for name, value in row.items()} for row in self.ndjson(snapshot)]
            self.assertEqual(self.csv(snapshot), rows)

    def test_sums_are_those_of_the_report(self):
        for snapshot in self.each_snapshot():
            if snapshot.stem == "distinct":
                continue
            held, allocated = collections.Counter(), collections.Counter()
            for row in self.ndjson(snapshot):
                key = row["memory"], row["device"] or 0
                held[key] += row["bytes"] if row["held_at_end"] else 0
                allocated[key] += 1
                self.assertTrue(row["held_at_end"] or row["freed_ns"] is not None)
            for kind, memory in (("device", "device"), ("tensors", "tensor"), ("host", "host")):
                for device, entry in exported.totals(snapshot, kind).items():
                    self.assertEqual(held[memory, device], entry["live_bytes"])
                    self.assertGreaterEqual(allocated[memory, device], entry["allocations"])

    def test_names_stay(self):
        row, = {(row["function"], row["file"], row["line"]) for row in self.csv(exported.programs()["leaky"])
                if row["function"].startswith("Step")}
        self.assertEqual(row, (exported.HOSTILE, "/src/train; now.cc", "57"))

    def test_same_bytes_twice(self):
        self.check_same_bytes_twice("csv")
        self.check_same_bytes_twice("ndjson")


class CommandTest(exported.ExportTest):
    def refused(self, *words):
        done = exported.run("export", *words)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr.decode()

    def test_default_name_and_mode(self):
        done = exported.run("export", exported.programs()["leaky"], "--format", "pprof")
        self.assertEqual(done.returncode, 0, done.stderr)
        path = exported.WORK / "leaky.pb.gz"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertIn(b"pprof -http=: leaky.pb.gz", done.stderr)
        quiet = exported.run("export", exported.programs()["leaky"], "--format", "pprof", "-q")
        self.assertEqual((quiet.returncode, quiet.stderr), (0, b""))
        self.assertEqual([name.name for name in exported.WORK.glob("*.tmp-*")], [])

    def test_standard_input_and_output(self):
        leaky = exported.programs()["leaky"]
        with open(leaky, "rb") as snapshot:
            done = exported.run("export", "-", "--format", "csv", "-o", "-", stdin=snapshot)
        self.assertEqual(done.stdout, exported.export(leaky, "csv"))
        with open(leaky, "rb") as snapshot:
            self.assertIn(b"add -o FILE", exported.run("export", "-", "--format", "csv", stdin=snapshot).stderr)

    def test_standard_output_is_appended_to(self):
        path = exported.WORK / "appended"
        path.write_text("before\n")
        with open(path, "a") as output:
            subprocess.run([exported.CUHEAP, "export", exported.programs()["leaky"], "--format", "folded", "-o", "-"],
                           stdout=output, stderr=subprocess.DEVNULL, check=True)
        self.assertTrue(path.read_text().startswith("before\nGPU 0;main"))

    def test_binary_is_not_written_to_a_terminal(self):
        for form, status in (("pprof", 2), ("torch-snapshot", 2), ("folded", 0)):
            main, terminal = pty.openpty()
            done = subprocess.run([exported.CUHEAP, "export", exported.programs()["cut"], "--format", form, "-o", "-"],
                                  stdout=terminal, stderr=subprocess.PIPE)
            os.close(terminal)
            os.close(main)
            self.assertEqual(done.returncode, status, form)
            self.assertEqual(b"is binary and standard output is a terminal: use -o FILE" in done.stderr, status == 2)

    def test_what_is_refused_says_what_to_do(self):
        leaky = exported.programs()["leaky"]
        self.assertIn("--format takes one of folded, ", self.refused(leaky))
        self.assertIn("use one of folded, ", self.refused(leaky, "--format", "svg"))
        self.assertIn("--python is for parquet", self.refused(leaky, "--format", "csv", "--python", "python3"))
        self.assertIn("leave it out", self.refused(leaky, "--format", "csv", "--at", "end"))
        self.assertIn("leave it out", self.refused(leaky, "--format", "csv", "--blocks", "7"))
        for moment in ("", "-1s", "1h", "x", "nan", "1e30", "99999999999999s"):
            if moment:
                self.assertIn("--at: use peak, ", self.refused(leaky, "--format", "folded", "--at=" + moment))
        self.assertIn("--blocks: use a number", self.refused(leaky, "--format", "chrome", "--blocks", "0"))
        self.assertIn("is a folder", self.refused(exported.WORK, "--format", "csv"))
        self.assertIn("does not exist", self.refused("nowhere.json", "--format", "csv"))
        self.assertIn("is the snapshot itself", self.refused(leaky, "--format", "csv", "-o", leaky))
        self.assertIn("is a snapshot", self.refused(leaky, "--format", "csv", "-o", exported.programs()["cut"]))
        self.assertIn("no snapshot given", self.refused("--format", "csv"))
        self.assertIn("nowhere/x", self.refused(leaky, "--format", "csv", "-o", "nowhere/x"))
        (exported.WORK / "broken.bin").write_text('{"format": "cuheap-snapshot", "version": 1, ')
        self.assertIn("broken.bin", self.refused("broken.bin", "--format", "csv"))

    def test_a_full_disk_is_said(self):
        if not pathlib.Path("/dev/full").exists():
            self.skipTest("no /dev/full")
        self.assertIn("/dev/full", self.refused(exported.PICKLES[1], "--format", "csv", "-o", "/dev/full"))
        with open("/dev/full", "wb") as full:
            done = subprocess.run([exported.CUHEAP, "export", exported.PICKLES[1], "--format", "csv", "-o", "-"],
                                  stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"No space left", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
