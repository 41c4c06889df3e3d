"""Python stacks from end to end: what `cuheap run --simulate` recorded of shapes.py equals what Python itself says.

usage: frames_test.py CUHEAP PYTHON    exits 77 where there is no such interpreter
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from frames_snapshot import Stacks
from interpreters import clean_environment, find_python

CUHEAP = str(pathlib.Path(sys.argv[1]).resolve())
SHAPES = pathlib.Path(__file__).resolve().parent / "shapes.py"


def record(folder, program, *arguments, options=(), **changes):
    """The snapshot of a program run under cuheap."""
    snapshot = pathlib.Path(folder) / "snapshot.json"
    command = [CUHEAP, "run", "--quiet", "--simulate", *options, "-o", str(snapshot), "--", PYTHON, str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=clean_environment(**changes), check=False)
    if done.returncode != 0 or not snapshot.exists():
        raise AssertionError(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(snapshot.read_text(encoding="utf-8"))


def is_loop(frame):
    return frame["kind"] == "native" and frame["function"].startswith("_PyEval_EvalFrameDefault")


class Frames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="cuheap frames ") as folder:
            expected = pathlib.Path(folder) / "expected.json"
            cls.snapshot = record(folder, SHAPES, expected, options=["--python-stack-depth=1024", "--stack-depth=250"])
            told = json.loads(expected.read_text(encoding="utf-8"))
        cls.version = tuple(told["version"])
        cls.expected = {int(size): row for size, row in told["stacks"].items()}
        cls.stacks = Stacks(cls.snapshot)
        cls.by_size = cls.stacks.by_size()

    def test_every_allocation_has_the_frames_that_python_says(self):
        self.assertGreater(len(self.expected), 900)
        wrong = []
        for size, row in self.expected.items():
            recorded = self.stacks.python_of(self.by_size[size])
            frames = [tuple(frame) for frame in row["frames"]]
            if recorded != frames[:1024]:
                at = next((i for i, (a, b) in enumerate(zip(recorded, frames)) if a != b), min(len(recorded), len(frames)))
                wrong.append(f"{row['shape']}: frame {at} of {len(frames)} ({len(recorded)} recorded): {recorded[at:at + 2]} instead of {frames[at:at + 2]}")
        self.assertEqual(wrong, [])

    def test_every_shape_was_tried(self):
        shapes = {row["shape"] for row in self.expected.values()}
        for shape in ("recursion through C", "generator", "generator, thrown into", "coroutine", "async generator", "qsort", "sort key", "reduce",
                      "exec", "decorated", "list comprehension", "__del__", "property", "except", "multi-line call", "short-lived code",
                      "odd names", "derived names", "far line", "thread 0", "thread of C", "traced", "the GIL held over the call"):
            self.assertIn(shape, shapes)

    def test_python_frames_stand_behind_the_native_frame_that_ran_them(self):
        """Every run of Python frames follows a frame of the interpreter's loop, and each of these is followed by one."""
        named = any(is_loop(frame) for frame in self.stacks.frames)
        if not named:
            self.skipTest("this interpreter has no symbol for its loop")
        checked = 0
        for size, row in self.expected.items():
            stack = self.by_size[size]
            if self.stacks.flag("truncated", stack):
                continue
            frames = self.stacks.of(stack)
            for i, frame in enumerate(frames):
                if is_loop(frame) and not (i + 1 < len(frames) and is_loop(frames[i + 1])):
                    self.assertEqual(frames[i + 1]["kind"], "python", (row["shape"], i))
                if frame["kind"] == "python" and frames[i - 1]["kind"] == "native":
                    self.assertTrue(is_loop(frames[i - 1]), (row["shape"], frames[i - 1], frame))
            checked += 1
        self.assertGreater(checked, 500)

    def test_callbacks_of_c_are_ordered_with_it(self):
        """libc's qsort lies between the frame that it calls and the frame that called it."""
        size = next(size for size, row in self.expected.items() if row["shape"] == "qsort")
        frames = self.stacks.of(self.by_size[size])
        position = {frame["function"].split(".")[-1]: i for i, frame in enumerate(frames) if frame["kind"] == "python"}
        sort = [i for i, frame in enumerate(frames) if frame["kind"] == "native" and "msort" in frame["function"] or "qsort" in frame["function"]]
        if not sort:
            self.skipTest("libc has no symbols")
        self.assertLess(position["compare"], sort[0])
        self.assertGreater(position["c_callbacks"], sort[-1])

    def test_the_record_says_that_frames_were_recorded(self):
        texts = [note["text"] for note in self.snapshot["notes"] if note["code"] == "self_check"]
        self.assertIn(f"Python {'.'.join(map(str, self.version))}: its frames are recorded", [text.replace("+", "") for text in texts])
        self.assertFalse([note for note in self.snapshot["notes"] if note["code"] == "python_off"])


class Limits(unittest.TestCase):
    def test_depth_is_limited_from_the_innermost_frame(self):
        with tempfile.TemporaryDirectory(prefix="cuheap frames ") as folder:
            expected = pathlib.Path(folder) / "expected.json"
            stacks = Stacks(record(folder, SHAPES, expected, options=["--python-stack-depth=5"]))
            told = {int(size): row for size, row in json.loads(expected.read_text(encoding="utf-8"))["stacks"].items()}
        for size, stack in stacks.by_size().items():
            frames = [tuple(frame) for frame in told[size]["frames"]]
            self.assertEqual(stacks.python_of(stack), frames[:5], told[size]["shape"])
            if len(frames) > 5:
                self.assertTrue(stacks.flag("truncated", stack))

    def test_off_means_off(self):
        with tempfile.TemporaryDirectory(prefix="cuheap frames ") as folder:
            stacks = Stacks(record(folder, SHAPES, pathlib.Path(folder) / "expected.json", options=["--stacks=native"]))
        self.assertFalse([frame for frame in stacks.frames if frame["kind"] == "python"])
        self.assertTrue([frame for frame in stacks.frames if frame["kind"] == "native"])


if __name__ == "__main__":
    PYTHON = find_python(sys.argv[2])
    if PYTHON is None:
        print(f"no Python {sys.argv[2]} on this machine")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=1)
