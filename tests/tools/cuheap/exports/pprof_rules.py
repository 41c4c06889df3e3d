"""Profiles for pprof, read by Google's protobuf library, and the rules of profile.proto's comments for those of anybody.

Importing it raises ImportError where the package protobuf is not there.
"""
import gzip
import zlib

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

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


def _ask(condition, reason):
    if not condition:
        raise ValueError(reason)


def check(profile):
    """The rules that pprof's own CheckValid keeps, and the comments of profile.proto. Raises ValueError with the reason."""
    text = profile.string_table
    _ask(text and text[0] == "", "the first string is not empty")
    for table in (profile.mapping, profile.location, profile.function):
        ids = [entry.id for entry in table]
        _ask(0 not in ids and len(set(ids)) == len(ids), "an id is 0 or there twice")
    mappings = {entry.id: entry for entry in profile.mapping}
    functions = {entry.id for entry in profile.function}
    locations = {entry.id for entry in profile.location}
    for location in profile.location:
        if location.mapping_id != 0:
            _ask(location.mapping_id in mappings, "a location in no mapping")
        _ask(all(line.function_id in functions for line in location.line), "a line of no function")
    _ask(all(text[function.name] for function in profile.function), "a function without a name")
    _ask(profile.sample_type, "no types of samples")
    for sample in profile.sample:
        _ask(len(sample.value) == len(profile.sample_type), "not as many values as types of samples")
        _ask(set(sample.location_id) <= locations, "a sample at no location")


def read(data: bytes):
    """A profile that keeps the rules. ValueError: it is none."""
    profile = Profile()
    try:
        profile.ParseFromString(gzip.decompress(data))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"not gzip, or cut off: {error}") from error
    except DecodeError as error:
        raise ValueError(f"not a profile: {error}") from error
    check(profile)
    return profile
