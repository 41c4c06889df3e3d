"""A training loop that the processor bounds: 12 residual MLP blocks of width 256, batch 64, AdamW. About 360 tensor
allocations a step and hardly any work for the device, so that what an allocation costs shows in the step.

usage: cpu_bound_loop.py STEPS WARM_UP [none|python|all]

The last argument switches on PyTorch's own recorder of memory history, with that kind of stacks. Prints one JSON
object: seconds of each step after the warm-up, and tensor allocations a step.
"""

import json
import sys
import time

import torch
from torch import nn

WIDTH = 256
BLOCKS = 12
BATCH = 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, WIDTH)
        self.down = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def train_step(model, optimizer, inputs, targets):
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()


def main():
    steps, warm_up = int(sys.argv[1]), int(sys.argv[2])
    stacks = sys.argv[3] if len(sys.argv) > 3 else "none"
    model = nn.Sequential(*(Block() for _ in range(BLOCKS))).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(BATCH, WIDTH, device="cuda")
    targets = torch.randn(BATCH, WIDTH, device="cuda")
    if stacks != "none":
        torch.cuda.memory._record_memory_history(stacks=stacks)
    seconds = []
    allocations_before = 0
    for step in range(warm_up + steps):
        if step == warm_up:
            torch.cuda.synchronize()
            allocations_before = torch.cuda.memory_stats().get("allocation.all.allocated", 0)
        begin = time.perf_counter()
        train_step(model, optimizer, inputs, targets)
        if step >= warm_up:
            seconds.append(time.perf_counter() - begin)
    allocations = torch.cuda.memory_stats().get("allocation.all.allocated", 0) - allocations_before
    print(json.dumps({"seconds": seconds, "allocations_per_step": allocations / steps}))


if __name__ == "__main__":
    main()
