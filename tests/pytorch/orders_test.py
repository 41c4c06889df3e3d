"""The training scripts in the orders in which scripts_test.py does not run them: the device's work at random times, by seed, and
as early as can be. Without and with cuheap the device is asked for the same and the same bytes are copied, in every mode.

usage: orders_test.py CUHEAP SIMCUDA_FOLDER CACHE_FOLDER SCRIPT...
"""

import concurrent.futures
import pathlib
import sys
import tempfile
import unittest

import call_log
import script_run
import scripts_test
import torch_python

ORDERS = {"random": {"SIMCUDA_ORDER": "random", "SIMCUDA_SEED": "7"}, "eager": {"SIMCUDA_ORDER": "eager"}}
WITHOUT_CACHE = {"SIMCUDA_FILL": "0", "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}


class Orders(unittest.TestCase):
    maxDiff = None
    runner: script_run.Runner
    scripts: list[str]

    def check(self, script: str, order: str, mode: str, bare: script_run.Run, ours: script_run.Run) -> None:
        with self.subTest(script, order=order, mode=mode):
            theirs, seen = bare.calls, ours.calls
            if mode == "pool":
                theirs, seen = call_log.besides_memory(theirs), call_log.besides_memory(seen)
            # Which of two streams copies first is the device's affair, and chance as soon as we ask it something.
            copies = sorted(call_log.copies(theirs))
            self.assertEqual(copies, sorted(call_log.copies(seen)))
            theirs, seen = call_log.calls(theirs), call_log.calls(seen)
            if order == "random":
                theirs, seen = call_log.besides_chance(theirs), call_log.besides_chance(seen)
            self.assertEqual(call_log.first_difference(theirs, seen), "")
            self.assertEqual(bare.stdout, ours.stdout)
            print(f"{script}, {order}, {mode}: {len(theirs)} calls and {len(copies)} copies are the same", flush=True)

    def test_same_calls_and_bytes(self) -> None:
        for script in self.scripts:
            with tempfile.TemporaryDirectory(prefix="cuheap pytorch ") as folder:
                self.runner.folder = pathlib.Path(folder)
                if script == "compiled":
                    self.runner.warm_up(script)
                for order, settings in ORDERS.items():
                    with concurrent.futures.ThreadPoolExecutor(2) as pool:
                        bare = pool.submit(self.runner.bare, script, **settings)
                        without_cache = pool.submit(self.runner.bare, script, **settings, **WITHOUT_CACHE)
                        ours = {mode: pool.submit(self.runner.under_cuheap, script, *options, **settings)
                                for mode, options in (scripts_test.MODES | {"pool": ("--pool", "--fill=0")}).items()}
                    for mode, run in ours.items():
                        self.check(script, order, mode, (without_cache if mode == "pool" else bare).result(), run.result())


if __name__ == "__main__":
    _, cuheap_command, simcuda_folder, cache_folder, *Orders.scripts = sys.argv
    interpreter = torch_python.find_or_skip()
    for name in Orders.scripts:
        scripts_test.needs_or_skip(interpreter, name)
    Orders.runner = script_run.Runner(interpreter, cuheap_command, pathlib.Path(simcuda_folder),
                                      pathlib.Path(cache_folder), pathlib.Path())
    unittest.main(argv=sys.argv[:1])
