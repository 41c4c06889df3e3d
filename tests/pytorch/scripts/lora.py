"""Fine-tunes a small frozen transformer through low-rank adapters, with activation checkpointing and mixed precision."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

VOCABULARY = 16000
WIDTH = 512
HEADS = 8
LAYERS = 6
SEQUENCE = 256
BATCH = 4
STEPS = 3


class LowRank(nn.Module):
    """A frozen linear layer, plus a trainable product of two thin matrices."""

    def __init__(self, frozen, rank=8, alpha=16):
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Linear(frozen.in_features, rank, bias=False)
        self.up = nn.Linear(rank, frozen.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.scale = alpha / rank

    def forward(self, x):
        return self.frozen(x) + self.up(self.down(x)) * self.scale


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.query_key_value = LowRank(nn.Linear(WIDTH, 3 * WIDTH))
        self.project = LowRank(nn.Linear(WIDTH, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        query, key, value = (part.view(batch, length, HEADS, -1).transpose(1, 2)
                             for part in self.query_key_value(self.attention_norm(x)).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.feed_forward(self.norm(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def main():
    torch.manual_seed(0)
    model = Model().cuda()
    for name, parameter in model.named_parameters():
        parameter.requires_grad = ".down." in name or ".up." in name
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=2e-4)

    for step in range(STEPS):
        tokens = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE + 1)).cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")
    print("trainable", sum(parameter.numel() for parameter in trainable))


if __name__ == "__main__":
    main()
