"""Writes PyTorch trainings whose leaks are known, as Python source.

A program has a model, an optimizer and a loop with what real ones have (accumulation, autocast, schedulers, clipping,
validation, checkpoints), and one leak of some kind in some place, or none. generate(seed, leaking) returns the source
and what a report must say: the lines that carry a mark "@main" (the first finding) or "@other" (further findings), the
cause, and how many steps lie between two additions; whatever else comes and goes does so within WINDOW steps. How much is added the program tells itself, from PyTorch's own
count of allocated bytes at the end of each step.
"""

import dataclasses
import random
import re
import textwrap

WINDOW = 12  # steps

MODELS = {
    "mlp": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(64, {hidden})
                self.middle = nn.Linear({hidden}, {hidden})
                self.head = nn.Linear({hidden}, 8)

            def forward(self, x):
                first = torch.relu(self.inner(x))
                hidden = torch.relu(self.middle(first))  #feature#
                #in_forward#
                return self.head(hidden)  #output#


        def make_batch():
            return torch.randn({batch}, 64, device="cuda"), torch.randint(0, 8, ({batch},), device="cuda")  #data#
    """,
    "deep": """
        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.norm = nn.LayerNorm(width)
                self.inner = nn.Linear(width, width)

            def forward(self, x):
                return x + F.gelu(self.inner(self.norm(x)))


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.middle = nn.Linear(64, {hidden})
                self.blocks = nn.ModuleList(Block({hidden}) for _ in range(3))
                self.drop = nn.Dropout(0.1)
                self.head = nn.Linear({hidden}, 8)

            def forward(self, x):
                hidden = self.middle(x)  #feature#
                #in_forward#
                for block in self.blocks:
                    hidden = self.drop(block(hidden))
                return self.head(hidden)  #output#


        def make_batch():
            x = torch.randn({batch}, 64)
            y = torch.randint(0, 8, ({batch},))
            return x.to("cuda"), y.to("cuda")  #data#
    """,
    "conv": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.middle = nn.Conv2d(3, 16, 3, padding=1)
                self.norm = nn.BatchNorm2d(16)
                self.head = nn.Linear(16, 8)

            def forward(self, x):
                hidden = self.middle(x)  #feature#
                #in_forward#
                maps = F.relu(self.norm(hidden))
                return self.head(maps.mean(dim=(2, 3)))  #output#


        def make_batch():
            x = torch.randn({batch}, 3, 12, 12, device="cuda")  #data#
            y = torch.randint(0, 8, ({batch},), device="cuda")
            return x, y
    """,
    "transformer": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(100, 64)
                self.encoder = nn.TransformerEncoderLayer(64, 4, {hidden}, batch_first=True)
                self.middle = nn.Linear(64, {hidden})
                self.head = nn.Linear({hidden}, 8)

            def forward(self, tokens):
                states = self.encoder(self.embed(tokens))
                hidden = self.middle(states)  #feature#
                #in_forward#
                return self.head(torch.tanh(hidden).mean(dim=1))  #output#


        def make_batch():
            return torch.randint(0, 100, ({batch}, 12), device="cuda"), torch.randint(0, 8, ({batch},), device="cuda")  #data#
    """,
    "rnn": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.middle = nn.GRUCell(32, {hidden})
                self.head = nn.Linear({hidden}, 8)

            def forward(self, x):
                hidden = None
                for moment in range(x.shape[1]):
                    hidden = self.middle(x[:, moment], hidden)  #feature#
                #in_forward#
                return self.head(hidden)  #output#


        def make_batch():
            x = torch.randn({batch}, 6, 32, device="cuda")  #data#
            return x, torch.randint(0, 8, ({batch},), device="cuda")
    """,
}

OPTIMIZERS = [
    "torch.optim.AdamW(model.parameters(), lr=1e-3)",
    "torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)",
    "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)",
    "torch.optim.SGD(model.parameters(), lr=0.1)",
    "torch.optim.RMSprop(model.parameters(), lr=1e-3)",
    "torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)",
]


@dataclasses.dataclass
class Leak:
    """Pieces of source by the place they go to, and what a report must say of it."""

    cause: str
    pieces: dict[str, str] = dataclasses.field(default_factory=dict)
    main: str = ""  # the tag of the line the first finding must name; empty: a line marked @main in the pieces
    others: tuple[str, ...] = ()
    period: int = 1
    needs: str = ""  # a kind of loop: "no accumulation"


def _history(_):
    return Leak("tensor", {"globals": "HISTORY = []", "in_forward": "HISTORY.append(hidden)"}, main="feature")


def _history_in_training(_):
    return Leak("tensor", {"set_up": "model.history = []",
                           "in_forward": "if self.training:\n    self.history.append(hidden.detach())"}, main="feature")


def _hook(_):
    return Leak("tensor", {"globals": "FEATURES = []", "set_up": """
        def keep_output(module, inputs, output):
            FEATURES.append(output)

        model.middle.register_forward_hook(keep_output)
    """}, main="feature")


def _losses(_):
    return Leak("scalar", {"set_up": "losses = []", "after_loss": "losses.append(loss)"}, main="loss")


def _validation_sum(rng):
    period = rng.choice([1, 1, 4])
    guard = "" if period == 1 else f"if step % {period} == {period - 1}:\n    "
    return Leak("graph", {"set_up": "validation_loss = 0.0\nheld_out = make_batch()", "after_step":
                          guard + "validation_loss += criterion(model(held_out[0]), held_out[1])  #@main#"}, period=period)


def _validation_function(_):
    return Leak("graph", {"functions": """
        def validate(model, criterion, totals):
            x, y = make_batch()
            prediction = model(x)  #@main#
            totals["loss"] = totals["loss"] + criterion(prediction, y)
    """, "set_up": "totals = {'loss': 0.0}", "after_step": "validate(model, criterion, totals)"})


def _validation_class(_):
    return Leak("graph", {"functions": """
        class Validation:
            def __init__(self, model):
                self.model = model
                self.losses = []

            def __call__(self):
                x, y = make_batch()
                self.losses.append(F.cross_entropy(self.model(x), y))  #@main#
    """, "set_up": "validation = Validation(model)", "after_step": "validation()"})


def _outputs_with_graph(_):
    return Leak("graph", {"set_up": "predictions = []", "after_step":
                          "samples, _ = make_batch()\npredictions.append(model(samples))  #@main#"})


def _outputs_for_metrics(rng):
    period = rng.choice([2, 3])
    return Leak("tensor", {"set_up": "predictions = []", "after_step": f"""
        if step % {period} == {period - 1}:
            with torch.no_grad():
                samples, _ = make_batch()
                predictions.append(model(samples))
    """}, main="output", period=period)


def _closure(_):
    return Leak("tensor", {"set_up": "reports = []", "after_loss":
                           "reports.append(lambda kept=output: kept.float().mean().item())"}, main="output")


def _callback_class(_):
    return Leak("tensor", {"functions": """
        class Recorder:
            def __init__(self):
                self.seen = {}

            def on_step_end(self, step, output):
                self.seen[step] = F.softmax(output.detach(), dim=1)  #@main#
    """, "set_up": "recorder = Recorder()", "after_step": "recorder.on_step_end(step, output)"})


def _global_cache(_):
    return Leak("tensor", {"globals": "CACHE = {}", "after_step":
                           "CACHE[step, 'output'] = output.detach().double()  #@main#"})


def _batches(_):
    return Leak("tensor", {"set_up": "batches = []", "after_loss": "batches.append(x)"}, main="data")


def _gradient_copies(_):
    return Leak("tensor", {"set_up": "gradients = []", "before_step":
                           "gradients.append([p.grad.clone() for p in model.parameters()])  #@main#"})


def _gradients(_):
    return Leak("gradient", {"set_up": "gradients = []", "before_step":
                             "gradients.append([p.grad for p in model.parameters()])"}, needs="no accumulation")


def _optimizers(_):
    return Leak("optimizer_state", {"set_up": "old = []", "new_optimizer": "old.append(optimizer)"}, main="step")


def _traceback(rng):
    period = rng.choice([1, 3])
    return Leak("tensor", {"functions": """
        def check(model, x):
            score = model(x).detach().exp()  #@main#
            if score.shape[0] > 0:
                raise ValueError("scores are not finite")
    """, "set_up": "failures = []", "after_step": f"""
        if step % {period} == {period - 1}:
            try:
                check(model, held_out)
            except ValueError as error:
                failures.append(error)
    """, "set_up_2": "held_out, _ = make_batch()"}, period=period)


KINDS = [_history, _history_in_training, _hook, _losses, _validation_sum, _validation_function, _validation_class,
         _outputs_with_graph, _outputs_for_metrics, _closure, _callback_class, _global_cache, _batches, _gradient_copies,
         _gradients, _optimizers, _traceback]

# What a loop may do besides, and what leaks nothing.
EXTRAS = {
    "validation": {"functions": """
        @torch.no_grad()
        def evaluate(model, criterion):
            model.eval()
            outputs, total = [], 0.0
            for _ in range(3):
                x, y = make_batch()
                outputs.append(model(x))
                total += criterion(outputs[-1], y)
            model.train()
            return torch.cat(outputs).float().mean().item() + total.item()
    """, "after_step": "if step % 5 == 4:\n    evaluate(model, criterion)"},
    "scheduler": {"set_up": "scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)",
                  "after_step": "scheduler.step()"},
    "checkpoint": {"set_up": "checkpoint = {}", "after_step": """
        if step % 8 == 7:
            checkpoint = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    """},
    "running mean": {"set_up": "running = torch.zeros((), device='cuda')",
                     "after_step": "running = 0.9 * running + 0.1 * loss.detach()"},
    "log": {"after_step": "if step % 10 == 0:\n    print('loss', loss.item())"},
    "clip": {"before_step": "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"},
    "window": {"globals": "from collections import deque", "set_up": "recent = deque(maxlen=4)",
               "after_step": "recent.append(output.detach().clone())"},
    "average": {"set_up": "average = copy.deepcopy(model)", "globals": "import copy", "after_step": """
        with torch.no_grad():
            for mean, value in zip(average.parameters(), model.parameters()):
                mean.lerp_(value, 0.01)
    """},
    "epochs": {"set_up": "outputs = []", "after_step": """
        outputs.append(output.detach().float())
        if step % 4 == 3:
            torch.cat(outputs).mean().item()
            outputs.clear()
    """},
    "warm-up": {"set_up": """
        for _ in range(3):
            criterion(model(make_batch()[0]), make_batch()[1]).backward()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
    """},
}


def _lines(text):
    return textwrap.dedent(text).strip("\n").split("\n") if text.strip() else []


def _put(text, place, pieces):
    """Replaces the line "#place#" by the pieces, at its indentation."""
    result = []
    for line in text.split("\n"):
        if line.strip() != f"#{place}#":
            result.append(line)
            continue
        indent = line[:len(line) - len(line.lstrip())]
        for piece in pieces:
            result += [indent + one if one else "" for one in _lines(piece)]
    return "\n".join(result)


LOOP = """
model = Net().cuda()
criterion = nn.CrossEntropyLoss()
optimizer = {optimizer}
#set_up#
books = []
for step in range(STEPS):
    #new_optimizer#
    {accumulate}
    optimizer.step()  #step#
    optimizer.zero_grad()
    #after_step#
    books.append(torch.cuda.memory_allocated())
print("books", books)
"""

PASS = """
x, y = make_batch()
{autocast}output = model(x)
{autocast}loss = criterion(output, y)  #loss#
#after_loss#
loss.backward()
"""


def _loop(rng, optimizer, accumulation, autocast):
    passes = _lines(PASS)
    if autocast:
        passes = [line for line in passes]
        start = next(i for i, line in enumerate(passes) if line.startswith("{autocast}"))
        passes[start:start + 2] = ['with torch.autocast("cuda", dtype=torch.bfloat16):',
                                   *("    " + line.removeprefix("{autocast}") for line in passes[start:start + 2])]
    passes = [line.removeprefix("{autocast}") for line in passes]
    if accumulation > 1:
        passes = [f"for part in range({accumulation}):", *("    " + line for line in passes)]
    passes += ["#before_step#"]
    text = LOOP.replace("{optimizer}", optimizer)
    return "\n".join(part for line in text.split("\n")
                     for part in (["    " + one for one in passes] if line.strip() == "{accumulate}" else [line]))


@dataclasses.dataclass
class Expected:
    main: int = 0  # line of the first finding; 0: none (gradients have no line)
    others: list[int] = dataclasses.field(default_factory=list)
    cause: str = ""
    period: int = 1


def generate(seed, leaking):
    """Returns (source, Expected or None, description)."""
    rng = random.Random(f"{seed} {leaking}")
    leak = KINDS[seed % len(KINDS)](rng) if leaking else None
    model = rng.choice(list(MODELS)) if leaking else list(MODELS)[seed % len(MODELS)]
    optimizer = OPTIMIZERS[0] if leak and leak.cause == "optimizer_state" else rng.choice(OPTIMIZERS)
    accumulation = 1 if leak and leak.needs == "no accumulation" else rng.choice([1, 1, 1, 2, 4])
    autocast = rng.random() < 0.3
    extras = rng.sample(list(EXTRAS), rng.randrange(1, 4) if leaking else 6)
    steps = rng.randrange(24, 40)
    parts = ([leak.pieces] if leak else []) + [EXTRAS[name] for name in extras]

    def pieces(place):
        return [part[name] for part in parts for name in (place, f"{place}_2") if name in part]

    loop = _loop(rng, optimizer, accumulation, autocast)
    if leak and leak.cause == "optimizer_state":
        loop = loop.replace("    #new_optimizer#", f"    optimizer = {optimizer}\n    #new_optimizer#")
    in_main = rng.random() < 0.7
    if in_main:
        loop = "def main():\n" + "\n".join("    " + line if line else "" for line in _lines(loop)) + "\n\n\nmain()"
    text = "\n".join(["import torch", "import torch.nn.functional as F", "from torch import nn", "#globals#", "",
                      f"STEPS = {steps}", "torch.manual_seed(0)", "", "",
                      textwrap.dedent(MODELS[model]).strip("\n").format(hidden=rng.choice([64, 96, 128, 256]),
                                                                        batch=rng.choice([32, 48, 100, 128])),
                      "", "", "#functions#", "", "", loop.strip("\n"), ""])
    for place in ("globals", "functions", "in_forward", "set_up", "new_optimizer", "after_loss", "before_step",
                  "after_step"):
        text = _put(text, place, pieces(place))
    tags = {}
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        for tag in re.findall(r"#(@?\w+)#", line):
            tags.setdefault(tag, []).append(number)
    text = "\n".join(re.sub(r"\s*#@?\w+#", "", line) for line in lines)
    description = f"{model}, {optimizer.split('(')[0].split('.')[-1]}, {accumulation} passes, {', '.join(extras)}"
    if leak is None:
        return text, None, description
    main = tags[leak.main or "@main"][0] if leak.cause != "gradient" else 0
    others = [number for tag in leak.others for number in tags[tag]]
    kind = KINDS[seed % len(KINDS)].__name__.strip("_")
    return text, Expected(main, others, leak.cause, leak.period), f"{kind}: {description}"
