"""A training script under `cuheap run --pool`, on the simulated CUDA: every tensor is one served allocation, and the books are
those of PyTorch's own cache in a run without us: as many allocations, the same peak of requested bytes.

usage: pool_mode_test.py CUHEAP SIMCUDA_FOLDER CACHE_FOLDER SCRIPT
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import cuheap_books
import script_run
import scripts_test
import torch_python

SERVED, BY_PYTORCH, FREED_WITH_CONTEXT = 1, 2, 16
LOSSES = ("events_overwritten", "events_dropped", "live_dropped", "stacks_failed")


class PoolMode(unittest.TestCase):
    runner: script_run.Runner
    script: str

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="cuheap pytorch ")
        self.addCleanup(folder.cleanup)
        self.runner.folder = pathlib.Path(folder.name)

    def run_pool(self, *script: str, conf: str | None = None) -> tuple[dict, subprocess.CompletedProcess[str]]:
        folder = self.runner.folder
        environment = script_run.environment(None, self.runner.caches, folder / "log")
        if conf is not None:
            environment["PYTORCH_CUDA_ALLOC_CONF"] = conf
        done = subprocess.run(
            [self.runner.cuheap, "run", "--pool", "--simulate", "--simulate-log", str(folder / "log"), "-o",
             str(folder / "pool.json"), "--", self.runner.python, *script],
            env=environment, capture_output=True, text=True, check=False, timeout=script_run.TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads((folder / "pool.json").read_text(encoding="utf-8")), done

    def test_the_books_are_those_of_pytorchs_cache(self) -> None:
        if self.script == "compiled":
            self.runner.warm_up(self.script)
        stats = self.runner.bare(self.script).books["end"]["stats"]
        snapshot, done = self.run_pool(str(script_run.HERE / "scripts" / f"{self.script}.py"))
        self.assertNotIn("did not take", done.stderr)
        self.assertIn("MemPool", done.stderr, "what is unavailable is said up front")
        self.assertEqual([snapshot["completeness"][name] for name in LOSSES], [0] * len(LOSSES))
        tensors = cuheap_books.Cache()
        for event in cuheap_books.rows(snapshot, "events"):
            if event["kind"] == "device" and event["flags"] & BY_PYTORCH:
                self.fail("PyTorch asked for a segment of a cache of its own")
            if event["kind"] != "stream_ordered" or event["result"] != 0 or event["flags"] & FREED_WITH_CONTEXT:
                continue
            if event["type"] == "allocate":
                self.assertEqual(event["flags"] & (SERVED | BY_PYTORCH), SERVED | BY_PYTORCH)
                tensors.allocate(event["address"], event["bytes"])
            elif event["type"] == "free":
                tensors.free(event["address"])
        print(f"{self.script}: {tensors.allocations} allocations, peak {tensors.peak} B requested, "
              f"{snapshot['devices'][0]['reserved_peak_bytes']} B reserved; PyTorch's cache reserved "
              f"{stats['reserved_bytes.all.peak']} B")
        self.assertEqual(tensors.allocations, stats["allocation.all.allocated"])
        self.assertEqual(tensors.peak, stats["requested_bytes.all.peak"])
        log = (self.runner.folder / "log").read_text(encoding="utf-8")
        for call, why in (("cuMemAllocAsync", "an allocation went to the driver"),
                          ("cuStreamWaitEvent", "a stream was made to wait")):
            self.assertFalse([line for line in log.splitlines() if f" {call} " in line], why)

    def test_a_program_that_overrides_it_is_named(self) -> None:
        program = ("import os; os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'max_split_size_mb:64'\n"
                   "import torch; torch.zeros(1000, device='cuda')")
        snapshot, done = self.run_pool("-c", program, conf="expandable_segments:True")
        self.assertIn("left out of PYTORCH_CUDA_ALLOC_CONF", done.stderr)
        self.assertIn("expandable_segments:True", done.stderr)
        self.assertIn("--pool did not take", done.stderr)
        self.assertIn("max_split_size_mb:64", done.stderr)
        note, = (note for note in snapshot["notes"] if note["code"] == "pool_not_taken")
        self.assertIn("max_split_size_mb:64", note["text"])
        report = subprocess.run([self.runner.cuheap, "report", str(self.runner.folder / "pool.json")], capture_output=True,
                                text=True, check=True, timeout=300).stdout
        self.assertIn("pool_not_taken", report)

    def test_the_users_other_options_and_statistics_work(self) -> None:
        program = ("import torch\nx = torch.zeros(3 << 20, dtype=torch.uint8, device='cuda'); del x\n"
                   "torch.cuda.synchronize(); torch.cuda.empty_cache()\n"
                   "y = torch.zeros(1 << 20, dtype=torch.uint8, device='cuda')\n"
                   "print(torch.cuda.get_allocator_backend(), torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())\n"
                   "print(torch.cuda.memory_reserved() >= 1 << 20, torch.cuda.memory_reserved() <= 2 << 20)")
        _, done = self.run_pool("-c", program, conf="per_process_memory_fraction:0.5")
        self.assertEqual(done.stdout, f"cudaMallocAsync {1 << 20} {3 << 20}\nTrue True\n")


if __name__ == "__main__":
    _, cuheap_command, simcuda_folder, cache_folder, PoolMode.script = sys.argv
    interpreter = torch_python.find_or_skip()
    scripts_test.needs_or_skip(interpreter, PoolMode.script)
    PoolMode.runner = script_run.Runner(interpreter, cuheap_command, pathlib.Path(simcuda_folder),
                                        pathlib.Path(cache_folder), pathlib.Path())
    unittest.main(argv=sys.argv[:1])
