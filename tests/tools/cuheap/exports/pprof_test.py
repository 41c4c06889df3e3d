"""Profiles for pprof are read by Google's protobuf library and keep the rules of profile.proto's comments.

usage: pprof_test.py CUHEAP WRITER
"""
import sys
import unittest

import exported

try:
    import pprof_rules
except ImportError:
    print("the Python package protobuf is not there (tools/deps puts it into the private environment)")
    sys.exit(77)


def check_ours(profile, test: unittest.TestCase):
    """What our files keep beyond the rules of all: every string once, lines everywhere, addresses within their mappings."""
    test.assertEqual(len(set(profile.string_table)), len(profile.string_table))
    mappings = {entry.id: entry for entry in profile.mapping}
    for location in profile.location:
        test.assertTrue(location.line)
        if location.mapping_id != 0:
            mapping = mappings[location.mapping_id]
            test.assertTrue(mapping.memory_start <= location.address < mapping.memory_limit)
    for sample in profile.sample:
        test.assertTrue(sample.location_id)
        keys = [label.key for label in sample.label]
        test.assertEqual(len(set(keys)), len(keys))  # one value for each label


class PprofTest(exported.StackExportTest):
    def profile(self, snapshot, *options):
        profile = pprof_rules.read(exported.export(snapshot, "pprof", *options))
        check_ours(profile, self)
        return profile

    def labels(self, profile, sample):
        return {profile.string_table[label.key]: profile.string_table[label.str] for label in sample.label}

    def held(self, snapshot, moment):
        profile = self.profile(snapshot, "--at", moment)
        names = {entry.id: profile.string_table[entry.name] for entry in profile.function}
        stacks_of = {entry.id: [names[line.function_id] for line in entry.line] for entry in profile.location}
        places = {}
        for sample in profile.sample:
            device = self.labels(profile, sample)["device"]
            place = "host memory" if device == "host" else "GPU of unknown number" if device == "65535" else "GPU " + device
            # Innermost first, inlined ones too.
            stack = tuple(reversed([name for location in sample.location_id for name in stacks_of[location]]))
            stacks = places.setdefault(place, {})
            stacks[stack] = stacks.get(stack, 0) + sample.value[3]
        return places

    def test_totals_are_those_of_the_report(self):
        self.check_totals()

    def test_leaks_are_those_of_the_report(self):
        self.check_leaks()

    def test_same_bytes_twice(self):
        self.check_same_bytes_twice("pprof")

    def test_what_was_allocated_is_that_of_the_report(self):
        for snapshot in self.each_snapshot():
            profile = self.profile(snapshot)
            told = [sum(sample.value[i] for sample in profile.sample) for i in (0, 1)]
            entries = [entry for kind in ("device", "tensors", "host") for entry in exported.totals(snapshot, kind).values()]
            if snapshot in exported.PICKLES:  # the cache's segments are not told beside the tensors in them
                entries = list(exported.totals(snapshot, "tensors").values())
            elif snapshot.stem == "distinct":  # its numbers have nothing to do with each other
                continue
            self.assertEqual(told, [sum(entry[name] for entry in entries) for name in ("allocations", "allocated_bytes")])

    def test_sample_types_and_labels(self):
        profile = self.profile(exported.programs()["leaky"])
        text = profile.string_table
        self.assertEqual([(text[entry.type], text[entry.unit]) for entry in profile.sample_type],
                         [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
                          ("inuse_space", "bytes")])
        self.assertEqual(text[profile.default_sample_type], "inuse_space")
        kinds = {self.labels(profile, sample).get("kind") for sample in profile.sample}
        self.assertLessEqual({"device", "host_pinned"}, kinds)
        self.assertIn(exported.HOSTILE, text)
        self.assertIn("C:\\src\\load.cc", text)

    def test_the_check_can_fail(self):
        profile = self.profile(exported.programs()["leaky"])
        profile.sample[0].value.pop()
        with self.assertRaises(ValueError):
            pprof_rules.check(profile)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
