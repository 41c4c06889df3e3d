"""The GPU kit, with the simulated driver in place of a GPU and with items made up for the purpose: what it says of each, and that
it neither hangs nor loses what it knows.

usage: kit_test.py BUILD_FOLDER SIMCUDA_FOLDER
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def python(code: str) -> list[str]:
    return ["python3", "-B", "-c", code]


# name: (what it runs, status, a part of the reason)
MADE_UP = {
    "good": (python("print('figure: speed = 3.5 GB/s')"), "passed", ""),
    "wrong": (python("print('before'); raise ValueError('seven is not eight')"), "failed", "seven is not eight"),
    "absent": (python("print('skipped: one device only'); raise SystemExit(77)"), "skipped", "one device only"),
    "all_skipped": (python("import unittest\nclass T(unittest.TestCase):\n def test_it(self): self.skipTest('no')\nunittest.main()"),
                    "skipped", "all of its tests"),
    "some_skipped": (python("import unittest\nclass T(unittest.TestCase):\n def test_it(self): self.skipTest('no')\n"
                            " def test_that(self): pass\nunittest.main()"), "passed", ""),
    "stuck": (python("import signal, subprocess, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                     "subprocess.Popen(['sleep', '60'])\nprint('waiting', flush=True)\ntime.sleep(60)"),
              "failed", "not done after 2 s"),
    "no_program": (["{root}/build/nothing"], "failed", "nothing"),
    "no_library": (python(""), "skipped", "libnothing.so.99"),
}


class KitTest(unittest.TestCase):
    build: str
    driver: str
    folder: pathlib.Path
    kit: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="cuheap gpu kit ")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.kit = cls.folder / "the kit"
        done = subprocess.run([sys.executable, "-B", HERE / "pack.py", cls.build, cls.kit], capture_output=True, text=True,
                              check=False, timeout=280)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls.size = float(re.search(r"([\d.]+) MiB", done.stdout)[1])

    def run_kit(self, kit: pathlib.Path, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        return subprocess.run([kit / "run.sh", "--results", self.folder / "results", *options], env=environment | more,
                              capture_output=True, text=True, check=False, timeout=240)

    def results(self) -> dict[str, dict]:
        whole = json.loads((self.folder / "results/results.json").read_text())
        return {item["name"]: item for item in whole["items"]}

    def test_real_items_pass_on_the_simulated_driver(self) -> None:
        items = ["claim_whole_pages", "claim_cost_of_calls", "road_dlsym", "road_cudart_13", "semantic_double_free",
                 "sample_vector_add_driver"]
        done = self.run_kit(self.kit, "--driver", self.driver, "--only", f"^({'|'.join(items)})$")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        results = self.results()
        known = {item["name"] for item in json.loads((self.kit / "manifest.json").read_text())["items"]}
        self.assertEqual({name: item["status"] for name, item in results.items()},
                         {name: "passed" for name in items if name in known})
        self.assertIn("charged for 2097152 bytes", results["claim_whole_pages"]["figures"])
        text = (self.folder / "results/results.txt").read_text()
        for part in ("(simulated)", "capability 9.0", "passed", "charged for 2097152 bytes = 2.09715e+06 bytes"):
            self.assertIn(part, text)

    def made_up(self) -> pathlib.Path:
        kit = self.folder / "made up"
        shutil.rmtree(kit, ignore_errors=True)
        (kit / "build/tests/gpu").mkdir(parents=True)
        for name in ("run.sh", "kit.py", "build/tests/gpu/cuheap_gpu_probe"):
            shutil.copy2(self.kit / name, kit / name)
        items = [{"name": name, "group": "made up", "command": command, "limit_s": 2 if name == "stuck" else 60,
                  "needs": ["libnothing.so.99"] if name == "no_library" else []} for name, (command, _, _) in MADE_UP.items()]
        (kit / "manifest.json").write_text(json.dumps({"format": 1, "made_from": "nothing", "items": items}))
        return kit

    def test_each_outcome_is_told_with_its_reason(self) -> None:
        shutil.rmtree(self.folder / "results", ignore_errors=True)
        began = time.monotonic()
        done = self.run_kit(self.made_up(), "--driver", self.driver)
        self.assertLess(time.monotonic() - began, 50, "what was stuck, or its child, was waited for")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        results = self.results()
        for name, (_, status, reason) in MADE_UP.items():
            self.assertEqual(results[name]["status"], status, results[name])
            self.assertIn(reason, results[name]["reason"])
        self.assertEqual(results["good"]["figures"], {"speed": "3.5 GB/s"})
        self.assertIn("waiting", results["stuck"]["output"])
        self.assertIn("--- wrong", (self.folder / "results/results.txt").read_text())

    def test_what_the_time_did_not_allow_is_named_and_resumed(self) -> None:
        shutil.rmtree(self.folder / "results", ignore_errors=True)
        kit = self.made_up()
        done = self.run_kit(kit, "--driver", self.driver, "--time", "1")
        self.assertEqual(done.returncode, 1)
        self.assertEqual({item["status"] for item in self.results().values()}, {"not run"})
        self.run_kit(kit, "--driver", self.driver, "--resume", "--only", "good")
        first = self.results()["good"]
        again = self.run_kit(kit, "--driver", self.driver, "--resume", "--only", "good|absent")
        self.assertEqual(self.results()["good"], first)
        self.assertNotIn("good", again.stdout)
        self.assertIn("absent", again.stdout)

    def test_without_a_gpu_it_is_skipped_and_says_why(self) -> None:
        probe = subprocess.run([self.kit / "build/tests/gpu/cuheap_gpu_probe"], capture_output=True, text=True, check=False)
        if probe.returncode == 0:
            self.skipTest("there is a GPU here")
        done = self.run_kit(self.kit)
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertIn("libcuda.so.1", done.stdout)
        done = self.run_kit(self.kit, LD_LIBRARY_PATH=self.driver)
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertIn("simulated", done.stdout)
        done = self.run_kit(self.kit, "--driver", self.driver, "--only", "^claim_whole", SIMCUDA_DEVICES="0")
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)

    def test_carried_libraries_are_enough(self) -> None:
        """With none of the machine's but libc's and what python3 needs: the loader is shown the carried ones only."""
        needed = subprocess.run(["ldd", self.kit / "build/bin/cuheap"], capture_output=True, text=True, check=True,
                                env={"LD_LIBRARY_PATH": str(self.kit / "build/deps")}).stdout
        elsewhere = [line for line in needed.splitlines() if "=> " in line and str(self.kit) not in line
                     and not re.search(r"lib(c|m|dl|pthread|rt)\.so", line)]
        self.assertEqual(elsewhere, [])

    def test_it_can_be_carried(self) -> None:
        self.assertLessEqual(self.size, 64)
        links = [path for path in self.kit.rglob("*") if path.is_symlink()]
        self.assertEqual(links, [])
        for text in (str(pathlib.Path.home()), str(ROOT), self.build):
            self.assertNotIn(text, (self.kit / "manifest.json").read_text())

    def test_what_is_unverified_names_items_of_the_kit(self) -> None:
        known = {item["name"] for item in json.loads((self.kit / "manifest.json").read_text())["items"]}
        named = set(re.findall(r"\bkit: ([^|]*)", (ROOT / "docs/unverified.md").read_text()))
        names = {name for text in named for name in re.findall(r"`(\w+)`", text)}
        self.assertGreater(len(names), 15)
        if not any(name.startswith("sample_") for name in known):  # there is no nvcc here
            names = {name for name in names if not name.startswith("sample_")}
        self.assertEqual(names - known, set())


if __name__ == "__main__":
    KitTest.build, KitTest.driver = sys.argv[1], sys.argv[2]
    unittest.main(argv=sys.argv[:1])
