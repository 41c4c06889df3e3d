// One row of the page's table of lines: what a line did over the whole run, in one place.
#ifndef CUHEAP_ANALYSIS_HTML_LINE_ROWS_H_
#define CUHEAP_ANALYSIS_HTML_LINE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/html/memory_history.h"
#include "analysis/reports/blocks.h"
#include "analysis/reports/report.h"

namespace cuheap::analysis {

struct LineRow {
  std::size_t place = 0;                                                       // index into the histories
  std::uint32_t line = 0;                                                      // index into the LineTable
  std::uint64_t peak_bytes = 0, peak_blocks = 0;                               // at the place's peak
  std::uint64_t end_bytes = 0, end_blocks = 0;                                 // held to the end
  std::uint64_t allocations = 0, allocated_bytes = 0, frees = 0, largest = 0;  // of all blocks that are known
  std::uint64_t leaked_bytes = 0;                                              // of findings of class kLeak
};

// By place, most bytes at the peak first; at most `most` a place, `left_out` counts the others. Segments of a cache
// whose tensors are known are in no row.
struct LineRows {
  std::vector<LineRow> rows;
  std::uint64_t left_out = 0;
};
LineRows CountLines(const Report& report, const Blocks& blocks, const std::vector<MemoryHistory>& histories,
                    std::size_t most = 1'500);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_HTML_LINE_ROWS_H_
