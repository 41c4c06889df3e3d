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
        self.expect_seen(self.program("cuheap_road_host", "plain", str(self.programs / "libroad_private.so")))

    def test_linked_library(self) -> None:
        self.expect_seen(self.program("cuheap_road_host", "plain", str(self.programs / "libroad_linked.so")))

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
        shutil.copy(self.programs / "libroad_wheel.so", extension)
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

    def test_child_without_us(self) -> None:
        """A child whose environment lost LD_PRELOAD: nothing in it can tell, so `cuheap run` does."""
        simulate = [] if self.driver == GPU else ["--simulate"]
        done = subprocess.run([self.cuheap, "run", *simulate, "--journal-dir", str(self.work), "--",
                               *self.program("cuheap_road_driver", "bare-child")],
                              cwd=self.work, env=self.environment(None), capture_output=True, text=True, timeout=120,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("allocate 0 address"), 10)
        self.assertRegex(done.stderr, r"cuheap_road_driver \(process \d+\) had the CUDA driver loaded and not cuheap")
        self.assertEqual(done.stderr.count("not cuheap"), 1)

    # Roads that lead around us: named in the snapshot and in the report, with what follows.

    def unseen(self, *ways: str) -> tuple[dict, list[tuple[str, str, int]]]:
        """The host program opens libraries in these ways; its snapshot, and its notes of what went past us."""
        printed = self.same_output(self.program("cuheap_road_host", *ways))
        self.assertEqual(printed.count("allocate 0 address"), 10 * (len(ways) // 2), printed)
        snapshot, = self.snapshots()
        notes = [(note["code"], pathlib.Path(note["text"]).name, note["a"]) for note in snapshot["notes"]
                 if note["code"].startswith("unseen_")]
        # Device files are there with a real driver only.
        return snapshot, sorted((code, name, a if code == "unseen_library" else 0) for code, name, a in notes)

    def report(self) -> dict:
        done = subprocess.run([self.cuheap, "report", "--json", str(self.files[0])], capture_output=True, text=True,
                              check=True, timeout=120)
        return json.loads(done.stdout)

    def observed(self, code: str) -> list[str]:
        return [entry["text"] for entry in self.report()["not_observed"]
                if entry["code"] == code and entry["kind"] == "unseen"]

    def library(self, name: str) -> str:
        return str(self.programs / f"lib{name}.so")

    @property
    def driver_name(self) -> str:
        return pathlib.Path(self.driver_file()).name

    DIRECT, LOOKUPS, OTHER = 1, 2, 3

    def test_deepbind(self) -> None:
        snapshot, notes = self.unseen("deepbind", self.library("road_linked"))
        self.assertEqual(notes, [("unseen_library", "libroad_linked.so", self.DIRECT),
                                 ("unseen_process", self.driver_name, 0)])
        self.assertEqual(snapshot["counters"]["allocations"], 0)
        text, = self.observed("unseen_library")
        self.assertIn("Allocations of libroad_linked.so", text)
        self.assertIn("were not observed", text)
        self.assertIn("RTLD_DEEPBIND", text)
        self.assertEqual(self.report()["verdict"], "nothing_seen")

    def test_deepbind_lazy(self) -> None:
        _, notes = self.unseen("lazy-deepbind", self.library("road_linked"))
        self.assertIn(("unseen_library", "libroad_linked.so", self.DIRECT), notes)

    def test_deepbind_static_runtime(self) -> None:
        _, notes = self.unseen("deepbind", self.library("road_private"))
        self.assertEqual(notes, [("unseen_library", "libroad_private.so", self.LOOKUPS),
                                 ("unseen_process", self.driver_name, 0)])
        text, = self.observed("unseen_library")
        self.assertIn("may not have been observed", text)

    def test_deepbind_closed(self) -> None:
        """A library that is gone when the program ends."""
        _, notes = self.unseen("deepbind-closed", self.library("road_linked"))
        self.assertEqual(notes, [("unseen_library", "libroad_linked.so", self.DIRECT),
                                 ("unseen_process", self.driver_name, 0)])

    def test_dlmopen(self) -> None:
        _, notes = self.unseen("namespace", self.library("road_linked"))
        self.assertEqual(notes, [("unseen_driver", self.driver_name, 0),
                                 ("unseen_library", "libroad_linked.so", self.OTHER),
                                 ("unseen_process", self.driver_name, 0)])
        text, = self.observed("unseen_library")
        self.assertIn("dlmopen", text)

    def test_dlmopen_static_runtime(self) -> None:
        _, notes = self.unseen("namespace", self.library("road_private"))
        self.assertIn(("unseen_driver", self.driver_name, 0), notes)
        text, = self.observed("unseen_driver")
        self.assertIn("Another copy of the driver", text)

    def test_other_path(self) -> None:
        """A second driver by another path, whose look-ups come to us but find what is not the first driver's."""
        if self.driver == GPU:
            self.skipTest("a second copy of a real driver is not for a test")
        copy = self.work / "libcuda.so.1"
        shutil.copy(self.driver_file(), copy)
        printed = self.same_output(self.lookup("both-drivers", str(copy)))
        self.assertEqual(printed.count("allocate 0 address"), 20, printed)
        snapshot, = self.snapshots()
        self.assertEqual(snapshot["counters"]["allocations"], 11)
        codes = {note["code"] for note in snapshot["notes"]}
        self.assertIn("unseen_driver", codes)
        self.assertIn("unknown_address", codes)
        self.assertTrue(any("cuMemAlloc_v2" in text for text in self.observed("unknown_address")))

    def test_mixed(self) -> None:
        """What was seen stays exact, beside what was not."""
        snapshot, notes = self.unseen("plain", self.library("road_linked"), "deepbind", self.library("road_private"))
        self.assertEqual(notes, [("unseen_library", "libroad_private.so", self.LOOKUPS)])
        self.expect_ten_of(snapshot, 10, "ten_blocks.cc")
        text = subprocess.run([self.cuheap, "report", str(self.files[0])], capture_output=True, text=True, check=True,
                              timeout=120).stdout
        self.assertIn("ten_blocks.cc:", text)
        self.assertRegex(text, r"NOT OBSERVED\n  - Allocations of libroad_private\.so")

    def test_nothing_unseen(self) -> None:
        """The check finds nothing where there is nothing, also in a process with many libraries."""
        for command in ([sys.executable, str(HERE / "ctypes_program.py")],
                        self.program("cuheap_road_runtime_13", "runtime")):
            with self.subTest(command[-1]):
                self.setUp()
                self.same_output(command)
                snapshot, = self.snapshots()
                self.assertEqual([note for note in snapshot["notes"] if note["code"].startswith("unseen_")], [])

    def test_interposer(self) -> None:
        """Another library that stands in front of the driver: told if it comes behind us, where it may see nothing."""
        behind = "libroad_behind.so"
        told = []
        for libraries in ([self.preload.name, behind], [behind, self.preload.name]):
            self.setUp()
            journals = self.work / "journals"
            journals.mkdir(mode=0o700)
            folders = [str(self.programs), str(self.preload.parent)] + ([] if self.driver == GPU else [self.driver])
            first = os.environ.get("CUHEAP_TEST_PRELOAD_FIRST", "")
            command = self.program("cuheap_road_driver", "linked")
            alone = {"LD_PRELOAD": f"{first} {behind}".strip(), "LD_LIBRARY_PATH": ":".join(folders)}
            native = self.printed(command, self.environment(None, **alone))
            both = {**alone, "LD_PRELOAD": " ".join([first, *libraries]).strip(), "CUHEAP_DIR": str(journals)}
            self.assertEqual(self.printed(command, self.environment(None, **both)), native)
            snapshot, = self.snapshots()
            self.expect_ten(snapshot, "ten_blocks.cc")
            told.append([entry["text"] for entry in self.report()["not_observed"] if behind in entry["text"]])
        self.assertEqual((len(told[0]), told[1]), (1, []), told)
        self.assertIn(f"{behind} stands in front of 2 of the driver's functions as well, but behind cuheap", told[0][0])

    # What goes with the roads.

    def test_dlerror(self) -> None:
        """A text of dlerror that the program has yet to read is still there after the driver's first calls."""
        printed = self.expect_seen(self.program("cuheap_road_driver", "dlerror"))
        printed_late = self.same_output_again(self.lookup("dlerror"))
        if self.driver != GPU:  # a real driver opens libraries of its own meanwhile
            self.assertIn("dlerror libcuheap_no_such_library.so: cannot open", printed)
            self.assertIn("dlerror libcuheap_no_such_library.so: cannot open", printed_late)

    def same_output_again(self, command: list[str]) -> str:
        self.setUp()
        return self.same_output(command)

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
