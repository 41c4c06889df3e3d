"""Speedscope profiles keep the rules of its published schema and importer, and add up to the report.

usage: speedscope_test.py CUHEAP WRITER
"""
import json
import sys
import unittest

import exported
import rules


def check(profile: dict, test: unittest.TestCase):
    """The rules of all speedscope files, and of ours: samples of bytes."""
    rules.speedscope(profile)
    test.assertNotIn("version", profile)
    for entry in profile["profiles"]:
        test.assertEqual((entry["type"], entry["unit"]), ("sampled", "bytes"))


class SpeedscopeTest(exported.StackExportTest):
    def held(self, snapshot, moment):
        profile = json.loads(exported.export(snapshot, "speedscope", "--at", moment))
        check(profile, self)
        names = [frame["name"] for frame in profile["shared"]["frames"]]
        places = {}
        for entry in profile["profiles"]:
            stacks = places.setdefault(entry["name"].split(",")[0], {})
            for sample, weight in zip(entry["samples"], entry["weights"]):
                stack = tuple(names[index] for index in sample)
                stacks[stack] = stacks.get(stack, 0) + weight
        if snapshot.stem == "empty":
            self.assertEqual(sum(sum(stacks.values()) for stacks in places.values()), 0)
            return {}
        return places

    def test_totals_are_those_of_the_report(self):
        self.check_totals()

    def test_leaks_are_those_of_the_report(self):
        self.check_leaks()

    def test_same_bytes_twice(self):
        self.check_same_bytes_twice("speedscope")

    def test_names_stay(self):
        profile = json.loads(exported.export(exported.programs()["leaky"], "speedscope"))
        frames = {frame["name"]: frame for frame in profile["shared"]["frames"]}
        self.assertEqual(frames[exported.HOSTILE]["file"], "/src/train; now.cc")
        self.assertEqual(frames["Load"], {"name": "Load", "file": "C:\\src\\load.cc", "line": 9})

    def test_the_check_can_fail(self):
        profile = json.loads(exported.export(exported.programs()["leaky"], "speedscope"))
        profile["profiles"][0]["weights"][0] += 1
        with self.assertRaises(ValueError):
            check(profile, unittest.TestCase())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
