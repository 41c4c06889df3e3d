"""An ordinary PyTorch training with two memory leaks of the kind that people really write.

    python leaky_training.py [STEPS]        60 steps unless told

A small classifier learns from made-up data. Each step trains on one batch and looks at one batch of other data, to see
whether what is learnt holds there. Parameters and optimizer state live for the whole run, activations for one step,
and gradients are made anew in each: all of that is as it should be.

The two mistakes are marked LEAK. Nothing crashes, the printed losses look right, and on a large model memory runs out
hours later, in a line that has nothing to do with it. Run it under cuheap (add --simulate where there is no GPU), and
the report names both, with the bytes they add in every step:

    cuheap run -o demo.json -- python leaky_training.py
    cuheap report demo.json
"""

import sys

import torch
from torch import nn

BATCH = 256
FEATURES = 512
HIDDEN = 2048
CLASSES = 10


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(FEATURES, HIDDEN)
        self.second = nn.Linear(HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, CLASSES)
        self.history = []  # activations of the second layer, for a plot of how many units are dead

    def forward(self, inputs):
        hidden = torch.relu(self.first(inputs))
        features = torch.relu(self.second(hidden))
        if self.training:
            # LEAK 2: the list keeps the tensor of every step on the device. The number that the plot needs is enough:
            # self.history.append((features == 0).float().mean().item()). The report names the line above that makes the
            # tensor, and this one as what probably holds it.
            self.history.append(features)
        return self.head(features)


def make_batch(device):
    """Random numbers in place of a data loader: on the host first, as a loader gives them."""
    inputs, targets = torch.randn(BATCH, FEATURES), torch.randint(0, CLASSES, (BATCH,))
    return inputs.to(device), targets.to(device)


def train(steps, device):
    model = Classifier().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    validation_loss = 0.0

    for step in range(1, steps + 1):
        model.train()
        inputs, targets = make_batch(device)
        loss = criterion(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        model.eval()
        inputs, targets = make_batch(device)
        # LEAK 1: the sum is a tensor with a grad_fn, and through it the whole graph of every validation stays: all
        # activations that a backward pass would need, though none will come. The remedy is `with torch.no_grad():`
        # around the validation, or .item() at the end of this line.
        validation_loss += criterion(model(inputs), targets)

        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}, validation {validation_loss.item() / step:.4f}")

    return model


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    if not torch.cuda.is_available():
        sys.exit("leaky_training.py needs a GPU, or the simulated one: cuheap run --simulate -- python leaky_training.py")
    torch.manual_seed(0)
    model = train(steps, torch.device("cuda"))
    print(f"trained {steps} steps, {len(model.history)} activations in the history")


if __name__ == "__main__":
    main()
