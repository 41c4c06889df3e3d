"""A training script as users write them, on the simulated CUDA: cuheap changes nothing that the device sees, and has the
same books as PyTorch's caching allocator, to the byte.

usage: scripts_test.py CUHEAP SIMCUDA_FOLDER CACHE_FOLDER SCRIPT
"""

import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile
import unittest

import call_log
import cuheap_books
import script_run
import torch_python

MODES = {"default": (), "observe": ("--observe",)}

# Of memory_stats(). Not those that count splits of blocks, nor what is in use at a moment: autograd's thread gives back
# its last tensors while the main thread goes on, sometimes before and sometimes after one of that thread's own.
SAME_STATISTICS = ("allocation.all.allocated", "allocated_bytes.all.allocated", "allocated_bytes.all.peak",
                   "requested_bytes.all.peak", "segment.all.allocated", "segment.all.freed", "reserved_bytes.all.peak",
                   "num_alloc_retries", "num_ooms")
LOSSES = ("events_overwritten", "events_dropped", "live_dropped", "stacks_failed")


def segments_of(books: dict) -> list[tuple[int, int, str]]:
    return [(segment["address"], segment["total_size"], segment["segment_type"]) for segment in books["segments"]]


class TheScript(unittest.TestCase):
    maxDiff = None
    runner: script_run.Runner
    script: str
    bare: script_run.Run
    under: dict[str, script_run.Run]
    # With cuheap run --pool, and without cuheap but with the same allocator of PyTorch's.
    pool: script_run.Run
    bare_without_cache: script_run.Run

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
            # No kernel computes anything: what is read back is what lay there, so both fill what they hand out.
            pool_run = pool.submit(cls.runner.under_cuheap, cls.script, "--pool", "--fill=0")
            without_cache = pool.submit(cls.runner.bare, cls.script, SIMCUDA_FILL="0",
                                        PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
            cls.bare, cls.pool, cls.bare_without_cache = bare.result(), pool_run.result(), without_cache.result()
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

    def test_with_the_pool_the_device_sees_the_same_but_for_the_memory(self) -> None:
        theirs, ours = (call_log.besides_memory(run.calls) for run in (self.bare_without_cache, self.pool))
        self.assertGreater(len(theirs), 300)
        self.assertEqual(call_log.first_difference(theirs, ours), "")
        self.assertEqual(self.pool.stdout, self.bare_without_cache.stdout)
        served = cuheap_books.replay_served(cuheap_books.rows(self.pool.snapshot, "events")).allocations
        self.assertEqual((call_log.fills(self.bare_without_cache.calls), call_log.fills(self.pool.calls)), (0, served),
                         "each block is filled once")
        print(f"{self.script}, pool: {len(theirs)} calls and copies are the same, {len(call_log.copied_back(ours))} of "
              f"them copies back; {served} blocks were filled")

    def test_with_the_pool_the_books_are_those_of_pytorchs_cache(self) -> None:
        stats = self.bare.books["end"]["stats"]
        self.assertEqual([self.pool.snapshot["completeness"][name] for name in LOSSES], [0] * len(LOSSES))
        tensors = cuheap_books.replay_served(cuheap_books.rows(self.pool.snapshot, "events"))
        self.assertEqual((tensors.allocations, tensors.peak),
                         (stats["allocation.all.allocated"], stats["requested_bytes.all.peak"]))

    def test_pytorchs_books_are_the_same(self) -> None:
        for mode, run in self.under.items():
            for moment in ("last_step", "end"):
                with self.subTest(mode, moment=moment):
                    theirs, ours = self.bare.books[moment], run.books[moment]
                    self.assertEqual([ours["stats"][name] for name in SAME_STATISTICS],
                                     [theirs["stats"][name] for name in SAME_STATISTICS])
                    self.assertEqual(segments_of(ours), segments_of(theirs))


    def check_books(self, run: script_run.Run, events: list[dict], moment: str) -> None:
        """cuheap's events against PyTorch's own statistics and memory_snapshot() of that moment of that very run."""
        books = run.books[moment]
        stats = books["stats"]
        tensors = cuheap_books.replay(events, "tensor", stats["allocation.all.allocated"], stats["allocation.all.freed"])
        self.assertEqual(tensors.peak, stats["allocated_bytes.all.peak"])
        self.assertEqual(tensors.bytes, stats["allocated_bytes.all.current"])
        self.assertEqual(tensors.allocated_bytes, stats["allocated_bytes.all.allocated"])
        segments = cuheap_books.replay(events, "device", stats["segment.all.allocated"], stats["segment.all.freed"])
        self.assertEqual(segments.peak, stats["reserved_bytes.all.peak"])
        self.assertEqual(segments.live, {segment["address"]: segment["total_size"] for segment in books["segments"]})
        blocks = {block["address"]: block["size"] for segment in books["segments"] for block in segment["blocks"]
                  if block["state"] == "active_allocated"}
        self.assertEqual(tensors.live, blocks)
        idle = sum(block["size"] for segment in books["segments"] for block in segment["blocks"]
                   if block["state"] == "inactive")
        self.assertEqual(segments.bytes - tensors.bytes, idle)

    def test_the_books_are_pytorchs_to_the_byte(self) -> None:
        for mode, run in self.under.items():
            with self.subTest(mode):
                self.assertEqual([run.snapshot["completeness"][name] for name in LOSSES], [0] * len(LOSSES))
                events = cuheap_books.rows(run.snapshot, "events")
                self.check_books(run, events, "last_step")
                self.check_books(run, events, "end")
                self.assertGreater(run.books["last_step"]["stats"]["allocated_bytes.all.current"], 1 << 20)
                device, = run.snapshot["devices"]
                stats = run.books["end"]["stats"]
                self.assertEqual(device["tensor_peak_bytes"], stats["allocated_bytes.all.peak"])
                self.assertEqual(run.snapshot["counters"]["tensor_allocations"], stats["allocation.all.allocated"])

    def test_the_report_has_the_same_books(self) -> None:
        for mode, run in self.under.items():
            with self.subTest(mode):
                cache, = self.runner.report(run)["framework_caches"]
                books = run.books["end"]
                stats = books["stats"]
                self.assertEqual((cache["framework"], cache["tensors_seen"], cache["tensor_peak_exact"]),
                                 ("pytorch", True, True))
                self.assertEqual([cache["allocations"], cache["tensor_peak_bytes"], cache["reserved_peak_bytes"]],
                                 [stats["allocation.all.allocated"], stats["allocated_bytes.all.peak"],
                                  stats["reserved_bytes.all.peak"]])
                # After the script only what it still holds goes away: no segment does.
                self.assertEqual({segment["address"]: segment["bytes"] for segment in cache["at_end"]["segments"]},
                                 {segment["address"]: segment["total_size"] for segment in books["segments"]})
                for moment in ("at_peak", "at_last", "at_end"):
                    state = cache[moment]
                    self.assertEqual(state["used_bytes"] + state["idle_bytes"], state["reserved_bytes"])
                    self.assertEqual(state["outside_bytes"], 0)
                self.assertEqual(cache["at_peak"]["used_bytes"], stats["allocated_bytes.all.peak"])

    def test_tensors_have_python_lines(self) -> None:
        for mode, run in self.under.items():
            with self.subTest(mode):
                lines = cuheap_books.python_lines(run.snapshot, cuheap_books.rows(run.snapshot, "events"))
                print(f"{self.script}, {mode}: {lines.with_line} of {lines.allocations} tensors outside backward have a "
                      f"Python line; {lines.backward_with_line} of {lines.backward} in backward")
                self.assertGreater(lines.allocations, 100)
                self.assertGreater(lines.backward, 50)
                self.assertGreaterEqual(lines.with_line, 0.99 * lines.allocations)
                self.assertEqual(lines.without_reason, 0, lines.examples[:3])


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
