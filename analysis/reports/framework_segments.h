// What a framework's own cache holds from the driver: its segments, one driver allocation each. They are the same that
// the framework tells of itself (torch.cuda.memory_snapshot()), so the two can be compared address by address.
#ifndef CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_SEGMENTS_H_
#define CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "analysis/reports/blocks.h"

namespace cuheap::analysis {

struct FrameworkSegment {
  std::uint64_t address = 0, bytes = 0;
};

// Of one framework on one device.
struct FrameworkSegments {
  Allocator framework = Allocator::kPyTorch;
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
  std::uint64_t allocations = 0, frees = 0;  // over the run, as far as the events reach
  std::vector<FrameworkSegment> held;        // at the end, before contexts went away; by address
};

// By framework and device. Only device memory counts; a framework without any is not in the list.
std::vector<FrameworkSegments> ListFrameworkSegments(const Blocks& blocks);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_SEGMENTS_H_
