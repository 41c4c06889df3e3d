"""Snapshots that cuheap writes are valid by docs/snapshot.schema.json, which describes exactly them.

usage: snapshot_schema_test.py WRITER [FILE...]

WRITER is the program write_test_snapshots; FILEs are further snapshots to validate. The checks are also turned on
damaged snapshots, each of which must be refused: they can fail.
"""

import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    print("the Python package jsonschema is not there (tools/deps puts it into the private environment)")
    sys.exit(77)

DOCS = pathlib.Path(__file__).resolve().parent.parent.parent / "docs"
SCHEMA = json.loads((DOCS / "snapshot.schema.json").read_text())


def resolve(schema: dict) -> dict:
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def objects(value, schema: dict, path: str = "$"):
    """Every object of the value with the schema that describes it."""
    schema = resolve(schema)
    if isinstance(value, dict):
        yield path, value, schema
        for name, member in value.items():
            inner = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            yield from objects(member, inner, f"{path}.{name}")
    elif isinstance(value, list) and "items" in schema:
        for element in value:
            yield from objects(element, schema["items"], path + "[]")

# Members that a snapshot has only if they are known.
NOT_ALWAYS = {"$": {"driver_time"}, "$.completeness": {"exit_status", "exit_signal"}}


class SnapshotSchemaTest(unittest.TestCase):
    writer = ""
    files: list[str] = []

    @classmethod
    def setUpClass(cls):
        cls.validator = jsonschema.Draft202012Validator(SCHEMA)
        with tempfile.TemporaryDirectory(prefix="snapshot schema ") as folder:
            subprocess.run([cls.writer, folder], check=True)
            paths = sorted(pathlib.Path(folder).glob("*.json")) + [pathlib.Path(f) for f in cls.files]
            cls.snapshots = {path.name: json.loads(path.read_text()) for path in paths}

    def errors(self, snapshot):
        return [f"{e.json_path}: {e.message[:200]}" for e in self.validator.iter_errors(snapshot)]

    def test_the_schema_is_one(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def test_written_snapshots_are_valid(self):
        self.assertGreaterEqual(set(self.snapshots), {"distinct.json", "empty.json", "journal.json"})
        for name, snapshot in self.snapshots.items():
            self.assertEqual([], self.errors(snapshot), name)

    def test_the_schema_names_every_member_and_no_other(self):
        for path, value, schema in objects(self.snapshots["distinct.json"], SCHEMA):
            if "properties" in schema:
                self.assertEqual(set(value), set(schema["properties"]), path)
                self.assertEqual(set(value) - NOT_ALWAYS.get(path, set()), set(schema["required"]), path)

    def test_every_member_is_explained(self):
        text = (DOCS / "snapshot.md").read_text()
        sections = re.split(r"^### ", text, flags=re.MULTILINE)
        for path, value, schema in objects(self.snapshots["distinct.json"], SCHEMA):
            if "properties" not in schema:
                continue
            table = path.replace("[]", "").removeprefix("$").lstrip(".")
            section = next((s for s in sections if table and table in s.split("\n")[0].split()), text)
            for name in value:
                self.assertTrue(f"`{name}`" in section or f"\n### {name}\n" in text or re.search(rf"### .*\b{name}\b", text),
                                f"docs/snapshot.md does not explain {path}.{name}")

    def test_every_word_is_explained(self):
        text = (DOCS / "snapshot.md").read_text()
        for name, words in self.snapshots["empty.json"]["words"].items():
            for word in words:
                if word != "none":
                    self.assertIn(f"`{word}`", text, name)
        for name in self.snapshots["journal.json"]["counters"]:
            self.assertIn(f"`{name}`", text)

    def test_damaged_snapshots_are_refused(self):
        def wrong(edit):
            snapshot = copy.deepcopy(self.snapshots["distinct.json"])
            edit(snapshot)
            return self.errors(snapshot)

        for path, value, schema in list(objects(self.snapshots["distinct.json"], SCHEMA)):
            if "properties" not in schema or "[]" in path:
                continue
            names = path.split(".")[1:]

            def at(snapshot, names=names):
                for name in names:
                    snapshot = snapshot[name]
                return snapshot

            for name in value:
                if name not in NOT_ALWAYS.get(path, set()):
                    self.assertTrue(wrong(lambda s: at(s).pop(name)), f"{path} without {name}")
                self.assertTrue(wrong(lambda s: at(s).update({name: None})), f"{path}.{name} null")
            self.assertTrue(wrong(lambda s: at(s).update({"unknown": 1})), f"{path} with another member")
        for edit in (
            lambda s: s.update(version=2),
            lambda s: s.update(format="other"),
            lambda s: s["events"]["bytes"].append(-1),
            lambda s: s["events"]["bytes"].append(2**64),
            lambda s: s["events"]["bytes"].append(1.5),
            lambda s: s["events"]["stack"].append(2**32),
            lambda s: s["events"]["type"].append("allocate"),
            lambda s: s["events"]["time_ns"].append(2**63),
            lambda s: s["devices"][0].pop("uuid"),
            lambda s: s["notes"][0].update(code=""),
            lambda s: s["modules"][0].update(build_id="XY"),
            lambda s: s["strings"].__setitem__(0, "x"),
            lambda s: s["stacks"]["frames"].__setitem__(0, [1]),
            lambda s: s["live"]["served"].append(1),
            lambda s: s["completeness"].update(end="finished"),
            lambda s: s["configuration"].update(x=1),
            lambda s: s["words"]["allocator"].append("program"),
        ):
            self.assertTrue(wrong(edit))
        self.assertEqual([], wrong(lambda s: None))


if __name__ == "__main__":
    SnapshotSchemaTest.writer, *SnapshotSchemaTest.files = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
