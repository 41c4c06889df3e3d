"""The program of two recordings that were made on a real GPU (README.md): a decoder with rotary positions and gated
feed-forward layers in plain operations, trained by an AdamW in plain operations, or run forward only. One step is
traced, after five that are not.

usage: decoder.py training|inference SNAPSHOT.pickle
"""

import math
import sys

import torch
from torch import nn

VOCABULARY = 10000
WIDTH = 1024
FEED_FORWARD = 4096
LAYERS = 24
HEADS = 16
BATCH = 4
WARM_UP = 5
CONTEXT = {"training": 128, "inference": 1024}


class Projection(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs))

    def forward(self, x):
        return torch.einsum("bsi,oi->bso", x, self.weight)


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(VOCABULARY, WIDTH))

    def forward(self, tokens):
        return self.weight[tokens, :]


class RootMeanSquareNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        inverse = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        x = x * inverse
        return self.weight * x


class Rotation(nn.Module):
    def __init__(self, context):
        super().__init__()
        half = WIDTH // HEADS // 2
        angles = torch.outer(torch.arange(context), 10000.0 ** -(torch.arange(half) / half))
        self.register_buffer("table", torch.stack((torch.cos(angles), torch.sin(angles))), persistent=False)

    def forward(self, x):
        even, odd = x.unflatten(-1, (-1, 2)).movedim(-1, 0).unbind(0)
        cosine, sine = self.table[:, :x.size(-2), :].unbind(0)
        first = cosine * even - sine * odd
        second = sine * even + cosine * odd
        result = torch.concat((first, second), dim=-1)
        return result


def softmax(x):
    shifted = x - torch.max(x, dim=-1, keepdim=True)[0]
    powers = torch.exp(shifted)
    return powers / torch.sum(powers, dim=-1, keepdim=True)


def log_softmax(x):
    largest = torch.max(x, dim=-1, keepdim=True)[0]
    x = x - largest
    return x - torch.log(torch.sum(torch.exp(x), dim=-1, keepdim=True))


def cross_entropy(logits, targets):
    logarithms = -log_softmax(logits)
    return torch.mean(torch.gather(logarithms, -1, targets.unsqueeze(-1)))


def attend(query, key, value, mask):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) / math.sqrt(key.shape[-1])
    scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores)
    return torch.einsum("bhqk,bhkd->bhqd", weights, value)


class Attention(nn.Module):
    def __init__(self, rotation):
        super().__init__()
        self.query, self.key, self.value, self.output = (Projection(WIDTH, WIDTH) for _ in range(4))
        self.rotation = rotation

    def forward(self, x):
        query = self.query(x)
        key = self.key(x)
        value = self.value(x)
        query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (query, key, value))
        query = self.rotation(query)
        key = self.rotation(key)
        places = torch.arange(x.size(1), device=x.device)
        mask = places.unsqueeze(1) >= places.unsqueeze(0)
        mixed = attend(query, key, value, mask[None])
        mixed = mixed.transpose(1, 2).flatten(2).contiguous()
        result = self.output(mixed)
        return result


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = Projection(WIDTH, FEED_FORWARD), Projection(WIDTH, FEED_FORWARD)
        self.down = Projection(FEED_FORWARD, WIDTH)

    @staticmethod
    def swish(x):
        return x * torch.sigmoid(x)

    def forward(self, x):
        return self.down(self.swish(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, rotation):
        super().__init__()
        self.attention, self.feed_forward = Attention(rotation), FeedForward()
        self.attention_norm, self.feed_forward_norm = RootMeanSquareNorm(), RootMeanSquareNorm()

    def forward(self, x):
        attended = self.attention(self.attention_norm(x))
        middle = x + attended
        fed = self.feed_forward(self.feed_forward_norm(middle))
        result = middle + fed
        return result


class Decoder(nn.Module):
    def __init__(self, context):
        super().__init__()
        rotation = Rotation(context)
        self.embedding = Embedding()
        self.blocks = nn.ModuleList(Block(rotation) for _ in range(LAYERS))
        self.norm = RootMeanSquareNorm()
        self.head = Projection(WIDTH, VOCABULARY)

    def forward(self, tokens):
        embedded = self.embedding(tokens)
        x = embedded
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        logits = self.head(x)
        return logits


class PlainAdamW(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-3, "decay": 0.01})

    def step(self):
        for group in self.param_groups:
            rate = group["lr"]
            for parameter in group["params"]:
                state = self.state[parameter]
                step = state.get("step", 1)
                gradient = parameter.grad.data
                parameter.data -= rate * group["decay"] * parameter.data
                first = state.get("first", torch.zeros_like(gradient))
                second = state.get("second", torch.zeros_like(gradient))
                new_first = 0.9 * first + (0.1 * gradient)
                new_second = 0.999 * second + (0.001 * torch.square(gradient))
                parameter.data -= rate * new_first / (torch.sqrt(new_second) + 1e-8)
                state["first"], state["second"], state["step"] = new_first, new_second, step + 1


def random_tokens(count, context):
    return torch.randint(0, VOCABULARY, (count, BATCH, context), device="cuda")


def record():
    torch.cuda.memory._record_memory_history(max_entries=1000000)  # pylint: disable=protected-access


def train(model, context):
    optimizer = PlainAdamW(model.parameters())
    warm_inputs, inputs = random_tokens(WARM_UP, context), random_tokens(1, context)
    warm_targets, targets = random_tokens(WARM_UP, context), random_tokens(1, context)
    for index in range(WARM_UP):
        output = model(warm_inputs[index])
        loss = cross_entropy(output, warm_targets[index])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    del output, loss
    record()
    output = model(inputs[0])
    loss = cross_entropy(output, targets[0])
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(sys.argv[2])  # pylint: disable=protected-access


def infer(model, context):
    warm_inputs, inputs = random_tokens(WARM_UP, context), random_tokens(1, context)
    with torch.inference_mode():
        for index in range(WARM_UP):
            model(warm_inputs[index])
        torch.cuda.synchronize()
        record()
        model(inputs[0])
        torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(sys.argv[2])  # pylint: disable=protected-access


def main():
    context = CONTEXT[sys.argv[1]]
    model = Decoder(context).to("cuda")
    (train if sys.argv[1] == "training" else infer)(model, context)


if __name__ == "__main__":
    main()
