"""docs/coverage.md has a row for every memory function of the toolkit's headers, and no empty cell.

usage: coverage_test.py TREE INCLUDE_FOLDER
"""

import pathlib
import re
import sys
import unittest

import memory_rule
from memory_rule import Declaration

TREE = pathlib.Path(sys.argv[1])
INCLUDE = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(TREE / "interpose"))

import memory_functions  # noqa: E402  (from the tree)

KNOWN_TOOLKIT = 13000  # newer headers may declare more: then the test says what


def headers() -> dict[str, Declaration]:
    found: dict[str, Declaration] = {}
    for header in memory_rule.HEADERS:
        if (INCLUDE / header).exists():
            found |= memory_rule.parse_header((INCLUDE / header).read_text(errors="replace"), header)
    return found


def rows() -> list[list[str]]:
    """The cells of the table of memory functions."""
    page = (TREE / "docs/coverage.md").read_text()
    section = page[page.index("\n## Memory\n"):]
    section = section[:section.find("\n## ", 5)]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def typed_versions() -> dict[str, list[int]]:
    versions: dict[str, set[int]] = {}
    for header in memory_rule.TYPEDEF_HEADERS:
        if not (INCLUDE / header).exists():
            continue
        for name, version, suffix in re.findall(r"PFN_(cu\w+?)_v(\d{4,5})(_ptsz|_ptds)?\s*\)",
                                                (INCLUDE / header).read_text(errors="replace")):
            versions.setdefault(name + suffix, set()).add(int(version))
    return {name: sorted(found) for name, found in versions.items()}


class Table(unittest.TestCase):
    def test_every_memory_function_of_the_headers_has_a_row(self) -> None:
        self.assertTrue((INCLUDE / "cuda.h").exists(), f"no cuda.h in {INCLUDE}: where are the toolkit's headers?")
        declared = headers()
        self.assertGreater(len(declared), 600, f"the functions of {INCLUDE}/cuda.h were not understood")
        self.assertGreater(sum(map(memory_rule.is_memory_function, declared.values())), 300)
        table = {name for row in rows() for name in re.findall(r"`(\w+)`", row[0])}
        missing = memory_rule.missing(declared, table)
        version = memory_rule.toolkit_version((INCLUDE / "cuda.h").read_text(errors="replace"))
        newer = (f"these headers are those of CUDA {version // 1000}.{version % 1000 // 10}, the table knows "
                 f"{KNOWN_TOOLKIT // 1000}.{KNOWN_TOOLKIT % 1000 // 10}\n" if version > KNOWN_TOOLKIT else "")
        if missing:
            self.fail(newer + "\n".join(missing))

    def test_no_cell_is_empty(self) -> None:
        self.assertGreater(len(rows()), 200)
        for row in rows():
            self.assertEqual(len(row), 4, row)
            self.assertTrue(all(row), row)
            self.assertRegex(row[1], r"^\d+\.\d+$")
            self.assertGreater(len(row[3]), len("forwarded: "), row)

    def test_nothing_is_there_twice(self) -> None:
        names = [name for row in rows() for name in re.findall(r"`(\w+)`", row[0])]
        self.assertEqual(sorted(names), sorted(set(names)))

    def test_variants_for_per_thread_streams_are_hooked_with_their_function(self) -> None:
        hooks = memory_functions.read_hooks()
        for name in headers():
            plain = re.sub(r"(_ptsz|_ptds)$", "", name)
            if plain != name and plain in hooks:
                self.assertIn(name, hooks, f"{plain} is hooked, its variant is not")

    def test_versions_are_those_of_the_headers(self) -> None:
        """cudaTypedefs.h gives each name's versions, the headers its exported variants: both lists end together."""
        declared, versions = headers(), typed_versions()
        known = {name: version for name, (version, _) in memory_functions.read_hooks().items()}
        for function in memory_functions.read_memory_functions():
            known.setdefault(function.names[0], function.version)
        variants: dict[str, list[str]] = {}
        for name in declared:
            variants.setdefault(re.sub(r"(_v\d+)?(_ptsz|_ptds|)$", r"\2", name), []).append(name)
        checked = 0
        for key, names in variants.items():
            names.sort(key=lambda name: int((re.search(r"_v(\d+)", name) or [0, "1"])[1]))
            for name, version in zip(reversed(names), reversed(versions.get(key, []))):
                if name in known:
                    self.assertEqual(known[name], version, name)
                    checked += 1
        self.assertGreater(checked, 300)


class Rule(unittest.TestCase):
    """The rule itself, on lines that no header has."""

    @staticmethod
    def missing(text: str, table: set[str]) -> list[str]:
        return memory_rule.missing(memory_rule.parse_header(text, "made_up.h"), table)

    def test_a_new_memory_function_fails_and_is_named(self) -> None:
        line = "CUresult CUDAAPI cuMemFold(int how, size_t bytes);"
        self.assertEqual(self.missing(line, {"cuMemFold"}), [])
        [message] = self.missing(line, set())
        self.assertIn("made_up.h declares cuMemFold(int how, size_t bytes)", message)
        self.assertIn("interpose/memory_functions.list", message)

    def test_parameters_alone_are_enough(self) -> None:
        for parameters in ("CUdeviceptr *out", "int a,\n  CUarray\tb", "const CUmemAllocationProp *p",
                           "CUmemGenericAllocationHandle h", "CUexternalMemory *e", "CUmemoryPool pool"):
            self.assertEqual(len(self.missing(f"CUresult CUDAAPI cuFrobnicate({parameters});", set())), 1, parameters)

    def test_what_is_not_memory_does_not_count(self) -> None:
        self.assertEqual(self.missing("CUresult CUDAAPI cuFrobnicate(CUstream stream, int CUdeviceptr);", set()), [])
        self.assertEqual(self.missing("CUresult CUDAAPI cuLogsDumpToMemory(char *buffer, size_t *size);", set()), [])
        self.assertEqual(self.missing("/* CUresult CUDAAPI cuMemFold(int how); */", set()), [])

    def test_names_that_macros_change_count_as_they_are_exported(self) -> None:
        text = ("#define cuMemFold __CUDA_API_PTSZ(cuMemFold_v2)\n#define cuMemBend cuMemBend_v3\n"
                "CUresult CUDAAPI cuMemFold(int how);\nCUresult CUDAAPI cuMemBend(int how);\n"
                "#undef cuMemBend\nCUresult CUDAAPI cuMemBend(unsigned int how);\n")
        declared = memory_rule.parse_header(text, "made_up.h")
        self.assertEqual(sorted(declared), ["cuMemBend", "cuMemBend_v3", "cuMemFold_v2", "cuMemFold_v2_ptsz"])

    def test_the_list_is_read_strictly(self) -> None:
        hooks, effects = {"cuMemFold": (13000, "kFold")}, {"kFold": "folded"}
        [row] = memory_functions.parse("[folds]\ncuMemFold\n", hooks, effects)
        self.assertEqual((row.names, row.version, row.memory_class, row.what_happens),
                         (["cuMemFold"], 13000, "folds", "folded"))
        for text in ("cuMemFold\n", "[folds]\ncuMemBend\n", "[folds]\ncuMemFold 13000: why\n",
                     "[folds]\ncuMemBend 13000: $NOBODY\n", "[folds]\ncuMemFold\ncuMemFold\n", "[folds]\nfold it\n"):
            with self.assertRaises(memory_functions.ListError, msg=text):
                memory_functions.parse(text, hooks, effects)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
