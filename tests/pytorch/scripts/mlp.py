"""Trains a classifier of handwritten digits (random data): an MLP with AdamW."""

import torch
from torch import nn

BATCH = 256
STEPS = 5


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
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
