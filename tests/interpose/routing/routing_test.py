"""The same program with and without the preload library: what it sees, and what the simulated driver was asked.

usage: routing_test.py PROGRAM PRELOAD_LIBRARY DRIVER_FOLDER
"""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from twice import ORDERS, Runs  # noqa: E402

# Calls that the library makes for its own sake: they change nothing that a program could see.
OWN_QUERIES = {"cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetName", "cuDeviceTotalMem_v2", "cuDeviceGetAttribute",
               "cuDeviceGetUuid_v2", "cuMemGetInfo_v2", "cuDevicePrimaryCtxGetState"}


class Routing(Runs):
    def test_results_sizes_and_bytes(self) -> None:
        for order in ORDERS:
            with self.subTest(order):
                printed, _ = self.compare("basics", SIMCUDA_ORDER=order)
                self.assertIn("double free 1", printed)

    def test_without_packing(self) -> None:
        self.compare("basics", CUHEAP_PACK="0")

    def test_contexts_that_are_missing_or_gone(self) -> None:
        self.compare("contexts")

    def test_our_cache_causes_no_out_of_memory(self) -> None:
        printed, _ = self.compare("rescue", SIMCUDA_MEMORY="64MiB")
        self.assertIn("stream-ordered 0", printed)
        printed, calls = self.compare("rescue", SIMCUDA_MEMORY="64MiB", CUHEAP_STREAM_POOL="0")
        self.assertIn("stream-ordered 0", printed)
        for function in ("cuMemAllocPitch_v2", "cuMemAllocAsync"):
            asked = [call.rsplit(" ", 1)[1] for call in calls if f" {function} " in call]
            self.assertEqual(asked, ["2", "0"], f"{function}: refused, then served")

    def test_host_memory_is_complete_after_a_free(self) -> None:
        for order in ORDERS:
            with self.subTest(order):
                printed, _ = self.compare("barrier", SIMCUDA_ORDER=order)
                self.assertIn("word abcd", printed)

    def test_without_the_barrier_it_would_not_be(self) -> None:
        printed, _ = self.run_scene(["barrier"], preload=True, SIMCUDA_ORDER="late", SIMCUDA_PROGRESS_MS="0",
                                    CUHEAP_FREE_BARRIER="never")
        self.assertNotIn("word abcd", printed)

    def test_a_freed_block_is_not_reused_while_work_may_use_it(self) -> None:
        for order in ORDERS:
            with self.subTest(order):
                printed, _ = self.compare("use-after-free", SIMCUDA_ORDER=order)
                self.assertIn("result 11 second 22", printed)

    def test_without_quarantine_it_would_be(self) -> None:
        printed, _ = self.run_scene(["use-after-free"], preload=True, SIMCUDA_ORDER="late", SIMCUDA_PROGRESS_MS="0",
                                    CUHEAP_TEST_NO_QUARANTINE="1", CUHEAP_FREE_BARRIER="never")
        self.assertNotIn("result 11 second 22", printed)

    def test_fatal_errors(self) -> None:
        printed, _ = self.compare("fatal")
        self.assertIn("allocation 700", printed)

    def test_injected_errors_come_through(self) -> None:
        self.compare("injected", "cuMemAlloc_v2", "999")
        self.compare("injected", "cuMemAllocManaged", "201")

    def test_forked_children(self) -> None:
        printed, _ = self.compare("fork")
        self.assertIn("child status 5", printed)

    def test_calls_after_exit_handlers(self) -> None:
        self.compare("at-exit")

    def test_many_threads(self) -> None:
        for order in ORDERS:
            with self.subTest(order):
                # The simulated driver keeps what belongs to threads that have ended.
                printed, _ = self.compare("threads", SIMCUDA_ORDER=order, SIMCUDA_SEED="7", ASAN_OPTIONS="detect_leaks=0")
                self.assertIn("failures 0", printed)

    def test_observe_mode_asks_the_driver_call_for_call(self) -> None:
        def seen(calls: list[str]) -> list[str]:
            """Calls and arguments; addresses by the order of their allocation, those of the program's variables as *."""
            allocated: dict[str, str] = {}

            def name(word: str) -> str:
                key, equals, value = word.partition("=")
                if key.startswith("*dptr"):
                    allocated[value] = f"block{len(allocated)}"
                if value in allocated:
                    return f"{key}={allocated[value]}"
                return f"{key}=*" if equals and re.fullmatch(r"0x[57][0-9a-f]{9,}", value) else word

            lines = []
            for call in calls:
                words = call.split(" ")
                if words[0].isdigit() and words[2] not in OWN_QUERIES:
                    lines.append(" ".join(words[2:3] + [name(word) for word in words[3:]]))
                elif call.startswith("# held"):
                    lines.append(" ".join(sorted(name(word) for word in words)))
            return lines

        for scene in ("basics", "contexts", "barrier", "fatal", "fork", "at-exit"):
            with self.subTest(scene):
                _, native = self.run_scene([scene], preload=False)
                _, ours = self.run_scene([scene], preload=True, CUHEAP_MODE="observe")
                self.assertEqual(seen(native), seen(ours))
                self.assertGreater(len(seen(ours)), 5)


if __name__ == "__main__":
    Routing.program, Routing.preload, Routing.driver = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    unittest.main(argv=sys.argv[:1])
