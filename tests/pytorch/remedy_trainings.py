"""Trainings that can be run as they are, or with one remedy applied: what a report promised is checked by doing it.

usage: remedy_trainings.py MODEL [OPTION ...]; see parse() for the options
"""

import argparse
import contextlib

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

STEPS = 4
CLASSES = 1000


class Block(nn.Module):
    """A layer of a transformer, normalised before."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.joined, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        joined = self.joined(self.first_norm(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = joined.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(nn.functional.gelu(self.up(self.second_norm(x))))


class Transformer(nn.Module):
    def __init__(self, width: int = 512, layers: int = 6, tokens: int = 128, vocabulary: int = 8000):
        super().__init__()
        self.tokens, self.vocabulary = tokens, vocabulary
        self.embedding = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.zeros(tokens, width))
        self.layers = nn.ModuleList(Block(width, 8) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)
        self.checkpointed = False

    def forward(self, ids):
        x = self.embedding(ids) + self.position
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointed else layer(x)
        return self.head(self.norm(x))

    def batch(self, size: int):
        shape = (size, self.tokens)
        return (torch.randint(0, self.vocabulary, shape, device="cuda"),
                torch.randint(0, self.vocabulary, shape, device="cuda"))


class Encoder(nn.Module):
    """PyTorch's own encoder layers, normalised behind."""

    def __init__(self, width: int = 384, layers: int = 4, tokens: int = 196):
        super().__init__()
        self.tokens, self.width = tokens, width
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 6, 4 * width, dropout=0.1, batch_first=True) for _ in range(layers))
        self.head = nn.Linear(width, CLASSES)
        self.checkpointed = False

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointed else layer(x)
        return self.head(x.mean(dim=1))

    def batch(self, size: int):
        return (torch.randn(size, self.tokens, self.width, device="cuda"),
                torch.randint(0, CLASSES, (size,), device="cuda"))


class Residual(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm, self.second_norm = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        y = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(x + self.second_norm(self.second(y)))


class Cnn(nn.Module):
    def __init__(self, channels: int = 64):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 7, stride=2, padding=3)
        self.blocks = nn.Sequential(*(Residual(channels) for _ in range(6)))
        self.head = nn.Linear(channels * 49, CLASSES)
        self.checkpointed = False

    def forward(self, x):
        x = torch.relu(self.stem(x))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(nn.functional.adaptive_avg_pool2d(x, 7).flatten(1))

    def batch(self, size: int):
        return torch.randn(size, 3, 112, 112, device="cuda"), torch.randint(0, CLASSES, (size,), device="cuda")


class Mlp(nn.Module):
    def __init__(self, width: int = 2048, layers: int = 6):
        super().__init__()
        self.width = width
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(layers)))
        self.head = nn.Linear(width, CLASSES)
        self.checkpointed = False

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointed else layer(x)
        return self.head(x)

    def batch(self, size: int):
        return torch.randn(size, self.width, device="cuda"), torch.randint(0, CLASSES, (size,), device="cuda")


MODELS = {"transformer": Transformer, "encoder": Encoder, "cnn": Cnn, "mlp": Mlp}


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=1, help="split the batch")
    parser.add_argument("--optimizer", default="adamw", choices=("adamw", "adamw_loop", "adamw_fused", "sgd", "momentum"))
    parser.add_argument("--zero", default="before", choices=("before", "between", "keep"),
                        help="gradients are dropped before the forward pass, behind it, or never")
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--offload", action="store_true", help="what is saved for the backward pass goes to the host")
    parser.add_argument("--autocast", action="store_true")
    parser.add_argument("--evaluate", type=int, default=0, help="batch of an evaluation each step; 0: none")
    parser.add_argument("--no-grad", action="store_true", help="for the evaluation")
    parser.add_argument("--keep-losses", choices=("tensors", "numbers"), help="of the evaluation, in a list")
    parser.add_argument("--delete", action="store_true", help="batch and output are deleted behind the backward pass")
    return parser.parse_args()


def make_optimizer(name: str, parameters):
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=0.1)
    if name == "momentum":
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    if name == "adamw_fused":
        return torch.optim.AdamW(parameters, lr=1e-3, fused=True)
    return torch.optim.AdamW(parameters, lr=1e-3, foreach=name != "adamw_loop")


class Training:
    def __init__(self, options):
        self.options = options
        self.model = MODELS[options.model]().cuda()
        self.model.checkpointed = options.checkpoint
        self.optimizer = make_optimizer(options.optimizer, self.model.parameters())
        self.criterion = nn.CrossEntropyLoss()
        self.losses = []

    def loss_of(self, outputs, targets):
        return self.criterion(outputs.flatten(0, -2), targets.flatten())

    def precision(self):
        return torch.autocast("cuda", dtype=torch.bfloat16) if self.options.autocast else contextlib.nullcontext()

    def place_of_saved(self):
        return torch.autograd.graph.save_on_cpu(pin_memory=True) if self.options.offload else contextlib.nullcontext()

    def train(self):
        for _ in range(STEPS):
            inputs, targets = self.model.batch(self.options.batch // self.options.accumulate)
            for _ in range(self.options.accumulate - 1):
                self.add_gradients(inputs, targets)
                inputs, targets = self.model.batch(self.options.batch // self.options.accumulate)
            if self.options.zero == "before" and self.options.accumulate == 1:
                self.optimizer.zero_grad()
            with self.precision(), self.place_of_saved():
                outputs = self.model(inputs)
                loss = self.loss_of(outputs, targets)
            if self.options.zero != "before":
                self.optimizer.zero_grad(set_to_none=self.options.zero != "keep")
            loss.backward()
            if self.options.delete:
                del inputs, targets, outputs, loss
            self.optimizer.step()
            if self.options.accumulate != 1:
                self.optimizer.zero_grad()
            if self.options.evaluate:
                self.evaluate()
            torch.cuda.synchronize()

    def add_gradients(self, inputs, targets):
        with self.precision():
            loss = self.loss_of(self.model(inputs), targets)
        loss.backward()

    def evaluate(self):
        with torch.no_grad() if self.options.no_grad else contextlib.nullcontext():
            inputs, targets = self.model.batch(self.options.evaluate)
            loss = self.loss_of(self.model(inputs), targets)
        if self.options.keep_losses:
            self.losses.append(loss if self.options.keep_losses == "tensors" else loss.item())


def main():
    training = Training(parse())
    training.train()
    print(f"peak {torch.cuda.max_memory_allocated()} reserved {torch.cuda.max_memory_reserved()}")


if __name__ == "__main__":
    main()
