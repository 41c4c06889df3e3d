"""Manual page, completion and pages name every option of the command, and no other.

usage: documents_test.py CUHEAP
"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CUHEAP = sys.argv[1]
MANUAL = (ROOT / "docs" / "cuheap.1").read_text().replace("\\-", "-")
COMPLETION = ROOT / "tools" / "cuheap" / "completion" / "cuheap.bash"
COMMANDS = ("run", "report", "recover")


def options(command):
    text = subprocess.run([CUHEAP, command, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", text, re.MULTILINE))


def manual_options(command):
    section = MANUAL.split(f".SH OPTIONS OF {command.upper()}\n")[1].split("\n.SH ")[0]
    return {name for line in section.splitlines() if line.startswith(".B") for name in re.findall(r"--[a-z-]+", line)}


def complete(*words):
    """What bash offers for the last word."""
    quoted = " ".join("'" + word + "'" for word in words)
    script = f"source '{COMPLETION}'; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _cuheap; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    return set(subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split())


class Documents(unittest.TestCase):
    def test_help_is_understood(self):
        self.assertLessEqual({"--output", "--observe", "--stacks", "--simulate", "--journal-dir", "--help"}, options("run"))
        self.assertLessEqual({"--json", "--top", "--ignore"}, options("report"))

    def test_manual_has_every_option(self):
        for command in COMMANDS:
            self.assertEqual(manual_options(command), options(command) - {"--help"}, command)

    def test_completion_offers_every_option(self):
        for command in COMMANDS:
            self.assertEqual(complete("cuheap", command, "--") - {"--"}, options(command), command)
        self.assertEqual(complete("cuheap", ""), {*COMMANDS, "--help", "--version"})

    def test_completion_of_values_and_of_the_program(self):
        self.assertEqual(complete("cuheap", "run", "--stacks", ""), {"native", "off"})
        self.assertEqual(complete("cuheap", "report", "--color", "a"), {"auto", "always"})
        self.assertIn("true", complete("cuheap", "run", "--", "tru"))
        self.assertIn("true", complete("cuheap", "run", "-o", "x.json", "--observe", "--", "tru"))
        self.assertIn("true", complete("cuheap", "run", "tru"))
        self.assertNotIn("--observe", complete("cuheap", "run", "--", "ls", "--obs"))

    def test_every_member_of_the_json_report_is_documented(self):
        golden = json.loads((ROOT / "tests" / "analysis" / "reports" / "golden" / "everything.json").read_text())
        page = set(re.findall(r"`([a-z0-9_]+)`", (ROOT / "docs" / "reports.md").read_text()))

        def members(value):
            if isinstance(value, dict):
                return set(value).union(*(members(inner) for inner in value.values()))
            return set().union(*(members(inner) for inner in value)) if isinstance(value, list) else set()

        # "kind" and "device" of a scope are shown as JSON there.
        self.assertEqual(members(golden) - page - {"kind", "device"}, set())

    def test_manual_is_well_formed(self):
        if subprocess.run(["sh", "-c", "command -v man"], capture_output=True).returncode != 0:
            self.skipTest("no man")
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", str(ROOT / "docs" / "cuheap.1")], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("cuheap run", re.sub(r"\x1b\[\d*m|.\x08", "", done.stdout))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
