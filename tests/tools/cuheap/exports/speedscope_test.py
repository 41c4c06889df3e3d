"""Speedscope profiles keep the rules of its published schema and importer, and add up to the report.

usage: speedscope_test.py CUHEAP WRITER
"""
import json
import sys
import unittest

import exported


def check(profile: dict, test: unittest.TestCase):
    """What https://www.speedscope.app/file-format-schema.json asks of a file with sampled profiles, and the importer
    beyond it: indices in range, as many weights as samples, weights that fill the range of values."""
    test.assertEqual(profile["$schema"], "https://www.speedscope.app/file-format-schema.json")
    test.assertLessEqual(set(profile), {"$schema", "profiles", "shared", "activeProfileIndex", "exporter", "name"})
    frames = profile["shared"]["frames"]
    for frame in frames:
        test.assertIsInstance(frame["name"], str)
        test.assertNotEqual(frame["name"], "")
        test.assertIsInstance(frame.get("file", ""), str)
        test.assertGreaterEqual(frame.get("line", 1), 1)
        test.assertLessEqual(set(frame), {"name", "file", "line", "col"})
    test.assertGreater(len(profile["profiles"]), profile["activeProfileIndex"])
    for entry in profile["profiles"]:
        test.assertEqual(set(entry), {"type", "name", "unit", "startValue", "endValue", "samples", "weights"})
        test.assertEqual((entry["type"], entry["unit"]), ("sampled", "bytes"))
        test.assertEqual(len(entry["samples"]), len(entry["weights"]))
        test.assertEqual(sum(entry["weights"]), entry["endValue"] - entry["startValue"])
        for sample in entry["samples"]:
            test.assertTrue(sample)
            test.assertTrue(all(0 <= index < len(frames) for index in sample))


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
        with self.assertRaises(AssertionError):
            check(profile, unittest.TestCase())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
