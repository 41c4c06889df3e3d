// Where blocks lie in the segments that hold them, at the moments that matter.
#ifndef CUHEAP_ANALYSIS_HTML_SEGMENT_MAP_H_
#define CUHEAP_ANALYSIS_HTML_SEGMENT_MAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/html/memory_history.h"
#include "analysis/reports/blocks.h"
#include "analysis/reports/report.h"

namespace cuheap::analysis {

enum class SegmentOwner : std::uint8_t {
  kPyTorch,            // one driver allocation of its cache
  kPyTorchExpandable,  // mapped pieces side by side
  kPool,               // of cuheap's pool
  kDriver,             // a block that the driver placed by itself
};

struct MappedPart {
  static constexpr std::uint32_t kIdle = 0xFFFFFFFF;
  static constexpr std::uint32_t kSeveral = 0xFFFFFFFE;  // small blocks side by side, maybe with gaps between
  std::uint64_t offset = 0, bytes = 0;                   // in the segment
  std::uint32_t block = kIdle;                           // index into blocks.program
  std::uint64_t used = 0, blocks = 0;                    // of kSeveral
};

struct MappedSegment {
  SegmentOwner owner = SegmentOwner::kPyTorch;
  std::uint64_t address = 0, bytes = 0, used = 0, blocks = 0;
  std::vector<MappedPart> parts;  // by offset, without gaps
};

struct SegmentMap {
  std::uint32_t device = 0;
  std::string moment;  // as the history names it
  std::int64_t time_ns = 0;
  std::vector<MappedSegment> segments;                    // by address; of blocks by themselves the largest
  std::uint64_t left_out_blocks = 0, left_out_bytes = 0;  // of the others
};

// For every named instant of each device; the memory of the host has no segments.
std::vector<SegmentMap> DrawSegmentMaps(const Report& report, const Blocks& blocks,
                                        const std::vector<MemoryHistory>& histories);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_HTML_SEGMENT_MAP_H_
