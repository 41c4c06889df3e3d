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
COMMANDS = ("run", "report", "export", "diff", "recover")


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
        self.assertEqual(complete("cuheap", ""), {*COMMANDS, "help", "--help", "--version"})
        self.assertEqual(complete("cuheap", "help", ""), set(COMMANDS))

    def test_completion_of_values_and_of_the_program(self):
        self.assertEqual(complete("cuheap", "run", "--stacks", ""), {"full", "native", "off"})
        self.assertEqual(complete("cuheap", "report", "--color", "a"), {"auto", "always"})
        help_text = subprocess.run([CUHEAP, "export", "--help"], capture_output=True, text=True, check=True).stdout
        formats = help_text.split("-f,--format FORMAT")[1].split("\n  -")[0].replace(",", " ").split()
        self.assertEqual(complete("cuheap", "export", "--format", ""), set(formats))
        self.assertEqual(complete("cuheap", "export", "--at", "p"), {"peak"})
        self.assertIn("true", complete("cuheap", "run", "--", "tru"))
        self.assertIn("true", complete("cuheap", "run", "-o", "x.json", "--observe", "--", "tru"))
        self.assertIn("true", complete("cuheap", "run", "tru"))
        self.assertNotIn("--observe", complete("cuheap", "run", "--", "ls", "--obs"))

    def test_models_are_the_same_everywhere(self):
        help_text = subprocess.run([CUHEAP, "run", "--help"], capture_output=True, text=True, check=True).stdout
        models = set(re.search(r"if one is named: (.*?)\.", help_text, re.DOTALL).group(1).replace(",", " ").split())
        self.assertIn("h100", models)
        self.assertEqual(complete("cuheap", "run", "--simulate", "="), models)
        self.assertEqual(complete("cuheap", "run", "--simulate", "=", "v1"), {"v100", "v100-32g"})
        manual = re.search(r"if one is named: (.*?)\.", MANUAL, re.DOTALL).group(1).replace(",", " ").split()
        self.assertEqual(set(manual), models)

    def test_completion_goes_on_behind_an_equals_sign(self):
        self.assertEqual(complete("cuheap", "run", "--stacks", "=", "o"), {"off"})
        self.assertIn("true", complete("cuheap", "run", "--simulate", "=", "h100", "--stacks", "=", "off", "--", "tru"))
        self.assertIn("--observe", complete("cuheap", "run", "--simulate", "=", "h100", "--obs"))

    def test_places_of_journals_are_those_that_are_tried(self):
        source = (ROOT / "tools" / "cuheap" / "journal_folder.cc").read_text().split("Candidates()")[1].split("return folders")[0]
        places = [path or "$" + variable for path, variable in re.findall(r'"(/[a-z/]+)"|add\("(\w+)"\)', source)]
        self.assertEqual(len(places), 5)
        help_text = subprocess.run([CUHEAP, "recover", "--help"], capture_output=True, text=True, check=True).stdout
        self.assertIn("  ".join(places) + "\n", help_text)
        self.assertIn(", ".join(places) + ".", MANUAL.replace("\n", " "))

    def test_documents_name_commands_that_exist(self):
        for page in (ROOT / "README.md", *(path for path in (ROOT / "docs").glob("*.md") if path.name != "roadmap.md")):
            named = set(re.findall(r"(?:`|^    (?:.*/)?)cuheap ([a-z]+)", page.read_text(), re.MULTILINE))
            self.assertLessEqual(named, {*COMMANDS, "help"}, page.name)

    def test_every_member_of_the_json_report_is_documented(self):
        golden = json.loads((ROOT / "tests" / "analysis" / "reports" / "golden" / "everything.json").read_text())
        page = set(re.findall(r"`([a-z0-9_]+)`", (ROOT / "docs" / "reports.md").read_text()))

        def members(value):
            if isinstance(value, dict):
                return set(value).union(*(members(inner) for inner in value.values()))
            return set().union(*(members(inner) for inner in value)) if isinstance(value, list) else set()

        # "kind" and "device" of a scope are shown as JSON there.
        self.assertEqual(members(golden) - page - {"kind", "device"}, set())
        golden = json.loads((ROOT / "tests" / "analysis" / "reports" / "golden" / "diff.json").read_text())
        page |= set(re.findall(r"`([a-z0-9_]+)`", (ROOT / "docs" / "diff.md").read_text()))
        self.assertEqual(members(golden) - page - {"kind", "device"}, set())

    def test_the_grammar_of_conditions_is_the_same_everywhere(self):
        header = re.sub(r'"\s+"', "", (ROOT / "analysis" / "reports" / "fail_on.h").read_text())
        names = set(re.search(r"FIGURE: ([a-z, -]+);", header).group(1).split(", "))
        self.assertEqual(len(names), 10)
        help_text = subprocess.run([CUHEAP, "diff", "--help"], capture_output=True, text=True, check=True).stdout
        for text in (help_text, MANUAL, (ROOT / "docs" / "diff.md").read_text()):
            self.assertLessEqual(names, set(re.findall(r"[a-z]+(?:-[a-z]+)*", text)))

    def test_manual_is_well_formed(self):
        if subprocess.run(["sh", "-c", "command -v man"], capture_output=True).returncode != 0:
            self.skipTest("no man")
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", str(ROOT / "docs" / "cuheap.1")], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("cuheap run", re.sub(r"\x1b\[\d*m|.\x08", "", done.stdout))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
