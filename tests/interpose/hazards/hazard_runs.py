"""A program run three times: alone, with the preload library, and under `cuheap run`. Nobody may notice.

Compared are output, errors, exit status or signal, and the files that the program left behind.
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

GPU = "gpu"  # in place of the driver's folder: whatever driver the machine has
CANNOT = 77  # what a scene ends with if the machine does not let it


class HazardRuns(unittest.TestCase):
    """Base of tests; whoever starts them sets the class variables."""

    program: str
    cuheap: str
    preload: pathlib.Path
    driver: str  # folder of the simulated libcuda.so.1, or GPU
    folder: pathlib.Path  # of the programs and libraries that belong to the scenes

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="hazards-")
        self.addCleanup(temporary.cleanup)
        self.work = pathlib.Path(temporary.name)

    def library(self, name):
        return str(self.folder / f"libcuheap_hazard_{name}.so")

    def only_simulated(self):
        if self.driver == GPU:
            self.skipTest("needs the simulated driver")

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CUHEAP_", "SIMCUDA_", "LD_"))}
        folders = [str(self.preload.parent)] if self.driver == GPU else [self.driver, str(self.preload.parent)]
        if self.driver == GPU and os.environ.get("LD_LIBRARY_PATH"):  # where the machine's driver may lie
            folders.append(os.environ["LD_LIBRARY_PATH"])
        return {**kept, "LD_LIBRARY_PATH": ":".join(folders), "LC_ALL": "C.UTF-8", **more}

    def run_in(self, name, words, environment, **how):
        """(exit status, output, errors, files left behind)"""
        place = self.work / name
        place.mkdir()
        done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=100,
                              stdin=subprocess.DEVNULL, **how)
        files = {}
        for path in sorted(place.rglob("*")):
            if path.is_file():
                files[str(path.relative_to(place))] = path.read_text(errors="replace")
        return done.returncode, done.stdout, done.stderr, files

    def alone(self, words, **more):
        return self.run_in("alone", words, self.environment(**more))

    def preloaded(self, words, **more):
        journals = self.work / "journals of preloaded"
        journals.mkdir(mode=0o700)
        # The file's bare name: LD_PRELOAD can hold neither spaces nor colons.
        preload = (self.preload.name + " " + more.pop("LD_PRELOAD", "")).strip()
        return self.run_in("preloaded", words, self.environment(**{**more, "LD_PRELOAD": preload, "CUHEAP_DIR": str(journals)}))

    def supervised(self, words, options=(), **more):
        journals = self.work / "journals"
        journals.mkdir(mode=0o700)
        snapshots = self.work / "snapshots"
        snapshots.mkdir()
        command = [self.cuheap, "run", "-q", "--journal-dir", str(journals), "-o", str(snapshots / "main.json"), *options, "--"]
        return self.run_in("supervised", [*command, *words], self.environment(**more))

    def hazard(self, *scene, program=None, said=None, said_bare=None, lies=(), **more):
        """Runs the scene three times and compares; returns the snapshots, that of the program itself first.

        said, said_bare: what cuheap adds to the errors (a part of it). lies: files whose contents may differ.
        """
        words = [*([program] if isinstance(program, str) else program or [self.program]), *scene]
        alone = self.alone(words, **more)
        if alone[0] == CANNOT:
            self.skipTest("this machine does not let the scene be set up")
        self.assertLess(alone[0], 90, alone)
        self.preloaded_run = self.preloaded(words, **more)
        self.supervised_run = self.supervised(words, **more)
        for run, expected in ((self.preloaded_run, said_bare or said), (self.supervised_run, said)):
            self.assertEqual(run[:2], alone[:2], run)
            if expected is None:
                self.assertEqual(run[2], alone[2])
            else:
                self.assertIn(expected, run[2])
                self.assertEqual([line for line in run[2].splitlines() if not line.startswith("cuheap: ")],
                                 alone[2].splitlines())
            self.assertEqual(set(run[3]), set(alone[3]))
            for name in set(run[3]) - set(lies):
                self.assertEqual(run[3][name], alone[3][name], name)
        self.alone_run = alone
        return self.snapshots()

    def snapshots(self):
        paths = sorted((self.work / "snapshots").iterdir(), key=lambda path: (path.name != "main.json", path.name))
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]

    def report(self, number=0):
        path = sorted((self.work / "snapshots").iterdir(), key=lambda path: (path.name != "main.json", path.name))[number]
        done = subprocess.run([self.cuheap, "report", "--json", str(path)], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    @staticmethod
    def live(snapshot):
        """Bytes of the program's live device memory, smallest first."""
        device = snapshot["words"]["allocation_kind"].index("device")
        live = snapshot["live"]
        return sorted(size for size, kind in zip(live["bytes"], live["kind"]) if kind == device)

    @staticmethod
    def functions(snapshot, size):
        """Functions in the stacks of live blocks of that size, innermost first, one list each."""
        names, live = snapshot["strings"], snapshot["live"]
        return [[names[snapshot["frames"]["function"][frame]] for frame in snapshot["stacks"]["frames"][stack]]
                for stack, bytes_ in zip(live["stack"], live["bytes"]) if bytes_ == size]

    def assert_end(self, snapshot, end, status=None, signal=None):
        complete = snapshot["completeness"]
        self.assertEqual((complete["end"], complete.get("exit_status"), complete.get("exit_signal")), (end, status, signal))

    def assert_complete(self, snapshot):
        complete = snapshot["completeness"]
        lost = {name: complete[name] for name in ("events_dropped", "live_dropped", "stacks_failed") if complete[name]}
        self.assertEqual(lost, {})

    @staticmethod
    def missing(*programs):
        return [program for program in programs if shutil.which(program) is None]
