"""Parquet, read by pyarrow: typed, the rows of the tables, and nothing left behind by what fails.

usage: parquet_test.py CUHEAP WRITER
"""
import csv
import io
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import time
import unittest

import exported

try:
    import pyarrow
    from pyarrow import parquet
except ImportError:
    print("no pyarrow in", sys.executable)
    sys.exit(77)

COMMON = ("rank", "host", "pid", "start")


def run(*words, python=sys.executable, **keywords):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CUHEAP_", "SIMCUDA_", "LD_"))}
    environment = {**environment, "LC_ALL": "C.UTF-8", **({"CUHEAP_PYTHON": python} if python else {}), **keywords.pop("changes", {})}
    return subprocess.run([exported.CUHEAP, "export", *map(str, words), "--format", "parquet"], cwd=exported.WORK, capture_output=True,
                          timeout=120, env=environment, **keywords)


def program(name, text):
    path = exported.WORK / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


class ParquetTest(exported.ExportTest):
    def table(self, snapshot):
        done = run(snapshot, "-o", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        return parquet.read_table(io.BytesIO(done.stdout))

    def test_rows_are_those_of_the_other_tables(self):
        for snapshot in self.each_snapshot():
            rows = [json.loads(line) for line in exported.export(snapshot, "ndjson").decode("utf-8").split("\n")[:-1]]
            # What is no character of a CSV is none here.
            for row in rows:
                row.update({name: value.replace("\0", "\N{REPLACEMENT CHARACTER}") for name, value in row.items() if isinstance(value, str)})
            self.assertEqual(self.table(snapshot).drop_columns(list(COMMON)).to_pylist(), rows)

    def test_every_column_has_its_type(self):
        names = next(csv.reader(io.StringIO(exported.export(exported.programs()["leaky"], "csv").decode("utf-8"), newline="")))
        page = (exported.ROOT / "docs" / "exports.md").read_text().split("## Parquet")[1]
        for snapshot in self.each_snapshot():
            schema = self.table(snapshot).schema
            self.assertEqual(schema.names, [*names, *COMMON])
            for name in ("id", "address", "bytes", "reserved_bytes", "stream", "pid"):
                self.assertEqual(schema.field(name).type, pyarrow.uint64(), name)
            for name in ("device", "thread", "line", "stack", "rank"):
                self.assertEqual(schema.field(name).type, pyarrow.uint32(), name)
            for name in ("allocated_ns", "freed_ns"):
                self.assertEqual(schema.field(name).type, pyarrow.int64(), name)
            for name in ("framework_cache", "held_at_end"):
                self.assertEqual(schema.field(name).type, pyarrow.bool_(), name)
            self.assertEqual(schema.field("start").type, pyarrow.timestamp("ns", tz="UTC"))
        typed = {name for name in schema.names if schema.field(name).type != pyarrow.string()}
        for name in typed:
            self.assertIn(f"`{name}`", page)

    def test_the_process_is_in_every_row(self):
        snapshot = json.loads(exported.programs()["leaky"].read_text())
        snapshot["process"].update(host="node\u202e\\n1", pid=2**63 + 1, start_realtime_ns=1_700_000_000_123_456_789, launcher={"RANK": "7"})
        changed = exported.WORK / "seventh.json"
        changed.write_text(json.dumps(snapshot))
        table = self.table(changed)
        self.assertGreater(table.num_rows, 10)
        for name, value in (("rank", 7), ("host", "node\u202e\\n1"), ("pid", 2**63 + 1)):
            self.assertEqual(set(table.column(name).to_pylist()), {value})
        self.assertEqual(set(table.column("start").cast(pyarrow.int64()).to_pylist()), {1_700_000_000_123_456_789})
        pickled = self.table(exported.PICKLES[0])
        for name in ("rank", "host", "pid"):
            self.assertEqual(set(pickled.column(name).to_pylist()), {None}, name)

    def test_a_snapshot_without_blocks_is_a_table_without_rows(self):
        snapshot = json.loads(exported.programs()["leaky"].read_text())
        for table in ("events", "live"):
            snapshot[table] = {name: [] for name in snapshot[table]}
        empty = exported.WORK / "none.json"
        empty.write_text(json.dumps(snapshot))
        self.assertEqual(self.table(empty).num_rows, 0)

    def test_same_bytes_twice(self):
        for snapshot in (exported.programs()["leaky"], exported.PICKLES[0]):
            self.assertEqual(run(snapshot, "-o", "-").stdout, run(snapshot, "-o", "-").stdout)

    def test_name_and_mode(self):
        done = run(exported.programs()["leaky"])
        self.assertEqual((done.returncode, done.stdout), (0, b""), done.stderr)
        path = exported.WORK / "leaky.parquet"
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertIn(b"wrote leaky.parquet: duckdb -c \"FROM 'leaky.parquet'\"", done.stderr)
        self.assertEqual(parquet.ParquetFile(path).metadata.row_group(0).column(0).compression, "ZSTD")


class FailureTest(exported.ExportTest):
    """Nothing is left behind, and one line says why."""

    def failed(self, *words, **keywords):
        snapshot = exported.programs()["leaky"]
        before = sorted(path.name for path in exported.WORK.iterdir())
        done = run(snapshot, "-o", "out.parquet", *words, **keywords)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(sorted(path.name for path in exported.WORK.iterdir()), before)
        return done.stderr.decode()

    def test_without_pyarrow_the_remedy_is_told(self):
        bare = program("bare", f"exec '{sys.executable}' -I -S \"$@\"\n")
        for words, python in ((("--python", bare), None), ((), bare)):
            said = self.failed(*words, python=python)
            self.assertIn(f"parquet needs pyarrow, and {bare} cannot load it (no pyarrow: No module named 'pyarrow'): ", said)
            self.assertIn("-m pip install pyarrow, or name another Python with --python", said)

    def test_a_python_that_is_not_there(self):
        self.assertIn("no-such-python: not found; name one with --python", self.failed("--python", "no-such-python"))
        self.assertIn("Permission denied", self.failed("--python", str(exported.WORK)))

    def test_what_is_no_python(self):
        self.assertIn("cannot load it (it said nothing)", self.failed("--python", "true"))
        self.assertIn("cannot load it (it said nothing)", self.failed("--python", program("talks", "echo hello world; cat\n")))

    def test_one_that_fails_halfway(self):
        self.assertIn("failed with status 5: disk of the moon is full",
                      self.failed("--python", program("fails", "echo ready; head -c 100 >/dev/null; echo part; echo disk of the moon is full >&2; exit 5\n")))
        self.assertIn("was killed by signal 9", self.failed("--python", program("dies", "echo ready; kill -9 $$\n")))

    def test_nothing_is_imported_from_the_working_directory(self):
        (exported.WORK / "pyarrow.py").write_text("import sys; sys.exit('imported from here')")
        (exported.WORK / "json.py").write_text("import sys; sys.exit('imported from here')")
        self.addCleanup((exported.WORK / "pyarrow.py").unlink)
        self.addCleanup((exported.WORK / "json.py").unlink)
        done = run(exported.programs()["leaky"], "-o", "-")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_full_disk_is_said(self):
        if not pathlib.Path("/dev/full").exists():
            self.skipTest("no /dev/full")
        done = run(exported.PICKLES[1], "-o", "/dev/full")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"/dev/full", done.stderr)

    def test_it_is_not_written_to_a_terminal(self):
        main, terminal = os.openpty()
        done = subprocess.run([exported.CUHEAP, "export", exported.programs()["leaky"], "--format", "parquet", "-o", "-"],
                              stdout=terminal, stderr=subprocess.PIPE, timeout=60)
        os.close(terminal)
        os.close(main)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"parquet is binary and standard output is a terminal", done.stderr)

    def test_the_python_ends_with_cuheap(self):
        marker = exported.WORK / "started"
        waits = program("waits", f"echo ready; echo $$ > '{marker}.new'; mv '{marker}.new' '{marker}'; exec cat >/dev/null\n")
        source, sink = os.pipe()
        child = subprocess.Popen([exported.CUHEAP, "export", "-", "--format", "parquet", "-o", "-", "--python", waits], stdin=source,
                                 stdout=subprocess.DEVNULL, cwd=exported.WORK)
        deadline = time.monotonic() + 30
        while not marker.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        pid = int(marker.read_text())
        marker.unlink()
        while pathlib.Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(pathlib.Path(f"/proc/{pid}").exists())
        os.close(source)
        os.close(sink)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
