"""How long a page of `cuheap report --html` takes to open: from the start of the navigation until its views are drawn and
answer, in headless Chromium, and how large it is.

usage: page_bench.py CUHEAP SNAPSHOT... [--runs N] [--keep FOLDER]

Needs Chromium and playwright, as tests/tools/cuheap/html does. Printed are the best and the median of the runs; on a loaded
machine the best counts. A large snapshot is recorded with bench/analysis/long_training.cc, see report_bench.py there.
"""
import argparse
import pathlib
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

from playwright import sync_api

MIB = 1 << 20


def write_page(cuheap, snapshot, page):
    begin, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([cuheap, "report", "--html", page, snapshot], check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used


def open_page(browser, page):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    view = context.new_page()
    view.goto(page.as_uri())
    view.wait_for_selector("html[data-ready=yes]", state="attached")
    ready = view.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    chart = view.locator("#timeline svg.chart")
    chart.focus()
    begin = view.evaluate("performance.now()")
    view.keyboard.press("ArrowLeft")
    answered = view.evaluate("performance.now()") - begin
    context.close()
    return ready, answered


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cuheap", type=pathlib.Path)
    parser.add_argument("snapshots", nargs="+", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the pages")
    options = parser.parse_args()
    folder = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="cuheap pages "))
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    print(f"{'snapshot':<40} {'written':>9} {'cpu':>8} {'page':>9} {'ready':>9} {'median':>9} {'a key':>8}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for snapshot in options.snapshots:
            page = (folder / (snapshot.name + ".html")).resolve()
            wall, cpu = write_page(options.cuheap, snapshot, page)
            runs = [open_page(browser, page) for _ in range(options.runs)]
            ready = [run[0] for run in runs]
            print(f"{snapshot.name:<40} {wall:7.2f} s {cpu:6.2f} s {page.stat().st_size / MIB:5.2f} MiB {min(ready):6.0f} ms "
                  f"{statistics.median(ready):6.0f} ms {min(run[1] for run in runs):5.0f} ms", flush=True)
        browser.close()
    if options.keep is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
