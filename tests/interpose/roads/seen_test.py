"""The roads to the driver, each by a program of its own: what it prints is the same without and with the preload
library, and what it allocated was served and recorded with the line that asked.

usage: seen_test.py ROAD FOLDER_OF_PROGRAMS CUHEAP PRELOAD_LIBRARY DRIVER_FOLDER|gpu
"""

import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from twice import GPU, Runs  # noqa: E402

MIB = 1 << 20


def marked_line(source: str) -> int:
    """The line of a program that allocates the ten blocks."""
    line, = [number for number, text in enumerate((HERE / source).read_text().splitlines(), 1) if "TEN BLOCKS" in text]
    return line


def stack_lines(snapshot: dict, stack: int) -> list[tuple[str, int]]:
    frames, strings = snapshot["frames"], snapshot["strings"]
    return [(pathlib.Path(strings[frames["file"][frame]]).name, frames["line"][frame])
            for frame in snapshot["stacks"]["frames"][stack]]


class Road(Runs):
    programs: pathlib.Path
    cuheap: str

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="cuheap road ")
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)

    def environment(self, preload: pathlib.Path | None, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CUHEAP_", "SIMCUDA_"))}
        folders = [] if self.driver == GPU else [self.driver]
        if preload is not None:
            first = os.environ.get("CUHEAP_TEST_PRELOAD_FIRST", "")
            kept["LD_PRELOAD"] = (first + " " + preload.name).strip()
            kept["CUHEAP_DIR"] = str(self.work / "journals")
            folders.append(str(preload.parent))
            if self.driver == GPU and os.environ.get("LD_LIBRARY_PATH"):
                folders.append(os.environ["LD_LIBRARY_PATH"])
        if folders:
            kept["LD_LIBRARY_PATH"] = ":".join(folders)
        return {**kept, **more}

    def printed(self, command: list[str], environment: dict[str, str]) -> str:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def same_output(self, command: list[str], preload: pathlib.Path | None = None, **more: str) -> str:
        """Runs the command without and with us; the journals of the second run are in self.work / "journals"."""
        (self.work / "journals").mkdir(mode=0o700)
        native = self.printed(command, self.environment(None, **more))
        ours = self.printed(command, self.environment(preload or self.preload, **more))
        self.assertEqual(native, ours)
        return ours

    def snapshots(self) -> list[dict]:
        """Of the journals that the last run left."""
        out = self.work / "snapshots"
        out.mkdir()
        done = subprocess.run([self.cuheap, "recover", "-q", str(self.work / "journals")], cwd=out, check=False,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.files = sorted(out.glob("*.json"))
        return [json.loads(path.read_text()) for path in self.files]

    def expect_ten(self, snapshot: dict, source: str, sets: int = 1, served: bool = True) -> None:
        """Ten unfreed blocks of 1 MiB, from the marked line of the source, and nothing that was not seen."""
        live = snapshot["live"]
        blocks = [i for i, size in enumerate(live["bytes"]) if size == MIB]
        self.assertEqual(len(blocks), 10 * sets)
        wanted = (source, marked_line(source))
        for i in blocks:
            self.assertIn(wanted, stack_lines(snapshot, live["stack"][i]))
            self.assertEqual(snapshot["words"]["allocation_kind"][live["kind"][i]], "device")
            self.assertEqual(bool(live["served"][i]), served)
        self.assertEqual(snapshot["counters"]["frees"], sets)
        holes = [note for note in snapshot["notes"]
                 if note["code"] not in ("self_check", "python_off") and self.driver != GPU]
        self.assertEqual(holes, [])

    def expect_seen(self, command: list[str], source: str = "ten_blocks.cc", sets: int = 1, **more: str) -> str:
        printed = self.same_output(command, **more)
        self.assertEqual(printed.count("allocate 0 address"), 10 * sets, printed)
        snapshot, = self.snapshots()
        self.expect_ten(snapshot, source, sets)
        return printed

    def program(self, name: str, *arguments: str) -> list[str]:
        return [str(self.programs / name), *arguments]

    def lookup(self, *arguments: str) -> list[str]:
        return self.program("cuheap_road_lookup", *arguments)

    def driver_file(self) -> str:
        if self.driver != GPU:
            return str(pathlib.Path(self.driver, "libcuda.so.1").resolve())
        ctypes.CDLL("libcuda.so.1")
        for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
            if "libcuda.so" in line:
                return line[line.index("/"):]
        raise AssertionError("there is no driver")

    # One a road.

    def test_linked(self) -> None:
        self.expect_seen(self.program("cuheap_road_driver", "linked"))

    def test_dlsym(self) -> None:
        self.expect_seen(self.lookup("dlsym"))

    def test_dlvsym(self) -> None:
        self.expect_seen(self.lookup("dlvsym"))

    def test_looked_up_lookup(self) -> None:
        self.expect_seen(self.lookup("looked-up-lookup"))

    def test_rtld_next(self) -> None:
        self.expect_seen(self.lookup("rtld-next"))

    def test_rtld_default(self) -> None:
        self.expect_seen(self.lookup("rtld-default"))

    def test_absolute_path(self) -> None:
        self.expect_seen(self.lookup("absolute-path", self.driver_file()))

    def test_get_proc_address(self) -> None:
        self.expect_seen(self.lookup("old-resolver"))

    def test_get_proc_address_v2(self) -> None:
        printed = self.expect_seen(self.lookup("resolver"))
        self.assertIn("cuMemcpyDtoH found 0", printed)

    def test_get_proc_address_first(self) -> None:
        printed = self.expect_seen(self.lookup("first-call"))
        self.assertIn('13000 "cuNoSuchFunction": 500 1 null', printed)
        self.assertIn('12000 "cuGetProcAddress": 0 0 found', printed)
        self.assertIn("not initialised 3", printed)
        self.assertIn("two resolvers differ", printed)

    def test_recursion(self) -> None:
        """Two threads look one name up at once, with the library in a folder of an unusual name."""
        odd = self.work / "an odd folder, really"
        odd.mkdir()
        shutil.copy(self.preload, odd)
        printed = self.same_output(self.lookup("twice"), preload=odd / self.preload.name)
        self.assertIn("four look-ups agree", printed)
        snapshot, = self.snapshots()
        self.expect_ten(snapshot, "ten_blocks.cc")

    def test_load_only(self) -> None:
        printed = self.same_output(self.lookup("load-only"))
        self.assertIn("count 3", printed)
        self.assertEqual(list((self.work / "journals").iterdir()), [])

    def test_cudart_12(self) -> None:
        self.expect_seen(self.program("cuheap_road_runtime_12", "runtime"), "runtime_program.cc")

    def test_cudart_13(self) -> None:
        self.expect_seen(self.program("cuheap_road_runtime_13", "runtime"), "runtime_program.cc")

    def test_entry_point(self) -> None:
        for version in ("12", "13"):
            with self.subTest(version):
                self.setUp()
                self.expect_seen(self.program(f"cuheap_road_runtime_{version}", "entry-point"))

    def test_entry_point_by_version(self) -> None:
        for version in ("12", "13"):
            with self.subTest(version):
                self.setUp()
                printed = self.expect_seen(self.program(f"cuheap_road_runtime_{version}", "entry-point-by-version"))
                self.assertIn("cuCtxCreate 0 0 found", printed)

    def test_static_runtime(self) -> None:
        """A runtime's look-ups inside the executable (the vendor's own one needs the vendor's driver)."""
        self.expect_seen(self.program("cuheap_road_static"), "static_program.cc")

    def test_library_with_static_runtime(self) -> None:
        self.expect_seen(self.program("cuheap_road_host", "plain", str(self.programs / "libcuheap_road_private.so")))

    def test_linked_library(self) -> None:
        self.expect_seen(self.program("cuheap_road_host", "plain", str(self.programs / "libcuheap_road_linked.so")))

    def test_ctypes(self) -> None:
        printed = self.same_output([sys.executable, str(HERE / "ctypes_program.py")])
        self.assertEqual(printed.count("allocate 0 address"), 10)
        snapshot, = self.snapshots()
        self.expect_ten(snapshot, "ctypes_program.py")

    def test_wheel(self) -> None:
        """An extension that finds its runtime by DT_RPATH, as those of wheels do."""
        extension = self.work / "site/package/extension.so"
        runtime = self.work / "site/nvidia/cuda_runtime/lib"
        extension.parent.mkdir(parents=True)
        runtime.mkdir(parents=True)
        shutil.copy(self.programs / "libcuheap_road_wheel.so", extension)
        if self.driver == GPU:
            self.skipTest("there is no runtime to lay into the wheel")
        shutil.copy(pathlib.Path(self.driver, "libcudart.so.13").resolve(), runtime / "libcudart.so.13")
        printed = self.same_output([sys.executable, str(HERE / "wheel_program.py"), str(extension)])
        self.assertIn("runtime of the wheel", printed)
        snapshot, = self.snapshots()
        self.expect_ten_of(snapshot, 10, "wheel_extension.cc")

    def expect_ten_of(self, snapshot: dict, count: int, source: str) -> None:
        live = snapshot["live"]
        blocks = [i for i, size in enumerate(live["bytes"]) if size == MIB]
        self.assertEqual(len(blocks), count)
        for i in blocks:
            self.assertIn((source, marked_line(source)), stack_lines(snapshot, live["stack"][i]))

    def test_child(self) -> None:
        self.expect_seen(self.program("cuheap_road_driver", "child"))

    def test_child_environment(self) -> None:
        self.expect_seen(self.program("cuheap_road_driver", "child-environment"))

    # What goes with the roads.

    def test_missing_outputs(self) -> None:
        printed = self.same_output(self.program("cuheap_road_driver", "missing-outputs"))
        self.assertIn("in bounds", printed)

    def test_foreign_frees(self) -> None:
        printed = self.same_output(self.program("cuheap_road_driver", "foreign-frees"))
        for line in ("inside 1", "once 0", "twice 1", "null 0", "freed plainly 0"):
            self.assertIn(line, printed)
        snapshot, = self.snapshots()
        self.assertGreaterEqual(snapshot["counters"]["frees_unknown"], 2)


if __name__ == "__main__":
    road = sys.argv[1]
    Road.programs, Road.cuheap = pathlib.Path(sys.argv[2]).resolve(), str(pathlib.Path(sys.argv[3]).resolve())
    Road.preload, Road.driver = pathlib.Path(sys.argv[4]).resolve(), sys.argv[5]
    unittest.main(argv=[sys.argv[0], f"Road.test_{road}"])
