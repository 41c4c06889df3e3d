"""Exported snapshots of PyTorch: plain pickles in the opcodes its viewer knows, the same figures when read again, and
opened by PyTorch's own torch.cuda._memory_viz.

usage: torch_snapshot_test.py CUHEAP WRITER
"""
import collections
import pickle
import pickletools
import sys
import unittest

import exported

try:
    from torch.cuda import _memory_viz as viewer
except ImportError:
    viewer = None

# What unpickle() of torch/utils/viz/MemoryViz.js knows.
OPCODES = {"APPEND", "APPENDS", "BINGET", "BININT", "BININT1", "BININT2", "BINPUT", "BINUNICODE", "BINFLOAT", "DICT",
           "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "FRAME", "LIST", "LONG1", "LONG_BINGET", "LONG_BINPUT", "MARK",
           "MEMOIZE", "NEWFALSE", "NEWTRUE", "NONE", "PROTO", "SETITEM", "SETITEMS", "SHORT_BINUNICODE", "STOP", "TUPLE",
           "TUPLE1", "TUPLE2", "TUPLE3"}


class TorchSnapshotTest(exported.ExportTest):
    def load(self, snapshot):
        return pickle.loads(exported.export(snapshot, "torch-snapshot"))

    def test_opcodes_are_those_of_the_viewer(self):
        for snapshot in self.each_snapshot():
            used = {opcode.name for opcode, _, _ in pickletools.genops(exported.export(snapshot, "torch-snapshot"))}
            self.assertLessEqual(used, OPCODES)

    def test_same_bytes_twice(self):
        self.check_same_bytes_twice("torch-snapshot")

    def test_read_again_it_tells_the_same(self):
        for snapshot in exported.PICKLES:
            with self.subTest(snapshot=snapshot.name):
                again = exported.WORK / "again.pickle"
                again.write_bytes(exported.export(snapshot, "torch-snapshot"))
                before, after = exported.report(snapshot), exported.report.__wrapped__(again)
                for name in ("memory", "tensors", "framework_caches", "framework_segments", "leaks", "kinds"):
                    self.assertEqual(after[name], before[name], name)
                self.assertEqual(after["verdict"], before["verdict"])

    def test_marked_steps_are_annotations(self):
        annotations = self.load(exported.programs()["leaky"])["external_annotations"]
        self.assertEqual([entry["name"] for entry in annotations[::2]], [f"ProfilerStep#{step}" for step in range(30)])
        self.assertEqual([entry["stage"] for entry in annotations], ["START", "END"] * 30)
        times = [entry["time_us"] for entry in annotations]
        self.assertEqual(times, sorted(times))
        again = exported.WORK / "marked.pickle"
        again.write_bytes(exported.export(exported.programs()["leaky"], "torch-snapshot"))
        steps = exported.report.__wrapped__(again)["steps"]
        self.assertEqual((steps["source"], steps["count"]), ("marks", exported.report(exported.programs()["leaky"])["steps"]["count"]))

    def test_blocks_fill_their_segments(self):
        for snapshot in self.each_snapshot():
            if snapshot.stem == "distinct":
                continue
            for segment in self.load(snapshot)["segments"]:
                at = segment["address"]
                for block in segment["blocks"]:
                    self.assertEqual(block["address"], at)
                    self.assertGreater(block["size"], 0)
                    self.assertLessEqual(block["requested_size"], block["size"])
                    at += block["size"]
                self.assertEqual(at, segment["address"] + segment["total_size"])
                active = sum(block["size"] for block in segment["blocks"] if block["state"] == "active_allocated")
                self.assertEqual(active, segment["allocated_size"])

    def test_what_is_held_is_that_of_the_report(self):
        for snapshot in self.each_snapshot():
            held = collections.Counter()
            for segment in self.load(snapshot)["segments"]:
                held[segment["device"]] += sum(block["requested_size"] for block in segment["blocks"])
            tensors, memory = exported.totals(snapshot, "tensors"), exported.totals(snapshot, "device")
            for device, entry in memory.items():
                if device == 0xFFFF or snapshot.stem == "distinct":
                    continue
                cached = entry.get("live_framework_cache", {}).get("bytes", 0)
                of_tensors = tensors[device]["live_bytes"] if device in tensors else 0
                self.assertEqual(held[device], entry["live_bytes"] - cached + of_tensors, device)

    def test_events_roll_back(self):
        """As the viewer does it: back from the end, no block is ever without its segment."""
        for snapshot in self.each_snapshot():
            if snapshot.stem == "distinct":
                continue
            data = self.load(snapshot)
            for device, trace in enumerate(data["device_traces"]):
                segments = {s["address"]: s["total_size"] for s in data["segments"] if s["device"] == device}
                blocks = {b["address"] for s in data["segments"] if s["device"] == device for b in s["blocks"]
                          if b["state"] == "active_allocated"}
                for event in reversed(trace):
                    action, address = event["action"], event.get("addr")
                    if action == "segment_free":
                        segments[address] = event["size"]
                    elif action == "segment_alloc":
                        self.assertIn(address, segments)
                        size = segments.pop(address)
                        self.assertFalse([b for b in blocks if address <= b < address + size], event)
                    elif action == "free_completed":
                        blocks.add(address)
                    elif action == "alloc":
                        self.assertIn(address, blocks)
                        blocks.remove(address)

    def test_a_failed_allocation_and_the_pool(self):
        data = self.load(exported.programs()["leaky"])
        refused = [event for event in data["device_traces"][0] if event["action"] == "oom"]
        self.assertEqual([event["size"] for event in refused], [1 << 40])
        self.assertLess(refused[0]["device_free"], 8 << 30)
        pool, = [segment for segment in data["segments"] if segment["address"] == 0x10000000]
        self.assertEqual(pool["total_size"], 4 << 20)
        self.assertEqual([block["requested_size"] for block in pool["blocks"] if block["state"] == "active_allocated"],
                         [1000] * 3)
        self.assertEqual(len(data["device_traces"]), 2)
        names = {frame["name"] for event in data["device_traces"][0] for frame in event["frames"]}
        self.assertIn(exported.HOSTILE, names)

    def test_stacks_are_shared(self):
        data = self.load(exported.PICKLES[1])
        stacks = [event["frames"] for event in data["device_traces"][0]]
        self.assertLess(len({id(stack) for stack in stacks}), len(stacks) / 10)

    @unittest.skipIf(viewer is None, "PyTorch is not there")
    def test_pytorch_opens_it(self):
        for snapshot in self.each_snapshot():
            if snapshot.stem == "distinct":
                continue
            data = self.load(snapshot)
            reserved = sum(segment["total_size"] for segment in data["segments"])
            # These raise if a segment's blocks do not add up to it.
            self.assertIn(f"segments: {len(data['segments'])}\n", viewer.segsum(data))
            self.assertIn(f"total_reserved: {viewer.Bytes(reserved)}\n", viewer.segsum(data))
            viewer.trace(data)
            for page in (viewer.segment_plot(data), viewer.trace_plot(data), viewer.trace_plot(data, plot_segments=True)):
                self.assertIn("snapshot.pickle", page)
            lines = viewer.memory(data, format_flamegraph=lambda text: text).splitlines()
            active = sum(block["requested_size"] for segment in data["segments"] for block in segment["blocks"])
            self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in lines if ";active_allocated;" in line and "<gaps>" not in line),
                             active)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
