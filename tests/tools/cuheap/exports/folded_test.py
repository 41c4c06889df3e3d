"""Folded stacks add up to the report, and are read as flamegraph.pl reads them.

usage: folded_test.py CUHEAP WRITER
"""
import collections
import re
import sys
import unittest

import exported


def read(text: bytes) -> dict[str, dict[tuple[str, ...], int]]:
    places = collections.defaultdict(dict)
    for line in text.decode("utf-8").split("\n")[:-1]:
        # flamegraph.pl: the number behind the last space, frames parted by ';'.
        stack, size = re.fullmatch(r"(.*)\s+?(\d+(?:\.\d*)?)", line).groups()
        place, *frames = stack.split(";")
        assert tuple(frames) not in places[place], line
        places[place][tuple(frames)] = int(size)
    return places


class FoldedTest(exported.StackExportTest):
    def held(self, snapshot, moment):
        return read(exported.export(snapshot, "folded", "--at", moment))

    def test_totals_are_those_of_the_report(self):
        self.check_totals()

    def test_leaks_are_those_of_the_report(self):
        self.check_leaks()

    def test_same_bytes_twice(self):
        self.check_same_bytes_twice("folded")

    def test_names_cannot_break_lines_or_stacks(self):
        stacks = self.held(exported.programs()["leaky"], "peak")["GPU 0"]
        named = [frame for stack in stacks for frame in stack if frame.startswith("Step<")]
        self.assertEqual(named, ["Step<a,b>\\ \"q\"??[31m?,? (train, now.cc:57)"])
        for stack in stacks:
            if stack[0] != exported.LOST:
                self.assertEqual((stack[0], stack[-1]), ("main (train.cc:200)", "cudaMalloc"))

    def test_moments(self):
        # The first allocation is at 1 ms, the pinned one at 2 ms.
        leaky = exported.programs()["leaky"]
        for moment in ("1ms", "1000us", "0.001", "1999999ns"):
            self.assertEqual({place: sum(stacks.values()) for place, stacks in self.held(leaky, moment).items()},
                             {"GPU 0": 1 << 20}, moment)
        self.assertEqual(self.held(leaky, "0"), {})
        self.assertEqual(sum(self.held(leaky, "2ms")["host memory"].values()), 300_000)

    def test_what_the_record_lost_is_told(self):
        stacks = self.held(exported.programs()["cut"], "peak")["GPU 0"]
        self.assertEqual(stacks[(exported.LOST,)], 700)
        self.assertEqual(sum(stacks.values()), 8700)

    def test_what_the_file_cannot_tell_is_said(self):
        for name, moment, said in (("cut", "peak", b"of 700 bytes held at the peak the stacks are lost"),
                                   ("cut", "1ms", b"the oldest event that was kept is 0.003 s after the start"),
                                   ("cut", "leaked", b"finds no leaks"), ("empty", "end", b"nothing was held at the end"),
                                   ("leaky", "peak", b"")):
            done = exported.run("export", exported.programs()[name], "--format", "folded", "-o", "-", "--at", moment)
            self.assertEqual(done.returncode, 0)
            self.assertIn(said, done.stderr) if said else self.assertEqual(done.stderr, b"")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
