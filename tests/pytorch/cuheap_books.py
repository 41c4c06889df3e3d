"""What a snapshot of cuheap (docs/snapshot.md) says about PyTorch's caching allocator, at the moment at which PyTorch's
own books were read.

No clock is needed to find that moment: PyTorch's books say how many allocations and frees there had been, of tensors and
of segments, and a snapshot has them in order.
"""

import dataclasses


@dataclasses.dataclass
class Cache:
    """Memory of one kind as the events leave it."""

    live: dict[int, int] = dataclasses.field(default_factory=dict)  # address -> bytes
    allocations: int = 0
    frees: int = 0
    bytes: int = 0
    peak: int = 0
    allocated_bytes: int = 0  # in all

    def allocate(self, address: int, size: int) -> None:
        if address in self.live:
            raise ValueError(f"allocated twice: {address:#x}")
        self.live[address] = size
        self.allocations += 1
        self.bytes += size
        self.allocated_bytes += size
        self.peak = max(self.peak, self.bytes)

    def free(self, address: int) -> None:
        if address not in self.live:
            raise ValueError(f"freed, but not there: {address:#x}")
        self.bytes -= self.live.pop(address)
        self.frees += 1


def rows(snapshot: dict, table: str) -> list[dict]:
    """A table of columns as rows; the columns of kinds as words."""
    columns = snapshot[table]
    out = [dict(zip(columns, values)) for values in zip(*columns.values())]
    words = snapshot["words"]
    for row in out:
        row["kind"] = words["allocation_kind"][row["kind"]]
        if "type" in row:
            row["type"] = words["event_type"][row["type"]]
    return out


def replay(events: list[dict], kind: str, allocations: int, frees: int) -> Cache:
    """The state after so many allocations and frees. Raises ValueError when the events have no such moment."""
    cache = Cache()
    for event in events:
        if cache.allocations + cache.frees == allocations + frees:
            break
        if event["kind"] != kind or event["result"] != 0:
            continue
        if event["type"] == "allocate":
            cache.allocate(event["address"], event["bytes"])
        elif event["type"] == "free":
            cache.free(event["address"])
    if (cache.allocations, cache.frees) != (allocations, frees):
        raise ValueError(f"after {allocations + frees} events of kind {kind} there were {cache.allocations} allocations and "
                         f"{cache.frees} frees, where PyTorch counted {allocations} and {frees}")
    return cache


SERVED, BY_PYTORCH, FREED_WITH_CONTEXT = 1, 2, 16  # flags of an event: interpose/journal/format.h


def replay_served(events: list[dict]) -> Cache:
    """Of `cuheap run --pool`: the stream-ordered allocations that PyTorch asked for and cuheap's pool served. Raises
    ValueError for one that it did not serve, and for a segment of a cache of PyTorch's own."""
    cache = Cache()
    for event in events:
        if event["kind"] == "device" and event["flags"] & BY_PYTORCH:
            raise ValueError("PyTorch asked for a segment of its own cache")
        if event["kind"] != "stream_ordered" or event["result"] != 0 or event["flags"] & FREED_WITH_CONTEXT:
            continue
        if event["type"] == "allocate":
            if event["flags"] & (SERVED | BY_PYTORCH) != SERVED | BY_PYTORCH:
                raise ValueError(f"not served, or not PyTorch's: {event}")
            cache.allocate(event["address"], event["bytes"])
        elif event["type"] == "free":
            cache.free(event["address"])
    return cache


@dataclasses.dataclass
class PythonLines:
    """How many of the tensors' allocations have a Python line: a file and a line number in their stack."""

    allocations: int = 0
    with_line: int = 0
    backward: int = 0  # in autograd's own threads, not among the others
    backward_with_line: int = 0
    without_reason: int = 0  # neither a line nor a reason why there is none
    examples: list[str] = dataclasses.field(default_factory=list)


def python_lines(snapshot: dict, events: list[dict]) -> PythonLines:
    frames, words, strings = snapshot["frames"], snapshot["words"]["frame_kind"], snapshot["strings"]
    line_of = [words[kind] == "python" and line > 0 and strings[file] != ""
               for kind, line, file in zip(frames["kind"], frames["line"], frames["file"])]
    stacks = snapshot["stacks"]["frames"]
    out = PythonLines()
    for event in events:
        if event["kind"] != "tensor" or event["type"] != "allocate":
            continue
        stack = stacks[event["stack"]]
        has_line = any(line_of[frame] for frame in stack)
        thread = snapshot["threads"][event["thread"] - 1]["name"] if event["thread"] else ""
        if thread.startswith("pt_autograd"):
            out.backward += 1
            out.backward_with_line += has_line
            continue
        out.allocations += 1
        out.with_line += has_line
        if not has_line and not any(frames["reason"][frame] for frame in stack):
            out.without_reason += 1
            out.examples.append(" < ".join(strings[frames["function"][frame]] for frame in stack[:8]))
    return out
