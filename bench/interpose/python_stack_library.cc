// Called from Python by python_stack_bench.py: what it costs to take the calling thread's stack.
#include <algorithm>
#include <chrono>
#include <cstdint>

#include "interpose/recorder/recorder.h"
#include "interpose/stacks/loaded_objects.h"
#include "interpose/stacks/unwinder.h"

extern "C" {

__attribute__((visibility("default"))) int BenchStart(const char* directory) {
  cuheap::recorder::StartOptions options;
  options.directory = directory;
  return cuheap::recorder::Start(options) ? 1 : 0;
}

// Native frames of the caller, as a stack would hold them.
__attribute__((visibility("default"))) unsigned BenchNativeDepth() {
  std::uint64_t addresses[250];
  cuheap::stacks::LoadedObject self;
  cuheap::stacks::FindLoadedObject(reinterpret_cast<std::uint64_t>(&BenchNativeDepth), self);
  return cuheap::stacks::WalkStack(cuheap::stacks::CurrentRegisters(), self.begin, self.end, addresses, 250).depth;
}

// Nanoseconds of one CaptureStack, warm, the best of `rounds` rounds of `count`. python: Python frames too.
__attribute__((visibility("default"))) double BenchCapture(int python, unsigned count, unsigned rounds) {
  cuheap::recorder::StackOptions options;
  options.max_depth = 128;
  options.python = python != 0;
  cuheap::recorder::ConfigureStacks(options);
  double best = 1e18;
  std::uint64_t sum = 0;
  for (unsigned round = 0; round <= rounds; ++round) {  // the first one warms up
    const auto begin = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < count; ++i) sum += cuheap::recorder::CaptureStack().id;
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    if (round > 0) best = std::min(best, took.count() / count);
  }
  return sum == 0 ? -1 : best;
}

}  // extern "C"
