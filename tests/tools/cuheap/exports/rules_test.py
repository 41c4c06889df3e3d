"""The rules that our exports are held against: other programs' valid files keep them, broken ones do not.

usage: rules_test.py CUHEAP WRITER
"""
import copy
import gzip
import json
import pathlib
import unittest

import rules

PROFILES = pathlib.Path(__file__).resolve().parents[3] / "data" / "profiles"


def load(name):
    return json.loads((PROFILES / name).read_text())


class SpeedscopeRules(unittest.TestCase):
    def test_valid_files_of_three_versions(self):
        for name in ("0.0.1_simple", "0.1.2_simple-sampled", "0.6.0_two-sampled"):
            rules.speedscope(load(f"speedscope_{name}.speedscope.json"))

    def test_an_incomplete_trace(self):
        with self.assertRaisesRegex(ValueError, "stay open"):
            rules.speedscope(load("speedscope_invalid_incomplete-trace.json"))

    def test_each_rule_can_fail(self):
        valid = load("speedscope_0.6.0_two-sampled.speedscope.json")

        def broken(change):
            file = copy.deepcopy(valid)
            change(file)
            with self.assertRaises((ValueError, KeyError)):
                rules.speedscope(file)

        broken(lambda file: file.pop("$schema"))
        broken(lambda file: file["shared"]["frames"][0].update(name=""))
        broken(lambda file: file["profiles"][0]["samples"][0].append(4))
        broken(lambda file: file["profiles"][0]["weights"].pop())
        broken(lambda file: file["profiles"][1].update(endValue=15))
        broken(lambda file: file.update(activeProfileIndex=2))
        broken(lambda file: file["profiles"][0].update(unit="MB"))
        broken(lambda file: file["profiles"][0].update(type="folded"))

    def test_frames_close_in_order(self):
        file = load("speedscope_0.0.1_simple.speedscope.json")
        events = file["profiles"][0]["events"]
        events[-1]["frame"], events[-2]["frame"] = events[-2]["frame"], events[-1]["frame"]
        with self.assertRaisesRegex(ValueError, "not open on top"):
            rules.speedscope(file)


class TraceRules(unittest.TestCase):
    def test_valid_files(self):
        for name, count in (("simple", 6), ("simple-object", 5), ("multiprocess", 17), ("x-events-matching-start", 9),
                            ("zero-duration-events", 7)):
            self.assertEqual(len(rules.trace_events(load(f"trace-event_{name}.json"))), count, name)

    def test_too_many_ends(self):
        with self.assertRaisesRegex(ValueError, "without a beginning"):
            rules.trace_events(load("trace-event_too-many-end-events.json"))

    def test_each_rule_can_fail(self):
        valid = load("trace-event_simple.json")

        def broken(change):
            events = copy.deepcopy(valid)
            change(events)
            with self.assertRaises((ValueError, KeyError, TypeError)):
                rules.trace_events(events)

        broken(lambda events: events.pop())
        broken(lambda events: events[0].update(ph="?"))
        broken(lambda events: events[2].pop("dur"))
        broken(lambda events: events[2].update(dur=6))
        broken(lambda events: events[0].update(pid="0"))
        broken(lambda events: events[0].pop("ts"))
        broken(lambda events: events.append({"ph": "b", "pid": 0, "tid": 0, "ts": 1, "name": "x", "cat": "c", "id": 1}))

    def test_slices_of_other_threads(self):
        begin = {"ph": "b", "pid": 0, "tid": 0, "ts": 1, "name": "x", "cat": "c", "id": 1}
        rules.trace_events([begin, {**begin, "ph": "e", "ts": 1}])
        for end in ({"ts": 0}, {"name": "y"}, {"id": 2}, {"ph": "b"}):
            with self.assertRaises(ValueError):
                rules.trace_events([begin, {**begin, "ph": "e", **end}])


class PprofRules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import pprof_rules
        except ImportError:
            raise unittest.SkipTest("the Python package protobuf is not there") from None
        cls.rules = pprof_rules

    def test_a_valid_profile(self):
        self.assertGreater(len(self.rules.read((PROFILES / "pprof_simple.prof").read_bytes()).sample), 0)

    def test_a_profile_of_the_older_text_format(self):
        with self.assertRaisesRegex(ValueError, "not gzip"):
            self.rules.read((PROFILES / "pprof_gobench.heap").read_bytes())

    def test_a_profile_that_is_cut_off(self):
        data = gzip.decompress((PROFILES / "pprof_simple.prof").read_bytes())
        for at in (len(data) // 3, len(data) - 1):
            with self.assertRaises(ValueError):
                self.rules.read(gzip.compress(data[:at]))
        with self.assertRaises(ValueError):
            self.rules.read((PROFILES / "pprof_simple.prof").read_bytes()[:100])


if __name__ == "__main__":
    unittest.main(argv=["rules_test.py"])
