// A framework's own cache as it was at any moment: what it holds from the driver (segments), what it handed out of that
// (tensors), and what lies idle between.
//
// Note [Joining tensors and segments]
// PyTorch reports the tensors (kind kTensor) with their addresses; its segments are what its allocator got from the
// driver: one cuMemAlloc each, or, with expandable segments, pieces of physical memory (cuMemCreate) that are mapped
// side by side into one range. Mapped pieces that touch are one segment, as in torch.cuda.memory_snapshot(). What no
// tensor covers is idle. PyTorch keeps a freed block aside while another stream may still use it ("active_awaiting_free");
// its reports do not tell that, so here such a block is idle already.
//
// Note [Small and large]
// PyTorch serves requests up to 1 MiB from segments of 2 MiB and larger ones from larger segments, never the other way
// round. (c10/cuda/CUDACachingAllocator.cpp: kSmallSize, kSmallBuffer.)
#ifndef CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_CACHE_H_
#define CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_CACHE_H_

#include <cstdint>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/lines.h"
#include "analysis/reports/oom_context.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

struct CacheBlock {
  std::uint64_t address = 0, bytes = 0;
  std::uint64_t tensor = 0;  // its id; 0: idle
  std::uint32_t stack = 0;
  std::uint64_t until = kNoPosition;  // position at which the tensor is freed
  bool idle() const { return tensor == 0; }
};

struct CacheSegment {
  std::uint64_t address = 0, bytes = 0;
  std::uint64_t used = 0, largest_idle = 0;
  bool expandable = false;         // mapped pieces
  bool small = false;              // see Note [Small and large]
  std::uint64_t stream = 0;        // for which it was made; 0 also if that is not known
  std::uint64_t from = 0;          // position at which it (of mapped pieces: the first of them) was held
  std::vector<CacheBlock> blocks;  // by address, without gaps
  std::uint64_t idle() const { return bytes - used; }
};

// Of one device at one moment.
struct CacheState {
  std::int64_t time_ns = 0;
  std::vector<CacheSegment> segments;         // by address
  std::uint64_t reserved = 0, used = 0;       // bytes of segments; of tensors in them
  std::uint64_t tensors = 0;                  // number
  std::uint64_t largest_idle = 0;             // the largest idle block
  std::uint64_t idle_whole = 0;               // in segments without a tensor: emptying the cache gives them back
  std::uint64_t idle_whole_segments = 0;      // number of those
  std::uint64_t outside = 0;                  // bytes of tensors in memory that is in no segment we saw
  std::uint64_t idle() const { return reserved - used; }
  std::uint64_t idle_pinned() const { return idle() - idle_whole; }  // beside tensors
  // Idle bytes that a request of this size cannot use: blocks that are smaller, or in segments of the other sort.
  std::uint64_t IdleUnusable(std::uint64_t request) const;
};

// The tensors of one line in a state.
struct CacheShare {
  std::uint32_t line = 0;  // index into the LineTable
  std::uint64_t tensors = 0, bytes = 0;
  std::uint64_t idle = 0;  // what they keep from being given back: idle bytes of the segments in which they lie;
                           // segments with tensors of many lines count for each
};

struct CachePoint {
  std::int64_t time_ns = 0;
  std::uint64_t tensors = 0, reserved = 0;  // bytes, each the most from this time to the next point's
};

// The framework told the program that memory ran out.
struct FrameworkRefusal {
  std::uint32_t device = 0, stack = 0;
  std::int64_t time_ns = 0;
  std::uint64_t position = 0;                             // of its event
  std::uint64_t request = 0;                              // bytes, rounded as the framework does
  std::uint64_t told_tensors = 0, told_reserved = 0;      // bytes, as the framework says
  std::uint64_t largest_idle = 0, idle = 0, unusable = 0;  // as seen then: idle bytes, and those too small for it
  std::uint64_t tensors = 0;                               // live then
  std::vector<CacheShare> lines;                           // whose they were, most bytes first, at most kMaxShares
  OomContext context;
};
inline constexpr std::size_t kMaxShares = 16;

// One framework's cache on one device over the run.
struct FrameworkCache {
  std::uint32_t device = 0;
  bool tensors_seen = false;  // if not, only what is held from the driver is known
  std::uint64_t allocations = 0, frees = 0;  // of tensors, in the window
  std::uint64_t tensor_peak_bytes = 0, reserved_peak_bytes = 0;
  std::int64_t tensor_peak_ns = 0, reserved_peak_ns = 0;
  std::uint64_t last_at = 0, reserved_peak_at = 0;  // positions: the last tensor; most was held for the first time
  bool peak_exact = true;  // at_peak holds all of the peak; else events were lost
  CacheState at_peak;      // of tensors
  CacheState at_last;      // when the last tensor was handed out: what the program worked with to the end
  CacheState at_end;
  std::vector<CacheShare> pins;  // at_last, most idle bytes first
  std::vector<CachePoint> curve;
  std::vector<FrameworkRefusal> refusals;  // by time, at most kMaxRefusals
  std::uint64_t refusal_count = 0;
};
inline constexpr std::size_t kMaxRefusals = 16;

// Positions are those of blocks.h: the state at position p is that after the first p events.
class FrameworkCaches {
 public:
  // Both must outlive this.
  FrameworkCaches(const Snapshot& snapshot, const Blocks& blocks);
  // Devices on which a framework's cache held memory or handed out tensors, or ran out of memory.
  const std::vector<std::uint32_t>& devices() const { return devices_; }
  CacheState At(std::uint32_t device, std::uint64_t position) const;
  FrameworkCache Describe(std::uint32_t device, const LineTable& lines) const;

 private:
  // Memory that the cache held from the driver for a while.
  struct Range {
    std::uint64_t address = 0, bytes = 0;
    std::uint32_t device = 0;
    bool mapped = false;
    std::uint64_t stream = 0;
    std::uint64_t from = 0, until = kNoPosition;  // positions
    std::int64_t from_ns = kBeforeWindow, until_ns = kNotFreed;
    bool HeldAt(std::uint64_t position) const { return from <= position && until > position; }
  };
  struct Change;

  void AddMappings();
  std::vector<Change> ChangesOf(std::uint32_t device) const;
  void Replay(FrameworkCache& cache) const;
  void FindRefusals(FrameworkCache& cache, const LineTable& lines) const;

  const Snapshot& snapshot_;
  const Blocks& blocks_;
  std::vector<Range> ranges_;
  std::vector<const Block*> tensors_;
  std::vector<std::uint32_t> devices_;
};

std::vector<FrameworkCache> DescribeFrameworkCaches(const FrameworkCaches& caches, const LineTable& lines);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_CACHE_H_
