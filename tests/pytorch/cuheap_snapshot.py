"""Reads what a snapshot of cuheap (docs/snapshot.md) says about device memory asked of the driver."""

import dataclasses

FREED_WITH_CONTEXT = 16
BY_PYTORCH = 2


@dataclasses.dataclass
class DriverMemory:
    """Device memory of cuMemAlloc as the events of a snapshot leave it, before contexts went away."""

    live: dict[int, int]  # address -> bytes
    allocations: int = 0
    frees: int = 0
    not_pytorchs: int = 0  # allocations that were not recognised as PyTorch's


def driver_memory(snapshot: dict) -> DriverMemory:
    words = snapshot["words"]
    events = snapshot["events"]
    memory = DriverMemory({})
    columns = zip(*(events[name] for name in ("type", "kind", "address", "bytes", "flags", "result")))
    for kind_of_event, kind, address, size, flags, result in columns:
        if result != 0 or words["allocation_kind"][kind] != "device":
            continue
        name = words["event_type"][kind_of_event]
        if name == "allocate":
            if address in memory.live:
                raise ValueError(f"allocated twice: {address:#x}")
            memory.live[address] = size
            memory.allocations += 1
            memory.not_pytorchs += not flags & BY_PYTORCH
        elif name == "free" and not flags & FREED_WITH_CONTEXT:
            del memory.live[address]
            memory.frees += 1
    return memory
