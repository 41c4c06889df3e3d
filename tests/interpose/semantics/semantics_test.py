"""Every scene of a semantic program: what it prints must be the same without and with the preload library, in all three
orders of the simulated device's work, and in each way in which cuheap serves.

usage: semantics_test.py PROGRAM PRELOAD_LIBRARY DRIVER_FOLDER|gpu
"""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from twice import GPU, ORDERS, Runs  # noqa: E402

WAYS = {"default": {}, "pool mode": {"CUHEAP_MODE": "pool"}, "without packing": {"CUHEAP_PACK": "0"}}


class Semantics(Runs):
    def scenes(self) -> list[tuple[str, list[str]]]:
        # A real driver may lie in no folder that the loader looks into: then the environment says where.
        environment = dict(os.environ)
        if self.driver != GPU:
            environment["LD_LIBRARY_PATH"] = self.driver
        done = subprocess.run([self.program, "--list"], env=environment, capture_output=True, text=True, check=True,
                              timeout=60)
        return [(words[0], words[1:]) for words in map(str.split, done.stdout.splitlines())]

    def check(self, scene: str, settings: dict[str, str]) -> None:
        for order in ORDERS if self.driver != GPU else ORDERS[:1]:
            environment = {"SIMCUDA_ORDER": order, "SIMCUDA_SEED": "7", **settings}
            native, _ = self.run_scene([scene], preload=False, **environment)
            self.assertTrue(native, "the scene shows nothing")
            self.assertEqual([line for line in native if line.startswith("UNEXPECTED")], [], "without cuheap")
            for way, options in WAYS.items():
                with self.subTest(scene=scene, order=order, way=way):
                    ours, _ = self.run_scene([scene], preload=True, **environment, **options)
                    self.assertEqual(native, ours)

    def test_scenes_print_the_same(self) -> None:
        scenes = self.scenes()
        self.assertTrue(scenes)
        ran = 0
        for scene, words in scenes:
            if "simulated" in words and self.driver == GPU:
                continue
            with self.subTest(scene=scene):
                self.check(scene, dict(word.split("=", 1) for word in words if "=" in word))
            ran += 1
        if ran == 0:
            self.skipTest("all of its scenes need the simulated driver")


if __name__ == "__main__":
    Semantics.program, Semantics.preload, Semantics.driver = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    unittest.main(argv=sys.argv[:1])
