"""Runs a training script as `python SCRIPT` would, and writes down the books of PyTorch's caching allocator: after the
last step of an optimizer, while all is still in use, and at the end. The script needs no change for that.

usage: with_books.py BOOKS.json SCRIPT
"""

import json
import runpy
import sys
import time

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


def read_books() -> dict:
    # Neither call allocates on the device.
    return {"realtime_ns": time.time_ns(), "stats": torch.cuda.memory_stats(), "segments": torch.cuda.memory_snapshot()}


def main() -> None:
    books_path, script = sys.argv[1:]
    books = {}

    def after_step(*_arguments: object) -> None:
        books["last_step"] = read_books()

    register_optimizer_step_post_hook(after_step)
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")
    books["end"] = read_books()
    with open(books_path, "w", encoding="utf-8") as file:
        json.dump(books, file)


if __name__ == "__main__":
    main()
