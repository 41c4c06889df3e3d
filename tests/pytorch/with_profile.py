"""Runs main() of a training script under PyTorch's memory profiler, and writes down what that says of every allocation on
the device: in which order they came and went, and the category of each at each time.

usage: with_profile.py PROFILE.json SCRIPT
"""

import json
import runpy
import sys

import torch
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


def read_profile(profiler: profile) -> dict:
    """`changes`: [time, address, bytes (negative: freed), key], in order; `versions`: [time, key, version]; `categories`:
    key -> version -> name. A key is one allocation of a tensor's storage; null where the profiler has not seen the tensor.
    """
    memory: MemoryProfile = profiler._memory_profile()
    keys: dict[TensorKey, int] = {}
    changes, versions = [], []
    for event in memory._op_tree.dfs():
        if event.typed[0] != _EventType.Allocation or not on_device(event.typed[1].device):
            continue
        fields = event.typed[1]
        key = TensorKey.from_allocation(fields)
        number = None if key is None else keys.setdefault(key, len(keys))
        changes.append([event.start_time_ns, fields.ptr, fields.alloc_size, number])
    last: dict[TensorKey, int] = {}
    for time_ns, action, (key, version), _ in memory.timeline:
        if key in keys and action == Action.INCREMENT_VERSION:
            versions.append([time_ns, keys[key], version + 1])
            last[key] = max(last.get(key, 0), version + 1)
    categories = {}
    for key, number in keys.items():
        found = [memory._categories.get(key, version) for version in range(last.get(key, 0) + 1)]
        categories[number] = [None if category is None else category.name for category in found]
    changes.sort(key=lambda change: change[0])
    versions.sort(key=lambda version: version[0])
    return {"changes": changes, "versions": versions, "categories": categories, "torch": torch.__version__}


def main() -> None:
    profile_path, script = sys.argv[1:]
    sys.argv = [script]
    identify_tensors_by_storage()
    train = runpy.run_path(script, run_name="script")["main"]
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True) as profiler:
        train()
        with_books.let_autograd_finish()
    with open(profile_path, "w", encoding="utf-8") as file:
        json.dump(read_profile(profiler), file)


if __name__ == "__main__":
    main()
