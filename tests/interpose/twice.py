"""A program, run without and with the preload library: what it prints must be the same.

The programs print what they see (results, bytes, sizes, error codes), one line each, and name no address. On the
simulated driver the log of its calls is at hand too.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

ORDERS = ("late", "random", "eager")
GPU = "gpu"  # in place of the driver's folder: whatever driver the machine has


class Runs(unittest.TestCase):
    """Base of tests; whoever starts them sets the three class variables."""

    program: str
    preload: pathlib.Path
    driver: str  # folder of the simulated libcuda.so.1, or GPU

    def run_scene(self, arguments: list[str], preload: bool, **more: str) -> tuple[list[str], list[str]]:
        """Lines the program printed, and the simulated driver's log (empty on a real one)."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "log")
            folders = [str(self.preload.parent)] if self.driver == GPU else [self.driver, str(self.preload.parent)]
            if self.driver == GPU and os.environ.get("LD_LIBRARY_PATH"):  # where the machine's driver may lie
                folders.append(os.environ["LD_LIBRARY_PATH"])
            environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(folders), "SIMCUDA_LOG": str(log), **more}
            if preload:
                # The file's bare name: LD_PRELOAD can hold neither spaces nor colons. A sanitizer's runtime comes first.
                first = os.environ.get("CUHEAP_TEST_PRELOAD_FIRST", "")
                environment["LD_PRELOAD"] = (first + " " + self.preload.name).strip()
                environment["CUHEAP_DIR"] = folder
            done = subprocess.run([self.program, *arguments], env=environment, capture_output=True, text=True,
                                  check=False, timeout=120)
            self.assertEqual(done.stderr, "")
            self.assertEqual(done.returncode, 0, done.stdout)
            calls = log.read_text().splitlines() if log.exists() else []
        return done.stdout.splitlines(), calls

    def compare(self, *scene: str, **more: str) -> tuple[list[str], list[str]]:
        """Native and ours print the same; returns what was printed and the driver's log of ours."""
        native, _ = self.run_scene(list(scene), preload=False, **more)
        ours, calls = self.run_scene(list(scene), preload=True, **more)
        self.assertEqual(native, ours)
        return ours, calls

    def compare_in_all_orders(self, *scene: str, **more: str) -> list[str]:
        """The same in every order of the simulated device's work (once on a real one); returns what was printed."""
        printed: list[str] = []
        for order in ORDERS if self.driver != GPU else ORDERS[:1]:
            with self.subTest(order):
                printed, _ = self.compare(*scene, SIMCUDA_ORDER=order, SIMCUDA_SEED="7", **more)
        return printed
