"""Memory of every kind, from the call to the report: in the live set of the snapshot and in the report by its kind and size.

usage: kinds_test.py CUHEAP PROGRAM
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CUHEAP, PROGRAM = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
MIB = 1 << 20
EXPECTED = {
    "device": 3 * MIB,
    "pitched": 512 * 100,
    "managed": 5 * MIB,
    "stream_ordered": 6 * MIB,
    "from_pool": 7 * MIB,
    "array": 100 * 50 * 8,
    "mipmapped_array": (100 * 50 + 50 * 25) * 8,
    "host_pinned": 9 * MIB,
    "host_registered": MIB,
    "virtual": 4 * MIB,
    "multicast": 8 * MIB,
}
# What its rows are called in the report's text.
PHRASES = ("device memory", "pitched device memory", "managed memory", "stream-ordered memory", "memory of explicit pools",
           "arrays", "mipmapped arrays", "pinned host memory", "registered host memory", "physical memory (cuMemCreate)",
           "multicast objects")


class Kinds(unittest.TestCase):
    def cuheap(self, folder: str, *words: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CUHEAP_", "SIMCUDA_", "LD_"))}
        done = subprocess.run([CUHEAP, *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False,
                              env={**kept, "LC_ALL": "C.UTF-8"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def check(self, *options: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "journals").mkdir()
            self.cuheap(folder, "run", "--simulate", "--journal-dir", "journals", *options, "-o", "kinds.json", "--", PROGRAM)
            snapshot = json.loads(pathlib.Path(folder, "kinds.json").read_text())
            words = snapshot["words"]["allocation_kind"]
            live = dict(zip((words[kind] for kind in snapshot["live"]["kind"]), snapshot["live"]["bytes"]))
            self.assertEqual(live, EXPECTED)
            self.assertEqual(len(snapshot["live"]["kind"]), len(EXPECTED))
            device = snapshot["devices"][0]
            others = sum(EXPECTED[kind] for kind in ("host_pinned", "host_registered", "multicast"))
            self.assertEqual(device["live_bytes"], sum(EXPECTED.values()) - others)
            report = json.loads(self.cuheap(folder, "report", "--json", "kinds.json").stdout)
            self.assertEqual({use["kind"]: use["live_bytes"] for use in report["kinds"]}, EXPECTED)
            text = self.cuheap(folder, "report", "kinds.json").stdout
            section = text[text.index("KINDS"):]
            for phrase in PHRASES:
                self.assertIn("  " + phrase + "\n", section)

    def test_each_kind_is_in_snapshot_and_report(self) -> None:
        self.check()

    def test_also_when_nothing_is_served(self) -> None:
        self.check("--observe")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
