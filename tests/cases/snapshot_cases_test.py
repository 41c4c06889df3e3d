"""Published snapshots of PyTorch (tests/data/pytorch): the figures that another loader reckoned, and the right answer to
what their owners saw; made-up ones for what none of them has.

usage: snapshot_cases_test.py CUHEAP
"""
import dataclasses
import functools
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

CUHEAP = str(pathlib.Path(sys.argv[1]).resolve())
DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "pytorch"
GIB = 1 << 30
_folder = tempfile.TemporaryDirectory(prefix="cuheap snapshots ")
WORK = pathlib.Path(_folder.name)


def command(*words, status=0):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("CUHEAP_", "SIMCUDA_", "LD_"))}
    done = subprocess.run([CUHEAP, *map(str, words)], cwd=WORK, env={**kept, "LC_ALL": "C.UTF-8"}, capture_output=True, timeout=120,
                          check=False)
    if done.returncode != status:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout[:2000]!r}{done.stderr!r}")
    return done.stdout.decode()


def path(name):
    return DATA / f"torch-{name}.pickle.zst"


@functools.cache
def report(name):
    return json.loads(command("report", "--json", path(name)))


@functools.cache
def text(name):
    return command("report", "--width", "140", path(name))


@functools.cache
def exported(name):
    """The snapshot as cuheap writes it again, without compression."""
    command("export", path(name), "--format", "torch-snapshot", "-q", "-o", WORK / f"{name}.pickle")
    return pickle.loads((WORK / f"{name}.pickle").read_bytes())


@dataclasses.dataclass
class Expected:
    segments: int
    blocks: int
    reserved: int
    allocated: int
    requested: int
    inactive: int
    idle_blocks: int
    largest_inactive: int
    whole_idle: tuple  # segments, bytes
    events: tuple  # allocations, frees
    outstanding: tuple  # blocks, bytes
    unmatched: tuple  # blocks, bytes
    peak: int  # base and the window's running maximum, events' sizes being requests
    pending: int = 0


EXPECTED = {
    "cs336-medium-ctx1024-inference": Expected(
        108, 239, 3204448256, 1703677952, 1701711872, 1500770304, 16, 268435456, (14, 1486880768), (1280, 1280), (0, 0), (0, 0), 2879401984),
    "cs336-medium-ctx128-training": Expected(
        377, 918, 7235174400, 6816891392, 6808535044, 418283008, 33, 41943040, (14, 343932928), (6526, 6305), (659, 5098680324),
        (438, 3385466880), 7021691392),
    "cs336-small-forward-fp32": Expected(
        29, 164, 610271232, 525286400, 523811840, 84984832, 27, 20971520, (1, 20971520), (681, 681), (0, 0), (0, 0), 558317568),
    "cs336-small-idle-cache": Expected(
        9, 20, 3781165056, 31719936, 31719428, 3749445120, 10, 536870912, (6, 3221225472), (36, 26), (10, 31719428), (0, 0), 3249144324),
    "cs336-windows-paths": Expected(
        216, 455, 14180941824, 1377753600, 1373919236, 12803188224, 226, 329252864, (170, 11773411328), (1721, 1721), (2, 327680004),
        (2, 327680004), 13927832064),
    "flexgen-1.3b-oldformat-a": Expected(
        257, 948, 7608467456, 5683450880, 5683449864, 1925016576, 163, 207618048, (57, 1501560832), (0, 1), (0, 0), (1, 8896512), 5692347392),
    "flexgen-1.3b-oldformat-b": Expected(
        112, 593, 1851785216, 809461760, 807625200, 1042323456, 52, 207618048, (42, 987758592), (0, 1), (0, 0), (1, 2224128), 811685888),
}


class Figures(unittest.TestCase):
    def near(self, told, expected):
        """Sizes of events are requests, those of blocks are rounded up: at most 1 % more."""
        self.assertGreaterEqual(told, expected)
        self.assertLessEqual(told, expected + expected // 100)

    def test_blocks_and_segments(self):
        for name, expected in EXPECTED.items():
            with self.subTest(name):
                cache, = report(name)["framework_caches"]
                end = cache["at_end"]
                self.assertEqual((end["reserved_bytes"], end["used_bytes"]), (expected.reserved, expected.allocated))
                self.assertEqual((end["idle_bytes"], end["largest_idle"]), (expected.inactive, expected.largest_inactive))
                self.assertEqual(len(end["segments"]), expected.segments)
                whole = [segment["bytes"] for segment in end["segments"] if segment["used_bytes"] == 0]
                self.assertEqual((len(whole), sum(whole)), expected.whole_idle)
                self.assertEqual(end["idle_whole_bytes"], expected.whole_idle[1])
                # Idle blocks that lie side by side are one hole to us.
                idle = [block["bytes"] for segment in end["segments"] for block in segment["blocks"] if block["idle"]]
                used = [block["bytes"] for segment in end["segments"] for block in segment["blocks"] if not block["idle"]]
                self.assertEqual((sum(idle), sum(used)), (expected.inactive, expected.allocated))
                self.assertEqual(len(idle) + len(used), expected.blocks)
                self.assertEqual(len(idle), expected.idle_blocks)

    def test_events(self):
        for name, expected in EXPECTED.items():
            with self.subTest(name):
                live, unmatched, counts = {}, [], {"alloc": 0, "free_requested": 0}
                for event in exported(name)["device_traces"][0]:
                    if event["action"] not in counts:
                        continue
                    counts[event["action"]] += 1
                    if event["action"] == "alloc":
                        live[event["addr"]] = event["size"]
                    elif live.pop(event["addr"], None) is None:
                        unmatched.append(event["size"])
                self.assertEqual(tuple(counts.values()), expected.events)
                self.assertEqual((len(live), len(unmatched)), (expected.outstanding[0], expected.unmatched[0]))
                self.near(sum(live.values()), expected.outstanding[1])
                self.near(sum(unmatched), expected.unmatched[1])

    def test_peaks(self):
        for name, expected in EXPECTED.items():
            with self.subTest(name):
                tensors, = report(name)["tensors"]
                self.assertAlmostEqual(tensors["peak"]["bytes"], expected.peak, delta=expected.peak // 100)

    def test_none_leaks(self):
        for name in [*EXPECTED, "mosaic-alloc-free-only"]:
            self.assertEqual((report(name)["verdict"], report(name)["leaks"]), ("no_leaks", []), name)


class Answers(unittest.TestCase):
    def test_inference_is_balanced_and_a_part_can_go_back(self):
        cache, = report("cs336-medium-ctx1024-inference")["framework_caches"]
        self.assertEqual((cache["allocations"], cache["frees"]), (1280, 1280))
        self.assertEqual(round(cache["at_end"]["idle_whole_bytes"] / GIB, 2), 1.38)  # 1,486,880,768 B, in 14 segments
        words = text("cs336-medium-ctx1024-inference")
        self.assertIn("1,280 handed out, 1,280 taken back", words)
        self.assertIn("could go back", words)

    def test_an_optimizer_step_replaces_its_state(self):
        """659 blocks of the window are live at its end. 438 took the place of as many older ones; the others are gradients,
        which a backward pass made, and a block of logits."""
        held = report("cs336-medium-ctx128-training")["held"]
        state = [finding for finding in held if finding["line"]["file"].endswith("optimizer.py") and finding["line"]["line"] in (76, 77)]
        self.assertEqual([finding["class"] for finding in state], ["replaced", "replaced"])
        self.assertEqual(sum(finding["blocks"] for finding in state), 438)
        self.assertEqual(sum(finding["replaces"]["blocks"] for finding in held if "replaces" in finding), 438)
        self.assertEqual([finding["replaces"]["blocks"] for finding in state], [219, 219])
        self.assertEqual(sum(finding["replaces"]["bytes"] for finding in state), 3_385_466_880)
        others = [finding for finding in held if finding not in state and "before_window" not in finding]
        functions = [finding["line"]["function"] for finding in others if not finding["line"]["file"]]
        self.assertEqual(sum(finding["blocks"] for finding in others if not finding["line"]["file"]), 219, functions)
        words = text("cs336-medium-ctx128-training")
        self.assertEqual(words.count("in place of 219 blocks, 1.6 GiB, from before the record"), 2)

    def test_an_idle_cache_after_a_large_temporary(self):
        cache, = report("cs336-small-idle-cache")["framework_caches"]
        tensors, = report("cs336-small-idle-cache")["tensors"]
        self.assertEqual(tensors["peak"]["bytes"], 3_249_144_832)
        self.assertEqual((cache["at_end"]["reserved_bytes"], cache["at_end"]["used_bytes"]), (3_781_165_056, 31_719_936))
        self.assertIn("in 6 segments without a tensor (by torch.cuda.empty_cache())", text("cs336-small-idle-cache"))

    def test_requests_and_rounded_blocks_are_no_leak(self):
        self.assertIn("31,719,428 B were asked for, 31,719,936 B are in tensors: 508 B lost to PyTorch's rounding of each",
                      text("cs336-small-idle-cache"))

    def test_the_layout_of_2023(self):
        for name in ("flexgen-1.3b-oldformat-a", "flexgen-1.3b-oldformat-b"):
            at = {}
            for segment in exported(name)["segments"]:
                for block in segment["blocks"]:
                    at[block["address"]] = block["size"]
            self.assertGreaterEqual(len(at), EXPECTED[name].blocks - EXPECTED[name].idle_blocks)
            self.assertEqual(report(name)["process"]["end"], "running")

    def test_headers_that_disagree_are_told_and_not_used(self):
        mosaic = report("mosaic-alloc-free-only")
        cache, = mosaic["framework_caches"]
        self.assertEqual((cache["at_end"]["reserved_bytes"], cache["at_end"]["used_bytes"]), (262_144_000, 8704))
        self.assertEqual((cache["allocations"], cache["frees"]), (520, 520))
        codes = {entry["code"]: entry["text"] for entry in mosaic["not_observed"]}
        self.assertIn("5 segments have totals that their blocks do not add up to", codes["torch_headers"])

    def test_backslashes_survive_exports(self):
        file = "D:\\Dev\\assignment2-systems\\cs336-basics\\cs336_basics\\model.py"
        for form in ("csv", "speedscope", "pprof", "torch-snapshot", "ndjson", "chrome", "folded"):
            target = WORK / f"windows.{form}"
            command("export", path("cs336-windows-paths"), "--format", form, "-q", "-o", target)
            data = target.read_bytes()
            if form == "pprof":
                import gzip
                data = gzip.decompress(data)
            escaped = file.replace("\\", "\\\\") if form in ("speedscope", "ndjson", "chrome") else file
            if form == "folded":  # has the file's name alone
                escaped = "model.py"
            self.assertIn(escaped.encode(), data, form)
        self.assertTrue(any(file in line["line"]["file"] for line in report("cs336-windows-paths")["tensors"][0]["peak"]["by_line"]))
        cache, = report("cs336-windows-paths")["framework_caches"]
        self.assertEqual(cache["at_end"]["idle_whole_bytes"], 11_773_411_328)

    def test_every_protocol(self):
        for name in ("cs336-small-idle-cache", "flexgen-1.3b-oldformat-b"):
            for protocol in range(2, 6):
                file = WORK / f"protocol{protocol}.pickle"
                file.write_bytes(pickle.dumps(exported(name), protocol=protocol))
                again = json.loads(command("report", "--json", file))
                for member in ("verdict", "memory", "tensors", "framework_caches", "held"):
                    self.assertEqual(again[member], report(name)[member], (name, protocol, member))

    def test_nothing_in_a_pickle_is_run(self):
        class Evil:
            def __reduce__(self):
                return (os.system, (f"touch '{WORK}/ran'",))

        (WORK / "evil.pickle").write_bytes(pickle.dumps({"segments": [Evil()], "device_traces": []}))
        command("report", WORK / "evil.pickle", status=2)
        self.assertFalse((WORK / "ran").exists())


def frame(line, name):
    return {"name": name, "filename": "/opt/me/train.py", "line": line}


class MadeUp(unittest.TestCase):
    """Eight steps that each keep 1 MiB, annotated; two private pools."""

    MIB = 1 << 20

    def snapshot(self, annotations=None):
        trace, segments, blocks, time, address = [], [], [], 1_000_000, 1 << 40

        def event(action, at, size, line, name):
            nonlocal time
            time += 10
            trace.append({"action": action, "addr": at, "size": size, "stream": 0, "time_us": time, "frames": [frame(line, name)]})

        ends = []
        for step in range(8):
            event("alloc", address, self.MIB, 20, "step")
            blocks.append({"address": address, "size": self.MIB, "requested_size": self.MIB - 100, "state": "active_allocated",
                           "frames": [frame(20, "step")]})
            address += self.MIB
            scratch = (1 << 40) + (16 << 20)
            event("alloc", scratch, 4096, 21 + step, "scratch")  # no line recurs but the one that leaks
            event("free_requested", scratch, 4096, 21 + step, "scratch")
            event("free_completed", scratch, 4096, 21 + step, "scratch")
            ends.append(time)
        blocks.append({"address": address, "size": 12 * self.MIB, "requested_size": 0, "state": "inactive", "frames": []})

        def segment(at, size, inside, pool):
            used = sum(block["size"] for block in inside if block["state"] == "active_allocated")
            segments.append({"device": 0, "address": at, "total_size": size, "allocated_size": used, "active_size": used, "stream": 0,
                             "segment_type": "large", "segment_pool_id": pool, "is_expandable": False, "frames": [], "blocks": inside})

        segment(1 << 40, 20 * self.MIB, blocks, (0, 0))
        for number, used in ((1, 2), (2, 0)):
            at = (1 << 40) + (number << 30)
            inside = [{"address": at, "size": used * self.MIB, "requested_size": used * self.MIB, "state": "active_allocated", "frames": []}] if used else []
            inside.append({"address": at + used * self.MIB, "size": (20 - used) * self.MIB, "requested_size": 0, "state": "inactive", "frames": []})
            segment(at, 20 * self.MIB, inside, [0, number])
        return {"segments": segments, "device_traces": [trace], "allocator_settings": {}, "external_annotations": [
            {"name": name(step), "stage": stage, "device": 0, "time_us": end - (25 if stage == "START" else 0)}
            for name in annotations or [] for step, end in enumerate(ends) for stage in ("START", "END")]}

    def told(self, snapshot):
        (WORK / "made.pickle").write_bytes(pickle.dumps(snapshot))
        return json.loads(command("report", "--json", WORK / "made.pickle")), command("report", "--width", "140", WORK / "made.pickle")

    def test_annotations_are_steps(self):
        for name in (lambda step: f"ProfilerStep#{step}", lambda step: "Optimizer.step#AdamW.step"):
            facts, words = self.told(self.snapshot([name]))
            self.assertEqual((facts["steps"]["source"], facts["steps"]["count"]), ("marks", 8))
            leak, = facts["leaks"]
            self.assertEqual((leak["line"]["line"], leak["shape"], leak["bytes_per_step"]), (20, "every_step", self.MIB))
            self.assertIn("8, marked by the recording's annotations", words)

    def test_the_profiler_counts_before_the_optimizer(self):
        facts, _ = self.told(self.snapshot([lambda step: "Optimizer.step#SGD.step", lambda step: "Optimizer.step#SGD.step",
                                            lambda step: f"ProfilerStep#{step}"]))
        self.assertEqual(facts["steps"]["count"], 8)

    def test_other_annotations_are_none(self):
        facts, _ = self.told(self.snapshot([lambda step: "## forward ##", lambda step: "Optimizer.zero_grad#AdamW.zero_grad"]))
        self.assertNotEqual(facts["steps"]["source"], "marks")

    def test_private_pools(self):
        _, words = self.told(self.snapshot())
        self.assertIn("2 pools (captured graphs, MemPool) hold 40.0 MiB in 2 segments; 38.0 MiB of it idle, for their own tensors only", words)
        self.assertNotIn("private pools", text("cs336-small-idle-cache"))


class CompiledModel(unittest.TestCase):
    """Each cycle a compiled model's pool keeps 57.0034 MiB, and what the allocator reserves grows by 92, 90, 70 and 90 MiB."""

    MIB = 1 << 20
    CYCLE = 59_772_416
    RESERVED = [92, 90, 70, 90]

    def snapshot(self):
        trace, segments, annotations, time, base = [], [], [], 1_000_000, 1 << 40
        for cycle, reserved in enumerate(self.RESERVED):
            at, blocks = base, []
            trace.append({"action": "segment_alloc", "addr": base, "size": reserved * self.MIB, "stream": 0, "time_us": time, "frames": [frame(9, "compile")]})
            sizes = [1 << power for power in range(9, 24)]  # 512 B to 8 MiB
            sizes += [8 * self.MIB] * ((self.CYCLE - sum(sizes)) // (8 * self.MIB))
            sizes.append(self.CYCLE - sum(sizes))
            for size in sizes:
                time += 10
                trace.append({"action": "alloc", "addr": at, "size": size, "stream": 0, "time_us": time, "frames": [frame(9, "compile")]})
                blocks.append({"address": at, "size": size, "requested_size": size, "state": "active_allocated", "frames": [frame(9, "compile")]})
                at += size
            end = base + reserved * self.MIB
            blocks.append({"address": at, "size": end - at, "requested_size": 0, "state": "inactive", "frames": []})
            segments.append({"device": 0, "address": base, "total_size": reserved * self.MIB, "allocated_size": self.CYCLE, "active_size": self.CYCLE,
                             "stream": 0, "segment_type": "large", "segment_pool_id": (0, cycle + 1), "is_expandable": False, "frames": [], "blocks": blocks})
            annotations += [{"name": f"ProfilerStep#{cycle}", "stage": stage, "device": 0, "time_us": time} for stage in ("START", "END")]
            base += 1 << 30
            time += 1000
        return {"segments": segments, "device_traces": [trace], "allocator_settings": {}, "external_annotations": annotations}

    def test_the_slope_is_that_of_live_bytes(self):
        (WORK / "compiled.pickle").write_bytes(pickle.dumps(self.snapshot()))
        facts = json.loads(command("report", "--json", WORK / "compiled.pickle"))
        leak, = facts["leaks"]
        self.assertEqual((leak["bytes_per_step"], leak["slope_bytes_per_step"], leak["step_count"]), (self.CYCLE, self.CYCLE, 4))
        self.assertEqual(leak["bytes"], 4 * self.CYCLE)
        cache, = facts["framework_caches"]
        self.assertEqual(cache["at_end"]["reserved_bytes"], sum(self.RESERVED) * self.MIB)
        self.assertIn("4 pools (captured graphs, MemPool) hold 342.0 MiB", command("report", WORK / "compiled.pickle"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
