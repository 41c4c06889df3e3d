"""Every road to the driver, with and without the preload library: the same answers, but ours where a function is hooked.

usage: roads_test.py PROGRAM LINKED_PROGRAM NEXT_LIBRARY PRELOAD_LIBRARY DRIVER_FOLDER
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent


def hooked_names() -> set[str]:
    return set(re.findall(r"^HOOK\((\w+)", (ROOT / "interpose/hooked_functions.inc").read_text(), re.MULTILINE))


class Roads(unittest.TestCase):
    program: str
    linked: str
    next_library: str
    preload: pathlib.Path
    drivers: str
    hooked = hooked_names()

    def environment(self, preload: bool, driver: bool = True, **more: str) -> dict[str, str]:
        folders = ([self.drivers] if driver else []) + [str(self.preload.parent)]
        environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(folders), **more}
        if preload:
            # The file's bare name: LD_PRELOAD can hold neither spaces nor colons. A sanitizer's runtime comes first.
            first = os.environ.get("CUHEAP_TEST_PRELOAD_FIRST", "")
            environment["LD_PRELOAD"] = (first + " " + self.preload.name).strip()
        return environment

    def run_one(self, arguments: list[str], preload: bool, driver: bool = True, **more: str) -> list[str]:
        done = subprocess.run(arguments, env=self.environment(preload, driver, **more), capture_output=True, text=True,
                              timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout.splitlines()

    def run_both(self, *arguments: str, driver: bool = True) -> tuple[list[str], list[str]]:
        native = self.run_one([self.program, *arguments], preload=False, driver=driver)
        ours = self.run_one([self.program, *arguments], preload=True, driver=driver)
        self.assertEqual(len(native), len(ours))
        self.assertTrue(native)
        return native, ours

    def expect_lookups(self, native: list[str], ours: list[str]) -> None:
        """Lines "road name owner": the driver's hooked functions are ours, everything else is as it was."""
        for before, after in zip(native, ours):
            words = before.split()
            hooked = len(words) > 2 and words[1] in self.hooked and words[2] == "driver"
            self.assertEqual(after, before.replace(" driver", " preload") if hooked else before)

    def test_dlsym(self) -> None:
        native, ours = self.run_both("dlsym")
        self.expect_lookups(native, ours)
        self.assertIn("dlsym cuMemAlloc_v2 preload", ours)
        self.assertIn("dlsym cuMemAlloc driver", ours)  # the 32-bit function is left alone
        self.assertIn("dlsym cuMemHostAlloc missing", ours)  # hooked, but not in this driver
        self.assertIn("call 9121", ours)

    def test_dlvsym(self) -> None:
        native, ours = self.run_both("dlvsym")
        self.expect_lookups(native, ours)
        self.assertIn("dlvsym cuMemAlloc_v2 preload", ours)

    def test_without_a_driver_nothing_is_found(self) -> None:
        native, ours = self.run_both("no-driver", driver=False)
        self.assertEqual(native, ours)
        self.assertIn("default cuInit missing", ours)

    def test_a_driver_in_the_global_scope(self) -> None:
        native, ours = self.run_both("global-driver")
        self.expect_lookups(native, ours)
        self.assertIn("default cuInit preload", ours)
        self.assertIn("next cuInit preload", ours)

    def test_a_local_driver_stays_local(self) -> None:
        native, ours = self.run_both("local-driver")
        self.assertEqual(native, ours)
        self.assertIn("default cuInit missing", ours)

    def test_the_caller_of_rtld_next_stays_visible(self) -> None:
        native, ours = self.run_both("next", self.next_library)
        self.assertEqual(native, ours)
        self.assertEqual(ours, ["next found itself 0 times"])

    def test_both_resolvers_with_every_version_and_flag(self) -> None:
        for resolver in ("resolver", "old-resolver"):
            native, ours = self.run_both(resolver)
            handed_out = 0
            for before, after in zip(native, ours):
                name = before.split(" ")[0]
                # Same result, status and function (its own result tells which it is), from us if it is a hooked export.
                self.assertEqual(after.replace(" preload", " driver"), before)
                result = re.search(r" driver(?: (\d+))?$", before)
                if result is None or result[1] in ("9120", "9001"):  # nothing; 32-bit cuMemAlloc; no export
                    self.assertEqual(after, before)
                else:
                    self.assertIn(" preload", after, name)
                    handed_out += 1
            self.assertGreater(handed_out, 150)

    def test_an_answer_that_is_no_export_is_written_down(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.run_one([self.program, "resolver"], preload=True, CUHEAP_DIR=folder)
            journals = [path.read_bytes() for path in pathlib.Path(folder).iterdir()]
        self.assertEqual(len(journals), 1)
        self.assertIn(b"cuMemAllocManaged", journals[0])
        self.assertNotIn(b"cuMemAllocAsync", journals[0])

    def test_a_direct_link(self) -> None:
        native = self.run_one([self.linked], preload=False)
        ours = self.run_one([self.linked], preload=True)
        self.assertEqual([line.replace(" preload", " driver") for line in ours], native)
        self.assertIn("cuMemAlloc_v2 9121 preload", ours)
        self.assertIn("cuInit 0", ours)  # the driver looked its own cuInit up

    def test_a_program_that_makes_no_driver_call_leaves_no_trace(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.run_one([self.program, "local-driver"], preload=True, CUHEAP_DIR=folder)
            self.assertEqual(os.listdir(folder), [])

    def test_a_bad_option_is_named_and_nothing_is_hooked_behind_it(self) -> None:
        for option, value, word in (("CUHEAP_MODE", "fast", "default, pool or observe"),
                                    ("CUHEAP_PACK", "2", "0 or 1"), ("CUHEAP_EVENT_MEMORY", "1x", "bytes")):
            done = subprocess.run([self.linked], env=self.environment(True, **{option: value}), capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn(f"{option}={value}", done.stderr)
            self.assertIn(word, done.stderr)
            self.assertIn("cuMemAlloc_v2 9121 preload", done.stdout)


if __name__ == "__main__":
    Roads.program, Roads.linked, Roads.next_library = sys.argv[1:4]
    Roads.preload, Roads.drivers = pathlib.Path(sys.argv[4]), sys.argv[5]
    unittest.main(argv=sys.argv[:1])
