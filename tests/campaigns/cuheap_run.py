"""Runs a program under `cuheap run --simulate` for the campaigns, and checks its snapshot against the driver's log."""

import json
import os
import subprocess

import simcuda_log


def clean_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(("CUHEAP_", "SIMCUDA_")) and k != "LD_PRELOAD"}


def run(cuheap, command, folder, options=(), extra=None):
    """Runs the command under cuheap. Returns (snapshot, report, calls of the driver's log)."""
    snapshot = os.path.join(folder, "snapshot.json")
    log = os.path.join(folder, "driver.log")
    for path in (snapshot, log):
        if os.path.exists(path):
            os.unlink(path)
    env = {**clean_environment(), "SIMCUDA_LOG": log, **(extra or {})}
    done = subprocess.run([cuheap, "run", "--simulate", *options, "-o", snapshot, "--", *command], env=env, text=True,
                          capture_output=True, timeout=300, check=False)
    if done.returncode != 0 or not os.path.exists(snapshot):
        raise AssertionError(f"cuheap run ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    report = subprocess.run([cuheap, "report", "--json", snapshot], text=True, capture_output=True, timeout=300, check=True)
    with open(snapshot, encoding="utf-8") as file:
        return json.load(file), json.loads(report.stdout), simcuda_log.read(log)


def rows(snapshot, name):
    """The table `live` or `segments` as a list of dicts, enumerations as words."""
    table = snapshot[name]
    keys = list(table)
    out = [dict(zip(keys, values)) for values in zip(*(table[key] for key in keys))]
    for row in out:
        row["kind"] = snapshot["words"]["allocation_kind"][row["kind"]]
        row["allocator"] = snapshot["words"]["allocator"][row["allocator"]]
    return out


def events(snapshot):
    table = snapshot["events"]
    keys = list(table)
    out = [dict(zip(keys, values)) for values in zip(*(table[key] for key in keys))]
    for row in out:
        row["type"] = snapshot["words"]["event_type"][row["type"]]
        row["kind"] = snapshot["words"]["allocation_kind"][row["kind"]]
    return out


FREED_WITH_CONTEXT = 1 << 4  # interpose/journal/format.h


def live_blocks(snapshot):
    """{address: (bytes, served)} of the synchronous device memory in the live table."""
    return {row["address"]: (row["bytes"], row["served"]) for row in rows(snapshot, "live") if row["kind"] == "device"}


def replayed(snapshot):
    """(blocks, segments) that the events leave: {address: bytes} each. The events must be complete."""
    if snapshot["completeness"]["events_overwritten"] or snapshot["completeness"]["events_dropped"]:
        raise AssertionError("events were lost")
    blocks, segments = {}, {}
    for event in events(snapshot):
        if event["type"] == "allocate" and event["kind"] == "device":
            blocks[event["address"]] = event["bytes"]
        elif event["type"] == "free":
            blocks.pop(event["address"], None)
        elif event["type"] == "segment_allocate":
            segments[event["address"]] = event["bytes"]
        elif event["type"] == "segment_free":
            segments.pop(event["address"])
    return blocks, segments


def check_books(snapshot, calls):
    """The live table is what the driver's log says is held, minus the pool's idle memory.

    What the driver holds is the pool's segments and the forwarded blocks; served blocks lie apart in segments.
    """
    held = simcuda_log.held(calls)
    blocks = live_blocks(snapshot)
    segments = {row["address"]: row["bytes"] for row in rows(snapshot, "segments")}
    if ({address: size for address, (size, _) in blocks.items()}, segments) != replayed(snapshot):
        raise AssertionError("the live table is not what the events leave")
    forwarded = {address: size for address, (size, served) in blocks.items() if not served}
    if held != {**segments, **forwarded}:
        raise AssertionError(f"the driver holds {held}\nthe snapshot has segments {segments} and blocks {forwarded}")
    end = 0
    for address, size in sorted((address, size) for address, (size, served) in blocks.items() if served):
        inside = [base for base, length in segments.items() if base <= address and address + size <= base + length]
        if len(inside) != 1 or address < end:
            raise AssertionError(f"block {address:#x} of {size} bytes is not in a place of its own in a segment")
        end = address + size


def check_observed(snapshot, calls):
    """With --observe the events are the driver's calls, call for call, and the live table is what the driver holds."""
    wanted = []
    for call in calls:
        if call.result == 0 and call.name == "cuMemAlloc_v2":
            wanted.append(("allocate", call.number("dptr"), call.number("bytesize")))
        elif call.result == 0 and call.name == "cuMemFree_v2" and call.number("dptr") != 0:
            wanted.append(("free", call.number("dptr"), None))
    seen = [(e["type"], e["address"], e["bytes"] if e["type"] == "allocate" else None)
            for e in events(snapshot)
            if e["type"] in ("allocate", "free") and e["kind"] == "device" and not e["flags"] & FREED_WITH_CONTEXT]
    threads = {call.thread for call in calls}
    # Between threads the log's order and the hooks' may differ by a moment; of one address the order is the same.
    key = (lambda item: 0) if len(threads) == 1 else (lambda item: item[1])
    if sorted(wanted, key=key) != sorted(seen, key=key):
        raise AssertionError(f"the driver saw {len(wanted)} calls, the journal has {len(seen)}; first difference: "
                             f"{next((pair for pair in zip(wanted, seen) if pair[0] != pair[1]), 'length')}")
    live = {address: size for address, (size, _) in live_blocks(snapshot).items()}
    if live != simcuda_log.held(calls) or rows(snapshot, "segments"):
        raise AssertionError("the live table is not what the driver holds")
