"""Pages of `cuheap report --html` in headless Chromium.

usage of each test: TEST.py CUHEAP DEMO WRITER [TEST...]

DEMO is docs/examples/leaky_training.cc, WRITER tests/analysis/exports/write_export_programs.cc.

Exits 77 where there is no Chromium or no playwright. Every page that a test opens must stay without errors, and must ask
for nothing but itself.
"""
import contextlib
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

CUHEAP, DEMO, WRITER = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:4])
ROOT = pathlib.Path(__file__).resolve().parents[4]
PICKLES = ROOT / "tests" / "data" / "pytorch"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

try:
    from playwright import sync_api
except ImportError:
    sync_api = None

_folder = tempfile.TemporaryDirectory(prefix="cuheap html ")
WORK = pathlib.Path(_folder.name)

DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


def run(*words, status=0):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CUHEAP_", "SIMCUDA_", "LD_"))}
    done = subprocess.run([CUHEAP, *map(str, words)], cwd=WORK, capture_output=True, timeout=300,
                          env={**environment, "LC_ALL": "C.UTF-8"}, check=False)
    assert done.returncode == status, (done.returncode, done.stderr)
    return done


@functools.cache
def demo_snapshot() -> pathlib.Path:
    run("run", "--simulate", "-q", "-o", "demo.json", "--", DEMO)
    return WORK / "demo.json"


@functools.cache
def pickle_page(name: str) -> pathlib.Path:
    return page_of(PICKLES / f"{name}.pickle.zst")


def page_of(snapshot: pathlib.Path) -> pathlib.Path:
    page = WORK / (snapshot.name + ".html")
    run("report", "--html", page, snapshot)
    return page


@functools.cache
def demo_page() -> pathlib.Path:
    return page_of(demo_snapshot())


@functools.cache
def demo_report() -> dict:
    return json.loads(run("report", "--json", demo_snapshot()).stdout)


class BrowserTest(unittest.TestCase):
    """One browser for all tests of a file, a fresh profile for each page."""

    @classmethod
    def setUpClass(cls):
        playwright = sync_api.sync_playwright().start()
        cls.addClassCleanup(playwright.stop)
        # Chromium's own sandbox refuses to run as root, which containers do.
        cls.browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        cls.addClassCleanup(cls.browser.close)

    @contextlib.contextmanager
    def opened(self, file: pathlib.Path, viewport=None, scheme="light", **options):
        context = self.browser.new_context(viewport=viewport or DESK, color_scheme=scheme, reduced_motion="reduce", **options)
        context.set_default_timeout(30_000)
        page = context.new_page()
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        address = file.as_uri()
        page.goto(address)
        page.wait_for_selector("html[data-ready=yes]", state="attached")
        try:
            yield page
            self.assertEqual(said, [], "the page said something on the console")
            self.assertEqual(asked, [address], "the page asked for something else than itself")
        finally:
            context.close()

    def rows(self, page, table: str) -> int:
        return page.locator(f"#{table}-table tbody tr").count()


@functools.cache
def synthetic_snapshots() -> list[pathlib.Path]:
    folder = WORK / "synthetic"
    folder.mkdir()
    subprocess.run([WRITER, folder], check=True)
    return sorted(folder.glob("*.json"))


def main():
    if CHROMIUM is None or sync_api is None:
        print("skipped: no Chromium" if CHROMIUM is None else "skipped: no playwright for this Python")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
