// Which block an event of a snapshot allocated or freed.
#ifndef CUHEAP_ANALYSIS_EXPORTS_BLOCK_TIMELINE_H_
#define CUHEAP_ANALYSIS_EXPORTS_BLOCK_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "analysis/reports/blocks.h"

namespace cuheap::analysis {

// The blocks must outlive it. They are numbered: the program's as in Blocks::program, then our pool's segments.
class BlockTimeline {
 public:
  static constexpr std::uint32_t kNoBlock = std::numeric_limits<std::uint32_t>::max();

  BlockTimeline(const Blocks& blocks, std::size_t events) : blocks_(blocks), at_(events, kNoBlock) {
    for (std::uint32_t number = 0; number < size(); ++number) {
      const Block& block = this->block(number);
      if (block.allocated_at != 0 && block.allocated_at <= events) at_[block.allocated_at - 1] = number;
      if (block.freed_at != 0 && block.freed_at <= events) at_[block.freed_at - 1] = number;
    }
  }

  // Number of the block that event `index` allocated or freed; kNoBlock: it did neither.
  std::uint32_t At(std::size_t index) const { return at_[index]; }
  // Whether event `index`, one of block `number`'s, is its allocation.
  bool IsAllocation(std::uint32_t number, std::size_t index) const { return block(number).allocated_at == index + 1; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(blocks_.program.size() + blocks_.segments.size()); }
  const Block& block(std::uint32_t number) const {
    return number < blocks_.program.size() ? blocks_.program[number]
                                           : blocks_.segments[number - blocks_.program.size()];
  }

 private:
  const Blocks& blocks_;
  std::vector<std::uint32_t> at_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_BLOCK_TIMELINE_H_
