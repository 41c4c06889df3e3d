"""Every tensor of an unmodified PyTorch program under `cuheap run`: its cache as cuheap knows it equals PyTorch's own
memory_snapshot() and memory_stats(), taken by the program, to the byte: segments, blocks, what is idle, number of
allocations, peak, out-of-memory errors.

usage: tensors_test.py CUHEAP PRINT_CACHE
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch_python

HERE = pathlib.Path(__file__).resolve().parent


def segments_of(books: list[dict], device: int) -> list[dict]:
    """torch.cuda.memory_snapshot() in the words of print_cache."""
    segments = []
    for segment in sorted(books, key=lambda one: one["address"]):
        if segment["device"] != device:
            continue
        blocks, address = [], segment["address"]
        for block in segment["blocks"]:
            if block["state"] not in ("active_allocated", "inactive"):
                raise ValueError(f"a block in state {block['state']}: the moment was badly chosen")
            blocks.append([address, block["size"], block["state"] == "active_allocated"])
            address += block["size"]
        segments.append({"address": segment["address"], "bytes": segment["total_size"],
                         "expandable": bool(segment.get("is_expandable", False)), "blocks": blocks})
    return segments


class Run:
    def __init__(self, snapshot: dict, report: dict, cache: dict, books: dict):
        self.snapshot, self.report, self.cache, self.books = snapshot, report, cache, books

    def tensor_events(self, device: int, until_mark: int) -> tuple[int, int]:
        """Allocations up to a mark, and the most bytes that were live at once by then."""
        words, events = self.snapshot["words"], self.snapshot["events"]
        count = live = peak = 0
        for kind, what, size, where in zip(events["type"], events["kind"], events["bytes"], events["device"]):
            name = words["event_type"][kind]
            if name == "step_mark" and size == until_mark:
                return count, peak
            if words["allocation_kind"][what] != "tensor" or where != device:
                continue
            count += name == "allocate"
            live += {"allocate": size, "free": -size}.get(name, 0)
            peak = max(peak, live)
        raise ValueError(f"no mark {until_mark}")


class TensorsUnderCuheap(unittest.TestCase):
    python: str
    cuheap: str
    print_cache: str

    def run_scenario(self, scenario: str, *options: str, variables: dict[str, str] | None = None,
                     status: int = 0) -> Run:
        folder = tempfile.TemporaryDirectory(prefix="cuheap pytorch ")
        self.addCleanup(folder.cleanup)
        place = pathlib.Path(folder.name)
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("SIMCUDA_", "CUHEAP_", "PYTORCH_", "CUDA_VISIBLE", "LD_"))}
        environment.update(variables or {})
        done = subprocess.run(
            [self.cuheap, "run", "--simulate", "-q", *options, "-o", str(place / "cuheap.json"), "--", self.python,
             str(HERE / "cache_scenarios.py"), scenario, str(place / "books.json")],
            env=environment, capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        told = subprocess.run([self.cuheap, "report", "--json", str(place / "cuheap.json")], capture_output=True,
                              text=True, check=False, timeout=300)
        self.assertEqual(told.returncode, 0, told.stderr)
        printed = subprocess.run([self.print_cache, str(place / "cuheap.json")], capture_output=True, text=True,
                                 check=False, timeout=300)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        return Run(json.loads((place / "cuheap.json").read_text(encoding="utf-8")), json.loads(told.stdout),
                   json.loads(printed.stdout), json.loads((place / "books.json").read_text(encoding="utf-8")))

    def check_books(self, run: Run, devices: int = 1, foreign_pools: bool = False) -> None:
        self.assertGreater(len(run.books["moments"]), 0)
        self.assertEqual(len(run.cache["marks"]), len(run.books["moments"]))
        for moment, mark in zip(run.books["moments"], run.cache["marks"]):
            self.assertEqual(moment["number"], mark["number"])
            for device in range(devices):
                stats = moment["stats"][str(device)]
                nothing = {"reserved": 0, "used": 0, "outside": 0, "segments": []}
                cache = mark["devices"].get(str(device), nothing)
                self.assertEqual(cache["segments"], segments_of(moment["segments"], device))
                self.assertEqual(cache["reserved"], stats["reserved_bytes.all.current"])
                self.assertEqual(cache["used"], stats["allocated_bytes.all.current"])
                self.assertEqual(cache["outside"], 0)
                self.assertEqual(run.tensor_events(device, moment["number"]),
                                 (stats["allocation.all.allocated"], stats["allocated_bytes.all.peak"]))
        counters = run.snapshot["counters"]
        for name in ("tensor_frees_unknown", "tensor_totals_differ", "framework_reserved_differ", "live_dropped",
                     "events_overwritten", "reentries"):
            self.assertEqual(counters[name], 0, name)
        last = run.books["moments"][-1]["stats"]
        for device in run.snapshot["devices"]:
            stats = last[str(device["ordinal"])]
            self.assertEqual(device["tensor_peak_bytes"], stats["allocated_bytes.all.peak"])
            self.assertEqual(device["framework_held_peak_bytes"], stats["reserved_bytes.all.peak"])
            told, = (one for one in run.report["tensors"] if one["scope"]["device"] == device["ordinal"])
            self.assertEqual(told["peak"]["bytes"], stats["allocated_bytes.all.peak"])
            self.assertEqual(told["peak"]["basis"], "exact")
            self.assertEqual(sum(line["bytes"] for line in told["peak"]["by_line"]), told["peak"]["bytes"])
            # The device's own peak is what the driver gave: tensors are not counted a second time.
            memory, = (one for one in run.report["memory"] if one["scope"].get("device") == device["ordinal"])
            self.assertEqual(memory["peak"]["bytes"], stats["reserved_bytes.all.peak"])
        codes = {entry["code"] for entry in run.report["not_observed"]}
        self.assertFalse(codes & {"pytorch_cache", "tensor_reports"}, run.report["not_observed"])

    def test_training(self) -> None:
        self.check_books(self.run_scenario("training"))

    def test_training_observed_only(self) -> None:
        self.check_books(self.run_scenario("training", "--observe"))

    def test_training_without_stacks(self) -> None:
        self.check_books(self.run_scenario("training", "--stacks=off"))

    def test_expandable_segments(self) -> None:
        for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            run = self.run_scenario("training", variables={name: "expandable_segments:True"})
            self.check_books(run)
            self.assertTrue(run.cache["marks"][0]["devices"]["0"]["segments"][0]["expandable"])

    def test_expandable_segments_that_run_out(self) -> None:
        self.check_books(self.run_scenario("out_of_memory",
                                           variables={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}))

    def test_other_ways_to_split(self) -> None:
        self.check_books(self.run_scenario(
            "training", variables={"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:21,roundup_power2_divisions:4"}))

    def test_two_devices(self) -> None:
        self.check_books(self.run_scenario("two_devices", "--simulate-devices", "2"), devices=2)

    def test_visible_devices(self) -> None:
        run = self.run_scenario("two_devices", "--simulate-devices", "4", variables={"CUDA_VISIBLE_DEVICES": "3,1"})
        self.check_books(run, devices=2)

    def test_threads(self) -> None:
        self.check_books(self.run_scenario("threads"))

    def test_streams(self) -> None:
        self.check_books(self.run_scenario("streams"))

    def test_private_pools(self) -> None:
        self.check_books(self.run_scenario("mem_pool"))

    def test_a_child_writes_nothing(self) -> None:
        run = self.run_scenario("forked")
        self.assertEqual(run.books["errors"], [{"child": 0}])
        self.check_books(run)

    def test_tensors_alive_at_the_end(self) -> None:
        run = self.run_scenario("tensors_alive_at_exit")
        self.check_books(run)
        words, live = run.snapshot["words"], run.snapshot["live"]
        tensors = [size for kind, size in zip(live["kind"], live["bytes"])
                   if words["allocation_kind"][kind] == "tensor"]
        self.assertEqual(tensors, [7 << 20])
        cache, = run.report["framework_caches"]
        self.assertEqual(cache["at_end"]["used_bytes"], 7 << 20)

    def test_killed(self) -> None:
        run = self.run_scenario("killed", status=-9)
        self.check_books(run)
        words, live = run.snapshot["words"], run.snapshot["live"]
        tensors = [size >> 20 for kind, size in zip(live["kind"], live["bytes"])
                   if words["allocation_kind"][kind] == "tensor"]
        self.assertEqual(sorted(tensors), [1, 2, 3, 5, 6, 7])
        self.assertEqual(run.snapshot["completeness"]["end"], "killed")

    def test_pytorchs_own_profiler(self) -> None:
        run = self.run_scenario("profiled")
        self.check_books(run)
        self.assertEqual(run.books["errors"], [{"told": [3 << 20]}])

    def check_refusals(self, run: Run) -> None:
        cache, = run.report["framework_caches"]
        self.assertEqual(run.report["verdict"], "out_of_memory")
        self.assertEqual(cache["refusal_count"], len(run.books["errors"]))
        for refusal, error in zip(cache["refusals"], run.books["errors"]):
            self.assertEqual(refusal["request"], error["asked"])
            self.assertEqual(refusal["told_tensor_bytes"], error["allocated"])
            self.assertEqual(refusal["told_reserved_bytes"], error["reserved"])
            self.assertEqual(refusal["idle_bytes"], error["reserved"] - error["allocated"])
            # The exception's own words: "Tried to allocate 32768.00 GiB."
            tried, = re.findall(r"Tried to allocate ([0-9.]+) (GiB|MiB)", error["text"])
            unit = {"GiB": 1 << 30, "MiB": 1 << 20}[tried[1]]
            self.assertAlmostEqual(refusal["request"] / unit, float(tried[0]), places=2)

    def test_out_of_memory(self) -> None:
        run = self.run_scenario("out_of_memory")
        self.check_books(run)
        self.check_refusals(run)

    def test_a_limit_of_pytorchs_own(self) -> None:
        run = self.run_scenario("capped")
        self.check_books(run)
        self.check_refusals(run)

    def test_cache_switched_off(self) -> None:
        for variables in ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
                          {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}):
            run = self.run_scenario("cache_off", variables=variables)
            words, events = run.snapshot["words"], run.snapshot["events"]
            kinds = [words["allocation_kind"][kind] for kind in events["kind"]]
            self.assertNotIn("tensor", kinds)
            self.assertEqual(run.report["tensors"], [])
            self.assertGreaterEqual(run.snapshot["counters"]["allocations"], 40, "each tensor is a call of the driver")
            self.assertNotIn("pytorch_cache", {entry["code"] for entry in run.report["not_observed"]})


if __name__ == "__main__":
    TensorsUnderCuheap.python = torch_python.find_or_skip()
    TensorsUnderCuheap.cuheap, TensorsUnderCuheap.print_cache = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
