"""Chrome traces: slices open and close once each, counters reach the report's peaks and ends.

usage: chrome_test.py CUHEAP WRITER
"""
import collections
import json
import sys
import unittest

import exported
import rules

HOST = 1_000_000


class ChromeTest(exported.ExportTest):
    def events(self, snapshot, *options):
        trace = json.loads(exported.export(snapshot, "chrome", *options))
        self.assertEqual(set(trace), {"displayTimeUnit", "otherData", "traceEvents"})
        for event in rules.trace_events(trace):
            self.assertIn(event["ph"], "MCbei")
        return trace["traceEvents"]

    def test_every_slice_ends_once_and_later(self):
        for snapshot in self.each_snapshot():
            self.events(snapshot)  # asked by the rules

    def test_counters_are_those_of_the_report(self):
        for snapshot in self.each_snapshot():
            if snapshot.stem in ("distinct", "cut"):  # their recorder knows of more than the events
                continue
            points = collections.defaultdict(list)
            for event in self.events(snapshot):
                if event["ph"] == "C":
                    points[event["pid"]].append((event["ts"], event["args"]))
            for pid, series in points.items():
                self.assertEqual([ts for ts, _ in series], sorted(ts for ts, _ in series))
                kind, device = ("host", 0) if pid == HOST else ("device", pid - 1)
                reported = exported.totals(snapshot, kind)[device]
                heights = [sum(args.values()) for _, args in series]
                self.assertEqual(heights[-1], reported["live_bytes"])
                tensors = exported.totals(snapshot, "tensors").get(device)
                if tensors is None or kind == "host":
                    self.assertEqual(max(heights), reported["peak"]["bytes"])
                else:
                    self.assertEqual(max(args["tensors"] for _, args in series), tensors["peak"]["bytes"])

    def test_blocks_are_limited_and_it_is_said(self):
        leaky = exported.programs()["leaky"]
        begins = [event for event in self.events(leaky, "--blocks", 5) if event["ph"] == "b"]
        self.assertEqual(sorted(event["args"]["bytes"] for event in begins), [500_000] * 4 + [1 << 20])
        done = exported.run("export", leaky, "--format", "chrome", "-o", "-", "--blocks", "5")
        self.assertIn(b"smaller blocks are in the counters only", done.stderr)

    def test_names_and_marks(self):
        events = self.events(exported.programs()["leaky"])
        self.assertEqual(sum(event["name"] == "step" for event in events), 30)
        self.assertEqual([event["args"]["bytes"] for event in events if event["name"] == "allocation failed"], [1 << 40])
        names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(names, {"GPU 0, Test GPU", "GPU 1, Test GPU", "host memory pinned for CUDA"})
        self.assertTrue(any(event["name"].startswith("/src/train; now.cc:57") for event in events if event["ph"] == "b"))

    def test_same_bytes_twice(self):
        self.check_same_bytes_twice("chrome")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
