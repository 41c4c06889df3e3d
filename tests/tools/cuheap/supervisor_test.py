"""`cuheap run` stands in for the program: statuses, signals, terminal, descriptors, environment, nothing left behind.

usage: supervisor_test.py CUHEAP [PRELOAD]    (the preload library may be missing: any library stands for it)
"""
import fcntl
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

CUHEAP = pathlib.Path(sys.argv[1])
PRELOAD = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path("/nonexistent")
STAND_INS = ["/lib/x86_64-linux-gnu/libdl.so.2", "/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6"]
PYTHON = sys.executable


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class Layout(unittest.TestCase):
    """bin/ and lib/ in a folder of its own, and an empty working folder."""

    name = "cuheap"

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temporary.name).resolve()
        prefix = cls.root / cls.name
        (prefix / "bin").mkdir(parents=True)
        (prefix / "lib").mkdir()
        cls.cuheap = prefix / "bin" / "cuheap"
        try:
            os.link(CUHEAP, cls.cuheap)
        except OSError:
            shutil.copy2(CUHEAP, cls.cuheap)
        library = next(path for path in [str(PRELOAD), *STAND_INS] if os.path.exists(path))
        shutil.copy(library, prefix / "lib" / "libcuheap_preload.so")
        cls.prefix = prefix

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(dir=self.root))
        self.journals = self.work / "journals"
        self.journals.mkdir()

    def command(self, *words, options=()):
        return [str(self.cuheap), "run", "--journal-dir", str(self.journals), *options, "--", *words]

    def run_it(self, *words, options=(), **keywords):
        keywords.setdefault("capture_output", True)
        keywords.setdefault("timeout", 60)
        return subprocess.run(self.command(*words, options=options), cwd=self.work, **keywords)

    def python(self, code, *arguments, **keywords):
        return self.run_it(PYTHON, "-c", code, *arguments, **keywords)

    def assert_nothing_left(self):
        self.assertEqual(list(self.journals.iterdir()), [])
        self.assertEqual([path.name for path in self.work.iterdir() if path.name.startswith("cuheap.")], [])


class Statuses(Layout):
    def test_every_exit_status(self):
        for status in range(256):
            self.assertEqual(self.run_it("sh", "-c", f"exit {status}").returncode, status)
        self.assert_nothing_left()

    def test_death_by_signal_is_death_by_that_signal(self):
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGABRT, signal.SIGFPE, signal.SIGKILL,
                       signal.SIGSEGV, signal.SIGPIPE, signal.SIGALRM, signal.SIGTERM, signal.SIGUSR1, signal.SIGBUS,
                       signal.SIGRTMIN + 3):
            with self.subTest(number):
                code = f"import os,resource; resource.setrlimit(resource.RLIMIT_CORE,(0,0)); os.kill(os.getpid(),{int(number)})"
                if number in (signal.SIGINT, signal.SIGPIPE):
                    code = f"import signal; signal.signal({int(number)}, signal.SIG_DFL); " + code
                self.assertEqual(self.python(code).returncode, -number)

    def test_shell_sees_what_it_would_without_us(self):
        for code in ("exit 3", "kill -TERM $$", "kill -KILL $$"):
            plain = subprocess.run(["sh", "-c", f"sh -c '{code}'; echo $?"], capture_output=True)
            ours = subprocess.run(["sh", "-c", " ".join([f"'{self.cuheap}'", "run", "--", f"sh -c '{code}'"]) + "; echo $?"],
                                  capture_output=True)
            self.assertEqual(plain.stdout, ours.stdout)

    def test_program_not_found_is_127_and_not_executable_126(self):
        (self.work / "text").write_text("hello")
        for word, status in (("no-such-program", 127), ("./text", 126), ("/", 126), ("./missing/x", 127)):
            result = self.run_it(word)
            self.assertEqual(result.returncode, status, word)
            self.assertEqual(result.stdout, b"")
            self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
            self.assertTrue(result.stderr.startswith(b"cuheap: "))
        self.assert_nothing_left()

    def test_script_without_interpreter_line_runs_as_in_a_shell(self):
        script = self.work / "script"
        script.write_text("echo script $1")
        script.chmod(0o755)
        self.assertEqual(self.run_it("./script", "x").stdout, b"script x\n")

    def test_own_errors_exit_2_before_the_program_starts(self):
        touch = ["touch", str(self.work / "started")]
        missing = str(self.work / "missing")
        for options in (["--no-such-option"], ["-o"], ["-o", missing + "/x.json"], ["--stacks", "maybe"], ["--stack-depth", "0"],
                        ["--journal-dir", missing], ["--simulate=a100"], ["--simulate-devices", "2"], ["--simulate", "--simulate-devices", "99"],
                        ["--free-barrier=perhaps"], ["--event-memory", "lots"]):
            result = subprocess.run([str(self.cuheap), "run", *options, "--", *touch], capture_output=True, cwd=self.work)
            self.assertEqual(result.returncode, 2, options)
            self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
            self.assertEqual(result.stdout, b"")
            self.assertFalse((self.work / "started").exists())

    def test_no_program_given(self):
        for words in (["run"], ["run", "--"], ["run", "-q"], [], ["run", "--", ""]):
            self.assertEqual(subprocess.run([str(self.cuheap), *words], capture_output=True).returncode, 2, words)

    def test_missing_library_is_said_and_exits_2(self):
        alone = self.work / "bin"
        alone.mkdir()
        shutil.copy2(CUHEAP, alone / "cuheap")
        result = subprocess.run([str(alone / "cuheap"), "run", "--", "true"], capture_output=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"libcuheap_preload.so", result.stderr)

    def test_ignored_child_signal_of_the_parent_does_not_hide_the_status(self):
        code = f"import signal,os,sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
        words = [PYTHON, "-c", code, *self.command("sh", "-c", "exit 9")]
        self.assertEqual(subprocess.run(words).returncode, 9)


class Words(Layout):
    def test_words_of_the_program_are_its_own(self):
        show = "import sys; print(sys.argv[1:])"
        for words in (["-q"], ["--", "x"], ["--help"], ["-o", "f"], ["a b", "'", '"', "", "*", "--version", "\n"]):
            self.assertEqual(self.python(show, *words).stdout.decode(), f"{words}\n")

    def test_separator_may_be_left_out(self):
        result = subprocess.run([str(self.cuheap), "run", "--journal-dir", str(self.journals), "-q", "echo", "-o", "x", "--", "y"], capture_output=True)
        self.assertEqual(result.stdout, b"-o x -- y\n")

    def test_help_and_version(self):
        for words in (["--help"], ["--version"], ["run", "--help"], ["report", "--help"], ["export", "--help"], ["recover", "-h"]):
            result = subprocess.run([str(self.cuheap), *words], capture_output=True)
            self.assertEqual((result.returncode, result.stderr), (0, b""), words)
            self.assertTrue(result.stdout)
        text = subprocess.run([str(self.cuheap), "run", "--help"], capture_output=True, text=True).stdout
        self.assertIn("cuheap run -- python train.py", text)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 110)

    def test_pool_contradicts_what_serves_nothing(self):
        for words in (("--observe",), ("--stream-pool", "0")):
            result = subprocess.run([str(self.cuheap), "run", "--pool", *words, "--", "true"], capture_output=True)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(b"--pool", result.stderr)

    def test_pool_sets_the_variables_of_frameworks_and_says_what_is_gone(self):
        program = "import os; print(os.environ['PYTORCH_CUDA_ALLOC_CONF'], os.environ['CUHEAP_MODE'], os.environ['TF_GPU_ALLOCATOR'])"
        result = subprocess.run([str(self.cuheap), "run", "--pool", "--", sys.executable, "-c", program], capture_output=True,
                                text=True, env={**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "pinned_x:1"})
        self.assertEqual(result.stdout, "backend:cudaMallocAsync,pinned_x:1 pool cuda_malloc_async\n")
        self.assertIn("MemPool", result.stderr)

    def test_commands_of_later_versions_say_so(self):
        for word in ("top", "fit", "snapshot"):
            result = subprocess.run([str(self.cuheap), word], capture_output=True)
            self.assertEqual(result.returncode, 2)
            self.assertIn(b"not there yet", result.stderr)


class Unchanged(Layout):
    def test_python_prints(self):
        result = self.python("print(1)")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"1\n", b""))
        self.assert_nothing_left()

    def test_stdin_is_passed(self):
        data = bytes(range(256)) * 4096
        self.assertEqual(self.run_it("cat", input=data).stdout, data)

    def test_pipeline(self):
        script = f"seq 1000 | {' '.join(map(repr, self.command('grep', '7')))} | wc -l"
        result = subprocess.run(["sh", "-c", script], capture_output=True)
        self.assertEqual((result.stdout.strip(), result.stderr), (b"271", b""))
        # The reader goes away first: SIGPIPE ends the program as it does without us.
        script = f"set -o pipefail; {' '.join(map(repr, self.command('yes')))} | head -1; echo ${{PIPESTATUS[0]}}"
        result = subprocess.run(["bash", "-c", script], capture_output=True)
        self.assertEqual((result.stdout, result.stderr), (b"y\n141\n", b""))

    @unittest.skipIf(shutil.which("cc") is None, "no C compiler")
    def test_compiler(self):
        (self.work / "a.c").write_text('#include <stdio.h>\nint main(void) { puts("compiled"); return 5; }\n')
        result = self.run_it("cc", "a.c", "-o", "a.out")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""))
        self.assertEqual(self.run_it("./a.out").returncode, 5)
        self.assertEqual(self.run_it("cc", "missing.c").returncode, subprocess.run(["cc", "missing.c"], capture_output=True).returncode)
        self.assert_nothing_left()

    def test_descriptors_are_the_programs(self):
        show = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))"
        plain = subprocess.run([PYTHON, "-c", show], capture_output=True)
        self.assertEqual(self.python(show).stdout, plain.stdout)
        read, write = os.pipe()
        os.set_inheritable(write, True)
        self.python(f"import os; os.write({write}, b'through')", pass_fds=[write])
        self.assertEqual(os.read(read, 100), b"through")

    def test_closed_standard_descriptors_stay_closed(self):
        for redirection, seen in (("<&-", "[False, True, True]"), (">&-", "[True, False, True]"), ("2>&-", "[True, True, False]"),
                                  ("<&- >&- 2>&-", "[False, False, False]")):
            # Python itself opens /dev/null for them, so a shell looks.
            look = f'seen=; for n in 0 1 2; do if [ -e /proc/$$/fd/$n ]; then seen="$seen True"; else seen="$seen False"; fi; done; echo $seen > {self.work}/fds'
            words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in self.command("sh", "-c", look))
            subprocess.run(["sh", "-c", f"{words} {redirection}"])
            self.assertEqual((self.work / "fds").read_text().split(), seen.strip("[]").split(", "), redirection)

    def test_environment(self):
        show = "import os,json; print(json.dumps(dict(os.environ)))"
        import json
        environment = dict(os.environ, LD_PRELOAD="libm.so.6", LD_LIBRARY_PATH="/somewhere", EMPTY="", SPACE=" a b ")
        plain = json.loads(subprocess.run([PYTHON, "-c", show], env=environment, capture_output=True).stdout)
        ours = json.loads(self.python(show, env=environment).stdout)
        self.assertEqual(ours.pop("LD_PRELOAD"), f"{self.preloaded()}:libm.so.6")
        if self.by_path():  # LD_LIBRARY_PATH stays as it is
            self.assertEqual(ours["LD_LIBRARY_PATH"], "/somewhere")
        else:
            self.assertEqual(ours.pop("LD_LIBRARY_PATH"), f"{self.prefix}/lib:/somewhere")
            plain.pop("LD_LIBRARY_PATH")
        self.assertTrue(ours.pop("CUHEAP_DIR").startswith(str(self.journals)))
        plain.pop("LD_PRELOAD")
        self.assertEqual(ours, plain)

    def by_path(self):
        return not set(str(self.prefix)) & set(" :$")

    def preloaded(self):
        """What LD_PRELOAD gets: the path, where it can hold it."""
        return f"{self.prefix}/lib/libcuheap_preload.so" if self.by_path() else "libcuheap_preload.so"

    def test_our_library_is_not_there_twice(self):
        for before in ("libcuheap_preload.so:libm.so.6", "/elsewhere/libcuheap_preload.so libm.so.6"):
            result = self.run_it("sh", "-c", "echo $LD_PRELOAD", env=dict(os.environ, LD_PRELOAD=before))
            self.assertEqual(result.stdout.decode(), f"{self.preloaded()}:libm.so.6\n")

    def test_sanitizers_stay_first(self):
        result = self.run_it("sh", "-c", "echo $LD_PRELOAD", env=dict(os.environ, LD_PRELOAD="libm.so.6:/x/libasan.so.8"))
        self.assertEqual(result.stdout, f"/x/libasan.so.8:{self.preloaded()}:libm.so.6\n".encode())

    def test_journal_folder_is_private_and_goes_away(self):
        result = self.run_it("sh", "-c", 'stat -c "%a %u" "$CUHEAP_DIR"')
        self.assertEqual(result.stdout.decode(), f"700 {os.getuid()}\n")
        self.assert_nothing_left()

    def test_working_directory_and_group_are_kept(self):
        result = self.python("import os; print(os.getcwd(), os.getpgrp() == os.getpgid(os.getppid()), os.getsid(0) == os.getsid(os.getppid()))")
        self.assertEqual(result.stdout.decode(), f"{self.work} True True\n")


class UnchangedInAFolderWithSpaces(Unchanged):
    name = "a folder with  spaces"


class Signals(Layout):
    CHILD = """
import os, signal, sys, time
def note(number, frame):
    os.write(1, b'%d\\n' % number)
    if number == signal.SIGTERM: sys.exit(42)
for number in map(int, sys.argv[1:]): signal.signal(number, note)
os.write(1, b'ready %d\\n' % os.getpid())
while True: time.sleep(60)
"""

    def start(self, *numbers, **keywords):
        process = subprocess.Popen(self.command(PYTHON, "-c", self.CHILD, *(str(int(number)) for number in numbers)), cwd=self.work, stdout=subprocess.PIPE,
                                   text=True, **keywords)
        word, pid = process.stdout.readline().split()
        self.assertEqual(word, "ready")
        self.addCleanup(process.stdout.close)
        return process, int(pid)

    def test_signals_are_passed_on(self):
        numbers = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGWINCH, signal.SIGRTMIN + 1]
        process, _ = self.start(*numbers, signal.SIGTERM)
        for number in numbers:
            process.send_signal(number)
            self.assertEqual(process.stdout.readline(), f"{int(number)}\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), f"{int(signal.SIGTERM)}\n")
        self.assertEqual(process.wait(20), 42)
        self.assert_nothing_left()

    def test_unhandled_signal_ends_both(self):
        process, pid = self.start()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), -signal.SIGTERM)
        self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def test_killing_us_kills_the_program(self):
        process, pid = self.start()
        process.kill()
        process.wait(20)
        self.assertTrue(wait_for(lambda: not os.path.exists(f"/proc/{pid}") or state(pid) == "Z"))

    def test_ignored_and_blocked_signals_stay_so(self):
        show = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, []), len(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"

        def prepare():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])

        self.assertEqual(self.python(show, preexec_fn=prepare).stdout, b"True True 1\n")
        self.assertEqual(self.python(show).stdout, b"False False 0\n")

    def test_signals_to_the_parent_reach_who_started_us(self):
        caught = []
        former = signal.signal(signal.SIGUSR2, lambda number, frame: caught.append(number))
        try:
            self.python("import os,signal; os.kill(os.getppid(), signal.SIGUSR2)")
        finally:
            signal.signal(signal.SIGUSR2, former)
        self.assertEqual(caught, [signal.SIGUSR2])

    def test_a_program_that_ends_its_group_does_not_end_who_started_us(self):
        # The parent is in a group of its own, as a shell is; it would die of the signal.
        code = ("import subprocess,sys; p = subprocess.Popen(sys.argv[1:], preexec_fn=lambda: __import__('os').setpgid(0, 0)); print(p.wait())")
        done = subprocess.run([PYTHON, "-c", code, *self.command(PYTHON, "-c", "import os,signal; os.killpg(0, signal.SIGTERM)")],
                              capture_output=True, text=True, cwd=self.work)
        self.assertEqual((done.returncode, done.stdout), (0, f"{-signal.SIGTERM}\n"), done.stderr)

    def test_stopping_and_continuing_the_program_alone(self):
        process, pid = self.start(signal.SIGUSR1)
        os.kill(pid, signal.SIGSTOP)
        self.assertTrue(wait_for(lambda: state(process.pid) == "T"), "we did not stop with the program")
        process.send_signal(signal.SIGCONT)
        self.assertTrue(wait_for(lambda: state(pid) != "T"), "the program was not continued")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.stdout.readline(), f"{int(signal.SIGUSR1)}\n")
        process.terminate()
        process.wait(20)


class Terminal(Layout):
    """On a pseudo-terminal of its own, as from a shell."""

    def start(self, code):
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(self.work)
            words = self.command(PYTHON, "-c", code)
            os.execv(words[0], words)
        self.addCleanup(os.close, master)
        return pid, master

    def read_until(self, master, text):
        seen, deadline = b"", time.monotonic() + 30
        while text not in seen:
            ready, _, _ = select.select([master], [], [], max(0, deadline - time.monotonic()))
            self.assertTrue(ready, f"{text!r} did not come; seen: {seen!r}")
            seen += os.read(master, 1000)
        return seen

    CODE = """
import os, signal, time
count = 0
def note(number, frame):
    global count; count += 1
signal.signal(signal.SIGINT, note)
os.write(1, b'ready %d\\n' % os.getpid())
time.sleep(0.1)
while count == 0: time.sleep(0.01)
time.sleep(0.3)
os.write(1, b'interrupts %d\\n' % count)
raise SystemExit(11)
"""

    def test_interrupt_key_reaches_the_program_once(self):
        pid, master = self.start(self.CODE)
        self.read_until(master, b"ready")
        os.write(master, b"\x03")
        self.read_until(master, b"interrupts 1\r\n")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 11)

    def test_interrupt_key_ends_both_by_the_signal(self):
        pid, master = self.start("import signal,os,time; signal.signal(signal.SIGINT, signal.SIG_DFL); os.write(1,b'ready'); time.sleep(60)")
        self.read_until(master, b"ready")
        os.write(master, b"\x03")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), -signal.SIGINT)

    def test_stop_key_stops_both(self):
        # The kernel drops SIGTSTP in an orphaned process group, so a shell stands in between, as it does in life.
        words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in self.command("sh", "-c", "echo ready; read x; echo got $x"))
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(self.work)
            os.execv("/bin/bash", ["bash", "--norc", "--noediting", "-i"])
        self.addCleanup(os.close, master)
        self.addCleanup(os.kill, pid, signal.SIGHUP)
        os.write(master, f"PS1=; {words}\n".encode())
        self.read_until(master, b"ready\r\n")
        time.sleep(0.2)
        os.write(master, b"\x1a")
        self.read_until(master, b"Stopped")
        os.write(master, b"fg\n")
        self.read_until(master, b"got $x")  # the shell names the job
        time.sleep(1)
        os.write(master, b"hello\n")
        self.read_until(master, b"got hello")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
