"""Installs the build into a folder of its own, moves it, and builds and runs a stranger's project against it.

usage: install_test.py BUILD_DIR CMAKE CXX

Moved, because an installed package that names the place it was built or installed at is of no use to anyone else.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def call(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class InstalledPackage(unittest.TestCase):
    build: pathlib.Path
    cmake: str
    cxx: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cuheap install "))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        call(cls.cmake, "--install", cls.build, "--prefix", cls.folder / "first place")
        cls.prefix = cls.folder / "moved here"
        (cls.folder / "first place").rename(cls.prefix)

    def test_the_licence_of_what_is_bundled_comes_along(self) -> None:
        licence = self.prefix / "share/doc/cuheap/licences/d3"
        if not (self.prefix / "bin/cuheap").exists():
            self.skipTest("the command was not built")
        self.assertIn("Mike Bostock", licence.read_text(encoding="utf-8"))

    def test_a_stranger_can_build_against_it(self) -> None:
        build = self.folder / "consumer"
        call(self.cmake, "-S", ROOT / "tests/consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
             f"-DCMAKE_CXX_COMPILER={self.cxx}", "-DCMAKE_BUILD_TYPE=Release")
        call(self.cmake, "--build", build)
        self.assertEqual(call(build / "consumer"), "reused\n")

    def test_the_examples_of_the_page_build_and_run(self) -> None:
        driver = self.prefix / "lib/simcuda"
        if not (driver / "libcuda.so").exists():
            self.skipTest("no simulated driver was built")
        page = (self.prefix / "share/doc/cuheap/allocator.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```(cmake|c\+\+)\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
        project = next(text for kind, text in blocks if kind == "cmake")
        first, second = (text for kind, text in blocks if kind == "c++")
        source = self.folder / "example"
        source.mkdir()
        project += "add_executable(second second.cc)\ntarget_link_libraries(second PRIVATE cuheap::stream_pool cuheap::fake_stream_memory)\n"
        (source / "CMakeLists.txt").write_text(project, encoding="utf-8")
        (source / "main.cc").write_text(first, encoding="utf-8")
        (source / "second.cc").write_text(second, encoding="utf-8")
        cache = (self.build / "CMakeCache.txt").read_text(encoding="utf-8")
        headers = re.search(r"^CUHEAP_CUDA_INCLUDE_DIR:\w+=(.*)$", cache, flags=re.MULTILINE).group(1)
        call(self.cmake, "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
             f"-DCMAKE_CXX_COMPILER={self.cxx}", f"-DCUHEAP_CUDA_INCLUDE_DIR={headers}",
             f"-DCUDA_DRIVER={driver / 'libcuda.so'}")
        call(self.cmake, "--build", source / "build")
        self.assertEqual(call("env", f"LD_LIBRARY_PATH={driver}", source / "build/my_service"), "reused\n")
        call(source / "build/second")

    def test_package_files_name_no_build_or_source_place(self) -> None:
        files = list((self.prefix / "lib/cmake").rglob("*.cmake"))
        self.assertTrue(files)
        for file in files:
            text = file.read_text(encoding="utf-8")
            for place in (self.build, ROOT, "first place"):
                self.assertNotIn(str(place), text, file)

    def test_the_command_runs_where_it_was_put(self) -> None:
        command = self.prefix / "bin/cuheap"
        if not command.exists():
            self.skipTest("no command was built")
        self.assertIn("cuheap", call(command, "--version"))
        doc = self.prefix / "share/doc/cuheap"
        named = set(re.findall(r"\b([a-z]+\.md)\b", call(command, "--help")))
        self.assertTrue(named)
        manual = (self.prefix / "share/man/man1/cuheap.1").read_text(encoding="utf-8")
        named |= {"LICENSE", "snapshot.schema.json", *re.findall(r"\b([a-z]+\.md)\b", manual)}
        self.assertEqual({name for name in named if not (doc / name).is_file()}, set())
        for needed in ("lib/libcuheap_preload.so", "lib/simcuda/libcuda.so.1", "lib/simcuda/libcudart.so.13"):
            self.assertTrue((self.prefix / needed).exists(), needed)
        needed = call("readelf", "-d", command)
        self.assertNotIn("libabsl", needed, "Abseil must be linked from its archives")
        for place in (str(self.build), str(ROOT)):
            self.assertNotIn(place, needed)


if __name__ == "__main__":
    InstalledPackage.build, InstalledPackage.cmake, InstalledPackage.cxx = (
        pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3])
    unittest.main(argv=sys.argv[:1])
