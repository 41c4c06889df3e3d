// How a snapshot's device memory is laid out in the terms of PyTorch's allocator: segments, and blocks in them.
//
// Segments are those of PyTorch's cache and of our pool; every other allocation is a segment with one block. Where a
// cache was seen but no tensors were reported, each of its segments is one block, too. Host memory has no place.
#ifndef CUHEAP_ANALYSIS_EXPORTS_TORCH_LAYOUT_H_
#define CUHEAP_ANALYSIS_EXPORTS_TORCH_LAYOUT_H_

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

enum class TorchRole : std::uint8_t {
  kLeftOut,
  kBlock,    // lies in a segment
  kSegment,  // holds blocks
  kBoth,     // a segment that is all one block
};

struct LaidBlock {
  std::uint64_t address = 0, bytes = 0, requested = 0;
  std::uint32_t stack = 0;
  bool active = false;
};

struct LaidSegment {
  std::uint32_t device = 0, stack = 0;
  std::uint64_t address = 0, bytes = 0, stream = 0;
  bool expandable = false;
  std::vector<LaidBlock> blocks;  // by address, without gaps
};

class TorchLayout {
 public:
  // Both must outlive it.
  TorchLayout(const Snapshot& snapshot, const Blocks& blocks);

  TorchRole RoleOf(const Block& block) const;
  // Where it can be reached: memory that is made first and mapped later has no address of its own.
  std::uint64_t AddressOf(const Block& block) const;
  // What is held at the end, by device and address.
  std::vector<LaidSegment> Segments() const;

 private:
  std::vector<LaidSegment> EmptySegments() const;

  const Blocks& blocks_;
  std::unordered_set<std::uint32_t> with_tensors_, with_pool_;       // devices
  std::unordered_map<std::uint64_t, std::uint64_t> mapped_address_;  // by id
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_TORCH_LAYOUT_H_
