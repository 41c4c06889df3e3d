"""Loads a model five times and uses it each time. A cache of one entry lets go of the old model when the new one is there;
with the argument "first", before the new one is made.

usage: reloading.py last|first
"""

import functools
import sys

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(8))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            values = torch.relu(layer(values))
        return values


@functools.lru_cache(maxsize=1)
def load(number: int) -> Net:
    return Net().cuda()


def main() -> None:
    for number in range(5):
        if sys.argv[1] == "first":
            load.cache_clear()
        model = load(number)
        with torch.no_grad():
            for _ in range(3):
                model(torch.randn(64, 1024, device="cuda"))
        torch.cuda.synchronize()
        del model


main()
