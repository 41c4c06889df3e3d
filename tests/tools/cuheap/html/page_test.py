"""The page of `cuheap report --html` as a reader uses it. See browser.py."""
import json
import re
import unittest

import browser
from browser import DESK, PHONE

# What a program may be called to break a page that shows it.
MARKUP = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\"><!--&lt;"


class Verdict(browser.BrowserTest):
    def test_says_first_what_the_report_says_first(self):
        report = browser.demo_report()
        text = browser.run("report", browser.demo_snapshot()).stdout.decode()
        with self.opened(browser.demo_page()) as page:
            words = page.locator("#verdict h1").inner_text()
            self.assertEqual(words.split(), " ".join(text.splitlines()[0].split()).split())
            self.assertEqual(page.locator("#findings .card.leak").count(), report["leak_count"])
            for card, leak in zip(page.locator("#findings .card.leak").all(), report["leaks"]):
                shown = card.inner_text()
                self.assertIn(f"{leak['line']['file'].split('/')[-1]}:{leak['line']['line']}", shown)
                self.assertIn(f"{leak['bytes']:,} B", shown)
                self.assertIn(leak["advice"], shown)
            self.assertIn("LEAK", page.title())

    def test_then_what_to_do_now(self):
        leak = browser.demo_report()["leaks"][0]
        with self.opened(browser.demo_page()) as page:
            answer = page.locator("#verdict .answer").inner_text()
            self.assertTrue(answer.startswith("What to do now:"), answer)
            self.assertIn(f"{leak['line']['file'].split('/')[-1]}:{leak['line']['line']}", answer)
            self.assertIn(leak["advice"], answer)
        # Nothing is wrong: it is said, and what would make the peak lower all the same.
        name = "torch-cs336-small-idle-cache"
        best = json.loads(browser.run("report", "--json", browser.PICKLES / f"{name}.pickle.zst").stdout)["remedies"][0]["remedies"][0]
        with self.opened(browser.pickle_page(name)) as page:
            answer = page.locator("#verdict .answer").inner_text()
            self.assertIn("Nothing has to be mended. To lower the peak: ", answer)
            self.assertIn(f"saves {best['saved_bytes'] / 2**30:.1f} GiB", answer)

    def test_a_remedy_says_what_its_figures_are(self):
        with self.opened(browser.pickle_page("torch-cs336-small-idle-cache")) as page:
            card = page.locator("#findings .card", has=page.get_by_text("What would help", exact=True))
            effects = card.locator(".effect").all_inner_texts()
            self.assertEqual(len(effects), 3)
            for effect in effects:
                self.assertRegex(effect, r"^Saves [\d.]+ GiB, new peak [\d.]+ GiB, then highest in backward pass$")

    def test_a_peak_whose_events_were_lost_is_told_all_the_same(self):
        (cut,) = [file for file in browser.synthetic_snapshots() if file.stem == "cut"]
        told = json.loads(browser.run("report", "--json", cut).stdout)["memory"][0]["peak"]
        self.assertNotEqual(told["basis"], "exact")
        with self.opened(browser.page_of(cut)) as page:
            figure = page.locator("#verdict .figure").first
            self.assertIn(f"{told['bytes']:,}", figure.get_attribute("title"))
            self.assertIn("not in the record", figure.inner_text())

    def test_a_card_leads_to_the_blocks_behind_it(self):
        leak = browser.demo_report()["leaks"][0]
        with self.opened(browser.demo_page()) as page:
            page.locator("#findings .card button").first.click()
            self.assertEqual(page.locator("#blocks .count").inner_text().split()[2], str(leak["blocks"]))
            self.assertIn("60 blocks, 45.0 MiB", page.locator("#blocks .note").inner_text().replace("\u00a0", " "))
            page.get_by_role("button", name="Show all", exact=True).click()
            self.assertGreater(int(page.locator("#blocks .count").inner_text().split()[2]), leak["blocks"])


class Timeline(browser.BrowserTest):
    def chosen(self, page):
        return page.locator("#timeline .chosen").inner_text().replace("\u00a0", " ")

    def in_view(self, page):
        chart = page.locator("#timeline svg.chart")
        chart.evaluate("(node) => node.scrollIntoView({block: 'center'})")
        return chart.bounding_box()

    def test_begins_at_the_peak_with_its_bytes(self):
        peak = browser.demo_report()["memory"][0]["peak"]
        with self.opened(browser.demo_page()) as page:
            self.assertIn("peak", self.chosen(page))
            self.assertIn(f"step {peak['step']}", self.chosen(page))
            self.assertIn(f"{peak['bytes'] / 2**20:.1f} MiB", self.chosen(page))
            # Every series of the legend adds to the whole.
            shares = page.locator("#timeline .legend .bytes").all_inner_texts()
            mebibytes = sum(float(share.split()[0]) / {"B": 2**20, "KiB": 1024, "MiB": 1}[share.split()[1]] for share in shares)
            self.assertAlmostEqual(mebibytes, peak["bytes"] / 2**20, delta=0.1 * len(shares))

    def test_a_click_chooses_an_instant_for_all_views(self):
        with self.opened(browser.demo_page()) as page:
            before = page.locator("#stacks .chosen").inner_text()
            box = self.in_view(page)
            page.mouse.click(box["x"] + box["width"] / 3, box["y"] + box["height"] / 2)
            self.assertNotIn("peak", self.chosen(page))
            after = page.locator("#stacks .chosen").inner_text()
            self.assertNotEqual(before, after)
            step = re.search(r"step.(\d+)", after).group(1)
            self.assertIn(f"step {step}", self.chosen(page))

    def test_zooms_by_dragging_and_back_by_a_key(self):
        with self.opened(browser.demo_page()) as page:
            chart = page.locator("#timeline svg.chart")
            whole = chart.locator(".tick").all_text_contents()
            reset = page.get_by_role("button", name="Whole run")
            self.assertTrue(reset.is_disabled())
            box = self.in_view(page)
            page.mouse.move(box["x"] + 300, box["y"] + 100)
            page.mouse.down()
            page.mouse.move(box["x"] + 420, box["y"] + 110, steps=4)
            page.mouse.up()
            self.assertNotEqual(chart.locator(".tick").all_text_contents(), whole)
            self.assertFalse(reset.is_disabled())
            self.assertIn("peak", self.chosen(page), "dragging chose an instant as well")
            chart.focus()
            page.keyboard.press("Escape")
            self.assertEqual(chart.locator(".tick").all_text_contents(), whole)

    def test_keys_move_zoom_and_find_the_peak(self):
        with self.opened(browser.demo_page()) as page:
            chart = page.locator("#timeline svg.chart")
            chart.focus()
            peak = self.chosen(page)
            page.keyboard.press("Home")
            first = self.chosen(page)
            self.assertNotEqual(first, peak)
            page.keyboard.press("ArrowRight")
            self.assertNotEqual(self.chosen(page), first)
            self.assertIn(page.locator("#announce").inner_text().split(",")[-1].strip().replace("\u00a0", " "), self.chosen(page))
            page.keyboard.press("p")
            self.assertEqual(self.chosen(page), peak)
            page.keyboard.press("+")
            self.assertFalse(page.get_by_role("button", name="Whole run").is_disabled())

    def test_hovering_tells_time_and_bytes(self):
        with self.opened(browser.demo_page()) as page:
            box = self.in_view(page)
            page.mouse.move(box["x"] + 500, box["y"] + 150)
            tip = page.locator("#tip").inner_text().replace("\u00a0", " ")
            self.assertRegex(tip, r"\d m?s, step \d+")
            self.assertRegex(tip, r"MiB in all")

    def test_colours_by_line_name_the_lines(self):
        with self.opened(browser.pickle_page("torch-cs336-medium-ctx128-training")) as page:
            page.locator("#timeline").get_by_role("button", name="Line", exact=True).click()
            self.assertIn("optimizer.py:77", page.locator("#timeline .legend").inner_text())


class Stacks(browser.BrowserTest):
    def test_zooms_into_a_frame_and_out_again(self):
        with self.opened(browser.demo_page()) as page:
            frame = page.locator("#stacks g.node", has_text="Trainer::Step").first
            frame.click()
            self.assertIn("Trainer::Step", page.locator("#stacks .detail").inner_text())
            shown = page.locator("#stacks g.node text").all_text_contents()
            self.assertFalse([text for text in shown if "Validate" in text])
            page.locator("#stacks").get_by_role("button", name="All of it").click()
            self.assertIn("Everything", page.locator("#stacks .detail").inner_text())

    def test_keys_walk_along_the_stack(self):
        with self.opened(browser.demo_page()) as page:
            page.locator("#stacks svg.flame").focus()
            page.keyboard.press("ArrowDown")
            first = page.locator("#stacks .detail").inner_text()
            page.keyboard.press("ArrowDown")
            second = page.locator("#stacks .detail").inner_text()
            self.assertNotEqual(first, second)
            page.keyboard.press("ArrowUp")
            self.assertEqual(page.locator("#stacks .detail").inner_text(), first)
            page.keyboard.press("Enter")
            self.assertFalse(page.locator("#stacks").get_by_role("button", name="All of it").is_disabled())

    def test_a_frame_leads_to_its_blocks(self):
        with self.opened(browser.demo_page()) as page:
            page.locator("#stacks g.node", has_text="Trainer::LogLoss").first.click()
            page.locator("#stacks .detail").get_by_role("button", name="Show the blocks").click()
            lines = set(page.locator("#blocks-table summary").all_inner_texts())
            self.assertEqual(len(lines), 1)
            self.assertIn("LogLoss", lines.pop())

    def test_flame_puts_the_root_at_the_bottom_and_all_frames_show_the_runtime(self):
        with self.opened(browser.demo_page()) as page:
            def top():
                root = page.locator("#stacks g.node", has_text="all, ").first
                return float(root.locator("rect").get_attribute("y"))
            above = top()
            page.get_by_role("button", name="Flame", exact=True).click()
            self.assertGreater(top(), above)
            page.get_by_role("button", name="All frames").click()
            self.assertIn("cudaMalloc", page.locator("#stacks svg").text_content())


class Addresses(browser.BrowserTest):
    def test_shows_the_segments_that_the_report_tells(self):
        pool = browser.demo_report()["pools"][0]
        with self.opened(browser.demo_page()) as page:
            page.locator("#addresses").get_by_role("button", name=re.compile("^end")).click()
            facts = page.locator("#addresses .facts").inner_text().replace("\u00a0", " ")
            self.assertIn(f"{pool['reserved_bytes'] / 2**20:.1f} MiB in {len(pool['segments'])} segments", facts)
            self.assertIn(f"{pool['used_bytes'] / 2**20:.1f} MiB", facts)

    def test_a_block_names_its_line_and_leads_to_its_row(self):
        with self.opened(browser.demo_page()) as page:
            block = page.locator("#addresses rect.block").first
            block.scroll_into_view_if_needed()
            block.hover()
            self.assertIn("leaky_training.cc", page.locator("#tip").inner_text())
            block.click()
            self.assertEqual(self.rows(page, "blocks"), 1)

    def test_idle_memory_of_pytorchs_cache_is_marked(self):
        with self.opened(browser.pickle_page("torch-cs336-small-idle-cache")) as page:
            self.assertGreater(page.locator("#addresses rect.idle").count(), 0)


class Tables(browser.BrowserTest):
    def test_search_leaves_the_lines_that_match(self):
        with self.opened(browser.demo_page()) as page:
            all_rows = self.rows(page, "lines")
            page.locator("#lines-search").fill("logloss")
            page.wait_for_function("n => document.querySelectorAll('#lines-table tbody tr').length < n", arg=all_rows)
            self.assertEqual(self.rows(page, "lines"), 1)
            page.locator("#lines-search").fill("no such line")
            page.wait_for_selector("#lines-table .empty")

    def test_a_heading_sorts_and_sorts_the_other_way(self):
        with self.opened(browser.demo_page()) as page:
            heading = page.locator("#blocks-table th", has_text="Size")
            self.assertEqual(heading.get_attribute("aria-sort"), "descending")
            largest = page.locator("#blocks-table tbody tr").first.inner_text()
            heading.get_by_role("button").click()
            self.assertEqual(heading.get_attribute("aria-sort"), "ascending")
            self.assertNotEqual(page.locator("#blocks-table tbody tr").first.inner_text(), largest)
            sizes = page.locator("#blocks-table tbody td:first-child span").evaluate_all(
                "cells => cells.map((cell) => Number(cell.title.replace(/[^0-9]/g, '')))")
            self.assertEqual(sizes, sorted(sizes))

    def test_more_rows_come_when_asked_for(self):
        with self.opened(browser.demo_page()) as page:
            before = self.rows(page, "blocks")
            page.locator("#blocks").get_by_role("button", name="Show more").click()
            self.assertGreater(self.rows(page, "blocks"), before)

    def test_a_blocks_time_leads_to_its_instant(self):
        with self.opened(browser.demo_page()) as page:
            page.locator("#blocks-table th", has_text="Allocated").get_by_role("button").click()
            page.locator("#blocks-table th", has_text="Allocated").get_by_role("button").click()  # the first one first
            time = page.locator("#blocks-table tbody tr").first.locator("button.link")
            said = time.inner_text()
            time.click()
            self.assertIn(said, page.locator("#timeline .chosen").inner_text())

    def test_every_figure_of_a_line_leads_to_its_blocks(self):
        with self.opened(browser.demo_page()) as page:
            row = page.locator("#lines-table tbody tr", has_text="LogLoss")
            for button in row.locator("button.link").all():
                figure = button.inner_text().replace("\u00a0", " ")
                button.click()
                note = page.locator("#blocks .note").inner_text().replace("\u00a0", " ")
                self.assertIn("60 blocks", note, figure)

    def test_figures_are_the_reports_own(self):
        for name in ("torch-cs336-medium-ctx128-training", "torch-flexgen-1.3b-oldformat-a"):
            snapshot = browser.PICKLES / f"{name}.pickle.zst"
            report = json.loads(browser.run("report", "--json", snapshot).stdout)
            peak = report["tensors"][0]["peak"]
            with self.subTest(name), self.opened(browser.pickle_page(name)) as page:
                total = page.locator("#verdict .figure").first.get_attribute("title")
                self.assertIn(f"{peak['bytes']:,}", total)
                shown = page.locator("#lines-table tbody tr").first.inner_text().replace("\u00a0", " ")
                worst = report["tensors"][0]["peak"]["by_line"][0]
                self.assertIn(f"{worst['bytes'] / 2**30:.1f} GiB" if worst["bytes"] >= 2**30 else f"{worst['bytes'] / 2**20:.1f} MiB", shown)


class Looks(browser.BrowserTest):
    def paper(self, page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    def test_follows_the_system_and_the_toggle(self):
        with self.opened(browser.demo_page()) as page:
            light = self.paper(page)
            page.locator("#theme").click()  # light
            page.locator("#theme").click()  # dark
            dark = self.paper(page)
            self.assertNotEqual(light, dark)
        with self.opened(browser.demo_page(), scheme="dark") as page:
            self.assertEqual(self.paper(page), dark)
            page.locator("#theme").click()
            self.assertEqual(self.paper(page), light)

    def test_nothing_scrolls_sideways_on_a_phone(self):
        for file in (browser.demo_page(), browser.pickle_page("torch-cs336-windows-paths")):
            with self.opened(file, viewport=PHONE, has_touch=True) as page:
                self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), PHONE["width"])

    def test_is_redrawn_when_the_window_changes(self):
        with self.opened(browser.demo_page(), viewport=DESK) as page:
            page.set_viewport_size(PHONE)
            page.wait_for_function("document.querySelector('#timeline svg.chart').viewBox.baseVal.width < 390")
            self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), PHONE["width"])

    def test_prints(self):
        with self.opened(browser.demo_page()) as page:
            self.assertGreater(len(page.pdf()), 20_000)
            page.emulate_media(media="print", color_scheme="dark")
            self.assertEqual(self.paper(page), "rgb(255, 255, 255)")

    def test_every_control_has_a_name(self):
        with self.opened(browser.demo_page()) as page:
            nameless = page.evaluate(
                "[...document.querySelectorAll('button, input, [tabindex=\"0\"]')].filter((node) => !node.textContent.trim() && "
                "!node.getAttribute('aria-label')).map((node) => node.outerHTML.slice(0, 80))")
            self.assertEqual(nameless, [])

    def test_the_keyboard_reaches_every_view(self):
        with self.opened(browser.demo_page()) as page:
            reached = set()
            for _ in range(150):
                page.keyboard.press("Tab")
                reached.add(page.evaluate("document.activeElement.closest('section')?.id ?? ''"))
            self.assertLessEqual({"verdict", "findings", "timeline", "stacks", "addresses", "lines", "blocks"}, reached)


class Safety(browser.BrowserTest):
    def hostile(self):
        """The demo's snapshot with markup in every name."""
        snapshot = json.loads(browser.demo_snapshot().read_text())
        snapshot["strings"] = [text and text + MARKUP for text in snapshot["strings"]]
        for module in snapshot["modules"]:
            module["path"] += MARKUP
        for device in snapshot["devices"]:
            device["name"] += MARKUP
        for thread in snapshot["threads"]:
            thread["name"] += MARKUP
        snapshot["process"]["host"] += MARKUP
        snapshot["process"]["command_line"].append(MARKUP)
        for note in snapshot["notes"]:
            note["text"] += MARKUP
        file = browser.WORK / "hostile.json"
        file.write_text(json.dumps(snapshot))
        return browser.page_of(file)

    def test_markup_in_names_stays_text(self):
        with self.opened(self.hostile()) as page:
            self.assertEqual(page.locator("img").count(), 0)
            self.assertNotEqual(page.title(), "broken")
            for section in ("verdict", "findings", "lines", "blocks", "not-observed"):
                self.assertIn("<img src=x onerror=", page.locator(f"#{section}").text_content(), section)
            page.locator("#stacks g.node").nth(1).hover()
            self.assertIn("title='broken'", page.locator("#tip").inner_text())
            self.assertEqual(page.evaluate("document.scripts.length"), 3)

    def test_only_the_bundled_scripts_may_run(self):
        text = browser.demo_page().read_text()
        self.assertIn("default-src 'none'", text)
        for what in ("unsafe-inline", "unsafe-eval", "http-equiv=\"refresh\"", "src=\"http", "href=\"http"):
            self.assertNotIn(what, text)
        broken = browser.WORK / "injected.html"
        broken.write_text(text.replace("</main>", "</main><script>document.title='broken'</script>", 1))
        context = self.browser.new_context()
        page = context.new_page()
        page.goto(broken.as_uri())
        page.wait_for_selector("html[data-ready=yes]", state="attached")
        self.assertNotEqual(page.title(), "broken")
        context.close()

    def test_without_scripts_there_are_the_words(self):
        context = self.browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(self.hostile().as_uri())
        words = page.locator("noscript pre").inner_text()
        self.assertIn("NOT OBSERVED", words)
        self.assertIn("<img src=x", words)
        self.assertEqual(page.locator("img").count(), 0)
        context.close()


class Inputs(browser.BrowserTest):
    def test_every_snapshot_of_pytorch_opens(self):
        files = sorted(browser.PICKLES.glob("*.pickle.zst"))
        self.assertEqual(len(files), 8)
        for file in files:
            with self.subTest(file.name), self.opened(browser.page_of(file)) as page:
                self.assertEqual(page.locator("#verdict h1").count(), 1)
                self.assertGreater(self.rows(page, "blocks"), 0)

    def test_every_synthetic_snapshot_opens(self):
        # Several devices, pinned memory, refusals, lost events, no events, hostile names.
        self.assertGreaterEqual(len(browser.synthetic_snapshots()), 4)
        for file in browser.synthetic_snapshots():
            with self.subTest(file.name), self.opened(browser.page_of(file), viewport=PHONE) as page:
                self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), PHONE["width"])

    def test_a_program_without_blocks_has_a_page(self):
        snapshot = json.loads(browser.demo_snapshot().read_text())
        for table in ("live", "segments", "events"):
            snapshot[table] = {name: [] for name in snapshot[table]}
        file = browser.WORK / "nothing.json"
        file.write_text(json.dumps(snapshot))
        with self.opened(browser.page_of(file)) as page:
            self.assertIn("NO VERDICT", page.locator("#verdict h1").inner_text())
            self.assertFalse(page.locator("#timeline").is_visible())

    def test_same_snapshot_same_bytes(self):
        first = browser.demo_page().read_bytes()
        again = browser.WORK / "again.html"
        browser.run("report", "--html", again, browser.demo_snapshot())
        self.assertEqual(first, again.read_bytes())
        self.assertEqual(browser.run("report", "--html", "-", browser.demo_snapshot()).stdout, first)
        self.assertEqual(again.stat().st_mode & 0o777, 0o600)


class Refusals(unittest.TestCase):
    def refused(self, *words):
        return browser.run("report", *words, status=2).stderr.decode()

    def test_what_cannot_work_is_said(self):
        snapshot = browser.demo_snapshot()
        self.assertIn("snapshot itself", self.refused("--html", snapshot, snapshot))
        self.assertIn("--html page.html demo.json", self.refused("--html", "demo.json"))
        self.assertIn("folder", self.refused("--html", browser.WORK, snapshot))
        self.assertIn("use one of them", self.refused("--html", "x.html", "--json", snapshot))
        self.assertIn(".zst", self.refused("--html", "x.html.zst", snapshot))
        self.assertIn("no/such/folder", self.refused("--html", "no/such/folder/x.html", snapshot))
        self.assertFalse((browser.WORK / "x.html").exists())

    def test_no_snapshot_is_replaced(self):
        snapshot = browser.demo_snapshot()
        other, page = browser.WORK / "other.json", browser.WORK / "page.html"
        other.write_bytes(snapshot.read_bytes())
        self.assertIn("other.json is there and is a snapshot", self.refused("--html", other, snapshot))
        self.assertIn("other.json is there and is a snapshot", self.refused("--html", "other.json", "nothing.json"))
        self.assertEqual(other.read_bytes(), snapshot.read_bytes())
        browser.run("run", "--simulate", "-q", "-o", "compressed.json.zst", "--", browser.DEMO)
        compressed = (browser.WORK / "compressed.json.zst").rename(browser.WORK / "compressed")
        self.assertIn("is a snapshot", self.refused("--html", compressed, snapshot))
        page.write_text("what was there")  # an older page, an empty file of mktemp: what pages are for
        browser.run("report", "--html", page, snapshot)
        self.assertIn("<!doctype html>", page.read_text())


if __name__ == "__main__":
    browser.main()
