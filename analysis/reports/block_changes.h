// What blocks did to the memory in use, one change after the other, without a list of them all: allocations come in the
// order that the blocks lie in, and only the order of the frees is worked out. The recordings are long.
#ifndef CUHEAP_ANALYSIS_REPORTS_BLOCK_CHANGES_H_
#define CUHEAP_ANALYSIS_REPORTS_BLOCK_CHANGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "analysis/reports/blocks.h"

namespace cuheap::analysis {

inline const Block& BlockOf(const Block& block) { return block; }
inline const Block& BlockOf(const Block* block) { return *block; }

// When something happened: time, and position among what happened at that time.
using ChangeTime = std::pair<std::int64_t, std::uint64_t>;
inline ChangeTime AllocationTime(const Block& block) { return {block.allocated_ns, block.allocated_at}; }
inline ChangeTime FreeTime(const Block& block) { return {block.freed_ns, block.freed_at}; }

// Calls visit(block, is_allocation) for each change of the blocks for which counts(block) holds. `blocks`: of Block or
// const Block*, in order of allocation as in Blocks, at most 2^32. A block is allocated before it is freed even if both
// carry one time.
template <typename Range, typename Counts, typename Visit>
void ForEachChange(const Range& blocks, Counts counts, Visit visit) {
  std::vector<std::uint64_t> frees;  // position, then number of the block
  constexpr unsigned kNumberBits = 32;
  std::size_t count = 0;
  for (const auto& block : blocks) count += counts(BlockOf(block)) && BlockOf(block).freed_at != kNoPosition ? 1 : 0;
  frees.reserve(count);
  for (std::size_t number = 0; number < blocks.size(); ++number) {
    const Block& block = BlockOf(blocks[number]);
    if (counts(block) && block.freed_at != kNoPosition)
      frees.push_back(std::uint64_t{block.freed_at} << kNumberBits | number);
  }
  std::sort(frees.begin(), frees.end());
  auto free = frees.begin();
  const auto next_free = [&]() -> const Block& {
    return BlockOf(blocks[*free & ((std::uint64_t{1} << kNumberBits) - 1)]);
  };
  for (const auto& entry : blocks) {
    const Block& block = BlockOf(entry);
    if (!counts(block)) continue;
    for (; free != frees.end() && FreeTime(next_free()) < AllocationTime(block); ++free) visit(next_free(), false);
    visit(block, true);
  }
  for (; free != frees.end(); ++free) visit(next_free(), false);
}

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_BLOCK_CHANGES_H_
