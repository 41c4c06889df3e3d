"""Functions of frameworks under the preload library: what PyTorch reports is recorded, and reaches PyTorch unchanged.

usage: frameworks_test.py PROGRAM LIBC10_CUDA LIBC10_CUDA_INSIDE PRELOAD_LIBRARY DRIVER_FOLDER CUHEAP
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest


class Frameworks(unittest.TestCase):
    program: str
    c10_cuda: str
    inside: str
    preload: pathlib.Path
    drivers: str
    cuheap: str

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="cuheap frameworks ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, order: str, library: str, preload: bool = True) -> str:
        environment = {**os.environ, "LD_LIBRARY_PATH": f"{self.drivers}:{self.preload.parent}"}
        if preload:
            first = os.environ.get("CUHEAP_TEST_PRELOAD_FIRST", "")
            environment["LD_PRELOAD"] = (first + " " + self.preload.name).strip()
            journals = self.folder / "journals"
            journals.mkdir(mode=0o700, exist_ok=True)
            environment["CUHEAP_DIR"] = str(journals)
        done = subprocess.run([self.program, order, library], env=environment, capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def snapshot(self) -> dict:
        done = subprocess.run([self.cuheap, "recover", str(self.folder / "journals"), "-o", str(self.folder / "s.json")],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.folder / "s.json").read_text(encoding="utf-8"))

    def check(self, order: str) -> dict:
        """PyTorch gets the same with and without us; returns what was recorded."""
        native = self.run_program(order, self.c10_cuda, preload=False)
        self.assertIn("usage 0x90000 4096 4096 4096 0 -1\n", native)
        self.assertIn("signed usage 0x30000 256 1280 0 1 0\n", native)
        self.assertIn("caught the profiler's own\n", native)
        self.assertEqual(self.run_program(order, self.c10_cuda), native)
        journal, = (self.folder / "journals").iterdir()
        self.assertNotIn(b"does not import", journal.read_bytes())
        return self.snapshot()

    def check_recorded(self, snapshot: dict) -> None:
        words, events, live = snapshot["words"], snapshot["events"], snapshot["live"]
        rows = [(words["event_type"][kind], address, size, device)
                for kind, what, address, size, device in zip(events["type"], events["kind"], events["address"],
                                                             events["bytes"], events["device"])
                if words["allocation_kind"][what] == "tensor"]
        self.assertEqual(rows, [("allocate", 0x10000, 512, 0), ("allocate", 0x10200, 1024, 0), ("free", 0x10000, 512, 0),
                                ("allocate", 0x20000, 2048, 3), ("allocate", 0x30000, 256, 0),
                                ("allocate", 0x40000, 13, 0), ("framework_out_of_memory", 1293, 1 << 30, 0)])
        self.assertEqual(live["address"], [0x10200, 0x20000, 0x30000, 0x40000])
        without = [words["event_type"][kind] for kind, stack in zip(events["type"], events["stack"]) if stack == 0]
        self.assertEqual(without, ["free"], "each has its stack")
        # The totals of the fake are right but for device 0's reserved bytes at the end, which nobody asked the driver for.
        counters = snapshot["counters"]
        self.assertEqual((counters["tensor_allocations"], counters["tensor_frees"]), (5, 1))
        self.assertEqual(counters["tensor_totals_differ"], 0)
        self.assertEqual(counters["framework_out_of_memory"], 1)
        self.assertEqual(counters["reentries"], 0)

    def test_pytorch_loaded_before_the_first_driver_call(self) -> None:
        self.check_recorded(self.check("torch-first"))

    def test_pytorch_loaded_after_it(self) -> None:
        self.check_recorded(self.check("driver-first"))

    def test_a_process_without_a_driver_call_records_nothing(self) -> None:
        native = self.run_program("no-driver", self.c10_cuda, preload=False)
        self.assertEqual(self.run_program("no-driver", self.c10_cuda), native)
        self.assertEqual(os.listdir(self.folder / "journals"), [])

    def test_a_forked_child_reports_to_pytorch_only(self) -> None:
        snapshot = self.check("fork")
        self.assertEqual(snapshot["live"]["address"], [0x10200, 0x20000, 0x30000, 0x40000])

    def test_a_version_that_does_not_import_the_function_is_said(self) -> None:
        native = self.run_program("torch-first", self.inside, preload=False)
        self.assertIn("inside 0x10000 512\n", native)
        self.assertEqual(self.run_program("torch-first", self.inside), native)
        journal, = (self.folder / "journals").iterdir()
        self.assertIn(b"libc10_cuda.so does not import", journal.read_bytes())


if __name__ == "__main__":
    Frameworks.program, Frameworks.c10_cuda, Frameworks.inside = sys.argv[1:4]
    Frameworks.preload, Frameworks.drivers, Frameworks.cuheap = pathlib.Path(sys.argv[4]), sys.argv[5], sys.argv[6]
    unittest.main(argv=sys.argv[:1])
