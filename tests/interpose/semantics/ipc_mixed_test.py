"""Sharing between a process with the preload library and one without: the same as without it, but for packed blocks,
which only a process with the library can open. Never wrong bytes.

usage: ipc_mixed_test.py PROGRAM PRELOAD_LIBRARY DRIVER_FOLDER|gpu
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from semantics_test import Semantics  # noqa: E402


class Mixed(Semantics):
    def run_two(self, scene: str, first: bool, second: bool, **settings: str) -> list[str]:
        printed, _ = self.run_scene([scene], preload=first, **settings,
                                    SEMANTICS_SECOND_PRELOAD=self.preload.name if second else "")
        return printed

    def test_scenes_print_the_same(self) -> None:
        compared = 0
        for scene, words in self.scenes():
            settings = dict(word.split("=", 1) for word in words if "=" in word)
            native = self.run_two(scene, False, False, **settings)
            self.assertEqual([line for line in native if line.startswith("UNEXPECTED")], [])
            for first, second in ((True, False), (False, True)):
                # The exporter of the scenes is the first process, but where the second one ends early.
                exporter, importer = (second, first) if scene.startswith("exporter_ends") else (first, second)
                if "packed" in words and exporter and not importer:
                    continue
                with self.subTest(scene=scene, first=first, second=second):
                    self.assertEqual(native, self.run_two(scene, first, second, **settings))
                    compared += 1
        self.assertGreater(compared, 15)

    def test_a_packed_block_is_refused_to_a_process_without_the_library(self) -> None:
        for first, second, answer in ((False, False, "done"), (True, True, "done"), (False, True, "done"),
                                      (True, False, "refused")):
            with self.subTest(first=first, second=second):
                printed = self.run_two("open_small", first, second)
                self.assertIn(f"open: {answer}", printed)
                self.assertEqual([line for line in printed if line.startswith("UNEXPECTED")], [])


if __name__ == "__main__":
    Mixed.program, Mixed.preload, Mixed.driver = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    unittest.main(argv=sys.argv[:1], defaultTest="Mixed")
