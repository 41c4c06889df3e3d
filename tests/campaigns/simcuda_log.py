"""Reads the simulated driver's call log (SIMCUDA_LOG, docs/simcuda.md): the oracle of what a process holds."""

import dataclasses
import re

_CALL = re.compile(r"^(\d+) (\d+) (\w+)(.*?) -> (\d+)$")
_FIELD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')


@dataclasses.dataclass
class Call:
    sequence: int
    thread: int
    name: str
    fields: dict
    result: int

    def number(self, key):
        return int(self.fields[key], 0)


def read(path):
    """All calls of the log, in order. Raises ValueError on a gap in the sequence: a line was lost."""
    calls = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            match = _CALL.match(line.rstrip("\n"))
            if match:
                sequence, thread, name, rest, result = match.groups()
                calls.append(Call(int(sequence), int(thread), name, dict(_FIELD.findall(rest)), int(result)))
    for index, call in enumerate(calls):
        if call.sequence != index + 1:
            raise ValueError(f"{path}: call {index + 1} has sequence number {call.sequence}: a line is missing")
    return calls


def held(calls):
    """{address: bytes} of the synchronous device memory that the driver still holds after the calls."""
    blocks = {}
    for call in calls:
        if call.result != 0:
            continue
        if call.name == "cuMemAlloc_v2":
            blocks[call.number("dptr")] = call.number("bytesize")
        elif call.name == "cuMemFree_v2":
            blocks.pop(call.number("dptr"), None)
    return blocks
