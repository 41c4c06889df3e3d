// What our pool did with the memory it holds from the driver: utilisation, idle memory, and why it is idle.
#ifndef CUHEAP_ANALYSIS_REPORTS_POOL_USE_H_
#define CUHEAP_ANALYSIS_REPORTS_POOL_USE_H_

#include <cstdint>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

struct SegmentUse {
  std::uint64_t address = 0, bytes = 0;
  std::uint64_t used_bytes = 0;    // occupied by the program's blocks, rounding included
  std::uint64_t largest_idle = 0;  // longest range without a block; it may be quarantined
  std::uint64_t blocks = 0;
  std::uint64_t reaching = 0;      // of these: begin in the segment before, as stream-ordered blocks may
};

// One device. At the end of the run unless it says peak.
struct PoolUse {
  std::uint32_t device = 0;
  std::uint64_t reserved_bytes = 0;  // segments held from the driver
  std::uint64_t segments = 0;
  std::uint64_t requested_bytes = 0;  // live blocks, as requested
  std::uint64_t used_bytes = 0;       // live blocks, as they occupy segments
  std::uint64_t blocks = 0;
  // reserved_bytes = used_bytes + quarantined_bytes + idle_whole_bytes + idle_pinned_bytes. Where quarantined blocks
  // lie is not recorded: they are taken from idle_whole_bytes first. With a quarantine idle_whole_bytes is therefore
  // the least, idle_pinned_bytes, fragmentation() and the largest ranges are the most that it can be (idle_exact()
  // false).
  std::uint64_t quarantined_bytes = 0;  // freed, not yet proven unused
  std::uint64_t idle_whole_bytes = 0;   // segments without a live block: can go back to the driver
  std::uint64_t idle_pinned_bytes = 0;  // holes in segments that a live block keeps: fragmentation
  std::uint64_t largest_idle = 0;       // longest idle range in one segment
  std::uint64_t largest_hole = 0;       // the same beside live blocks
  std::uint64_t idle_bytes() const { return idle_whole_bytes + idle_pinned_bytes; }
  bool idle_exact() const { return quarantined_bytes == 0; }
  // The share of what is held that is idle beside live blocks: it serves only what fits into a hole, and cannot go back
  // to the driver. Whole idle segments are no fragmentation.
  double fragmentation() const;
  std::uint64_t rounding_bytes() const { return used_bytes - requested_bytes; }
  // Over the run.
  std::uint64_t peak_active_bytes = 0;    // most that served blocks held at once, as requested
  std::uint64_t peak_reserved_bytes = 0;  // most that the pool held from the driver
  double utilisation = 0;                 // peak_active_bytes / peak_reserved_bytes
  bool peak_active_exact = true;          // false: events were lost, peak_active_bytes is what the kept ones show
  std::vector<SegmentUse> map;            // by address
};

// One entry for every device whose memory the pool held or served at any time; by ordinal. Empty under --observe.
std::vector<PoolUse> MeasurePools(const Snapshot& snapshot, const Blocks& blocks);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_POOL_USE_H_
