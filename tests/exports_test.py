"""What the preload library exports and what it needs, read from the file itself.

usage: exports_test.py LIBRARY

It is put into every program of the user: a symbol too many can take over one of theirs, a library too many may be
missing in their container (the loader then ignores the preload in silence).
"""

import pathlib
import re
import subprocess
import sys
import unittest

import tree

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Names of the C library that we answer besides the driver's; interpose/ says why at each of them.
LOADER_NAMES = {"dlsym", "dlvsym", "dlclose"}
PUBLIC_PREFIX = "cuheap_"
ALLOWED_LIBRARIES = re.compile(
    r"^(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|ld-linux-[a-z0-9-]+\.so\.[0-9])$")
NEWEST_GLIBC = (2, 28)


def hooked_names(text: str) -> set[str]:
    """First arguments of the HOOK lines of interpose/hooked_functions.inc."""
    names = re.findall(r"^\s*HOOK[A-Z_0-9]*\(\s*(\w+)", text, re.MULTILINE)
    return set(names)


def framework_names(text: str) -> set[str]:
    """Arguments of the FRAMEWORK_HOOK lines of interpose/frameworks/framework_functions.inc."""
    return set(re.findall(r"^FRAMEWORK_HOOK\((\w+)\)$", text, re.MULTILINE))


def documented_public_names(root: pathlib.Path) -> set[str]:
    """Functions cuheap_... that a document describes: the only ones of ours that may be exported."""
    names: set[str] = set()
    for page in (root / "docs").rglob("*.md"):
        names.update(re.findall(r"`(cuheap_\w+)`", tree.read_text(page)))
    return names


def exported(library: pathlib.Path) -> dict[str, str]:
    output = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    lines = [line.split() for line in output.stdout.splitlines()]
    # Version nodes themselves (kind A) are no symbols; name@VERSION counts by its name.
    return {line[-1].split("@")[0]: line[-2] for line in lines if len(line) >= 2 and line[-2] != "A"}


def export_problems(actual: set[str], hooked: set[str], documented: set[str]) -> list[str]:
    allowed = hooked | LOADER_NAMES | {name for name in documented if name.startswith(PUBLIC_PREFIX)}
    problems = [f"exported, but in no list: {name}" for name in sorted(actual - allowed)]
    problems += [f"hooked, but not exported: {name}" for name in sorted((hooked | LOADER_NAMES) - actual)]
    return problems


def dynamic_section(library: pathlib.Path, word: str) -> list[str]:
    output = subprocess.run(["readelf", "-d", "-W", str(library)], capture_output=True, text=True, check=True)
    return re.findall(rf"\({word}\).*\[(.*)\]", output.stdout)


def needed_problems(needed: list[str]) -> list[str]:
    return [f"needs {name}" for name in needed if not ALLOWED_LIBRARIES.match(name)]


def glibc_versions(library: pathlib.Path) -> dict[str, tuple[int, ...]]:
    """Undefined symbols that carry a version of the C library, with it."""
    output = subprocess.run(["nm", "-D", "--undefined-only", str(library)], capture_output=True, text=True, check=True)
    found = re.findall(r"(\w+)@GLIBC_([0-9.]+)", output.stdout)
    return {name: tuple(int(part) for part in version.split(".")) for name, version in found}


def too_new(versions: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {name: version for name, version in versions.items() if version > NEWEST_GLIBC}


class PreloadLibrary(unittest.TestCase):
    library: pathlib.Path

    def test_it_exports_the_list_and_nothing_else(self) -> None:
        hooked = hooked_names(tree.read_text(ROOT / "interpose/hooked_functions.inc"))
        self.assertGreater(len(hooked), 20, "the list could not be read")
        frameworks = framework_names(tree.read_text(ROOT / "interpose/frameworks/framework_functions.inc"))
        self.assertEqual(len(frameworks), 4, "the list could not be read")
        hooked |= frameworks
        problems = export_problems(set(exported(self.library)), hooked, documented_public_names(ROOT))
        self.assertFalse(problems, "\n" + "\n".join(problems))

    def test_it_exports_functions_only(self) -> None:
        odd = {name: kind for name, kind in exported(self.library).items() if kind not in ("T", "W", "i")}
        self.assertFalse(odd)

    def test_it_needs_the_c_library_only(self) -> None:
        self.assertFalse(needed_problems(dynamic_section(self.library, "NEEDED")))

    def test_it_carries_no_run_path(self) -> None:
        self.assertFalse(dynamic_section(self.library, "RUNPATH") + dynamic_section(self.library, "RPATH"))

    def test_it_has_no_executable_stack_and_no_text_relocations(self) -> None:
        headers = subprocess.run(["readelf", "-lW", "-dW", str(self.library)], capture_output=True, text=True,
                                 check=True).stdout
        self.assertNotIn("TEXTREL", headers)
        self.assertNotRegex(headers, r"GNU_STACK.*RWE")

    def test_it_loads_with_old_c_libraries(self) -> None:
        newest = too_new(glibc_versions(self.library))
        self.assertFalse(newest, f"newer than GLIBC_{'.'.join(map(str, NEWEST_GLIBC))}")


class TheChecksCanFail(unittest.TestCase):
    def test_hook_lines_are_read(self) -> None:
        text = "// HOOK(cuNo, x)\nHOOK(cuMemAlloc_v2, 3020, kAllocates)\n  HOOK(cuMemFree_v2 , 1)\n#undef HOOK\n"
        self.assertEqual(hooked_names(text), {"cuMemAlloc_v2", "cuMemFree_v2"})

    def test_framework_lines_are_read(self) -> None:
        self.assertEqual(framework_names("// FRAMEWORK_HOOK(no)\nFRAMEWORK_HOOK(_ZN3c101aEv)\n"), {"_ZN3c101aEv"})

    def test_a_missing_hook_and_a_stray_symbol_are_found(self) -> None:
        problems = export_problems({"cuA", *LOADER_NAMES, "malloc", "cuheap_known", "cuheap_unknown"},
                                   {"cuA", "cuB"}, {"cuheap_known"})
        self.assertEqual(problems, ["exported, but in no list: cuheap_unknown", "exported, but in no list: malloc",
                                    "hooked, but not exported: cuB"])

    def test_other_libraries_are_found(self) -> None:
        needed = ["libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libunwind.so.8"]
        self.assertEqual(needed_problems(needed), ["needs libstdc++.so.6", "needs libgcc_s.so.1", "needs libunwind.so.8"])

    def test_new_symbol_versions_are_found(self) -> None:
        self.assertEqual(too_new({"a": (2, 2, 5), "b": (2, 28), "c": (2, 34), "d": (2, 3, 4)}), {"c": (2, 34)})


if __name__ == "__main__":
    PreloadLibrary.library = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
