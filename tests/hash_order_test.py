"""Nothing that is told walks a hash table: its order changes from run to run, and with it what is printed.

usage: hash_order_test.py [SOURCE_ROOT]

Looked for are loops over, and begin() of, whatever the same file, its header, or a member of any header declares as a
hash table. Where the order does not matter (all is summed up, or sorted by a total order) a comment on that line or the
one before says "in any order", and why. tests/tools/cuheap/same_bytes_test.py looks at what comes out.
"""

import pathlib
import re
import sys
import tempfile
import unittest

import tree

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("analysis/", "tools/cuheap/")
TABLE = re.compile(r"\b(?:absl::)?(?:flat|node)_hash_(?:map|set)<|\bstd::unordered_(?:multi)?(?:map|set)<")
NAMES = re.compile(r"[&*\s]*([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)\s*[;={(),\[]")
ALLOWED = re.compile(r"//.*\bin any order\b", re.IGNORECASE)


def after_arguments(text: str, begin: int) -> int:
    depth = 1
    while begin < len(text) and depth:
        depth += {"<": 1, ">": -1}.get(text[begin], 0)
        begin += 1
    return begin


def tables_in(text: str) -> set[str]:
    """Names of variables and members whose type is a hash table, or an alias of one that the text declares."""
    names, aliases = set(), set()
    for found in TABLE.finditer(text):
        alias = re.search(r"\busing\s+(\w+)\s*=\s*$", text[: found.start()])
        if alias:
            aliases.add(alias[1])
        declared = NAMES.match(text, after_arguments(text, found.end()))
        if declared and not alias:
            names |= {name.strip() for name in declared[1].split(",")}
    for alias in aliases:
        names |= {found[1] for found in re.finditer(rf"\b{alias}\b[&*\s]+(\w+)\s*[;={{(),\[]", text)}
    return names


def walks_in(text: str, own: set[str], members: set[str]) -> list[tuple[int, str]]:
    patterns = [rf"for \(.*:\s*(?:\w+(?:\.|->))*{re.escape(name)}\)|\b{re.escape(name)}\.c?begin\(\)" for name in own]
    patterns += [rf"for \(.*(?:\.|->){re.escape(name)}\)|(?:\.|->){re.escape(name)}\.c?begin\(\)" for name in members - own]
    if not patterns:
        return []
    walk = re.compile("|".join(patterns))
    lines = text.splitlines()
    return [(number, line.strip()) for number, line in enumerate(lines, 1)
            if walk.search(line) and not ALLOWED.search(line) and not ALLOWED.search(lines[number - 2] if number > 1 else "")]


def walks_of_tables(root: pathlib.Path) -> list[str]:
    files = {str(name): tree.read_text(root / name) for name in tree.source_files(root)
             if name.suffix in (".h", ".cc") and str(name).startswith(FOLDERS)}
    tables = {name: tables_in(text) for name, text in files.items()}
    members = {name for path, found in tables.items() if path.endswith(".h") for name in found if not name.endswith("_")}
    problems = []
    for path, text in files.items():
        own = tables[path] | tables.get(str(pathlib.Path(path).with_suffix(".h")), set())
        problems += [f"{path}:{number}: walks a hash table: {line}" for number, line in walks_in(text, own, members)]
    return problems


class ThisTree(unittest.TestCase):
    def test_no_hash_table_is_walked(self):
        self.assertEqual(walks_of_tables(ROOT), [])

    def test_there_are_tables_to_look_at(self):
        self.assertIn("sums", tables_in(tree.read_text(ROOT / "analysis/reports/totals.cc")))


class SmallTrees(unittest.TestCase):
    def found(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "analysis").mkdir()
            for name, text in files.items():
                (root / "analysis" / name.replace("_", ".")).write_text(text)
            return walks_of_tables(root)

    def test_a_loop(self):
        text = "std::unordered_map<int, std::pair<int, int>> sums;\nfor (const auto& [a, b] : sums) Print(a);\n"
        self.assertEqual(len(self.found(a_cc=text)), 1)

    def test_a_member_of_the_header(self):
        self.assertEqual(len(self.found(a_h="absl::flat_hash_set<int> ids_;\n", a_cc="list.assign(ids_.begin(), x);\n")), 1)

    def test_a_member_of_another_file(self):
        self.assertEqual(len(self.found(a_h="absl::flat_hash_set<int> by_id;\n", b_cc="for (int id : result->by_id) Print(id);\n")), 1)

    def test_an_alias(self):
        self.assertEqual(len(self.found(a_cc="using Open = std::unordered_map<int, int>;\nOpen open;\nfor (auto& o : open) {\n")), 1)

    def test_said_to_be_sorted(self):
        text = "std::unordered_set<int> sums;\nfor (int a : sums) v.push_back(a);  // in any order: sorted next\n"
        self.assertEqual(self.found(a_cc=text), [])

    def test_ordered_tables(self):
        self.assertEqual(self.found(a_cc="std::map<int, int> sums;\nfor (auto& [a, b] : sums) Print(a);\n"), [])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
