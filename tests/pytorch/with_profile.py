"""Runs main() of a training script under PyTorch's memory profiler, and writes down what that says of every allocation on
the device: in which order they came and went, and the category of each at each time.

usage: with_profile.py PROFILE.json FIRST_STEP SCRIPT      (FIRST_STEP: how many steps are done when the profiler begins)
"""

import gc
import json
import runpy
import sys

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, _memory_profiler, profile
from torch.profiler._memory_profiler import Action, MemoryProfile, TensorKey, _EventType

import with_books


def on_device(device: torch.device) -> bool:
    return device.type == "cuda"


def identify_tensors_by_storage() -> None:
    """The profiler gives tensors an id by the addresses of their storage and of their TensorImpl, and calls those one
    tensor that share either. An address of a TensorImpl is soon used again, so that (torch 2.15) outputs of convolutions
    become gradients, and outputs of embeddings parameters: of resnet50.py's peak a third, with which what follows from
    them is lost too. Memory belongs to a storage, so it alone is the identity here; all else is the profiler's."""
    def make(tensor_id, storage_ptr, allocation_id, device):
        if tensor_id is None or storage_ptr is None or allocation_id is None:
            return None
        return TensorKey(device, allocation_id, _memory_profiler._Storage(storage_ptr, allocation_id))

    TensorKey._make = staticmethod(make)


def take_parameters_by_name_only() -> None:
    """The profiler knows parameters from the modules and optimizers that Python called, and guesses more from the flow of
    data, for profiles without Python. The guess takes what Adam divides by for parameters."""
    MemoryProfile._set_parameters_using_data_flow = lambda self: None


def code_was_compiled() -> bool:
    """By torch.compile: the profiler sees no operation of such code."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and dynamo.counters["stats"].get("unique_graphs", 0) > 0


def count_changes() -> int:
    """Allocations and frees of tensors so far."""
    stats = torch.cuda.memory_stats()
    return stats.get("allocation.all.allocated", 0) + stats.get("allocation.all.freed", 0)


def find_buffers() -> list[list[int]]:
    """Address and size, as the cache rounds it, of the buffers of all modules that there are."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]
    storages = [buffer.untyped_storage() for module in modules for buffer in module.buffers(recurse=False)
                if on_device(buffer.device)]
    return sorted({(storage.data_ptr(), (storage.nbytes() + 511) // 512 * 512) for storage in storages})


class Profiler:
    def __init__(self, first_step: int):
        self.first_step = first_step
        self.profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True)
        self.out: dict = {"torch": torch.__version__, "buffers": [], "steps": []}
        self.steps = 0
        if first_step == 0:
            self.begin()

    def begin(self) -> None:
        self.out["begin"] = count_changes()
        self.profile.start()

    def after_step(self, *_arguments: object) -> None:
        self.steps += 1
        if self.steps == self.first_step:
            self.begin()
        elif self.steps > self.first_step:
            self.out["steps"].append(count_changes())
        if not self.out["buffers"]:
            self.out["buffers"] = find_buffers()

    def end(self) -> dict:
        self.profile.stop()
        return self.out | {"compiled": code_was_compiled()} | read_profile(self.profile._memory_profile())


def read_profile(memory: MemoryProfile) -> dict:
    """`changes`: [time, address, bytes (negative: freed), key], in order; `versions`: [time, key, version]; `categories`:
    key -> version -> name; `preexisting`: [address, key], from before the profiler began; `lone`: keys that no operation
    made, or none read so that they have no category. A key is one allocation of a tensor's storage; null where the profiler has not seen the tensor."""
    keys: dict[TensorKey, int] = {}

    def number(key: TensorKey) -> int:
        return keys.setdefault(key, len(keys))

    changes, versions, preexisting = [], [], []
    for event in memory._op_tree.dfs():
        if event.typed[0] != _EventType.Allocation or not on_device(event.typed[1].device):
            continue
        fields = event.typed[1]
        key = TensorKey.from_allocation(fields)
        changes.append([event.start_time_ns, fields.ptr, fields.alloc_size, None if key is None else number(key)])
    last: dict[TensorKey, int] = {}
    for time_ns, action, (key, version), _ in memory.timeline:
        if not isinstance(key, TensorKey) or not on_device(key.device):
            continue
        if action == Action.INCREMENT_VERSION:
            versions.append([time_ns, number(key), version + 1])
            last[key] = max(last.get(key, 0), version + 1)
        elif action == Action.PREEXISTING:
            preexisting.append([key.storage.ptr, number(key)])
    lone, read = set(), set()
    for node in memory._data_flow_graph.flow_nodes:
        for key, edge in node._edges.items():
            if edge.is_allocation and node._event.tag == _EventType.Allocation:
                lone.add(key)
            elif not edge.is_allocation and not edge.is_deletion:
                read.add(key)
    categories = {}
    for key, index in keys.items():
        found = [memory._categories.get(key, version) for version in range(last.get(key, 0) + 1)]
        categories[index] = [None if category is None else category.name for category in found]
    lone |= {key for key in keys.keys() - read if not any(categories[keys[key]])}
    changes.sort(key=lambda change: change[0])
    return {"changes": changes, "versions": versions, "categories": categories, "preexisting": preexisting,
            "lone": sorted(number(key) for key in lone if on_device(key.device))}


def main() -> None:
    profile_path, first_step, script = sys.argv[1:]
    sys.argv = [script]
    identify_tensors_by_storage()
    take_parameters_by_name_only()
    train = runpy.run_path(script, run_name="script")["main"]
    profiler = Profiler(int(first_step))
    register_optimizer_step_post_hook(profiler.after_step)
    train()
    with_books.let_autograd_finish()
    with open(profile_path, "w", encoding="utf-8") as file:
        json.dump(profiler.end(), file)


if __name__ == "__main__":
    main()
