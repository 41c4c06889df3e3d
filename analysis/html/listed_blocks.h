// The single blocks that the page lists, of maybe millions: those that findings and the great moments are made of.
#ifndef CUHEAP_ANALYSIS_HTML_LISTED_BLOCKS_H_
#define CUHEAP_ANALYSIS_HTML_LISTED_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/html/memory_history.h"
#include "analysis/reports/blocks.h"
#include "analysis/reports/report.h"

namespace cuheap::analysis {

inline constexpr std::uint32_t kNoFinding = 0xFFFFFFFF;

struct ListedBlock {
  std::uint32_t block = 0;             // index into blocks.program
  std::uint32_t finding = kNoFinding;  // index into report.findings
};

struct BlockList {
  std::vector<ListedBlock> blocks;  // in the order of allocation
  std::uint64_t all = 0;            // how many there are
};

inline constexpr std::size_t kMostListed = 12'000;

// First the blocks of leaks and of what piled up, then those held at a named instant of a place, then others; of each
// the largest. All of them if there are no more than `most`.
BlockList ChooseBlocks(const Report& report, const Blocks& blocks, const std::vector<MemoryHistory>& histories,
                       std::size_t most = kMostListed);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_HTML_LISTED_BLOCKS_H_
