"""A small program in the manner of the toolkit's samples: without and with the preload library, in every mode and every
order of the device's work, it prints the same, asks the device for the same and copies the same bytes.

usage: samples_test.py PROGRAM PRELOAD_LIBRARY DRIVER_FOLDER|gpu
"""

import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "pytorch")]
import call_log  # noqa: E402
from twice import GPU, ORDERS, Runs  # noqa: E402

MODES = ("observe", "default", "pool")
# Nothing that depends on the clock: the device works only when it is waited for, or as the seed says.
SETTINGS = {"SIMCUDA_LOG_DATA": "1", "SIMCUDA_PROGRESS_MS": "0", "SIMCUDA_SEED": "7", "SIMCUDA_DEVICES": "2"}


class Sample(Runs):
    def check_copies(self, bare: list[str], ours: list[str]) -> int:
        """All bytes copied between host and device; in which order streams get their turn is the device's affair."""
        theirs = sorted(call_log.copies(bare))
        self.assertEqual(theirs, sorted(call_log.copies(ours)))
        return len(theirs)

    def kept(self, lines: list[str], mode: str, order: str) -> list[str]:
        """Of a log. Our questions make the random order another one, and with it the places of stream-ordered blocks."""
        if mode != "observe":
            return call_log.besides_served(lines)
        return call_log.without_addresses(call_log.calls(lines)) if order == "random" else call_log.calls(lines)

    def test_same_calls_and_bytes(self) -> None:
        for order in ORDERS if self.driver != GPU else ORDERS[:1]:
            native, native_log = self.run_scene([], preload=False, SIMCUDA_ORDER=order, **SETTINGS)
            self.assertGreater(len(native), 1)
            if not native[-1].startswith("skipped"):
                self.assertFalse([line for line in native if line.endswith("WRONG")])
            for mode in MODES:
                with self.subTest(order=order, mode=mode):
                    ours, log = self.run_scene([], preload=True, SIMCUDA_ORDER=order, CUHEAP_MODE=mode, **SETTINGS)
                    self.assertEqual(native, ours)
                    if self.driver == GPU:
                        continue
                    theirs, seen = (call_log.comparable("\n".join(lines)) for lines in (native_log, log))
                    copies = self.check_copies(theirs, seen)
                    theirs, seen = self.kept(theirs, mode, order), self.kept(seen, mode, order)
                    self.assertEqual(call_log.first_difference(theirs, seen), "")
                    self.assertGreater(len(theirs), 12)
                    print(f"{pathlib.Path(self.program).name}, {order}, {mode}: {len(theirs)} calls and {copies} copies "
                          "are the same")


if __name__ == "__main__":
    Sample.program, Sample.preload, Sample.driver = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    if Sample.driver == GPU:  # a real one may be too old for this runtime, or its device lack a feature
        first = subprocess.run([Sample.program], capture_output=True, text=True, check=False, timeout=120, env=os.environ)
        if first.returncode == 77:
            print(first.stdout.splitlines()[-1])
            sys.exit(77)
    unittest.main(argv=sys.argv[:1])
