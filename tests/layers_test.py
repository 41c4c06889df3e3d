"""Reads the include lines of every file against the lists in docs/architecture.md, and a few rules of the house.

usage: layers_test.py [SOURCE_ROOT]

The second half of this file turns each check on a small tree with a violation in it: the checks can fail.
"""

import dataclasses
import os
import pathlib
import re
import sys
import tempfile
import unittest

import tree

ROOT = pathlib.Path(__file__).resolve().parent.parent

MAX_LINES = 600
MAX_BYTES = 5 * 1000 * 1000
# Vocabulary tables and generated golden data grow with what they list, not with complexity.
SIZE_EXEMPT_SUFFIXES = {".inc"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(<[^>]+>|"[^"]+")', re.MULTILINE)
# Written in pieces, so that this file does not hold what it looks for.
MACHINE_PATHS = re.compile(
    r"(?<![\w.\-/$}])/(?:wo" r"rk|ro" r"ot|home/[a-z]\w*|mnt/[a-z]\w*)(?:/|\b)"
    r"|\b(?:deb|security|snapshot|archive|ports)\.(?:debian|ubuntu)\.(?:org|com)"
    r"|\b(?:pypi|pythonhosted)\.(?:org|io)"
)


@dataclasses.dataclass
class Rules:
    layers: dict[str, list[str]]
    externals: list[tuple[list[str], list[str]]]


def parse_rules(text: str) -> Rules:
    def block(name: str) -> list[tuple[list[str], list[str]]]:
        found = re.search(rf"^```{name}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        if not found:
            raise ValueError(f"docs/architecture.md has no ```{name} block")
        pairs = []
        for line in found.group(1).splitlines():
            left, arrow, right = line.partition("->")
            if not arrow:
                raise ValueError(f"docs/architecture.md, block {name}: no '->' in: {line}")
            pairs.append((left.split(), right.split()))
        return pairs

    return Rules({left[0]: right for left, right in block("layers")}, block("externals"))


def layer_of(rules: Rules, path: str) -> str | None:
    fitting = [layer for layer in rules.layers if path.startswith(layer)]
    return max(fitting, key=len) if fitting else None


def check_include(rules: Rules, path: str, layer: str, target: str, quoted: bool, in_tree: bool) -> str | None:
    """The reason why this include line is not allowed, or None."""
    if in_tree:
        target_layer = layer_of(rules, target)
        allowed = rules.layers[layer]
        if target_layer is None:
            return f"{target} lies in no layer"
        if target_layer == layer or "*" in allowed or target_layer in allowed:
            return None
        return f"{layer} may not include {target_layer} ({target}); it may include: {' '.join(allowed) or 'nothing'}"
    if quoted and target.split("/")[0] in ("allocator", "interpose", "analysis", "tools", "tests", "bench"):
        return f"{target} does not exist"
    if layer == "interpose/journal/" and ("/" in target or target.endswith(".h")):
        return f"the shared layout includes standard headers only, not {target}"
    verdicts = [(len(name), name, layers) for names, layers in rules.externals for name in names
                if target.startswith(name)]
    if verdicts:
        _, name, layers = max(verdicts)
        if not any(path.startswith(allowed) for allowed in layers):
            return f"<{target}> ({name}) is for {' '.join(layers)} only"
    return None


def check_layers(root: pathlib.Path, rules: Rules) -> list[str]:
    problems = []
    for name in tree.source_files(root):
        if name.suffix not in tree.CODE_SUFFIXES:
            continue
        path = name.as_posix()
        layer = layer_of(rules, path)
        if layer is None:
            problems.append(f"{path}: lies in no layer of docs/architecture.md")
            continue
        text = tree.read_text(root / name)
        for found in INCLUDE.finditer(text):
            quoted, target = found.group(1)[0] == '"', found.group(1)[1:-1]
            line = text.count("\n", 0, found.start(1)) + 1
            in_tree = (root / target).is_file()
            if quoted and not in_tree and (root / name.parent / target).is_file():
                problems.append(f"{path}:{line}: include {target} by its path from the top of the tree")
                continue
            reason = check_include(rules, path, layer, target, quoted, in_tree)
            if reason:
                problems.append(f"{path}:{line}: {reason}")
    return problems


def check_sizes(root: pathlib.Path) -> list[str]:
    problems = []
    for name in tree.source_files(root):
        size = (root / name).stat().st_size
        if size > MAX_BYTES:
            problems.append(f"{name}: {size} bytes; files over {MAX_BYTES} do not belong in the tree")
        if name.suffix in SIZE_EXEMPT_SUFFIXES:
            continue
        if name.suffix in tree.CODE_SUFFIXES or tree.is_script(root, name):
            lines = tree.read_text(root / name).count("\n")
            if lines > MAX_LINES:
                problems.append(f"{name}: {lines} lines; split it by responsibility (limit {MAX_LINES})")
    return problems


def check_machine_paths(root: pathlib.Path) -> list[str]:
    problems = []
    for name in tree.source_files(root):
        data = (root / name).read_bytes()
        if b"\0" in data[:4096]:
            continue
        for number, line in enumerate(data.decode("utf-8", errors="replace").splitlines(), 1):
            found = MACHINE_PATHS.search(line)
            if found:
                problems.append(f"{name}:{number}: names a machine or a host: {found.group(0)}")
    return problems


def check_headers(root: pathlib.Path) -> list[str]:
    """Guards, and that each header is in a CMake target's HDRS: the headers_compile_alone test covers only those."""
    problems = []
    for name in tree.source_files(root):
        if name.suffix != ".h" or name.parts[0] not in ("allocator", "interpose", "analysis", "tools"):
            continue
        guard = "CUHEAP_" + re.sub(r"[^A-Z0-9]", "_", name.as_posix().upper()) + "_"
        text = tree.read_text(root / name)
        if f"#ifndef {guard}\n#define {guard}\n" not in text and "#pragma once" not in text:
            problems.append(f"{name}: no include guard {guard}")
        # In the list of its own folder, of one above, or of one below that shares it.
        lists = [root / folder / "CMakeLists.txt" for folder in name.parents]
        lists += sorted((root / name.parent).glob("*/CMakeLists.txt"))
        listed = [re.escape(pathlib.Path(os.path.relpath(root / name, file.parent)).as_posix()) for file in lists]
        if not any(file.is_file() and re.search(rf"[\s\"/(]{path}[\s\")]", tree.read_text(file))
                   for file, path in zip(lists, listed)):
            problems.append(f"{name}: in no CMakeLists.txt; list it in the HDRS of its target")
    return problems


class ThisTree(unittest.TestCase):
    maxDiff = None

    def no_problems(self, problems: list[str]) -> None:
        self.assertFalse(problems, "\n" + "\n".join(problems))

    def test_includes_follow_the_layers(self) -> None:
        rules = parse_rules(tree.read_text(ROOT / "docs/architecture.md"))
        self.no_problems(check_layers(ROOT, rules))

    def test_files_are_small(self) -> None:
        self.no_problems(check_sizes(ROOT))

    def test_no_machine_is_named(self) -> None:
        self.no_problems(check_machine_paths(ROOT))

    def test_headers_are_guarded_and_listed(self) -> None:
        self.no_problems(check_headers(ROOT))


class TheChecksCanFail(unittest.TestCase):
    def setUp(self) -> None:
        self.rules = parse_rules(tree.read_text(ROOT / "docs/architecture.md"))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "a tree"

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def layer_problem(self, path: str, line: str) -> str:
        self.write("allocator/a.h", "")
        self.write("interpose/i.h", "")
        self.write("interpose/journal/format.h", "")
        self.write("analysis/s.h", "")
        self.write("tools/simcuda/sim.h", "")
        self.write(path, f"// comment\n{line}\n")
        problems = check_layers(self.root, self.rules)
        self.assertLessEqual(len(problems), 1, problems)
        return problems[0] if problems else ""

    def test_downward_includes_pass(self) -> None:
        for path, line in (
            ("interpose/x.cc", '#include "allocator/a.h"'),
            ("interpose/x.cc", '#include "interpose/journal/format.h"'),
            ("analysis/x.cc", '#include "interpose/journal/format.h"'),
            ("tools/x.cc", '#include "analysis/s.h"'),
            ("tests/x.cc", '#include "interpose/i.h"'),
            ("interpose/x.cc", "#include <cuda.h>"),
            ("interpose/x.cc", "#include <absl/base/attributes.h>"),
            ("analysis/x.cc", '#include "absl/status/status.h"'),
            ("interpose/journal/x.h", "#include <cstdint>"),
        ):
            with self.subTest(path=path, line=line):
                self.assertEqual(self.layer_problem(path, line), "")

    def test_upward_and_sideward_includes_fail(self) -> None:
        for path, line, word in (
            ("allocator/x.cc", '#include "interpose/i.h"', "may not include interpose/"),
            ("allocator/x.cc", '#  include "interpose/journal/format.h"', "may not include interpose/journal/"),
            ("interpose/x.cc", '#include "analysis/s.h"', "may not include analysis/"),
            ("interpose/journal/x.h", '#include "interpose/i.h"', "may not include interpose/"),
            ("interpose/journal/x.h", "#include <sys/mman.h>", "standard headers only"),
            ("analysis/x.cc", '#include "interpose/i.h"', "may not include interpose/"),
            ("analysis/x.cc", '#include "allocator/a.h"', "may not include allocator/"),
            ("tools/simcuda/x.cc", '#include "allocator/a.h"', "may not include allocator/"),
            ("analysis/x.cc", "#include <cuda.h>", "is for"),
            ("allocator/x.cc", "#include <nlohmann/json.hpp>", "is for"),
            ("interpose/x.cc", '#include "absl/status/status.h"', "is for"),
            ("analysis/x.cc", '#include "analysis/missing.h"', "does not exist"),
            ("elsewhere/x.cc", "", "in no layer"),
            ("interpose/x.cc", '#include "i.h"', "from the top"),
        ):
            with self.subTest(path=path, line=line):
                problem = self.layer_problem(path, line)
                self.assertIn(word, problem)
                (self.root / path).unlink()

    def test_big_files_fail(self) -> None:
        self.write("allocator/x.cc", "\n" * (MAX_LINES + 1))
        self.write("tools/script", "#!/bin/sh\n" + "\n" * MAX_LINES)
        self.write("allocator/fine.cc", "\n" * MAX_LINES)
        self.write("docs/long.md", "\n" * 5000)
        self.assertEqual([problem.split(":")[0] for problem in check_sizes(self.root)],
                         ["allocator/x.cc", "tools/script"])

    def test_machine_paths_fail(self) -> None:
        self.write("a.md", "see /wo" "rk/main\n")
        self.write("b.sh", "cd /ro" "ot\n")
        self.write("c.cc", '// "/home/' 'somebody/x"\n')
        self.write("d.txt", "https://pypi." "org/simple\n")
        self.write("fine.md", "~/.cache, /usr/local/cuda, docs/work/x, $HOME/root/, a/work\n")
        self.assertEqual([problem.split(":")[0] for problem in check_machine_paths(self.root)],
                         ["a.md", "b.sh", "c.cc", "d.txt"])

    def test_bad_headers_fail(self) -> None:
        self.write("allocator/CMakeLists.txt", "cuheap_cc_library(NAME a HDRS a.h)\n")
        self.write("allocator/a.h", "#ifndef CUHEAP_ALLOCATOR_A_H_\n#define CUHEAP_ALLOCATOR_A_H_\n#endif\n")
        self.assertEqual(check_headers(self.root), [])
        self.write("allocator/a.h", "#ifndef A_H\n#define A_H\n#endif\n")
        self.assertIn("no include guard", check_headers(self.root)[0])
        self.write("allocator/CMakeLists.txt", "cuheap_cc_library(NAME a HDRS aa.h)\n")
        self.assertIn("in no CMakeLists.txt", check_headers(self.root)[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
