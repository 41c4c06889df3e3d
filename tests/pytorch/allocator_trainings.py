"""Programs whose requests vary, so that PyTorch's cache is left in pieces: what a report promises of the allocator's
settings is checked by running them with and without.

usage: allocator_trainings.py NAME

Prints the most bytes that PyTorch held, as its own books have it.
"""

import random
import sys

import remedy_trainings
import torch
from torch import nn


def train(model, batches):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        torch.cuda.synchronize()


def sentences(model, lengths, batch=40):
    for length in lengths:
        model.tokens = length
        yield model.batch(batch)


def lengths():
    """Each batch is padded to its longest sentence."""
    numbers = random.Random(7)
    model = remedy_trainings.Encoder(layers=3).cuda()
    train(model, sentences(model, (numbers.randint(16, 320) for _ in range(24))))


def growing():
    """A curriculum: longer sentences step by step, so that no block of the step before is large enough."""
    model = remedy_trainings.Encoder(layers=3).cuda()
    train(model, sentences(model, range(40, 320, 14)))


def images():
    numbers = random.Random(3)

    def batches():
        for _ in range(16):
            size = 8 * numbers.randint(8, 22)
            yield (torch.randn(24, 3, size, size, device="cuda"),
                   torch.randint(0, remedy_trainings.CLASSES, (24,), device="cuda"))

    train(remedy_trainings.Cnn().cuda(), batches())


@torch.no_grad()
def generation():
    """Keys and values of what was generated, put together anew for each token."""
    layers, batch, width = 6, 80, 1024
    cache = [torch.zeros(batch, 0, width, device="cuda") for _ in range(layers)]
    for _ in range(160):
        for layer in range(layers):
            cache[layer] = torch.cat([cache[layer], torch.randn(batch, 1, width, device="cuda")], dim=1)


def emptied():
    """As lengths(), and the cache is emptied now and then."""
    numbers = random.Random(5)
    model = remedy_trainings.Encoder(layers=3).cuda()

    def batches():
        for step in range(24):
            if step % 6 == 5:
                torch.cuda.empty_cache()
            yield from sentences(model, (numbers.randint(16, 320),))

    train(model, batches())


def large_first():
    """What is large at the beginning is cut up later, and needed again at the end."""
    kept = []
    for _ in range(4):
        torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
        kept.append(torch.empty(30 << 20, dtype=torch.uint8, device="cuda"))


def refused():
    """As large_first(), with less room than that takes."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((900 << 20) / total)
    kept = []
    for _ in range(4):
        torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
        kept.append(torch.empty(110 << 20, dtype=torch.uint8, device="cuda"))
    try:
        torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        print("refused")


def steady():
    """All steps alike: only rests of segments are left."""
    model = remedy_trainings.Encoder(layers=3).cuda()
    train(model, sentences(model, 6 * [128]))


def whole_segments():
    """Nothing is left of any segment."""
    for _ in range(4):
        kept = [torch.empty(32 << 20, dtype=torch.uint8, device="cuda") for _ in range(8)]
        del kept


def two_streams():
    """cuheap's record does not tell the streams of tensors."""
    other = torch.cuda.Stream()
    kept = []
    for _ in range(6):
        torch.empty(60 << 20, dtype=torch.uint8, device="cuda")
        with torch.cuda.stream(other):
            torch.empty(60 << 20, dtype=torch.uint8, device="cuda")
            kept.append(torch.empty(2 << 20, dtype=torch.uint8, device="cuda"))


SCENARIOS = {scenario.__name__: scenario for scenario in (
    lengths, growing, images, generation, emptied, large_first, refused, steady, whole_segments, two_streams)}

if __name__ == "__main__":
    SCENARIOS[sys.argv[1]]()
    print(f"held {torch.cuda.max_memory_reserved()} allocated {torch.cuda.max_memory_allocated()}")
