"""Tests of cuheap_books.py, on a snapshot made by hand."""

import unittest

import cuheap_books

SNAPSHOT = {
    "words": {"event_type": ["none", "allocate", "free"], "allocation_kind": ["none", "device", "tensor"],
              "frame_kind": ["none", "native", "python"]},
    "strings": ["", "train.py", "main", "at::empty", "no interpreter"],
    "frames": {"kind": [0, 1, 2, 2, 1], "function": [0, 3, 2, 2, 3], "file": [0, 0, 1, 0, 0], "line": [0, 0, 7, 7, 0],
               "reason": [0, 0, 0, 0, 4]},
    "stacks": {"frames": [[], [1, 2], [1, 3], [1], [4]]},
    "threads": [{"name": "python"}, {"name": "pt_autograd_0"}],
    #                  segment  a  b  a  c  (c freed by teardown)
    "events": {"type": [1, 1, 1, 2, 1, 2, 1], "kind": [1, 2, 2, 2, 2, 2, 2], "result": [0] * 7,
               "address": [0x1000, 0x1000, 0x1200, 0x1000, 0x1000, 0x1000, 0x1400],
               "bytes": [4096, 512, 1024, 512, 512, 512, 512], "stack": [0, 1, 2, 0, 3, 0, 4],
               "thread": [1, 1, 1, 2, 2, 1, 1]},
}
EVENTS = cuheap_books.rows(SNAPSHOT, "events")


class Books(unittest.TestCase):
    def test_the_state_at_a_moment(self) -> None:
        cache = cuheap_books.replay(EVENTS, "tensor", 3, 1)
        self.assertEqual(cache.live, {0x1000: 512, 0x1200: 1024})
        self.assertEqual((cache.bytes, cache.peak, cache.allocated_bytes), (1536, 1536, 2048))
        self.assertEqual(cuheap_books.replay(EVENTS, "device", 1, 0).live, {0x1000: 4096})

    def test_counts_that_never_were_are_refused(self) -> None:
        for allocations, frees in ((2, 2), (4, 3), (3, 0)):
            with self.assertRaises(ValueError):
                cuheap_books.replay(EVENTS, "tensor", allocations, frees)

    def test_events_that_contradict_each_other_are_refused(self) -> None:
        for order in ((1, 1), (3,)):
            with self.assertRaises(ValueError):
                cuheap_books.replay([EVENTS[index] for index in order], "tensor", 9, 9)

    def test_python_lines(self) -> None:
        lines = cuheap_books.python_lines(SNAPSHOT, EVENTS)
        # Of a, b and the last one only a has a line (b's frame has no file); the last one has a reason.
        self.assertEqual((lines.allocations, lines.with_line, lines.without_reason), (3, 1, 1))
        self.assertEqual(lines.examples, ["at::empty < main"])
        self.assertEqual((lines.backward, lines.backward_with_line), (1, 0))


if __name__ == "__main__":
    unittest.main()
