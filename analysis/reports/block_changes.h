// What blocks did to the memory in use, one change after the other, without a list of them all: allocations come in the
// order that the blocks lie in, and only the order of the frees is worked out. The recordings are long.
#ifndef CUHEAP_ANALYSIS_REPORTS_BLOCK_CHANGES_H_
#define CUHEAP_ANALYSIS_REPORTS_BLOCK_CHANGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
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

// The numbers of those blocks for which counts(block) holds and that were freed, in the order of their frees. An event
// frees one block, so that a place for each event sorts them; blocks that are made up otherwise are sorted by comparing.
template <typename Range, typename Counts>
std::vector<std::uint32_t> FreesInOrder(const Range& blocks, Counts counts) {
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  const auto freed = [&](const Block& block) { return block.freed_at != kNoPosition && counts(block); };
  std::size_t count = 0;
  std::uint64_t last = 0;
  for (const auto& entry : blocks) {
    const Block& block = BlockOf(entry);
    if (!freed(block)) continue;
    ++count;
    last = std::max<std::uint64_t>(last, block.freed_at);
  }
  constexpr std::uint64_t kMostPlacesEach = 8;  // more are cheaper to sort
  std::vector<std::uint32_t> order;
  bool placed = last < kMostPlacesEach * count;
  if (placed) order.assign(last + 1, kNone);
  for (std::size_t number = 0; placed && number < blocks.size(); ++number) {
    const Block& block = BlockOf(blocks[number]);
    if (!freed(block)) continue;
    placed = order[block.freed_at] == kNone;
    order[block.freed_at] = static_cast<std::uint32_t>(number);
  }
  if (placed) {
    std::erase(order, kNone);
    return order;
  }
  order.clear();
  for (std::size_t number = 0; number < blocks.size(); ++number) {
    if (freed(BlockOf(blocks[number]))) order.push_back(static_cast<std::uint32_t>(number));
  }
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(std::uint64_t{BlockOf(blocks[a]).freed_at}, a) < std::pair(std::uint64_t{BlockOf(blocks[b]).freed_at}, b);
  });
  return order;
}

// Calls visit(block, is_allocation) for each change of the blocks for which counts(block) holds. `blocks`: of Block or
// const Block*, in order of allocation as in Blocks, fewer than 2^32. A block is allocated before it is freed even if both
// carry one time.
template <typename Range, typename Counts, typename Visit>
void ForEachChange(const Range& blocks, Counts counts, Visit visit) {
  const std::vector<std::uint32_t> frees = FreesInOrder(blocks, counts);
  auto free = frees.begin();
  const auto next_free = [&]() -> const Block& { return BlockOf(blocks[*free]); };
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
