// What lies where in the memory that a pool holds from the driver, ours or PyTorch's cache: segments and the blocks in
// them at one moment.
#ifndef CUHEAP_ANALYSIS_REPORTS_POOL_MAP_H_
#define CUHEAP_ANALYSIS_REPORTS_POOL_MAP_H_

#include <cstdint>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/framework_cache.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

struct MapBlock {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;      // what it occupies
  std::uint64_t requested = 0;  // of these
  std::uint32_t stack = 0;
  std::uint64_t until = kNoPosition;  // position at which it is freed, see blocks.h
};

// What a segment may be used for: a block that lies idle in a part serves no request of another part.
enum class SegmentPart : std::uint8_t {
  kAny,    // every request that fits
  kSmall,  // PyTorch: requests up to 1 MiB only
  kSlab,   // ours: requests of one size class only
};

struct MapSegment {
  std::uint64_t address = 0, bytes = 0;
  std::uint64_t stream = 0;  // PyTorch's: only requests for this stream; 0 also if that is not known
  SegmentPart part = SegmentPart::kAny;
  bool expandable = false;       // PyTorch's: mapped pieces
  std::uint64_t from = 0;        // position at which it was taken from the driver
  std::vector<MapBlock> blocks;  // by address, none over another
  std::uint64_t occupied() const;
  std::uint64_t requested() const;
  std::uint64_t largest_idle() const;
};

enum class MapOwner : std::uint8_t { kPool, kPyTorch };

struct PoolMap {
  MapOwner owner = MapOwner::kPool;
  std::uint32_t device = 0;
  std::uint64_t position = 0;        // after the first `position` events
  std::vector<MapSegment> segments;  // by address
};

// Note [Rounding of freed blocks]
// What a block occupies in our pool is known while it lives at the end of the record; of others only what was asked
// for. A gap behind such a block that is smaller than the block, and than 2 MiB, counts as its rounding (as for
// failures, see failures.h). PyTorch reports its tensors rounded to 512 bytes already: they have no rounding here.
PoolMap MapOfPool(const Blocks& blocks, std::uint32_t device, std::uint64_t position);
PoolMap MapOfCache(const CacheState& state, std::uint32_t device, std::uint64_t position);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_POOL_MAP_H_
