#include "analysis/reports/torch_facts_text.h"

#include <cstdint>
#include <string>

#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::uint64_t CounterOf(const Snapshot& snapshot, const char* name) {
  const auto found = snapshot.counters.find(name);
  return found == snapshot.counters.end() ? 0 : found->second;
}

}  // namespace

void WriteTorchFacts(const Snapshot& snapshot, TextCanvas& canvas) {
  if (snapshot.recorder != "pytorch") return;
  std::uint64_t held = 0;
  for (const Device& device : snapshot.devices) held += device.tensor_live_bytes;
  const std::uint64_t requested = CounterOf(snapshot, "torch_requested_bytes");
  if (requested != 0 && requested < held) {
    canvas.Field("rounding", Grouped(requested) + " B were asked for, " + Grouped(held) + " B are in tensors: " +
                                 Human(held - requested) + " lost to PyTorch's rounding of each");
  }
  if (const std::uint64_t pending = CounterOf(snapshot, "torch_pending_bytes"); pending != 0)
    canvas.Field("pending", Human(pending) + " freed, but used by another stream until it gets there");
  const std::uint64_t pools = CounterOf(snapshot, "torch_private_pools");
  if (pools == 0) return;
  canvas.Field("private pools", Plural(pools, "pool") + " (captured graphs, MemPool) hold " +
                                    Human(CounterOf(snapshot, "torch_private_bytes")) + " in " +
                                    Plural(CounterOf(snapshot, "torch_private_segments"), "segment") + "; " +
                                    Human(CounterOf(snapshot, "torch_private_idle_bytes")) +
                                    " of it idle, for their own tensors only");
}

}  // namespace cuheap::analysis
