#include "analysis/reports/framework_segments.h"

#include <algorithm>
#include <map>
#include <utility>

namespace cuheap::analysis {

std::vector<FrameworkSegments> ListFrameworkSegments(const Blocks& blocks) {
  std::map<std::pair<Allocator, std::uint32_t>, FrameworkSegments> found;
  for (const Block& block : blocks.program) {
    if (!block.in_framework_cache() || !Blocks::OnDevice(block.kind)) continue;
    FrameworkSegments& segments = found[{block.allocator, block.device}];
    segments.framework = block.allocator;
    segments.device = block.device;
    ++segments.allocations;
    if (block.never_freed()) {
      segments.bytes += block.bytes;
      segments.held.push_back({block.address, block.bytes});
    } else {
      ++segments.frees;
    }
  }
  std::vector<FrameworkSegments> list;
  for (auto& [key, segments] : found) {
    std::sort(segments.held.begin(), segments.held.end(),
              [](const FrameworkSegment& a, const FrameworkSegment& b) { return a.address < b.address; });
    list.push_back(std::move(segments));
  }
  return list;
}

}  // namespace cuheap::analysis
