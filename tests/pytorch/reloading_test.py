"""reloading.py on the simulated CUDA: the old model is held until the new one is there, and the report says by how much the
peak would be lower. It is, by just that, when the script is changed as the report advises.

usage: reloading_test.py CUHEAP
"""

import functools
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch_python

SOURCE = pathlib.Path(__file__).resolve().parent / "reloading.py"
MODEL = 8 * (1024 * 1024 + 1024) * 4


class Reloading(unittest.TestCase):
    python: str
    cuheap: str

    @functools.cache
    def report(self, order: str) -> dict:
        with tempfile.TemporaryDirectory(prefix="cuheap reloading ") as folder:
            snapshot = str(pathlib.Path(folder) / "run.json")
            done = subprocess.run([self.cuheap, "run", "--simulate", "-o", snapshot, "--", self.python, str(SOURCE), order],
                                  capture_output=True, text=True, check=False, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)
            told = subprocess.run([self.cuheap, "report", "--json", snapshot], capture_output=True, text=True, check=True)
        return json.loads(told.stdout)

    def test_both_models_are_there_for_a_moment(self) -> None:
        report = self.report("last")
        self.assertEqual((report["verdict"], report["leaks"]), ("no_leaks", []))
        tensors, = report["tensors"]
        self.assertEqual(tensors["peak"]["bytes"], 2 * MODEL)
        replaced, = report["replaced"]
        self.assertEqual(replaced["scope"], {"kind": "tensors", "device": 0})
        line, = replaced["lines"]
        self.assertEqual((pathlib.Path(line["line"]["file"]).name, line["line"]["function"]), ("reloading.py", "load"))
        self.assertEqual((line["times"], line["old_blocks"], line["old_bytes"]), (4, 16, MODEL))

    def test_the_advice_saves_what_it_says(self) -> None:
        before, after = (self.report(order)["tensors"][0]["peak"]["bytes"] for order in ("last", "first"))
        self.assertEqual(before - after, self.report("last")["replaced"][0]["saving_bytes"])
        self.assertGreater(before - after, 0.9 * MODEL)
        self.assertEqual(self.report("first")["replaced"], [])


if __name__ == "__main__":
    Reloading.python = torch_python.find_or_skip()
    Reloading.cuheap = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
