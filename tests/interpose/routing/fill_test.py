"""CUHEAP_FILL: every block that the pool hands out holds one byte, whatever lay there before; and SIMCUDA_FILL, the same
of the simulated driver.

usage: fill_test.py PROGRAM PRELOAD_LIBRARY DRIVER_FOLDER
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from twice import GPU, ORDERS, Runs  # noqa: E402

FILL = "cuMemsetD8Async_ptsz"


class Fill(Runs):
    def filled(self, scene: str, byte: int, **more: str) -> list[str]:
        """Under cuheap, in all orders: each block holds the byte. The driver's log of the last run."""
        calls: list[str] = []
        for order in ORDERS if self.driver != GPU else ORDERS[:1]:
            with self.subTest(order, scene=scene, byte=byte):
                printed, calls = self.run_scene([scene], preload=True, CUHEAP_FILL=str(byte), SIMCUDA_ORDER=order,
                                                SIMCUDA_SEED="7", **more)
                self.assertGreater(len(printed), 20)
                self.assertEqual(set(printed), {f"{scene}: {byte:02x}"})
        return calls

    def test_each_block_is_filled_once(self) -> None:
        for scene, blocks in (("synchronous", 24), ("stream-ordered", 96)):
            for byte in (0, 0xa5):
                calls = self.filled(scene, byte)
                if self.driver != GPU:
                    self.assertEqual(sum(f" {FILL} " in call for call in calls), blocks)
        self.filled("synchronous", 255, CUHEAP_PACK="0")

    def test_it_is_off_by_default_and_in_observe_mode(self) -> None:
        for more in ({}, {"CUHEAP_FILL": "off"}, {"CUHEAP_FILL": "1", "CUHEAP_MODE": "observe"}):
            for scene in ("synchronous", "stream-ordered"):
                printed, calls = self.run_scene([scene], preload=True, **more)
                self.assertNotEqual(set(printed), {f"{scene}: 01"})
                self.assertFalse([call for call in calls if f" {FILL} " in call])

    def test_a_late_fill_harms_no_later_owner(self) -> None:
        for order in ORDERS if self.driver != GPU else ORDERS[:1]:
            with self.subTest(order):
                printed, _ = self.run_scene(["freed-unseen"], preload=True, CUHEAP_FILL="0xff", SIMCUDA_ORDER=order,
                                            SIMCUDA_PROGRESS_MS="0")
                self.assertEqual(printed, ["written: 44"] * 2)

    def test_a_fill_that_fails_leaves_the_allocation(self) -> None:
        if self.driver == GPU:
            self.skipTest("errors are injected by the simulated driver")
        for scene in ("synchronous", "stream-ordered"):
            printed, _ = self.run_scene([scene], preload=True, CUHEAP_FILL="0xa5", SIMCUDA_FAULT=f"{FILL}:1:1")
            self.assertEqual(printed[0], f"{scene}: 00")
            self.assertEqual(set(printed[1:]), {f"{scene}: a5"})

    def test_the_simulated_driver_fills_as_the_pool_does(self) -> None:
        if self.driver == GPU:
            self.skipTest("about the simulated driver")
        for scene in ("synchronous", "stream-ordered", "freed-unseen", "others"):
            for byte in ("0", "0xa5"):
                with self.subTest(scene, byte=byte):
                    printed = self.compare_in_all_orders(scene, CUHEAP_FILL=byte, SIMCUDA_FILL=byte)
                    expected = "44" if scene == "freed-unseen" else f"{int(byte, 0):02x}"
                    self.assertEqual({line.split(": ")[1] for line in printed}, {expected})


if __name__ == "__main__":
    Fill.program, Fill.preload, Fill.driver = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    unittest.main(argv=sys.argv[:1])
