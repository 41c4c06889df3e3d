"""Stream-ordered allocation with and without the preload library: what a program sees, and what the driver was asked.

usage: stream_test.py PROGRAM PRELOAD_LIBRARY DRIVER_FOLDER|gpu
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from twice import GPU, ORDERS, Runs  # noqa: E402


class Streams(Runs):
    def asked(self, calls: list[str], function: str) -> int:
        return sum(f" {function} " in call for call in calls)

    def compare_served(self, *scene: str, **more: str) -> None:
        if self.driver == GPU:
            self.compare(*scene)
            return
        for order in ORDERS:
            with self.subTest(order):
                _, calls = self.compare(*scene, SIMCUDA_ORDER=order, SIMCUDA_SEED="7", **more)
                self.assertEqual(self.asked(calls, "cuMemFreeAsync"), 0, "not served from the pool")

    def needs_the_simulated_driver(self) -> None:
        if self.driver == GPU:
            self.skipTest("looks into the simulated driver, or steers it")

    def test_attributes_of_pools(self) -> None:
        self.compare_served("attributes")

    def test_what_pointers_say_of_themselves(self) -> None:
        self.compare("pointers")

    def test_errors(self) -> None:
        printed, _ = self.compare("bad-calls")
        self.assertIn("double 1", printed)

    def test_memory_is_not_given_to_another_stream_while_it_is_used(self) -> None:
        self.compare_served("reuse")

    def test_without_the_stream_rule_it_would_be(self) -> None:
        self.needs_the_simulated_driver()
        native, _ = self.run_scene(["reuse"], preload=False, SIMCUDA_ORDER="late", SIMCUDA_PROGRESS_MS="0")
        broken, _ = self.run_scene(["reuse"], preload=True, SIMCUDA_ORDER="late", SIMCUDA_PROGRESS_MS="0",
                                   CUHEAP_TEST_NO_STREAM_RULE="1")
        self.assertNotEqual(native, broken)

    def test_streams_that_are_destroyed(self) -> None:
        self.compare_served("destroyed-stream")

    def test_pools_of_the_program(self) -> None:
        self.compare_served("pools")

    def test_out_of_memory_and_again(self) -> None:
        self.needs_the_simulated_driver()
        for order in ORDERS:
            with self.subTest(order):
                self.compare("out-of-memory", SIMCUDA_MEMORY="64MiB", SIMCUDA_ORDER=order)

    def test_default_streams(self) -> None:
        self.compare_served("default-streams")

    def test_two_devices(self) -> None:
        self.needs_the_simulated_driver()
        self.compare("two-devices", SIMCUDA_DEVICES="2")

    def test_forked_children(self) -> None:
        printed, _ = self.compare("fork")
        self.assertIn("child status 5", printed)

    def test_calls_after_exit_handlers(self) -> None:
        self.compare("at-exit")

    def test_fatal_errors(self) -> None:
        self.needs_the_simulated_driver()
        self.compare("fatal")

    def test_many_threads(self) -> None:
        self.compare_served("threads", ASAN_OPTIONS="detect_leaks=0")

    def test_nothing_is_recorded_in_streams_and_nothing_waits_without_need(self) -> None:
        self.needs_the_simulated_driver()
        _, calls = self.compare("threads", ASAN_OPTIONS="detect_leaks=0")
        self.assertEqual(self.asked(calls, "cuStreamWaitEvent"), 0)
        self.assertLessEqual(self.asked(calls, "cuCtxSynchronize"), 1, "only the program's own")

    def test_the_option_leaves_it_to_the_driver(self) -> None:
        self.needs_the_simulated_driver()
        for more in ({"CUHEAP_STREAM_POOL": "0"}, {"CUHEAP_MODE": "observe"}):
            with self.subTest(more):
                native, theirs = self.run_scene(["reuse"], preload=False)
                ours, calls = self.run_scene(["reuse"], preload=True, **more)
                self.assertEqual(native, ours)
                for function in ("cuMemAllocAsync", "cuMemFreeAsync"):
                    self.assertEqual(self.asked(calls, function), self.asked(theirs, function))
                self.assertEqual(self.asked(calls, "cuMemCreate"), 0)


if __name__ == "__main__":
    Streams.program, Streams.preload, Streams.driver = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    unittest.main(argv=sys.argv[:1])
