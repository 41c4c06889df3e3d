"""Profiles for pprof are read by Google's protobuf library and keep the rules of profile.proto's comments.

usage: pprof_test.py CUHEAP WRITER
"""
import gzip
import sys
import unittest

import exported

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:
    print("the Python package protobuf is not there (tools/deps puts it into the private environment)")
    sys.exit(77)

# github.com/google/pprof, proto/profile.proto: message, then name, number, type (a message's name; * is repeated).
MESSAGES = {
    "Profile": [("sample_type", 1, "*ValueType"), ("sample", 2, "*Sample"), ("mapping", 3, "*Mapping"),
                ("location", 4, "*Location"), ("function", 5, "*Function"), ("string_table", 6, "*string"),
                ("drop_frames", 7, "int64"), ("keep_frames", 8, "int64"), ("time_nanos", 9, "int64"),
                ("duration_nanos", 10, "int64"), ("period_type", 11, "ValueType"), ("period", 12, "int64"),
                ("comment", 13, "*int64"), ("default_sample_type", 14, "int64")],
    "ValueType": [("type", 1, "int64"), ("unit", 2, "int64")],
    "Sample": [("location_id", 1, "*uint64"), ("value", 2, "*int64"), ("label", 3, "*Label")],
    "Label": [("key", 1, "int64"), ("str", 2, "int64"), ("num", 3, "int64"), ("num_unit", 4, "int64")],
    "Mapping": [("id", 1, "uint64"), ("memory_start", 2, "uint64"), ("memory_limit", 3, "uint64"),
                ("file_offset", 4, "uint64"), ("filename", 5, "int64"), ("build_id", 6, "int64"),
                ("has_functions", 7, "bool"), ("has_filenames", 8, "bool"), ("has_line_numbers", 9, "bool"),
                ("has_inline_frames", 10, "bool")],
    "Location": [("id", 1, "uint64"), ("mapping_id", 2, "uint64"), ("address", 3, "uint64"), ("line", 4, "*Line"),
                 ("is_folded", 5, "bool")],
    "Line": [("function_id", 1, "uint64"), ("line", 2, "int64"), ("column", 3, "int64")],
    "Function": [("id", 1, "uint64"), ("name", 2, "int64"), ("system_name", 3, "int64"), ("filename", 4, "int64"),
                 ("start_line", 5, "int64")],
}


def profile_class():
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    for name, members in MESSAGES.items():
        message = file.message_type.add(name=name)
        for member, number, kind in members:
            entry = message.field.add(name=member, number=number,
                                      label=field.LABEL_REPEATED if kind[0] == "*" else field.LABEL_OPTIONAL)
            kind = kind.lstrip("*")
            if kind in MESSAGES:
                entry.type, entry.type_name = field.TYPE_MESSAGE, ".p." + kind
            else:
                entry.type = getattr(field, "TYPE_" + kind.upper())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))


Profile = profile_class()


def check(profile, test: unittest.TestCase):
    """The rules that pprof's own CheckValid keeps, and the comments of profile.proto."""
    test.assertEqual(profile.string_table[0], "")
    test.assertEqual(len(set(profile.string_table)), len(profile.string_table))
    for table in (profile.mapping, profile.location, profile.function):
        ids = [entry.id for entry in table]
        test.assertNotIn(0, ids)
        test.assertEqual(len(set(ids)), len(ids))
    mappings = {entry.id: entry for entry in profile.mapping}
    functions = {entry.id for entry in profile.function}
    locations = {entry.id for entry in profile.location}
    for location in profile.location:
        test.assertTrue(location.line)
        if location.mapping_id != 0:
            mapping = mappings[location.mapping_id]
            test.assertTrue(mapping.memory_start <= location.address < mapping.memory_limit)
        for line in location.line:
            test.assertIn(line.function_id, functions)
    for function in profile.function:
        test.assertNotEqual(profile.string_table[function.name], "")
    for sample in profile.sample:
        test.assertEqual(len(sample.value), len(profile.sample_type))
        test.assertTrue(sample.location_id)
        test.assertLessEqual(set(sample.location_id), locations)
        keys = [label.key for label in sample.label]
        test.assertEqual(len(set(keys)), len(keys))  # one value for each label


class PprofTest(exported.StackExportTest):
    def profile(self, snapshot, *options):
        profile = Profile()
        profile.ParseFromString(gzip.decompress(exported.export(snapshot, "pprof", *options)))
        check(profile, self)
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
        with self.assertRaises(AssertionError):
            check(profile, unittest.TestCase())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
