// What memory of each kind a program used: arrays, pinned memory, memory of others and so on, apart.
#ifndef CUHEAP_ANALYSIS_REPORTS_KINDS_H_
#define CUHEAP_ANALYSIS_REPORTS_KINDS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

struct KindUse {
  AllocationKind kind = AllocationKind::kNone;
  std::uint64_t blocks = 0;                       // that are known of: see Blocks::window_begin_ns
  std::uint64_t live_blocks = 0, live_bytes = 0;  // at the end
  std::uint64_t peak_bytes = 0;                   // most at once, of what is known
  std::uint64_t live_blocks_without_size = 0;     // nobody told how large they are: not in live_bytes
};

// Kinds of which there was a block, in the enum's order. Tensors and the pool's segments are told elsewhere.
std::vector<KindUse> CountKinds(const Blocks& blocks);

// What the kind is called in a sentence: "mipmapped arrays", "pinned host memory".
std::string_view KindPhrase(AllocationKind kind);

// cudaMalloc, cudaMallocAsync and pinned memory are in every program: nothing to tell apart if there is no other kind.
bool WorthTelling(const std::vector<KindUse>& kinds);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_KINDS_H_
