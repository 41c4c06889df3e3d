#!/usr/bin/env python3
"""Every documented name is exported, under the version node that programs bind, and the lists are the headers'.

usage: names_test.py INCLUDE_DIR SOURCE_DIR LIBRARY_DIR
"""

import pathlib
import re
import subprocess
import sys
import unittest

include, source, libraries = (pathlib.Path(argument) for argument in sys.argv[1:4])
sys.path.insert(0, str(source / "tools/simcuda/runtime"))
import update_names  # noqa: E402

COMPILER = {
    "__cudaRegisterFatBinary", "__cudaRegisterFatBinaryEnd", "__cudaUnregisterFatBinary", "__cudaRegisterFunction",
    "__cudaRegisterVar", "__cudaRegisterManagedVar", "__cudaInitModule", "__cudaPushCallConfiguration",
    "__cudaPopCallConfiguration", "__cudaLaunchKernel", "__cudaLaunchKernel_ptsz", "__cudaGetKernel",
}


def listed(*paths):
    return {name for path in paths
            for name in re.findall(r"^NAME\((\w+)\)", (source / "tools/simcuda" / path).read_text(), re.M)}


def exported(library):
    """name -> version node of what the library defines."""
    lines = subprocess.run(["nm", "-D", "--defined-only", str(libraries / library)], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    names = {}
    for line in lines:
        name, _, version = line.split()[-1].partition("@@")
        names[name] = version
    return names


def declarations(path):
    """name -> parameter types of the compiler's entry points that a header declares."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text(errors="replace"), flags=re.S)
    found = {}
    for name, parameters in re.findall(r"(?:CUDARTAPI|void|\*|char|cudaError_t|int)\s+(__cuda[A-Z]\w+)\s*\(([^;{}()]*)\)\s*;", text):
        types = []
        for parameter in parameters.split(","):
            words = re.sub(r"=.*|\bstruct\b|\bstd::", " ", parameter).replace("*", " * ").split()
            if len(words) > 1 and words[-1] not in ("*", "int", "char"):
                words.pop()  # the parameter's name
            types.append(" ".join(words))
        found[name] = types
    return found


class Names(unittest.TestCase):
    def check(self, library, wanted, prefixes):
        have = exported(library)
        self.assertEqual(sorted(wanted - have.keys()), [], f"{library} lacks documented names")
        self.assertEqual({have[name] for name in wanted}, {library}, "version node")
        strange = [name for name in have if not name.startswith(prefixes) and name != library]
        self.assertEqual(strange, [], f"{library} exports what nobody documents")

    def test_runtime(self):
        for major in (12, 13):
            self.check(f"libcudart.so.{major}", listed(f"runtime/names_{major}.inc") | COMPILER, ("cuda", "__cuda"))

    def test_cublas(self):
        for major in (12, 13):
            self.check(f"libcublas.so.{major}",
                       listed("libraries/cublas_names.inc", "libraries/cublas_legacy_names.inc"), ("cublas",))
            self.check(f"libcublasLt.so.{major}", listed("libraries/cublaslt_names.inc"), ("cublasLt",))

    def test_the_compilers_entry_points_are_declared_as_the_toolkit_does(self):
        ours = declarations(source / "tools/simcuda/runtime/compiler_entry_points.h")
        theirs = {}
        for header in ("crt/host_runtime.h", "crt/device_functions.h"):
            if (include / header).exists():
                theirs |= declarations(include / header)
        if not theirs:
            self.skipTest("the compiler's headers are not on this machine")
        self.assertGreater(len(ours.keys() & theirs.keys()), 10)
        for name in sorted(ours.keys() & theirs.keys()):
            self.assertEqual(ours[name], theirs[name], name)

    def test_lists_hold_what_the_headers_declare(self):
        for header, lists in {
            "cuda_runtime_api.h": ["runtime/names_13.inc"],
            "cublas_api.h": ["libraries/cublas_names.inc"],
            "cublasLt.h": ["libraries/cublaslt_names.inc"],
        }.items():
            path = include / header
            if not path.exists():
                continue  # not every machine has the libraries' headers
            version = re.search(r"#define CUDART_VERSION\s+(\d+)", path.read_text(errors="replace"))
            if version and int(version.group(1)) > 13020:
                continue  # a newer toolkit than the lists were written from
            self.assertEqual(sorted(update_names.names_of(path) - listed(*lists)), [], header)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
