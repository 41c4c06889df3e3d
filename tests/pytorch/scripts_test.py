"""A training script as users write them, on the simulated CUDA: cuheap changes nothing that the device sees.

usage: scripts_test.py CUHEAP SIMCUDA_FOLDER CACHE_FOLDER SCRIPT
"""

import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile
import unittest

import call_log
import script_run
import torch_python

MODES = {"default": (), "observe": ("--observe",)}

# Of memory_stats(). Not those that count splits of blocks, nor what is in use at a moment: autograd's thread gives back
# its last tensors while the main thread goes on, sometimes before and sometimes after one of that thread's own.
SAME_STATISTICS = ("allocation.all.allocated", "allocated_bytes.all.allocated", "allocated_bytes.all.peak",
                   "requested_bytes.all.peak", "segment.all.allocated", "segment.all.freed", "reserved_bytes.all.peak",
                   "num_alloc_retries", "num_ooms")


def segments_of(books: dict) -> list[tuple[int, int, str]]:
    return [(segment["address"], segment["total_size"], segment["segment_type"]) for segment in books["segments"]]


class TheScript(unittest.TestCase):
    runner: script_run.Runner
    script: str
    bare: script_run.Run
    under: dict[str, script_run.Run]

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="cuheap pytorch ")
        cls.addClassCleanup(folder.cleanup)
        cls.runner.folder = pathlib.Path(folder.name)
        if cls.script == "compiled":
            cls.runner.warm_up(cls.script)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            bare = pool.submit(cls.runner.bare, cls.script)
            under = {mode: pool.submit(cls.runner.under_cuheap, cls.script, *options) for mode, options in MODES.items()}
            cls.bare = bare.result()
            cls.under = {mode: run.result() for mode, run in under.items()}

    def test_it_trains(self) -> None:
        launches = sum(": cuLaunchKernel" in line for line in self.bare.calls)
        self.assertGreater(launches, 100, "the script launched next to nothing")
        self.assertGreater(len(call_log.copied_back(self.bare.calls)), 0, "nothing was read from the device")
        self.assertIn("last_step", self.bare.books, "no optimizer made a step")
        stats = self.bare.books["last_step"]["stats"]
        print(f"{self.script}: {len(self.bare.calls)} calls, {launches} launches, "
              f"{stats['allocation.all.allocated']} tensors, peak {stats['allocated_bytes.all.peak']} B, "
              f"reserved {stats['reserved_bytes.all.peak']} B")

    def test_the_device_sees_the_same_calls_and_copies(self) -> None:
        for mode, run in self.under.items():
            with self.subTest(mode):
                self.assertEqual(call_log.first_difference(self.bare.calls, run.calls), "")
                self.assertEqual(run.stdout, self.bare.stdout)

    def test_pytorchs_books_are_the_same(self) -> None:
        for mode, run in self.under.items():
            for moment in ("last_step", "end"):
                with self.subTest(mode, moment=moment):
                    theirs, ours = self.bare.books[moment], run.books[moment]
                    self.assertEqual([ours["stats"][name] for name in SAME_STATISTICS],
                                     [theirs["stats"][name] for name in SAME_STATISTICS])
                    self.assertEqual(segments_of(ours), segments_of(theirs))


def needs_or_skip(python: str, script: str) -> None:
    module = script_run.NEEDS.get(script)
    if module is None:
        return
    question = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
    if subprocess.run([python, "-c", question], check=False, timeout=300).returncode != 0:
        torch_python.skip(f"{python} has no {module}; install with tools/deps --for test")


if __name__ == "__main__":
    _, cuheap_command, simcuda_folder, cache_folder, TheScript.script = sys.argv
    interpreter = torch_python.find_or_skip()
    needs_or_skip(interpreter, TheScript.script)
    TheScript.runner = script_run.Runner(interpreter, cuheap_command, pathlib.Path(simcuda_folder),
                                         pathlib.Path(cache_folder), pathlib.Path())
    unittest.main(argv=sys.argv[:1])
