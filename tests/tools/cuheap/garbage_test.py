"""Files that are no snapshots, of 10 GB or without an end: each gets its one clear error after a few bytes, in little
memory, from every command that reads files.

usage: garbage_test.py CUHEAP

No time is measured. A command that reads on is killed, since what it is given never ends; how much it took from a pipe
is counted; and it runs with little address space.
"""
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import threading
import unittest

CUHEAP = str(pathlib.Path(sys.argv[1]).resolve())
GIB, MIB = 1 << 30, 1 << 20
HUGE = 10 * GIB
ADDRESS_SPACE = 512 * MIB
MOST_READ = 64 * MIB  # the longest string and zstd's buffers lie far below
SNAPSHOT = b'{"format":"cuheap-snapshot",'
JOURNAL = b"CUHEAPJ1"

# name: the beginning, what follows again and again, a part of the message
ENDLESS = {
    "zeros": (b"", b"\0", "not a cuheap snapshot"),
    "brackets": (b"", b"[", "not a cuheap snapshot"),
    "braces": (b"", b'{"a":', "not a cuheap snapshot"),
    "a string": (b'"', b"a", "not a cuheap snapshot"),
    "a number": (b"", b"1", "not a cuheap snapshot"),
    "white space": (b"", b" \n", "white space"),
    "white space in a snapshot": (SNAPSHOT, b" ", "white space"),
    "nesting in a snapshot": (SNAPSHOT + b'"x":', b"[", "nested deeper"),
    "a string in a snapshot": (SNAPSHOT + b'"x":"', b"a", "a string longer"),
    "a name in a snapshot": (SNAPSHOT + b'"', b"a", "a string longer"),
    "a number in a snapshot": (SNAPSHOT + b'"x":', b"1", "digits"),
    "a fraction in a snapshot": (SNAPSHOT + b'"x":0.', b"1", "digits"),
    "an id in a snapshot": (SNAPSHOT + b'"events":{"id":[', b"1", "64 bits"),
    "words": (SNAPSHOT + b'"words":{"event_type":[""', b',""', "more than"),
    "counters": (SNAPSHOT + b'"counters":{"a":1', b',"a":1', "twice"),
    "gzip": (b"\x1f\x8b\x08", b"\0", "gunzip"),
    "zstd without content": (b"\x28\xb5\x2f\xfd\x00\x58", b"\0\0\0", "empty"),
    "zstd that is none": (b"\x28\xb5\x2f\xfd", b"\xff", "damaged"),
    "a pickle": (b"\x80\x02", b"\0", "pickle opcode"),
    "a pickle of marks": (b"\x80\x02", b"(", "pickle"),
    "a pickle of numbers": (b"\x80\x02", b"K\x01", "plain values"),
    "a pickle's text": (b"\x80\x02X\xff\xff\xff\x7f", b"a", "a string longer"),
    "a pickle's long": (b"\x80\x02\x8b\xff\xff\xff\x7f", b"a", "64 bits"),
}


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


def run(arguments, begin=None, repeated=None):
    """The finished command and how many bytes it took from standard input, which goes on until it is closed."""
    child = subprocess.Popen([CUHEAP, *arguments], stdin=subprocess.PIPE if begin is not None else subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limits)
    taken = 0
    if begin is not None:
        watchdog = threading.Timer(240, child.kill)
        watchdog.start()
        piece = repeated * (65536 // len(repeated))
        try:
            child.stdin.write(begin)
            while taken <= MOST_READ:
                taken += child.stdin.write(piece)
        except BrokenPipeError:
            pass
        if taken > MOST_READ:
            child.kill()
        watchdog.cancel()
        try:
            child.stdin.close()
        except BrokenPipeError:
            pass
        child.stdin = None
    output, errors = child.communicate(timeout=240)
    return child.returncode, output.decode(), errors.decode(), taken


class Garbage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cuheap garbage ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def sparse(self, name, begin):
        path = self.folder / name
        with open(path, "wb") as file:
            file.write(begin)
            file.truncate(HUGE)
        return str(path)

    def check(self, result, name, text, files=1):
        status, output, errors, taken = result
        self.assertLessEqual(taken, MOST_READ, f"{name}: read on: {errors}")
        self.assertEqual((status, output), (2, ""), f"{name}: {errors}")
        self.assertEqual(errors.count("\n"), files, f"{name}: {errors}")
        self.assertTrue(errors.startswith("cuheap: "), f"{name}: {errors}")
        self.assertIn(text, errors, name)
        self.assertLess(len(errors), 600, name)

    def test_what_has_no_end(self):
        for name, (begin, repeated, text) in ENDLESS.items():
            with self.subTest(name):
                self.check(run(["report", "-"], begin, repeated), name, text)

    def test_every_command_that_reads_snapshots(self):
        for command in (["report", "--json", "-"], ["diff", "-", "/dev/null"], ["export", "--format", "folded", "-o", "-", "-"]):
            files = 2 if command[0] == "diff" else 1  # both files' errors are told in one go
            for name in ("zeros", "white space", "zstd without content", "a pickle of marks"):
                begin, repeated, text = ENDLESS[name]
                with self.subTest(f"{command[0]}: {name}"):
                    self.check(run(command, begin, repeated), name, text, files)

    def test_ten_gigabytes_in_a_file(self):
        for name, begin, text in (("zeros", b"", "not a cuheap snapshot"), ("zstd", b"\x28\xb5\x2f\xfd\x00\x58", "empty"),
                                  ("gzip", b"\x1f\x8b", "gunzip"), ("pickle", b"\x80\x04", "pickle")):
            path = self.sparse(name, begin)
            for command in (["report", path], ["diff", path, path], ["export", "--format", "folded", "-o", "-", path]):
                with self.subTest(f"{command[0]}: {name}"):
                    self.check(run(command), name, text, files=2 if command[0] == "diff" else 1)

    def test_a_bomb(self):
        """A gigabyte of one byte in a few kilobytes, in zstd's run-length blocks: made by hand, no library is needed."""
        block_bytes = 128 << 10
        block = (block_bytes << 3 | 1 << 1).to_bytes(3, "little") + b" "
        begin = SNAPSHOT
        raw = (len(begin) << 3).to_bytes(3, "little") + begin
        path = self.folder / "bomb.json.zst"
        path.write_bytes(b"\x28\xb5\x2f\xfd\x00\x58" + raw + block * (GIB // block_bytes))
        status, output, errors, _ = run(["report", str(path)])
        self.assertEqual((status, output, errors.count("\n")), (2, "", 1), errors)

    def test_journals(self):
        for name, begin in (("1-1.journal", b""), ("2-2.journal", JOURNAL), ("3-3.journal", b"CUHEAPJ\xff")):
            path = self.sparse(name, begin)
            self.addCleanup(os.unlink, path)
        status, output, errors, _ = run(["recover", str(self.folder)])
        self.assertNotEqual(status, 0, output)
        for name in ("1-1.journal", "2-2.journal", "3-3.journal"):
            self.assertEqual(sum(name in line for line in errors.splitlines()), 1, errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
