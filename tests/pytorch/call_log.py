"""What two runs of one program must have in common in the simulated device's log (docs/simcuda.md, "The log").

Handles, device addresses, sizes, results and the hashes of copied bytes stay as they are: the same program gets the
same ones. Threads are numbered in the order of their first call. Left out are the queries below, which change nothing and
which cuheap makes for itself as well. Host addresses differ with every run and become "host".
"""

import re

# They change nothing, and looking for a difference in how often they are asked would find only cuheap's own questions.
QUERIES = frozenset((
    "cuInit", "cuDriverGetVersion", "cuGetProcAddress", "cuGetProcAddress_v2", "cuCtxGetCurrent", "cuCtxGetDevice",
    "cuCtxGetId", "cuDevicePrimaryCtxGetState", "cuDeviceGet", "cuDeviceGetCount", "cuDeviceGetAttribute",
    "cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceGetUuid_v2", "cuDeviceTotalMem_v2", "cuMemGetInfo_v2"))

# Where simcuda places pinned, managed and device memory; other numbers of this size are addresses of the process.
SIMULATED = range(0x200000000000, 0x300000000000)
SMALLEST_ADDRESS = 1 << 44  # handles are below

_CALL = re.compile(r"(\d+) (\d+) (\w+)(.*) -> (\d+)")
_NUMBER = re.compile(r"=(0x[0-9a-f]+)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def _mask(match: re.Match[str]) -> str:
    value = int(match[1], 16)
    return "=host" if value >= SMALLEST_ADDRESS and value not in SIMULATED else match[0]


def _mask_outside_strings(arguments: str) -> str:
    parts, end = [], 0
    for string in _STRING.finditer(arguments):
        parts += [_NUMBER.sub(_mask, arguments[end:string.start()]), string[0]]
        end = string.end()
    return "".join(parts) + _NUMBER.sub(_mask, arguments[end:])


def comparable(text: str) -> list[str]:
    """The calls, one string each, in order; after them the hashes of what was copied between host and device, in order:
    when a copy runs depends on the clock, too. Raises ValueError on a damaged log."""
    threads: dict[str, int] = {}
    lines, copies = [], []
    sequence = 0
    for line in text.splitlines():
        if line.startswith("#"):
            if line.startswith("# release "):
                lines.append(line)
            elif line.startswith("# data "):
                copies.append(line)
            continue
        match = _CALL.fullmatch(line)
        sequence += 1
        if match is None or int(match[1]) != sequence:
            raise ValueError(f"not line {sequence} of a simcuda log: {line!r}")
        _, thread, name, arguments, code = match.groups()
        if name not in QUERIES:
            number = threads.setdefault(thread, len(threads))
            lines.append(f"thread {number}: {name}{_mask_outside_strings(arguments)} -> {code}")
    return lines + copies


# What gets and gives memory in stream order, from the driver's pool or from virtual memory; and events, by which a pool
# learns that a block is no longer used (waits for events stay in the comparison).
STREAM_ORDERED_MEMORY = frozenset((
    "cuMemAllocAsync", "cuMemFreeAsync", "cuMemAllocFromPoolAsync", "cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool",
    "cuMemPoolCreate", "cuMemPoolDestroy", "cuMemPoolSetAttribute", "cuMemPoolGetAttribute", "cuMemPoolSetAccess",
    "cuMemPoolTrimTo", "cuMemAddressReserve", "cuMemAddressFree", "cuMemCreate", "cuMemRelease", "cuMemMap",
    "cuMemUnmap", "cuMemSetAccess", "cuMemGetAllocationGranularity", "cuStreamGetId", "cuThreadExchangeStreamCaptureMode",
    "cuEventCreate", "cuEventRecord", "cuEventRecordWithFlags", "cuEventQuery", "cuEventDestroy_v2"))
# Device memory, and virtual memory without a device of its own.
_DEVICE_ADDRESS = re.compile(r"=0x2[2-4][0-9a-f]{10}\b")


# How CUHEAP_FILL fills a block, and PyTorch never does: the variant for per-thread default streams.
FILL = "cuMemsetD8Async_ptsz"


def _name(line: str) -> str:
    return line.split(" ")[2] if line.startswith("thread") else ""


def besides_memory(lines: list[str]) -> list[str]:
    """What is left when another pool serves the stream-ordered memory: every other call (not STREAM_ORDERED_MEMORY) with
    its arguments, handles, sizes and results, and the hashes of all bytes that went to the device and came back. Addresses on the
    device differ. No kernel computes anything, so bytes that come back agree only if both pools fill what they hand out
    (CUHEAP_FILL, SIMCUDA_FILL); otherwise they are what lay there before. The fills are left out."""
    return [_DEVICE_ADDRESS.sub("=device", line) for line in lines
            if not line.startswith("# release ") and _name(line) not in STREAM_ORDERED_MEMORY and _name(line) != FILL]


# Served by our pools: in the log only of a run without them, or where they forward. And what they ask the driver.
SERVED = frozenset((
    "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemAllocFromPoolAsync", "cuStreamGetId",
    "cuStreamGetCtx", "cuStreamGetFlags", "cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool",
    "cuMemGetAllocationGranularity"))
_OWN = "cuThreadExchangeStreamCaptureMode"
_EVENT = re.compile(r"Event=(0x[0-9a-f]+)")


def calls(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("thread")]


def copies(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("# data ")]


def without_addresses(lines: list[str]) -> list[str]:
    return [_DEVICE_ADDRESS.sub("=device", line) for line in lines]


# PyTorch uses a piece of pinned memory again, or takes another, by what it hears of events: chance, where work runs by chance.
_BY_CHANCE = frozenset(("cuEventQuery", "cuMemHostAlloc", "cuStreamIsCapturing", "cuPointerGetAttributes",
                        "cuEventCreate", "cuEventRecordWithFlags"))
_PINNED_ADDRESS = re.compile(r"=0x20[0-9a-f]{10}\b")


def besides_chance(lines: list[str]) -> list[str]:
    """Of calls in the random order: without those that follow from when work happened to run."""
    return [_PINNED_ADDRESS.sub("=pinned", line) for line in lines if _name(line) not in _BY_CHANCE]


def besides_served(lines: list[str]) -> list[str]:
    """The calls of a program that does not use cuThreadExchangeStreamCaptureMode, without those for memory that our pools serve
    and without our own: those stand between two exchanges of that mode by the same thread. Addresses on the device differ;
    events, of which our pools have some too, are named in the order of their first use."""
    events: dict[str, str] = {}
    inside: dict[str, bool] = {}
    out = []
    for line in calls(lines):
        thread = line.split(":", 1)[0]
        if _name(line) == _OWN:
            inside[thread] = not inside.get(thread, False)
        elif not inside.get(thread, False) and _name(line) not in SERVED:
            line = _DEVICE_ADDRESS.sub("=device", line)
            out.append(_EVENT.sub(lambda match: f"Event={events.setdefault(match[1], f'event{len(events)}')}", line))
    return out


def fills(lines: list[str]) -> int:
    return sum(_name(line) == FILL for line in lines)


def first_difference(one: list[str], other: list[str]) -> str:
    """Empty when they are equal."""
    for index, (left, right) in enumerate(zip(one, other)):
        if left != right:
            before = "".join(f"\n    {line}" for line in one[max(0, index - 3):index])
            return f"entry {index} differs, after{before}\n  - {left}\n  + {right}"
    if len(one) != len(other):
        longer = one if len(one) > len(other) else other
        return f"{len(one)} entries against {len(other)}; the first beyond: {longer[min(len(one), len(other))]}"
    return ""


def copied_back(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("# data to=host ")]
