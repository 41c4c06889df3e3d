"""Every documented driver function is exported, and cuGetProcAddress answers as cudaTypedefs.h says.

The names are read from the headers' own text here, not through the preprocessor as the generator does, so that a
mistake of the generator shows.

usage: names_test.py LIBRARY INCLUDE_FOLDER
"""

import ctypes
import pathlib
import re
import subprocess
import sys
import unittest

LIBRARY = pathlib.Path(sys.argv[1])
INCLUDE = pathlib.Path(sys.argv[2])

SUCCESS, INVALID_VALUE, NOT_FOUND = 0, 1, 500
DEFAULT, LEGACY, PER_THREAD = 0, 1, 2
FOUND, SYMBOL_NOT_FOUND, VERSION_NOT_SUFFICIENT = 0, 1, 2
SUFFIX = re.compile(r"(_v\d+)?(_pts[z]|_ptds)?$")


def documented_names() -> set[str]:
    """Names in declarations, and those that renaming macros make of them."""
    names = set()
    for header in ("cuda.h", "cudaProfiler.h"):
        text = re.sub(r"/\*.*?\*/", "", (INCLUDE / header).read_text(), flags=re.DOTALL)
        declared = set(re.findall(r"CUresult\s+(?:CUDAAPI\s+)?(cu[A-Z]\w+)\s*\(", text))
        macros = dict(re.findall(r"^\s*#define\s+(cu[A-Z]\w+)\s+(.*?)\s*$", text, flags=re.MULTILINE))
        for name in declared:
            names.add(name)
            target = macros.get(name, "")
            per_thread = re.fullmatch(r"__CUDA_API_(PTDS|PTSZ)\((\w+)\)", target)
            if per_thread:
                names |= {per_thread.group(2), per_thread.group(2) + "_" + per_thread.group(1).lower()}
            elif target:
                names.add(target)
        # A name that only a macro knows under this spelling.
        for target in macros.values():
            per_thread = re.fullmatch(r"__CUDA_API_(PTDS|PTSZ)\((\w+)\)", target)
            if per_thread:
                names |= {per_thread.group(2), per_thread.group(2) + "_" + per_thread.group(1).lower()}
    # An inline function of the header, and macros that are no function.
    return {name for name in names if name != "cuGetProcAddress_v2_ptsz"}


def typedefs() -> list[tuple[str, int, str]]:
    found = set()
    for header in ("cudaTypedefs.h", "cudaProfilerTypedefs.h"):
        text = (INCLUDE / header).read_text()
        text = re.sub(r"\\\n", "", text)
        for name, version, suffix in re.findall(r"typedef[^;]*?PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\s*\)\s*\(", text):
            found.add((name, int(version), suffix))
    return sorted(found)


class Exports(unittest.TestCase):
    def setUp(self) -> None:
        command = ["nm", "-D", "--defined-only", LIBRARY]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self.exported = {line.split()[-1].split("@")[0] for line in output.splitlines()}

    def test_every_documented_name_is_exported(self) -> None:
        names = documented_names()
        self.assertGreater(len(names), 500)
        self.assertEqual(sorted(names - self.exported), [])

    def test_nothing_else_is(self) -> None:
        others = {name for name in self.exported if not name.startswith(("cu", "simcuda_"))}
        self.assertEqual(others, set())
        undocumented = {name for name in self.exported if name.startswith("cu")} - documented_names()
        self.assertEqual(undocumented, set())

    def test_soname(self) -> None:
        output = subprocess.run(["readelf", "-d", LIBRARY], check=True, capture_output=True, text=True).stdout
        self.assertIn("[libcuda.so.1]", output)


class ProcAddress(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.library = ctypes.CDLL(str(LIBRARY))

    def ask(self, name: str, version: int, flags: int) -> tuple[int, int | None, int]:
        address, status = ctypes.c_void_p(), ctypes.c_int(9)
        result = self.library.cuGetProcAddress_v2(name.encode(), ctypes.byref(address), version, ctypes.c_uint64(flags),
                                                  ctypes.byref(status))
        return result, address.value, status.value

    def address_of(self, symbol: str) -> int:
        return ctypes.cast(getattr(self.library, symbol), ctypes.c_void_p).value

    def test_every_typedef_resolves_to_its_own_function(self) -> None:
        rows = typedefs()
        self.assertGreater(len(rows), 500)
        seen: dict[int, tuple[str, int, str]] = {}
        for name, version, suffix in rows:
            with self.subTest(name=name, version=version, suffix=suffix):
                result, address, status = self.ask(name, version, PER_THREAD if suffix else LEGACY)
                self.assertEqual((result, status), (SUCCESS, FOUND))
                self.assertNotIn(address, seen, "two signatures share a function")
                seen[address] = (name, version, suffix)

    def test_a_version_is_served_until_the_next_one(self) -> None:
        rows = typedefs()
        for name, version, suffix in rows:
            flags = PER_THREAD if suffix else LEGACY
            later = [v for n, v, s in rows if n == name and bool(s) == bool(suffix) and v > version]
            last = min(later) - 1 if later else 13000
            self.assertEqual(self.ask(name, last, flags), self.ask(name, version, flags), (name, version, suffix))

    def test_too_old_and_unknown(self) -> None:
        rows = typedefs()
        for name in {row[0] for row in rows}:
            first = min(version for n, version, suffix in rows if n == name and not suffix)
            self.assertEqual(self.ask(name, first - 1, DEFAULT), (NOT_FOUND, None, VERSION_NOT_SUFFICIENT), name)
        for name in ("", "cuMemAlloc_v2", "cuMemcpyAsync_ptsz", "cuNothing", "cumemalloc"):
            self.assertEqual(self.ask(name, 13000, DEFAULT), (NOT_FOUND, None, SYMBOL_NOT_FOUND), name)

    def test_invalid_arguments(self) -> None:
        self.assertEqual(self.ask("cuInit", 13000, 4)[0], INVALID_VALUE)
        self.assertEqual(self.ask("cuInit", 99000, DEFAULT)[0], INVALID_VALUE)
        self.assertEqual(self.library.cuGetProcAddress_v2(None, None, 12000, ctypes.c_uint64(0), None), INVALID_VALUE)

    def test_what_clients_are_known_to_ask(self) -> None:
        expected = [
            ("cuGetProcAddress", 11030, DEFAULT, "cuGetProcAddress"),
            ("cuGetProcAddress", 12000, DEFAULT, "cuGetProcAddress_v2"),
            ("cuMemAlloc", 2000, DEFAULT, "cuMemAlloc"),
            ("cuMemAlloc", 3020, DEFAULT, "cuMemAlloc_v2"),
            ("cuMemAlloc", 12000, PER_THREAD, "cuMemAlloc_v2"),
            ("cuCtxCreate", 3020, DEFAULT, "cuCtxCreate_v2"),
            ("cuCtxCreate", 11040, DEFAULT, "cuCtxCreate_v3"),
            ("cuCtxCreate", 13000, DEFAULT, "cuCtxCreate_v4"),
            ("cuCtxSynchronize", 12090, DEFAULT, "cuCtxSynchronize"),
            ("cuCtxSynchronize", 13000, DEFAULT, "cuCtxSynchronize_v2"),
            ("cuStreamGetCaptureInfo", 11030, DEFAULT, "cuStreamGetCaptureInfo_v2"),
            ("cuStreamGetCaptureInfo", 12030, PER_THREAD, "cuStreamGetCaptureInfo_v3_ptsz"),
            ("cuMemcpyDtoH", 7000, PER_THREAD, "cuMemcpyDtoH_v2_ptds"),
            ("cuMemcpyDtoH", 7000, LEGACY, "cuMemcpyDtoH_v2"),
            ("cuMemcpyHtoDAsync", 13000, PER_THREAD, "cuMemcpyHtoDAsync_v2_ptsz"),
            ("cuMemAllocAsync", 11020, PER_THREAD, "cuMemAllocAsync_ptsz"),
            ("cuMemPrefetchAsync", 8000, DEFAULT, "cuMemPrefetchAsync"),
            ("cuMemPrefetchAsync", 12020, DEFAULT, "cuMemPrefetchAsync_v2"),
            ("cuEventElapsedTime", 12080, DEFAULT, "cuEventElapsedTime_v2"),
            ("cuIpcOpenMemHandle", 11000, DEFAULT, "cuIpcOpenMemHandle_v2"),
            ("cuProfilerStart", 4000, DEFAULT, "cuProfilerStart"),
        ]
        for name, version, flags, symbol in expected:
            with self.subTest(name=name, version=version, flags=flags):
                self.assertEqual(self.ask(name, version, flags), (SUCCESS, self.address_of(symbol), FOUND))
        # Per-thread functions are younger than the functions they belong to.
        self.assertEqual(self.ask("cuMemcpyDtoH", 4000, PER_THREAD), (NOT_FOUND, None, VERSION_NOT_SUFFICIENT))

    def test_the_old_function_takes_four_arguments(self) -> None:
        address = ctypes.c_void_p()
        result = self.library.cuGetProcAddress(b"cuInit", ctypes.byref(address), 2000, ctypes.c_uint64(0))
        self.assertEqual((result, address.value), (SUCCESS, self.address_of("cuInit")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
