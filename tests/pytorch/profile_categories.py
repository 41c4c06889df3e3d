"""PyTorch's memory profiler (with_profile.py) and cuheap's categories (print_categories) of one run, side by side: the bytes
of each category at each moment.

What is compared, and how the words map:
    PARAMETER = parameters, OPTIMIZER_STATE = optimizer_state, GRADIENT = gradients, ACTIVATION = activations,
    INPUT = inputs, and the rest together: TEMPORARY, AUTOGRAD_DETAIL and no category = temporaries, workspace,
    communication, other.
    Activations that a backward pass reckoned again (checkpointing) are AUTOGRAD_DETAIL to the profiler, which leaves the
    forward pass where backward begins: the rule `recomputed` counts to the rest here.
    Buffers of modules are parameters to cuheap and nothing in particular to the profiler: taken out, on both sides.
    Tensors that no operation made, or none read, as far as the profiler knows, are taken out as well, unless it has seen
    what they are (a parameter, its gradient, the optimizer's state): what torch.compile generated allocates and reads past
    the operators, and an operation with a tensor without storage among its inputs, cat([empty, x]), matches no schema of
    the profiler's. So are tensors from before it began that it did not meet again, and, where code from torch.compile ran,
    all but what it knows by name: it follows the flow of data through operators, and that of such code goes past them.
"""

import collections
import dataclasses

REST = "rest"
SAME = {"PARAMETER": "parameters", "OPTIMIZER_STATE": "optimizer_state", "GRADIENT": "gradients",
        "ACTIVATION": "activations", "INPUT": "inputs"}
COMPARED = (*SAME.values(), REST)
KNOWN_BY_NAME = ("PARAMETER", "OPTIMIZER_STATE", "GRADIENT")


@dataclasses.dataclass
class Tensor:
    """One that is live at a moment: cuheap's row, and what the profiler knows of it."""

    ours: dict
    bytes: int
    key: int | None  # of the profiler's categories; None: it saw the memory, but no tensor in it
    earlier: bool = False  # from before the profiler began


@dataclasses.dataclass
class Moment:
    """Bytes by category; what was taken out."""

    total: int
    theirs: dict[str, int]
    ours: dict[str, int]
    buffers: int = 0
    not_seen: int = 0

    def difference(self, category: str) -> int:
        return self.ours.get(category, 0) - self.theirs.get(category, 0)

    def row(self) -> str:
        parts = [f"{name} {self.ours.get(name, 0)} ({self.difference(name):+})" for name in COMPARED]
        return f"{self.total} B: " + ", ".join(parts) + f"; buffers {self.buffers}, not seen {self.not_seen}"


def our_category(row: dict) -> str:
    if row["rule"] == "recomputed" or row["category"] not in SAME.values():
        return REST
    return row["category"]


class Comparison:
    """Goes through a run as the profiler saw it. Raises ValueError if the two do not speak of the same allocations.

    tensors: print_categories' rows.
    """

    def __init__(self, profile: dict, tensors: list[dict]):
        self.profile = profile
        self.buffers = set(map(tuple, profile["buffers"]))
        self.lone = set(profile["lone"])
        self.live: dict[int, Tensor] = {}
        self.version: dict[int, int] = collections.defaultdict(int)
        self.total = 0
        self.changes = profile["begin"]  # so many allocations and frees there have been
        begin = self._position(tensors, profile["begin"])
        self.to_come: dict[int, collections.deque] = collections.defaultdict(collections.deque)
        keys = dict(profile["preexisting"])
        for row in tensors:
            self.to_come[row["address"]].append(row)
            if row["allocated_at"] > begin:
                continue
            if row["freed_at"] is None or row["freed_at"] > begin:
                self._allocate(row["address"], row["bytes"], keys.get(row["address"]))
                self.live[row["address"]].earlier = True
            else:
                self.to_come[row["address"]].pop()

    @staticmethod
    def _position(tensors: list[dict], changes: int) -> int:
        """Of the last of so many allocations and frees in cuheap's record."""
        positions = sorted(row[when] for row in tensors for when in ("allocated_at", "freed_at") if row[when] is not None)
        return positions[changes - 1] if changes else 0

    def _allocate(self, address: int, size: int, key: int | None) -> None:
        rows = self.to_come[address]
        if not rows or rows[0]["bytes"] != size:
            raise ValueError(f"the profiler has {size} bytes at {address:#x}, cuheap {rows[0]['bytes'] if rows else 'none'}")
        if address in self.live:
            raise ValueError(f"allocated twice: {address:#x}")
        self.live[address] = Tensor(rows.popleft(), size, key)
        self.total += size

    def moments(self):
        """After each allocation and each free: how many bytes are live."""
        changes = [(time_ns, 1, change) for time_ns, *change in self.profile["changes"]]
        versions = [(time_ns, 0, version) for time_ns, *version in self.profile["versions"]]
        for time_ns, kind, what in sorted(changes + versions, key=lambda entry: entry[:2]):
            if kind == 0:
                key, self.version[key] = what[0], what[1]
                continue
            address, size, key = what
            if size > 0:
                self._allocate(address, size, key)
            elif address in self.live:
                self.total -= self.live.pop(address).bytes
            else:
                raise ValueError(f"freed, but not there: {address:#x}")
            self.changes += 1
            yield self.total

    def category(self, tensor: Tensor) -> str | None:
        if tensor.key is None:
            return None
        versions = self.profile["categories"][str(tensor.key)]
        return versions[min(self.version[tensor.key], len(versions) - 1)]

    def _not_seen(self, tensor: Tensor, category: str | None) -> bool:
        if category in KNOWN_BY_NAME:
            return False
        if self.profile["compiled"] and tensor.key is not None:
            return True
        return tensor.key in self.lone or (tensor.earlier and tensor.key is None)

    def now(self) -> Moment:
        moment = Moment(self.total, collections.Counter(), collections.Counter())
        for tensor in self.live.values():
            category = self.category(tensor)
            if (tensor.ours["address"], tensor.bytes) in self.buffers and tensor.ours["rule"] == "module_setup":
                moment.buffers += tensor.bytes
            elif self._not_seen(tensor, category):
                moment.not_seen += tensor.bytes
            else:
                moment.theirs[SAME.get(category, REST)] += tensor.bytes
                moment.ours[our_category(tensor.ours)] += tensor.bytes
        return moment
