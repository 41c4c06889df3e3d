"""tools/deps, tools/test and tools/quickstart where something is missing and nothing may be installed.

They run in a copy under a path with spaces, with an empty cache and with tools that only say what was asked of them in
place of the package manager. Nothing is built and nothing is downloaded here.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


class WithoutInstalling(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="cuheap scripts ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tools = self.folder / "the tree/tools"
        shutil.copytree(ROOT / "tools", self.tools, ignore=shutil.ignore_patterns("simcuda", "cuheap"))
        self.cache = self.folder / "a cache"
        self.asked = self.folder / "asked"
        self.fake("dpkg-query", "exit 1")
        self.fake("apt-get", f"echo apt-get \"$@\" >>'{self.asked}'; exit 1")
        self.fake("sudo", f"echo sudo \"$@\" >>'{self.asked}'; exit 1")
        self.fake("cmake", f"echo cmake \"$@\" >>'{self.asked}'; exit 1")

    def fake(self, name: str, body: str) -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def call(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        words = [str(self.tools / command[0]), *command[1:]]
        inherited = {name: value for name, value in os.environ.items() if name != "CUHEAP_TORCH_PYTHON"}
        variables = {**inherited, "CUHEAP_CACHE": str(self.cache), "CUDA_HOME": "",
                     "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", **environment}
        return subprocess.run(words, env=variables, capture_output=True, text=True, check=False, cwd=self.folder,
                              stdin=subprocess.DEVNULL)

    def assert_listed(self, done: subprocess.CompletedProcess[str], *words: str) -> None:
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse(self.asked.exists(), "something was asked of a package manager or of cmake")
        self.assertFalse(self.cache.exists(), "the cache was touched")

    def test_what_is_missing_is_listed_with_its_reason(self) -> None:
        done = self.call("deps", "--for", "run", "--no-install")
        self.assert_listed(done, "libabsl-dev", "status and containers", "apt-get install",
                           "libcli11-dev")
        self.assertNotIn("libgtest-dev", done.stderr)
        self.assertNotIn("torch", done.stderr)

    def test_each_goal_needs_what_the_lesser_ones_need(self) -> None:
        self.assert_listed(self.call("deps", "--no-install"), "libabsl-dev", "libgtest-dev", "jsonschema", "torch")
        done = self.call("deps", "--no-install", "--for", "full", "--no-pytorch")
        self.assert_listed(done, "libabsl-dev", "libgtest-dev", "jsonschema")
        self.assertNotIn("torch", done.stderr)

    def test_the_two_commands_stop_before_they_build(self) -> None:
        done = self.call("quickstart", "--no-install")
        self.assert_listed(done, "libabsl-dev")
        self.assertNotIn("torch", done.stderr)
        done = self.call("quickstart", "--pytorch", "--no-install")
        self.assert_listed(done, "libabsl-dev", "torch==2.15.0", "5 GB")
        self.assertNotIn("transformers", done.stderr)
        done = self.call("quickstart", "--pytorch", "--no-install", CUHEAP_TORCH_PYTHON="/usr/bin/python3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no CUDA build of PyTorch", done.stderr)
        self.assert_listed(self.call("test", "--no-install"), "libgtest-dev", "torch")
        self.assert_listed(self.call("test", "--no-install", "--full", "--no-pytorch"), "libgtest-dev")

    def test_unknown_options_are_refused(self) -> None:
        for command in (["deps", "--nonsense"], ["deps", "--for", "nonsense"], ["test", "--nonsense"],
                        ["quickstart", "--nonsense"]):
            with self.subTest(command=command):
                done = self.call(*command)
                self.assertEqual(done.returncode, 2)
                self.assertIn("nonsense", done.stderr)
                self.assertFalse(self.asked.exists())

    def test_help_is_the_comment_at_the_top(self) -> None:
        for command in ("deps", "test", "quickstart"):
            done = self.call(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.startswith(f"usage: tools/{command}"))
            self.assertIn("--no-install", done.stdout)

    def test_a_package_manager_that_fails_is_reported(self) -> None:
        done = self.call("deps", "--for", "run")
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("all is there", done.stderr)


class CommonParts(unittest.TestCase):
    def sh(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        common = ROOT / "tools/deps.d/common.sh"
        return subprocess.run(["sh", "-euc", f'. "{common}"; {script}'], capture_output=True, text=True, check=False,
                              env={"PATH": "/usr/bin:/bin", **environment}, stdin=subprocess.DEVNULL)

    def test_a_long_build_shows_that_it_moves(self) -> None:
        done = self.sh("built sh -c 'for p in 0 9 10 11 38 100; do printf \"[%3d%%] CXX\\n\" $p; done'")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertEqual(done.stderr, "deps: built 10 %\ndeps: built 38 %\n")

    def test_a_failed_build_shows_what_it_printed(self) -> None:
        done = self.sh("built sh -c 'echo wrong; exit 3' || { echo status $?; exit 4; }")
        self.assertEqual((done.returncode, done.stdout), (4, "status 3\n"))
        self.assertIn("wrong\n", done.stderr)

    def test_cached_objects_are_of_this_checkout(self) -> None:
        done = self.sh("use_ccache; env", CCACHE_NOHASHDIR="1")
        if "/usr/lib/ccache" not in done.stdout:
            self.skipTest("no ccache")
        self.assertNotIn("CCACHE_NOHASHDIR", done.stdout)
        self.assertIn("CCACHE_HASHDIR=1\n", done.stdout)


class TheTable(unittest.TestCase):
    def test_every_line_has_its_five_columns(self) -> None:
        rows = [line.split("|") for line in (ROOT / "tools/deps.d/table").read_text(encoding="utf-8").splitlines()
                if line.strip() and not line.startswith("#")]
        self.assertGreater(len(rows), 15)
        for row in rows:
            with self.subTest(row=row):
                self.assertEqual(len(row), 5)
                step, kind, name, test, why = (cell.strip() for cell in row)
                self.assertIn(step, ("run", "test", "full", "torch", "scripts"))
                self.assertIn(kind, ("deb", "pip"))
                self.assertTrue(name and test and why)
                self.assertEqual("==" in name, kind == "pip", "what PyPI gives is pinned")


if __name__ == "__main__":
    unittest.main()
