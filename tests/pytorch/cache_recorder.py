"""Plays random requests to PyTorch's own caching allocator and writes down what it held after each: what the model of it
(analysis/torch_cache) is tested against. tests/analysis/torch_cache/recorded/README.md tells how the files were made.

usage: cache_recorder.py SEED REQUESTS      (writes to standard output; the settings are PYTORCH_CUDA_ALLOC_CONF's)

A line for each request: `a SLOT BYTES STREAM TAKEN RESERVED` (allocated), `f SLOT RESERVED` (freed), `e RESERVED`
(torch.cuda.empty_cache()). BYTES were asked for, TAKEN is what PyTorch counts for them.
"""

import os
import random
import sys

import torch

MIB = 1 << 20
STREAMS = 2
MOST = 1 << 30  # live at a time


def a_size(numbers: random.Random) -> int:
    kind = numbers.random()
    if kind < 0.3:
        return numbers.randint(1, 64 << 10)
    if kind < 0.5:
        return numbers.randint(1, MIB)
    if kind < 0.6:
        return numbers.choice((MIB, MIB + 1, 2 * MIB, 10 * MIB - 512, 10 * MIB, 20 * MIB))
    if kind < 0.85:
        return numbers.randint(MIB + 1, 12 * MIB)
    return numbers.randint(10 * MIB, 90 * MIB)


def main() -> None:
    numbers = random.Random(int(sys.argv[1]))
    streams = [torch.cuda.default_stream(), torch.cuda.Stream()]
    live, total, slots = {}, 0, 0
    print(f"# torch {torch.__version__}")
    print(f"s {os.environ.get('PYTORCH_CUDA_ALLOC_CONF', '-')}")
    for _ in range(int(sys.argv[2])):
        choice = numbers.random()
        if choice < 0.004:
            torch.cuda.empty_cache()
            print(f"e {torch.cuda.memory_reserved()}")
        elif live and (total > MOST or choice < 0.47):
            slot = numbers.choice(list(live))
            tensor, taken = live.pop(slot)
            total -= taken
            del tensor
            print(f"f {slot} {torch.cuda.memory_reserved()}")
        else:
            size, stream = a_size(numbers), 0 if numbers.random() < 0.8 else 1
            before = torch.cuda.memory_allocated()
            with torch.cuda.stream(streams[stream]):
                tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
            taken = torch.cuda.memory_allocated() - before
            live[slots] = (tensor, taken)
            total += taken
            print(f"a {slots} {size} {stream} {taken} {torch.cuda.memory_reserved()}")
            slots += 1
    live.clear()


if __name__ == "__main__":
    main()
