"""Reads what SIMCUDA_LOG wrote (docs/simcuda.md, "The log"): the oracle of the tests with PyTorch."""

import dataclasses
import re

_CALL = re.compile(r"^(?P<sequence>\d+) (?P<thread>\d+) (?P<name>\w+)(?P<arguments>.*) -> (?P<code>\d+)$")
_VALUE = re.compile(r' (?P<key>[*\w]+)=(?P<value>"(?:[^"\\]|\\.)*"|\S+)')

# Calls that end a context, and with it every allocation nobody freed.
ENDS_CONTEXT = {"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset",
                "cuDevicePrimaryCtxReset_v2", "cuCtxDestroy", "cuCtxDestroy_v2"}


@dataclasses.dataclass(frozen=True)
class Call:
    name: str
    code: int
    values: dict[str, str]

    def number(self, key: str) -> int:
        return int(self.values[key], 0)


@dataclasses.dataclass
class Memory:
    """Device memory of cuMemAlloc as the calls of a log leave it."""

    live: dict[int, int]  # address -> bytes
    allocations: int = 0
    frees: int = 0


def read_calls(text: str) -> list[Call]:
    calls = []
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        match = _CALL.match(line)
        if match is None:
            raise ValueError(f"not a line of a simcuda log: {line!r}")
        values = {found["key"]: found["value"] for found in _VALUE.finditer(match["arguments"])}
        calls.append(Call(match["name"], int(match["code"]), values))
    return calls


def memory_before_teardown(calls: list[Call]) -> Memory:
    """What cuMemAlloc_v2 and cuMemFree_v2 that succeeded leave behind, up to the end of the first context."""
    memory = Memory({})
    for call in calls:
        if call.name in ENDS_CONTEXT:
            break
        if call.code != 0:
            continue
        if call.name == "cuMemAlloc_v2":
            address = call.number("*dptr")
            if address in memory.live:
                raise ValueError(f"allocated twice: {address:#x}")
            memory.live[address] = call.number("bytesize")
            memory.allocations += 1
        elif call.name == "cuMemFree_v2" and call.number("dptr") != 0:
            del memory.live[call.number("dptr")]
            memory.frees += 1
    return memory
