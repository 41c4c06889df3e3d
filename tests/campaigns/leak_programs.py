"""Writes random CUDA programs whose leaks are known exactly, as C++ source for the runtime API.

A program has threads, each with its own steps, streams and allocation sites. A site is one line of the source and
behaves in one way: freed in the same step, in the next one, at the end, or never, in every step, every k-th step or
now and then. generate(seed, leaking) returns the source and, for each line, how many blocks and bytes are never freed.
"""

import dataclasses
import random

PROLOGUE = r"""
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define CHECK(call)                                                          \
  do {                                                                       \
    cudaError_t status = (call);                                             \
    if (status != cudaSuccess) {                                             \
      std::fprintf(stderr, "line %d: error %d\n", __LINE__, int(status));    \
      std::exit(3);                                                          \
    }                                                                        \
  } while (false)

static char host_data[4096];
"""


@dataclasses.dataclass
class Site:
    behaviour: str  # temporary, carried, persistent, leak
    sizes: list  # bytes asked for in the n-th use, repeating
    steps: list  # steps (0-based) in which it allocates
    line: int = 0
    blocks: int = 0
    bytes: int = 0


def _sizes(rng):
    low, high = rng.choice([(256, 4096), (4096, 65536), (65536, 1 << 20), (1 << 20, 6 << 20)])
    return [rng.randrange(low, high) for _ in range(rng.choice([1, 1, 2, 3]))]


def _leak_steps(rng, steps):
    kind = rng.choice(["every", "every", "period", "irregular"])
    if kind == "every":
        return list(range(steps))
    if kind == "period":
        period = rng.randrange(2, 8)
        return list(range(rng.randrange(period), steps, period))
    # Irregular, but going on until the end: what ended long ago is not growth.
    chosen = sorted(rng.sample(range(steps - 1), rng.randrange(3, 7)) + [steps - 1])
    return chosen


def _sites(rng, steps, leaking):
    sites = []
    for _ in range(rng.randrange(2, 6)):
        behaviour = rng.choice(["temporary", "temporary", "carried", "persistent"])
        where = [0] if behaviour == "persistent" else list(range(0, steps, rng.choice([1, 1, 1, 2, 3])))
        sites.append(Site(behaviour, _sizes(rng), where))
    for _ in range(rng.randrange(1, 4) if leaking else 0):
        sites.append(Site("leak", _sizes(rng), _leak_steps(rng, steps)))
    rng.shuffle(sites)
    return sites


class _Source:
    def __init__(self):
        self.lines = []

    def add(self, text):
        for line in text.split("\n"):
            self.lines.append(line)
        return len(self.lines)  # the number of the last line added


def _write_site(source, name, site, streams, rng):
    sizes = ", ".join(str(size) for size in site.sizes)
    steps = ", ".join(str(step) for step in site.steps)
    source.add(f"static void* {name}(int step, int& uses, cudaStream_t* streams) {{")
    source.add(f"  static const size_t sizes[] = {{{sizes}}};")
    source.add(f"  static const int when[] = {{{steps}}};")
    source.add("  if (uses >= int(sizeof(when) / sizeof(when[0])) || when[uses] != step) return nullptr;")
    source.add("  size_t bytes = sizes[uses++ % int(sizeof(sizes) / sizeof(sizes[0]))];")
    source.add("  void* block = nullptr;")
    site.line = source.add("  CHECK(cudaMalloc(&block, bytes));")
    stream = rng.randrange(streams)
    source.add(f"  CHECK(cudaMemsetAsync(block, step, bytes, streams[{stream}]));")
    if rng.random() < 0.5:
        source.add(f"  CHECK(cudaMemcpyAsync(block, host_data, 256, cudaMemcpyHostToDevice, streams[{stream}]));")
    source.add("  return block;")
    source.add("}\n")
    if site.behaviour == "leak":
        site.blocks = len(site.steps)
        site.bytes = sum(site.sizes[use % len(site.sizes)] for use in range(len(site.steps)))


def _write_thread(source, thread, sites, steps, streams):
    source.add(f"static void thread_{thread}() {{")
    source.add(f"  cudaStream_t streams[{streams}];")
    source.add("  for (cudaStream_t& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));")
    source.add(f"  int uses[{len(sites)}] = {{}};")
    source.add(f"  void* kept[{len(sites)}] = {{}};")
    source.add(f"  for (int step = 0; step < {steps}; ++step) {{")
    source.add("    std::vector<void*> temporary;")
    for index, site in enumerate(sites):
        call = f"site_{thread}_{index}(step, uses[{index}], streams)"
        if site.behaviour == "temporary":
            source.add(f"    if (void* block = {call}) temporary.push_back(block);")
        elif site.behaviour == "carried":
            source.add(f"    if (void* block = {call}) {{")
            source.add(f"      if (kept[{index}]) CHECK(cudaFree(kept[{index}]));")
            source.add(f"      kept[{index}] = block;")
            source.add("    }")
        elif site.behaviour == "persistent":
            source.add(f"    if (void* block = {call}) kept[{index}] = block;")
        else:
            source.add(f"    {call};")
    source.add("    for (void* block : temporary) CHECK(cudaFree(block));")
    source.add("    CHECK(cudaDeviceSynchronize());")
    source.add("  }")
    source.add("  for (void* block : kept) {")
    source.add("    if (block) CHECK(cudaFree(block));")
    source.add("  }")
    source.add("  for (cudaStream_t& stream : streams) CHECK(cudaStreamDestroy(stream));")
    source.add("}\n")


def generate(seed, leaking):
    """Returns (source text, {line: (blocks, bytes)} of what is never freed)."""
    rng = random.Random(f"{seed} {leaking}")
    source = _Source()
    source.add(PROLOGUE)
    threads = rng.choice([1, 1, 2, 3])
    everything = []
    for thread in range(threads):
        steps = rng.randrange(20, 60)
        streams = rng.randrange(1, 4)
        sites = _sites(rng, steps, leaking and (thread == 0 or rng.random() < 0.5))
        for index, site in enumerate(sites):
            _write_site(source, f"site_{thread}_{index}", site, streams, rng)
        _write_thread(source, thread, sites, steps, streams)
        everything += sites
    source.add("int main() {")
    source.add("  std::vector<std::thread> threads;")
    for thread in range(threads):
        source.add(f"  threads.emplace_back(thread_{thread});")
    source.add("  for (std::thread& thread : threads) thread.join();")
    source.add("  return 0;")
    source.add("}")
    expected = {site.line: (site.blocks, site.bytes) for site in everything if site.behaviour == "leak"}
    return "\n".join(source.lines) + "\n", expected
