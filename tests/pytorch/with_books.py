"""Runs a training script as `python SCRIPT` would, and writes down the books of PyTorch's caching allocator: after the
last step of an optimizer, while all is still in use, and at the end. The script needs no change for that.

usage: with_books.py BOOKS.json SCRIPT
"""

import json
import pathlib
import runpy
import sys
import time

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


def read_books() -> dict:
    # Neither call allocates on the device. Without PyTorch's own cache there is no snapshot of it.
    native = torch.cuda.get_allocator_backend() == "native"
    return {"stats": torch.cuda.memory_stats(), "segments": torch.cuda.memory_snapshot() if native else []}


def autograd_works() -> bool:
    """Whether one of autograd's threads is running or waits for a processor."""
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            text = (task / "stat").read_text(encoding="utf-8")
        except OSError:
            continue  # it has ended
        name, state = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2]
        if name.startswith("pt_autograd") and state != "S":
            return True
    return False


def let_autograd_finish() -> None:
    """Autograd's threads give back the last tensors after backward() has returned. One that wants the interpreter's lock
    for that while the interpreter ends is ended in the middle of a destructor, which aborts the process
    (pytorch/pytorch#38228; seen here on machines with every core taken)."""
    quiet = 0
    for _ in range(1000):
        time.sleep(0.005)  # gives the lock away
        quiet = 0 if autograd_works() else quiet + 1
        if quiet == 5:
            return


def main() -> None:
    books_path, script = sys.argv[1:]
    books = {}

    def after_step(*_arguments: object) -> None:
        books["last_step"] = read_books()

    register_optimizer_step_post_hook(after_step)
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")
    let_autograd_finish()
    books["end"] = read_books()
    with open(books_path, "w", encoding="utf-8") as file:
        json.dump(books, file)


if __name__ == "__main__":
    main()
