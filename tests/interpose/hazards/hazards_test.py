"""One hazard a test: see the scenes beside this file.

usage: hazards_test.py PROGRAM CUHEAP PRELOAD DRIVER|gpu FOLDER [TEST...]
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import hazard_runs

KIB, MIB = 1 << 10, 1 << 20
LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


def some(count):
    return [(i + 1) * 300 * KIB for i in range(count)]


class Processes(hazard_runs.HazardRuns):
    def test_fork(self):
        snapshot, = self.hazard("fork")
        self.assertEqual(self.live(snapshot), some(4))
        self.assert_end(snapshot, "exited", 0)
        self.assert_complete(snapshot)

    def test_fork_busy(self):
        snapshot, = self.hazard("fork_busy")
        self.assertEqual(self.live(snapshot), some(4))

    def test_fork_raw(self):
        snapshot, = self.hazard("fork_raw")
        self.assertEqual(self.live(snapshot), some(2))

    def test_fork_at_start(self):
        """A fork while another thread makes the process's first call."""
        self.only_simulated()  # the vendor's driver may register handlers by other libraries
        library = self.library("forking")
        os.symlink(library, self.work / "forking.so")
        folders = self.environment()["LD_LIBRARY_PATH"] + ":" + str(self.work)
        snapshot, = self.hazard("fork_at_start", LD_LIBRARY_PATH=folders, LD_PRELOAD="forking.so")
        self.assertEqual(self.live(snapshot), some(2))

    def test_cleared_environment(self):
        """What cuheap run was asked for holds, though the program has no environment at its first call."""
        words = [self.program, "cleared_environment"]
        runs = [self.alone(words, SIMCUDA_LOG="driver.log"),
                self.supervised(words, ["--observe"], SIMCUDA_LOG="driver.log")]
        # Size and address of every call for memory, beside which the recorder only asks the driver for facts.
        memory = [re.findall(r" (cuMem[A-Z]\w+) (?:dptr=\w+ )?(.*=.*) -> 0$", files.pop("driver.log", ""), re.MULTILINE)
                  for *_, files in runs]
        memory = [[call for call in calls if call[0] != "cuMemGetInfo_v2"] for calls in memory]
        self.assertEqual(runs[0][0], 0, runs[0])
        self.assertEqual(runs[1], runs[0])
        self.assertEqual(memory[1], memory[0])
        self.assertEqual(len(memory[0]), 0 if self.driver == hazard_runs.GPU else 3)
        snapshot, = self.snapshots()
        self.assertEqual(self.live(snapshot), some(3))

    def start(self, way):
        main, child = self.hazard("start", way)
        self.assertEqual((self.live(main), self.live(child)), (some(4), some(3)))
        self.assertEqual(child["process"]["parent_pid"], main["process"]["pid"])
        self.assert_end(main, "exited", 0)
        self.assert_end(child, "exited")  # whose status nobody was told

    def test_fork_exec(self):
        self.start("fork")

    def test_vfork(self):
        self.start("vfork")

    def test_posix_spawn(self):
        self.start("spawn")

    def test_exec(self):
        main, before = self.hazard("become")
        self.assertEqual((self.live(main), self.live(before)), (some(3), some(4)))
        self.assert_end(main, "exited", 0)
        self.assert_end(before, "executed")

    def test_exit_in_thread(self):
        snapshot, = self.hazard("exit_in_thread")
        self.assertLessEqual(set(some(3)), set(self.live(snapshot)))
        self.assert_end(snapshot, "exited", 7)

    def test_underscore_exit(self):
        snapshot, = self.hazard("underscore_exit")
        self.assertEqual(self.live(snapshot), some(3))
        self.assert_end(snapshot, "quit", 5)

    def test_quick_exit(self):
        snapshot, = self.hazard("quick_exit")
        self.assertEqual(self.live(snapshot), some(3))
        self.assert_end(snapshot, "quit", 6)

    def test_uncaught_exception(self):
        snapshot, = self.hazard("uncaught")
        self.assertEqual(self.live(snapshot), some(3))
        self.assert_end(snapshot, "killed", signal=signal.SIGABRT)

    def test_abort(self):
        snapshot, = self.hazard("abort")
        self.assertEqual(self.live(snapshot), some(3))
        self.assert_end(snapshot, "killed", signal=signal.SIGABRT)

    def test_kill(self):
        for number, microseconds in enumerate((0, 3000, 20000)):
            with self.subTest(microseconds):
                if number:
                    self.doCleanups()
                    self.setUp()
                snapshot, = self.hazard("killed", str(microseconds))
                live = self.live(snapshot)
                self.assertLessEqual(set(some(3)), set(live))
                # Two threads hold a block each, at most.
                self.assertLessEqual(len(live), 5)
                self.assertLessEqual(set(live), {*some(3), 10 * KIB, 20 * KIB})
                self.assert_end(snapshot, "killed", signal=signal.SIGKILL)

    def test_static_destructors(self):
        snapshot, = self.hazard("static_destructors", SIMCUDA_REFUSE_AT_EXIT="1")
        if self.driver != hazard_runs.GPU:
            self.assertIn("late free 4", self.alone_run[1])
        self.assertEqual(self.report()["leaks"], [])
        freed = [size for size, flags, kind in zip(*(snapshot["events"][name] for name in ("bytes", "flags", "type")))
                 if snapshot["words"]["event_type"][kind] == "free"]
        self.assertEqual(sorted(freed), [5 * KIB, 900 * KIB, 5 * MIB])
        self.assert_end(snapshot, "exited", 0)

    def test_daemon(self):
        """A daemon outlives `cuheap run`, which says so; its journal can be recovered later."""
        words = [self.program, "daemonise", "daemon"]
        outputs = []
        for name in ("alone", "supervised"):
            # Files and not pipes: the daemon would hold them open.
            place = self.work / name
            place.mkdir()
            journals = self.work / "journals"
            journals.mkdir(mode=0o700, exist_ok=True)
            command = [] if name == "alone" else [self.cuheap, "run", "--journal-dir", str(journals), "-o", "../main.json", "--"]
            with open(place / "out", "w", encoding="utf-8") as out, open(place / "err", "w", encoding="utf-8") as errors:
                done = subprocess.run([*command, *words], cwd=place, env=self.environment(), stdout=out, stderr=errors,
                                      stdin=subprocess.DEVNULL, check=False, timeout=60)
            said = (place / "err").read_text()
            (place / "daemon.stop").touch()
            deadline = time.monotonic() + 30
            while "daemon ends" not in (place / "daemon").read_text() and time.monotonic() < deadline:
                time.sleep(0.02)
            outputs.append((done.returncode, (place / "out").read_text(), (place / "daemon").read_text()))
        self.assertEqual(outputs[0], outputs[1])
        self.assertIn("daemon works 1", outputs[0][2])
        folder = re.search(r"still running: process \d+.*\n.*cuheap recover (.*)", said)
        self.assertIsNotNone(folder, said)
        time.sleep(0.2)
        done = subprocess.run([self.cuheap, "recover", "-q", folder[1].strip("'"), "-o", str(self.work / "later.json")],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Signals(hazard_runs.HazardRuns):
    def test_signal_handler(self):
        snapshot, = self.hazard("handler_allocates")
        self.assertEqual(self.live(snapshot), [10 * KIB] * 5)
        self.assert_complete(snapshot)

    def test_signal_during_wait(self):
        self.only_simulated()  # what the vendor's driver does in a handler is not documented
        snapshot, = self.hazard("handler_during_wait")
        self.assertEqual(self.live(snapshot), [20 * KIB])
        self.assert_complete(snapshot)

    def test_signal_longjmp(self):
        self.only_simulated()
        snapshot, = self.hazard("jump_out_of_wait")
        self.assertEqual(self.live(snapshot), [30 * KIB])
        self.assert_complete(snapshot)

    def test_sigprof(self):
        snapshot, = self.hazard("profiler")
        self.assertEqual(self.live(snapshot), [])
        self.assert_complete(snapshot)

    def test_signal_storm(self):
        snapshot, = self.hazard("storm")
        self.assertEqual(self.live(snapshot), [])
        self.assert_complete(snapshot)

    def test_alternate_signal_stack(self):
        snapshot, = self.hazard("alternate_stack")
        self.assertEqual(self.live(snapshot), [10 * KIB] * 5)
        self.assertTrue(all("AllocateInHandler" in " ".join(stack) for stack in self.functions(snapshot, 10 * KIB)))

    def test_own_faults(self):
        snapshot, = self.hazard("own_faults")
        self.assertEqual(self.live(snapshot), [])

    def test_sigpipe(self):
        snapshot, = self.hazard("closed_pipe")
        self.assertEqual(self.live(snapshot), [300 * KIB])
        self.assert_end(snapshot, "killed", signal=signal.SIGPIPE)
        # Nobody reads what cuheap itself says: the program's status is passed on all the same.
        out, into = os.pipe()
        os.close(out)
        (self.work / "quiet").mkdir()
        done = subprocess.run([self.cuheap, "run", "-o", str(self.work / "plain.json"), "--", self.program, "plain"],
                              cwd=self.work / "quiet", env=self.environment(), stderr=into, stdout=subprocess.DEVNULL,
                              check=False, timeout=60)
        os.close(into)
        self.assertEqual(done.returncode, 0)
        self.assertTrue((self.work / "plain.json").exists())


class Threads(hazard_runs.HazardRuns):
    def test_stack_64_kib(self):
        for scene, blocks in (("small_stacks", [9000] * 4), ("small_first", [9000])):
            with self.subTest(scene):
                self.doCleanups()
                self.setUp()
                snapshot, = self.hazard(scene, "64")
                self.assertEqual(self.live(snapshot), blocks)
                self.assert_complete(snapshot)

    def test_stack_16_kib(self):
        self.only_simulated()  # what the vendor's driver needs is not known
        for scene, blocks in (("small_stacks", [9000] * 4), ("small_first", [9000])):
            with self.subTest(scene):
                self.doCleanups()
                self.setUp()
                snapshot, = self.hazard(scene, "16")
                self.assertEqual(self.live(snapshot), blocks)
                self.assert_complete(snapshot)

    def test_thousand_threads(self):
        snapshot, = self.hazard("thousand")
        self.assertEqual(self.live(snapshot), [2000 + i * 8 for i in range(1, 1000, 2)])
        self.assertGreaterEqual(len(snapshot["threads"]), 1000)
        self.assert_complete(snapshot)

    def test_tls_destructors(self):
        snapshot, = self.hazard("tls_destructors")
        self.assertEqual(self.live(snapshot), sorted([40 * KIB, 50 * KIB]))
        self.assert_complete(snapshot)

    def test_main_thread_leaves(self):
        self.only_simulated()  # the vendor's driver has threads of its own, which do not end
        snapshot, = self.hazard("main_leaves", SIMCUDA_MEMORY="256MiB")
        self.assertEqual(self.live(snapshot), [])
        self.assert_end(snapshot, "exited", 0)

    def test_cancel(self):
        snapshot, = self.hazard("cancel")
        self.assert_complete(snapshot)
        self.assertLessEqual(set(self.live(snapshot)), {3000})

    def test_cancel_in_wait(self):
        snapshot, = self.hazard("cancel_in_wait")
        self.assertEqual(self.live(snapshot), [10 * KIB])
        self.assert_complete(snapshot)

    def test_exceptions(self):
        snapshot, = self.hazard("exceptions")
        self.assertEqual(self.live(snapshot), [1000] * 20)
        self.assert_complete(snapshot)


class Stacks(hazard_runs.HazardRuns):
    def test_deep_recursion(self):
        snapshot, = self.hazard("deep_recursion")
        self.assertEqual(self.live(snapshot), [100 * KIB] * 3)
        for stack in self.functions(snapshot, 100 * KIB):
            self.assertTrue(any("Recurse" in function for function in stack[:3]), stack[:5])
        self.assertTrue(any(snapshot["stacks"]["truncated"]))

    def test_coroutines(self):
        snapshot, = self.hazard("coroutines")
        self.assertEqual(self.live(snapshot), sorted([(12 + i) * KIB for i in range(8)] * 4))
        for stack in self.functions(snapshot, 12 * KIB):
            self.assertIn("CoroutineMain", " ".join(stack))
        self.assert_complete(snapshot)

    def test_dlclose(self):
        snapshot, = self.hazard("unload", self.library("unload_first"), self.library("unload_second"))
        self.assertEqual(self.live(snapshot), [1000, 2000])
        for size, function in ((1000, "TheFirstLibrary"), (2000, "TheOtherLibrary")):
            stack, = self.functions(snapshot, size)
            self.assertIn(function, stack)
            self.assertIn("Unload", " ".join(stack))

    def test_constructor_waits_for_look_up(self):
        self.hazard(program=[str(self.folder / "cuheap_hazard_early")])

    def test_constructor_waits_for_call(self):
        for when in ("later", "first"):
            with self.subTest(when):
                self.doCleanups()
                self.setUp()
                self.hazard("waiting_constructor", self.library("waiting"), when)


class Limits(hazard_runs.HazardRuns):
    def assert_says_what_is_missing(self, snapshot):
        """Of 300 blocks: all are told, or that some are missing."""
        live = len(self.live(snapshot))
        if live != 300:
            self.assertLess(live, 300)
            self.assertGreaterEqual(snapshot["completeness"]["live_dropped"], 300 - live)
            self.assertIn("no_space", [note["code"] for note in snapshot["notes"]])
            # Their frees are no sign of memory that comes from somewhere else.
            self.assertNotIn("frees_unknown", [entry["code"] for entry in self.report()["not_observed"]])

    def test_address_space(self):
        self.only_simulated()  # the vendor's driver reserves more than any limit
        self.hazard("tight_address_space")

    def test_no_descriptors(self):
        snapshot, = self.hazard("no_descriptors", "late")
        self.assert_says_what_is_missing(snapshot)
        self.assertGreater(snapshot["completeness"]["live_dropped"], 0)

    def test_no_descriptors_from_the_start(self):
        self.only_simulated()
        self.assertEqual(self.hazard("no_descriptors", "early", said="cuheap: not recording: "), [])

    def test_file_size(self):
        """RLIMIT_FSIZE: a journal that cannot be begun, and one that cannot grow; no SIGXFSZ for the program."""
        self.assertEqual(self.hazard("file_size", "100000", said="larger than the limit on file sizes"), [])
        self.doCleanups()
        self.setUp()
        snapshot, = self.hazard("file_size", "2000000")
        self.assert_says_what_is_missing(snapshot)

    def test_file_size_of_cuheap(self):
        """The limit holds for the supervisor too: it says so, and ends as the program."""
        self.alone([self.program, "leak", "2"])
        place = self.work / "limited"
        place.mkdir()
        done = subprocess.run(["/bin/sh", "-c", 'ulimit -f 1; exec "$@"', "sh", self.cuheap, "run", "-o", "x.json", "--",
                               self.program, "leak", "2"], cwd=place, env=self.environment(), capture_output=True,
                              text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("cuheap: ", done.stderr)

    def test_memlock(self):
        snapshot, = self.hazard("locked_memory")
        self.assert_complete(snapshot)

    def test_closed_stdio(self):
        self.hazard("closed_stdio", "report")
        self.assertIn("first 0 written 0 round trip 1", self.alone_run[3]["report"])
        snapshot, = self.snapshots()
        self.assertEqual(len(self.live(snapshot)), 300)
        self.assert_complete(snapshot)

    def test_closefrom(self):
        snapshot, = self.hazard("close_from")
        self.assertEqual(len(self.live(snapshot)), 300)
        self.assert_complete(snapshot)

    def test_clone_without_files(self):
        snapshot, = self.hazard("own_files")
        self.assertEqual(len(self.live(snapshot)), 100)
        self.assert_complete(snapshot)

    def test_seccomp(self):
        for when in ("late", "early"):
            with self.subTest(when):
                self.doCleanups()
                self.setUp()
                snapshot, = self.hazard("refused", when)
                self.assertEqual(len(self.live(snapshot)), 300)

    def test_chroot_without_proc(self):
        root = self.work / "root"
        root.mkdir()
        snapshot, = self.hazard("other_root", str(root), "late")
        self.assert_says_what_is_missing(snapshot)

    def test_chroot_from_the_start(self):
        self.only_simulated()  # no device files there
        root = self.work / "root"
        root.mkdir()
        self.assertEqual(self.hazard("other_root", str(root), "early", said="cuheap: not recording: "), [])

    def test_not_dumpable(self):
        snapshot, = self.hazard("not_dumpable")
        self.assertEqual(len(self.live(snapshot)), 30)
        self.assert_complete(snapshot)

    def test_traced(self):
        self.hazard("traced")

    def test_huge_environment(self):
        more = {f"HAZARD_{i}": "x" * 100_000 for i in range(12)}
        snapshot, = self.hazard("plain", *["y" * 1000] * 300, **more)
        self.assertTrue(snapshot["process"]["command_line_cut"])
        self.assertEqual(snapshot["process"]["command_line"][1], "plain")
        self.assertEqual(len(self.live(snapshot)), 30)

    def test_no_home(self):
        before = os.environ.pop("HOME", None)
        try:
            snapshot, = self.hazard("plain")
        finally:
            if before is not None:
                os.environ["HOME"] = before
        self.assertEqual(len(self.live(snapshot)), 30)

    def test_clock_jumps(self):
        """Clocks that jump by days, as under libfaketime."""
        library = self.library("clock")
        os.symlink(library, self.work / "clock.so")
        words = [self.program, "plain"]
        folders = self.environment()["LD_LIBRARY_PATH"] + ":" + str(self.work)
        more = {"LD_LIBRARY_PATH": folders, "LD_PRELOAD": "clock.so"}
        alone = self.alone(words, **more)
        self.assertEqual(self.preloaded(words, **more), alone)
        self.assertEqual(self.supervised(words, **more), alone)
        snapshot, = self.snapshots()
        self.assertEqual(len(self.live(snapshot)), 30)
        self.assertEqual(self.report()["process"]["end"], "exited")

    def test_pending_collective(self):
        """Memory is short beside work that only the asking thread can let go: an error at worst, but no dead-lock."""
        self.only_simulated()
        for size in ("20", "4096"):
            with self.subTest(size):
                self.doCleanups()
                self.setUp()
                words = [self.program, "pending_work", size]
                more = {"SIMCUDA_MEMORY": "64MiB", "CUHEAP_SYNC_DEADLINE_MS": "20"}
                alone = self.alone(words, **more)
                self.assertIn("allocation beside pending work 0\n", alone[1])
                began = time.monotonic()
                status, output, errors, _ = self.preloaded(words, **more)
                self.assertLess(time.monotonic() - began, 30)
                self.assertEqual((status, errors), (0, ""))
                lines = output.replace("allocation beside pending work 2", "allocation beside pending work 0")
                self.assertEqual(lines, alone[1])

    def full_disk(self, mount_options, said=None):
        """The journal's folder on a small file system of its own, in a user namespace."""
        folder = self.work / "small"
        folder.mkdir()
        script = ('mount -t tmpfs -o "$1" none "$2" || exit 77; chmod 700 "$2"; [ -z "$3" ] || mount -o "remount,$3" "$2" '
                  '|| exit 77; shift 3; exec "$@"')
        options, _, again = mount_options.partition(";")
        words = ["unshare", "-rm", "/bin/sh", "-c", script, "sh", options, str(folder), again,
                 "env", "LD_PRELOAD=" + self.preload.name, "CUHEAP_DIR=" + str(folder), self.program, "plain"]
        if self.missing("unshare", "mount"):
            self.skipTest("unshare and mount are needed")
        alone = self.alone([self.program, "plain"])
        run = self.run_in("full", words, self.environment())
        if run[0] in (77, 1) and "plain" not in run[1] and not run[1]:
            self.skipTest("this machine does not let us mount: " + run[2].strip())
        self.assertEqual(run[:2], alone[:2])
        if said is None:
            self.assertEqual(run[2], "")
        else:
            self.assertIn(said, run[2])
            self.assertEqual(len(run[2].splitlines()), 1)

    def test_full_disk(self):
        self.full_disk("size=2m,mode=700")

    def test_full_disk_from_the_start(self):
        self.full_disk("size=16k,mode=700", said="no space left on device")

    def test_read_only_disk(self):
        self.full_disk("size=2m,mode=700;ro", said="read-only file system")


class Python(hazard_runs.HazardRuns):
    """The interpreter that runs this test, by ctypes; stacks have Python frames."""

    def python(self, scene, **how):
        script = str(pathlib.Path(__file__).resolve().parent / "python_scenes.py")
        snapshot, *others = self.hazard(scene, program=[sys.executable, "-B", script], **how)
        self.assertEqual(others, [])
        if "keep" not in snapshot["strings"]:
            self.skipTest("Python stacks are not read from this interpreter")
        stack, = self.functions(snapshot, 5000)
        self.assertEqual([name for name in stack if name in ("allocate", "keep", "main")], ["allocate", "keep", "main"])
        return snapshot

    def test_python_sigprof(self):
        self.assertEqual(self.live(self.python("profiled")), [5000])

    def test_python_fork(self):
        self.assertEqual(self.live(self.python("forked")), [5000])

    def test_python_underscore_exit(self):
        self.assert_end(self.python("left"), "quit", 9)

    def test_python_daemon_threads(self):
        self.assertLessEqual(set(self.live(self.python("threads_at_end"))), {3000, 5000})


class Others(hazard_runs.HazardRuns):
    """Other guests in the same process, and programs that the loader keeps us out of."""

    def beside(self, *names):
        found = next((os.path.join(folder, name) for folder in LIBRARY_FOLDERS for name in names
                      if os.path.exists(os.path.join(folder, name))), None)
        if found is None:
            self.skipTest(" or ".join(names) + " is not installed (tools/deps)")
        for scene, live in (("thousand", 500), ("tls_destructors", 2), ("fork_busy", 4), ("exceptions", 20)):
            with self.subTest(scene):
                self.doCleanups()
                self.setUp()
                snapshot, = self.hazard(scene, LD_PRELOAD=found)
                self.assertEqual(len(self.live(snapshot)), live)
                self.assert_complete(snapshot)

    def test_jemalloc(self):
        self.beside("libjemalloc.so.2")

    def test_tcmalloc(self):
        self.beside("libtcmalloc_minimal.so.4")

    def test_address_sanitizer(self):
        program = self.folder / "cuheap_hazard_program_asan"
        if not program.exists():
            self.skipTest("this compiler has no AddressSanitizer")
        # The program is linked to the sanitizer's runtime, which must come first in the list of libraries.
        runtime = next((word for line in subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True,
                                                        env=self.environment()).stdout.splitlines()
                        for word in line.split() if word.startswith("/") and "libasan" in word), None)
        if runtime is None:
            self.skipTest("AddressSanitizer's runtime is not on this machine")
        options = "detect_leaks=0:verify_asan_link_order=1"
        for scene, live in (("tls_destructors", 2), ("exceptions", 20), ("fork", 4), ("plain", 30)):
            with self.subTest(scene):
                self.doCleanups()
                self.setUp()
                words = [str(program), scene]
                alone = self.alone(words, ASAN_OPTIONS=options)
                self.assertEqual(alone[0], 0, alone)
                self.assertEqual(self.supervised(words, ASAN_OPTIONS=options, LD_PRELOAD=runtime), alone)
                snapshot, = self.snapshots()
                self.assertEqual(len(self.live(snapshot)), live)

    def test_setuid(self):
        """The loader ignores us in set-user-id programs: they just run, and cuheap says that it saw nothing."""
        if os.geteuid() != 0:
            self.skipTest("only root can make a program of another user")
        place = self.work / "set user id"
        place.mkdir(mode=0o755)
        self.work.chmod(0o755)
        copy = place / "program"
        copy.write_bytes(pathlib.Path("/bin/echo").read_bytes())
        os.chown(copy, 65534, 65534)
        for mode in (0o4755, 0o2755):
            copy.chmod(mode)
            done = subprocess.run([self.cuheap, "run", "--", str(copy), "hello"], capture_output=True, text=True, check=False,
                                  env=self.environment(), cwd=self.work)
            self.assertEqual((done.returncode, done.stdout), (0, "hello\n"))
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn("nothing was recorded", done.stderr)
            self.assertIn("set-user-ID" if mode & 0o4000 else "set-group-ID", done.stderr)


if __name__ == "__main__":
    runs = hazard_runs.HazardRuns
    runs.program, runs.cuheap, runs.preload, runs.driver = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]
    runs.folder = pathlib.Path(sys.argv[5])
    outcome = unittest.main(argv=[sys.argv[0], *sys.argv[6:]], exit=False).result
    if not outcome.wasSuccessful():
        sys.exit(1)
    for _, reason in outcome.skipped:
        print("skipped:", reason)
    sys.exit(hazard_runs.CANNOT if outcome.skipped else 0)
