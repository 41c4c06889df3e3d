"""PyTorch programs whose own books are written down while they run, for tensors_test.py.

usage: cache_scenarios.py SCENARIO BOOKS.json

At moments of its choosing each calls cuheap_step(N) (if cuheap is there) and keeps torch.cuda.memory_snapshot() and
memory_stats() of that very moment under N.
"""

import ctypes
import json
import os
import signal
import sys
import threading

import torch
from torch import nn

MIB = 1 << 20


class Books:
    def __init__(self):
        self.moments = []
        self.errors = []
        program = ctypes.CDLL(None)
        self._mark = getattr(program, "cuheap_step", None)

    def write_down(self):
        torch.cuda.synchronize()
        devices = range(torch.cuda.device_count())
        moment = {"number": len(self.moments) + 1, "segments": torch.cuda.memory_snapshot(),
                  "stats": {device: torch.cuda.memory_stats(device) for device in devices}}
        if self._mark is not None:
            self._mark(ctypes.c_uint64(moment["number"]))
        self.moments.append(moment)

    def refused(self, error, asked, device=0):
        self.errors.append({"text": str(error), "asked": asked, "allocated": torch.cuda.memory_allocated(device),
                            "reserved": torch.cuda.memory_reserved(device), "device": device})


def train(books, steps=4, device="cuda:0"):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.GELU(), nn.Linear(512, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        # Sizes that vary leave holes.
        inputs = torch.randn(64 + 96 * step, 256, device=device)
        loss = model(inputs).square().mean()
        if step == 2:
            books.write_down()  # in the middle, with the graph alive
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    books.write_down()
    return model, optimizer


def training(books):
    model, optimizer = train(books)
    del model
    books.write_down()
    del optimizer
    torch.cuda.empty_cache()
    books.write_down()


def two_devices(books):
    kept = [train(books, device=f"cuda:{device}") for device in range(torch.cuda.device_count())]
    books.write_down()
    del kept[0]
    books.write_down()


def threads(books):
    """Tensors go from thread to thread: freed where they were not made."""
    shelves = [[] for _ in range(4)]
    barrier = threading.Barrier(4)

    def work(me):
        for turn in range(60):
            shelves[(me + turn) % 4].append(torch.empty(1000 * (1 + (me * 7 + turn) % 40), device="cuda"))
            barrier.wait()
            if turn % 3 == 2:
                shelves[me].clear()
            barrier.wait()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    books.write_down()


def out_of_memory(books):
    kept = [torch.empty(5 * MIB, dtype=torch.uint8, device="cuda") for _ in range(40)]
    del kept[::2]
    for asked in (1 << 45, 3 << 44):
        try:
            torch.empty(asked, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            books.refused(error, asked)
        books.write_down()


def capped(books):
    """The driver has plenty: a limit of PyTorch's own refuses."""
    torch.cuda.set_per_process_memory_fraction(0.001)
    kept = torch.empty(20 * MIB, dtype=torch.uint8, device="cuda")
    asked = 200 * MIB
    try:
        torch.empty(asked, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        books.refused(error, asked)
    books.write_down()
    del kept


def mem_pool(books):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = [torch.empty(3 * MIB, dtype=torch.uint8, device="cuda") for _ in range(5)]
    outside = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    books.write_down()
    del inside[1:3], outside
    books.write_down()


def streams(books):
    """A block that another stream still uses is kept aside until that is over; the moments are after it."""
    other = torch.cuda.Stream()
    for _ in range(10):
        tensor = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
        with torch.cuda.stream(other):
            tensor.add_(1)
        tensor.record_stream(other)
        del tensor
        torch.cuda.synchronize()
        torch.empty(512, device="cuda")  # PyTorch looks at its events when it allocates
    books.write_down()


def forked(books):
    kept = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    child = os.fork()
    if child == 0:
        del kept  # PyTorch frees and reports it here too: it must not reach the parent's journal
        os._exit(0)
    _, status = os.waitpid(child, 0)
    books.errors.append({"child": status})
    books.write_down()


def tensors_alive_at_exit(books):
    globals()["kept"] = torch.empty(7 * MIB, dtype=torch.uint8, device="cuda")
    books.write_down()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump({"moments": books.moments, "errors": books.errors}, file)
    os._exit(0)


def profiled(books):
    """PyTorch's own memory profiler goes on working: it gets the same reports."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    told = [event.self_device_memory_usage for event in profiler.events() if event.self_device_memory_usage]
    books.errors.append({"told": told})
    books.write_down()
    del kept


def killed(books):
    kept = [torch.empty(number * MIB, dtype=torch.uint8, device="cuda") for number in range(1, 8)]
    del kept[3]
    books.write_down()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump({"moments": books.moments, "errors": books.errors}, file)
    os.kill(os.getpid(), signal.SIGKILL)


def cache_off(books):
    kept = [torch.empty(3 * MIB + 512 * number, dtype=torch.uint8, device="cuda") for number in range(40)]
    torch.cuda.synchronize()
    del kept[::2]


def main():
    books = Books()
    globals()[sys.argv[1]](books)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump({"moments": books.moments, "errors": books.errors}, file)


if __name__ == "__main__":
    main()
