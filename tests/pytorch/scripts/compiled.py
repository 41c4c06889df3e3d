"""Trains a small residual network of dense layers through torch.compile."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH = 128
WIDTH = 1024
STEPS = 4


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        gate, value = self.up(self.norm(x)).chunk(2, dim=-1)
        return x + F.dropout(self.down(F.silu(gate) * value), 0.1, self.training)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(*(Residual() for _ in range(3)), nn.Linear(WIDTH, 10)).cuda()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    for step in range(STEPS):
        inputs = torch.randn(BATCH, WIDTH, device="cuda")
        labels = torch.randint(0, 10, (BATCH,), device="cuda")
        loss = F.cross_entropy(compiled(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
