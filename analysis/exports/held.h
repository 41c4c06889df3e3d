// What was held at one moment, by stack: what flame graphs and profiles show.
//
// Note [Nothing twice]
// A framework's tensors lie in the segments of its cache. To tell every byte once, a device's memory is here: the
// program's blocks with their stacks, the tensors with theirs, and what the cache holds beyond its tensors as one entry
// without a stack. Where no tensors were reported, the cache's segments are told by the stacks that asked for them.
// What a peak held and the record does not tell any more is one entry too, so that the sums are those of the report.
#ifndef CUHEAP_ANALYSIS_EXPORTS_HELD_H_
#define CUHEAP_ANALYSIS_EXPORTS_HELD_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/exports/moment.h"
#include "analysis/reports/blocks.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

enum class HeldPart : std::uint8_t {
  kBlocks,     // with a stack
  kIdleCache,  // of a framework's cache, in no tensor
  kLost,       // held at the peak; which blocks, the record does not tell any more
};

struct HeldStack {
  HeldPart part = HeldPart::kBlocks;
  std::uint32_t stack = 0;
  AllocationKind kind = AllocationKind::kNone;
  std::uint64_t stream = 0;
  std::uint64_t bytes = 0, blocks = 0;
  std::uint64_t allocated_bytes = 0, allocations = 0;  // all that the record's events allocated here
};

// One device, or the host's memory that is pinned for CUDA.
struct Held {
  bool host = false;
  std::uint32_t device = 0;
  bool tensors = false;           // a framework reported what it hands out on this device
  std::int64_t time_ns = 0;       // of the moment; 0 for kLeaked
  std::uint64_t bytes = 0;        // of all stacks
  std::vector<HeldStack> stacks;  // by stack, kind and stream; the entries without a stack last
};
// "GPU 0", "GPU of unknown number" or "host memory".
std::string NameOf(const Held& held);
// How the entries without a stack are called in place of one.
std::string_view NameOf(HeldPart part);

// Devices first, by ordinal, then the host if it pinned memory. Devices that hold nothing then are there, too.
std::vector<Held> HeldAt(const Snapshot& snapshot, const Blocks& blocks, const Moment& moment);
// What a reader of such a file should know: it is empty, or tells less than was held. A sentence each.
void AddHeldNotes(const Snapshot& snapshot, const Blocks& blocks, const Moment& moment, const std::vector<Held>& places,
                  std::vector<std::string>& notes);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_HELD_H_
