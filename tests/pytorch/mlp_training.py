"""An ordinary PyTorch training loop: an MLP, AdamW, 50 steps on random data.

usage: mlp_training.py [SNAPSHOT.json]

With a path, the segments of PyTorch's caching allocator are written there at the end, as torch.cuda.memory_snapshot()
gives them.
"""

import json
import sys

import torch
from torch import nn

BATCH = 256
STEPS = 50


def build_model():
    return nn.Sequential(
        nn.Linear(784, 2048),
        nn.ReLU(),
        nn.Linear(2048, 2048),
        nn.GELU(),
        nn.LayerNorm(2048),
        nn.Linear(2048, 512),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(512, 10),
    )


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = build_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_function = nn.CrossEntropyLoss()

    for step in range(STEPS):
        inputs = torch.randn(BATCH, 784, device=device)
        targets = torch.randint(0, 10, (BATCH,), device=device)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")

    torch.cuda.synchronize()
    print(f"allocated {torch.cuda.memory_allocated()} reserved {torch.cuda.memory_reserved()}")
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(torch.cuda.memory_snapshot(), file)


if __name__ == "__main__":
    main()
