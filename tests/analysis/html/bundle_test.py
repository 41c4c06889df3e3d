"""analysis/html/bundle.py: what is bundled is what the policy allows, and what cannot be in a page is refused.

usage: bundle_test.py
"""
import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUNDLE = pathlib.Path(__file__).resolve().parents[3] / "analysis" / "html" / "bundle.py"
TEMPLATE = ('<meta content="{{policy}}"><style>{{style}}</style><pre>{{words}}</pre><i>{{data}}</i><!-- {{licence}} -->'
            "<script>{{library}}</script><script>{{scripts}}</script>")


class Bundle(unittest.TestCase):
    def bundle(self, template=TEMPLATE, library="let d3 = '{{data}}';", licence="Copyright -- somebody", style="p { color: red; }",
               script="const a = 1;"):
        folder = tempfile.TemporaryDirectory(prefix="cuheap bundle ")
        self.addCleanup(folder.cleanup)
        work = pathlib.Path(folder.name)
        files = {"d3.js": library, "LICENCE": licence, "t.html": template, "s.css": style, "a.js": script}
        for name, text in files.items():
            (work / name).write_text(text)
        done = subprocess.run([sys.executable, "-B", BUNDLE, work / "out", *(work / name for name in files)],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return done.stderr
        return {name: (work / "out" / f"{name}.html").read_text() for name in ("head", "middle", "tail")}

    def test_the_policy_names_each_script_and_style_by_its_hash(self):
        parts = self.bundle()
        page = "".join(parts.values())
        policy = re.search(r'content="([^"]+)"', page).group(1)
        blocks = re.findall(r"<(script|style)>(.*?)</\1>", page, re.DOTALL)
        self.assertEqual(len(blocks), 3)
        for _, text in blocks:
            self.assertIn("'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'", policy)
        self.assertEqual(policy.count("sha256-"), 3)
        self.assertTrue(policy.startswith("default-src 'none'; "))

    def test_what_is_put_in_is_not_read_for_places_again(self):
        parts = self.bundle()
        self.assertTrue(parts["head"].endswith("<pre>"))
        self.assertEqual(parts["middle"], "</pre><i>")
        self.assertIn("let d3 = '{{data}}';", parts["tail"])

    def test_a_licence_cannot_end_its_comment(self):
        self.assertIn("<!-- Charts", self.bundle(licence="a --> b")["tail"])
        self.assertEqual(self.bundle(licence="a --> b")["tail"].count("-->"), 1)

    def test_what_would_end_a_block_is_refused(self):
        self.assertIn("</script", self.bundle(script="const a = '</script>';"))
        self.assertIn("<!--", self.bundle(library="<!-- x"))
        self.assertIn("</style", self.bundle(style="</STYLE>"))
        self.assertIn("not known", self.bundle(template=TEMPLATE + "{{more}}"))
        self.assertIn("in this order", self.bundle(template=TEMPLATE.replace("{{data}}", "")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
