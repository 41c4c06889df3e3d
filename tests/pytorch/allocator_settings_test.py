"""What a report promises of other settings of PyTorch's allocator, checked by doing it: each program of
allocator_trainings.py runs again with the setting, and PyTorch's own books say that it holds less by what was promised,
within a tenth.

usage: allocator_settings_test.py CUHEAP [unittest's arguments]
       allocator_settings_test.py CUHEAP --table      (promised and measured, as in docs/remedies.md)
"""

import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch_python

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 0.10  # of what was measured
SAVING = ("lengths", "growing", "images", "generation", "emptied", "large_first", "steady")
MIB = 1 << 20


def environment(setting: str) -> dict[str, str]:
    names = {name: value for name, value in os.environ.items()
             if not name.startswith(("SIMCUDA_", "CUHEAP_", "PYTORCH_", "CUDA_VISIBLE", "LD_"))}
    return names | ({"PYTORCH_CUDA_ALLOC_CONF": setting} if setting else {})


class Programs:
    """Runs each program once with each setting, and keeps what it and its report said."""

    def __init__(self, cuheap: str, python: str):
        self.cuheap, self.python = cuheap, python
        self.refused: dict[tuple[str, str], bool] = {}  # by program and setting: memory ran out

    @functools.cache
    def run(self, name: str, setting: str) -> tuple[dict, int]:
        """The report's entry of the allocator's settings; and what PyTorch says that it held at most."""
        with tempfile.TemporaryDirectory(prefix="cuheap settings ") as folder:
            snapshot = pathlib.Path(folder) / "run.json"
            done = torch_python.run([self.cuheap, "run", "--simulate", "-q", "-o", str(snapshot), "--", self.python,
                                     str(HERE / "allocator_trainings.py"), name], environment(setting), timeout=600)
            if done.returncode != 0:
                raise AssertionError(f"{name} {setting} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
            self.refused[name, setting] = "refused" in done.stdout
            held = int(done.stdout.split("held ")[1].split()[0])
            return self.report(snapshot), held

    def report(self, snapshot: pathlib.Path) -> dict:
        told = subprocess.run([self.cuheap, "report", "--json", str(snapshot)], capture_output=True, text=True,
                              check=True, timeout=300)
        settings, = json.loads(told.stdout)["allocator_settings"]
        return settings

    def pickled(self, name: str) -> dict:
        """The same from PyTorch's own recording."""
        with tempfile.TemporaryDirectory(prefix="cuheap settings ") as folder:
            snapshot = pathlib.Path(folder) / "run.pickle"
            script = ("import sys, torch; sys.path.insert(0, sys.argv[1]); import allocator_trainings as programs\n"
                      "torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks='python')\n"
                      "programs.SCENARIOS[sys.argv[2]](); torch.cuda.memory._dump_snapshot(sys.argv[3])")
            done = torch_python.run([self.cuheap, "run", "--simulate", "-q", "-o", str(pathlib.Path(folder) / "run.json"),
                                     "--", self.python, "-c", script, str(HERE), name, str(snapshot)], environment(""),
                                    timeout=600)
            if done.returncode != 0:
                raise AssertionError(f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
            return self.report(snapshot)


class Promises(unittest.TestCase):
    programs: Programs

    def test_promises_are_kept(self) -> None:
        for name in SAVING:
            entry, held = self.programs.run(name, "")
            with self.subTest(name):
                self.assertEqual(entry["check"], "reproduced")
                self.assertEqual(entry["held_peak_bytes"], held)
                self.assertTrue(entry["options"], "nothing was offered")
            for option in entry["options"]:
                with self.subTest(name, setting=option["set"]):
                    self.assertEqual(option["how"], "PYTORCH_CUDA_ALLOC_CONF=" + option["set"])
                    measured = held - self.programs.run(name, option["set"])[1]
                    self.assertLessEqual(abs(option["saved_bytes"] - measured), TOLERANCE * measured,
                                         f"promised {option['saved_bytes']:,}, measured {measured:,}")

    def test_expandable_segments_are_offered_where_lengths_vary(self) -> None:
        offered = {option["set"] for option in self.programs.run("lengths", "")[0]["options"]}
        self.assertIn("expandable_segments:True", offered)

    def test_what_was_refused_is_served_where_that_is_promised(self) -> None:
        entry, _ = self.programs.run("refused", "")
        self.assertTrue(self.programs.refused["refused", ""])
        self.assertEqual((entry["check"], entry["refused"]), ("reproduced", 1))
        self.assertEqual({option["set"]: option["refused_that_fit"] for option in entry["options"]},
                         {"expandable_segments:True": 1, "max_split_size_mb:128": 1})
        for option in entry["options"]:
            self.programs.run("refused", option["set"])
            self.assertFalse(self.programs.refused["refused", option["set"]], option["set"])

    def test_nothing_is_offered_where_nothing_is_saved(self) -> None:
        entry, held = self.programs.run("whole_segments", "")
        self.assertEqual(entry["options"], [])
        with_setting = self.programs.run("whole_segments", "expandable_segments:True")[1]
        self.assertLess(held - with_setting, max(held // 20, 20 * MIB))

    def test_what_is_on_already_is_not_offered(self) -> None:
        entry, _ = self.programs.run("lengths", "expandable_segments:True")
        self.assertIn(entry["check"], ("expandable", "little_idle"))
        self.assertEqual(entry["recorded"], "expandable_segments:True")
        self.assertEqual(entry["options"], [])

    def test_nothing_is_promised_where_the_model_does_not_hold(self) -> None:
        entry, _ = self.programs.run("two_streams", "")
        self.assertEqual(entry["check"], "not_reproduced")
        self.assertEqual(entry["options"], [])

    def test_recordings_of_pytorch(self) -> None:
        """They tell streams and what was asked for; the promise is the same."""
        for name in ("lengths", "generation", "two_streams"):
            with self.subTest(name):
                entry = self.programs.pickled(name)
                held = self.programs.run(name, "")[1]
                self.assertEqual((entry["check"], entry["held_peak_bytes"]), ("reproduced", held))
                for option in entry["options"]:
                    measured = held - self.programs.run(name, option["set"])[1]
                    self.assertLessEqual(abs(option["saved_bytes"] - measured), TOLERANCE * measured, option)
                self.assertTrue(entry["options"])


def print_table(programs: Programs) -> None:
    print("| program | setting | held | promised | measured | deviation |\n|---|---|---:|---:|---:|---:|")
    for name in (*SAVING, "whole_segments", "two_streams"):
        entry, held = programs.run(name, "")
        if not entry["options"]:
            print(f"| {name} | {entry['check']} | {held / MIB:,.1f} | nothing | | |")
        for option in entry["options"]:
            measured = held - programs.run(name, option["set"])[1]
            print(f"| {name} | {option['set']} | {held / MIB:,.1f} | {option['saved_bytes'] / MIB:,.1f} | "
                  f"{measured / MIB:,.1f} | {option['saved_bytes'] / measured - 1 if measured else 0:+.1%} |", flush=True)


if __name__ == "__main__":
    Promises.programs = Programs(sys.argv[1], torch_python.find_or_skip())
    if sys.argv[2:] == ["--table"]:
        print_table(Promises.programs)
    else:
        unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
