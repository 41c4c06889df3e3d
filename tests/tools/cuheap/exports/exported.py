"""Runs `cuheap export` for the tests of single formats.

usage of each test: TEST.py CUHEAP WRITER    (WRITER is the program write_export_programs)
"""
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CUHEAP, WRITER = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
ROOT = pathlib.Path(__file__).resolve().parents[4]
PICKLES = sorted((ROOT / "tests" / "data" / "pytorch").glob("*.pickle.zst"))
# As in tests/analysis/exports/export_programs.h.
HOSTILE = "Step<a;b>\\ \"q\"\n\x1b[31m\t,\u202e"

_folder = tempfile.TemporaryDirectory(prefix="cuheap exports ")
WORK = pathlib.Path(_folder.name)


@functools.cache
def programs() -> dict[str, pathlib.Path]:
    """The synthetic snapshots by name."""
    subprocess.run([WRITER, str(WORK)], check=True)
    return {path.stem: path for path in WORK.glob("*.json")}


def snapshots() -> list[pathlib.Path]:
    assert len(PICKLES) == 8
    return [*programs().values(), *PICKLES]


def run(*words, **keywords):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CUHEAP_", "SIMCUDA_", "LD_"))}
    return subprocess.run([CUHEAP, *map(str, words)], cwd=WORK, capture_output=True, timeout=120,
                          env={**environment, "LC_ALL": "C.UTF-8"}, **keywords)


def export(snapshot, form: str, *options) -> bytes:
    done = run("export", snapshot, "--format", form, "-o", "-", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def report(snapshot) -> dict:
    done = run("report", "--json", snapshot)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def totals(snapshot, kind: str) -> dict[int, dict]:
    """The report's totals by device; kind is device, tensors or host."""
    entries = [*report(snapshot)["memory"], *report(snapshot)["tensors"]]
    return {entry["scope"].get("device", 0): entry for entry in entries if entry["scope"]["kind"] == kind}


class ExportTest(unittest.TestCase):
    name = ""

    def each_snapshot(self):
        """All snapshots; failures name the one."""
        for snapshot in snapshots():
            self.name = snapshot.name
            yield snapshot
        self.name = ""

    def _formatMessage(self, message, standard):
        return super()._formatMessage(f"{self.name}: {message or ''}" if self.name else message, standard)

    def check_same_bytes_twice(self, form: str, *options):
        for snapshot in self.each_snapshot():
            self.assertEqual(export(snapshot, form, *options), export(snapshot, form, *options))


# What the entries without a stack are called (analysis/exports/held.cc).
IDLE, LOST = "[PyTorch's cache, in no tensor]", "[no longer in the record]"


def held_as_reported(snapshot, moment: str) -> dict[str, int]:
    """Bytes by "GPU 0" or "host memory", as the report tells them, and those of tensors by "GPU 0 tensors"."""
    result = {}
    for kind, name in (("device", "GPU {}"), ("tensors", "GPU {} tensors"), ("host", "host memory")):
        for device, entry in totals(snapshot, kind).items():
            name_of_device = name.format(device if device != 0xFFFF else "of unknown number")
            result[name_of_device] = entry["live_bytes"] if moment == "end" else entry["peak"]["bytes"]
    return result


class StackExportTest(ExportTest):
    """Of a format of stacks: subclasses read it."""

    def held(self, snapshot, moment: str) -> dict[str, dict[tuple[str, ...], int]]:
        """Bytes by place and stack, outermost frame first."""
        raise NotImplementedError

    def check_totals(self):
        checked = 0
        for snapshot in self.each_snapshot():
            if snapshot.stem == "distinct":  # its numbers have nothing to do with each other
                continue
            for moment in ("peak", "device-peak", "end"):
                told = self.held(snapshot, moment)
                reported = held_as_reported(snapshot, moment)
                for place, stacks in told.items():
                    everything = sum(stacks.values())
                    tensors = reported.get(place + " tensors")
                    if tensors is not None and moment == "peak":
                        idle = sum(size for stack, size in stacks.items() if stack[-1] == IDLE)
                        # What is not the cache's own is tensors, and the program's beside them (none in these files).
                        self.assertEqual(everything - idle, tensors, (place, moment))
                    else:
                        self.assertEqual(everything, reported[place], (place, moment))
                    checked += 1
        self.assertGreater(checked, 30)

    def check_leaks(self):
        snapshot = programs()["leaky"]
        told = self.held(snapshot, "leaked")
        everything = sum(size for stacks in told.values() for size in stacks.values())
        self.assertEqual(everything, report(snapshot)["leaked_bytes"])
        self.assertEqual(everything, 30 * (4096 + 8192))
        self.assertEqual({place: sum(stacks.values()) for place, stacks in told.items() if stacks},
                         {"GPU 0": 30 * 4096, "GPU 1": 30 * 8192})
