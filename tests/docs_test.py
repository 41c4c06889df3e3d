"""Documents keep what they promise: links lead somewhere, decision records have their parts, commands exist.

usage: docs_test.py
"""

import pathlib
import re
import unittest

import tree

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD_PARTS = ("question", "options", "choice", "cost", "change our mind")


def pages() -> list[pathlib.Path]:
    return [ROOT / name for name in tree.source_files(ROOT) if name.suffix == ".md"]


def link_targets(text: str) -> list[str]:
    """Targets of links, outside of code blocks, without those that lead out of the tree."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    text = re.sub(r"`[^`\n]*`", "", text)
    found = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text)
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ +(.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self) -> None:
        broken = []
        for page in pages():
            for target in link_targets(tree.read_text(page)):
                path, _, anchor = target.partition("#")
                file = (page.parent / path) if path else page
                if not file.exists():
                    broken.append(f"{page.relative_to(ROOT)}: {target}")
                elif anchor and file.suffix == ".md" and anchor not in anchors(tree.read_text(file)):
                    broken.append(f"{page.relative_to(ROOT)}: no heading {target}")
        self.assertFalse(broken, "\n" + "\n".join(broken))

    def test_decision_records_have_their_parts_and_numbers(self) -> None:
        records = sorted(path for path in (ROOT / "docs/decisions").glob("*.md") if path.name != "README.md")
        self.assertTrue(records)
        numbers = [path.name[:4] for path in records]
        self.assertEqual(len(set(numbers)), len(numbers), f"two records share a number: {numbers}")
        for record in records:
            with self.subTest(record=record.name):
                text = tree.read_text(record)
                self.assertTrue(text.startswith(f"# {record.name[:4]}: "))
                self.assertRegex(text, r"\n20\d\d-\d\d-\d\d\n")
                for part in RECORD_PARTS:
                    self.assertIn(part, text.lower())

    def test_the_readme_begins_with_the_two_commands(self) -> None:
        text = tree.read_text(ROOT / "README.md")
        first_code = re.search(r"(?:^    .*\n)+", text, flags=re.MULTILINE)
        self.assertIsNotNone(first_code)
        self.assertEqual(re.findall(r"tools/\w+", first_code.group(0)), ["tools/quickstart", "tools/test"])
        for command in set(re.findall(r"\btools/[a-z]+\b", text)):
            self.assertTrue((ROOT / command).exists(), command)


class TheChecksCanFail(unittest.TestCase):
    def test_links_are_found(self) -> None:
        text = "[a](b.md) `[no](c.md)` [web](https://x/y)\n    [no](d.md)\n```\n[no](e.md)\n```\n[h](f.md#g)\n"
        self.assertEqual(link_targets(text), ["b.md", "f.md#g"])

    def test_anchors_are_made_as_the_viewers_make_them(self) -> None:
        self.assertEqual(anchors("# A title: `x`, y\n## Two\n"), {"a-title-x-y", "two"})


if __name__ == "__main__":
    unittest.main()
