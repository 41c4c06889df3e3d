// Blocks that a step leaves behind for the next one, and that are live at the peak: freed too late.
//
// Note [Late frees]
// A block that is made in one step and freed in the next one costs nothing if it goes before that step's peak. What is
// live at the peak could have been freed before it: an output that a loop's variable still names, gradients that
// zero_grad() lets go only after the next forward pass. Told of a stack of which in three steps, and of four of five
// blocks, this holds; and only where it is known when a step ends (marks, PyTorch's optimizer): other clocks, such as a
// synchronisation, tick once a step too, but may do so in the middle of what the program does in one.
// What is freed only once its successor is there is another matter: see replaced.h.
#ifndef CUHEAP_ANALYSIS_REPORTS_LATE_FREES_H_
#define CUHEAP_ANALYSIS_REPORTS_LATE_FREES_H_

#include <cstdint>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/lines.h"
#include "analysis/reports/steps.h"
#include "analysis/reports/totals.h"

namespace cuheap::analysis {

struct LateFree {
  Scope scope;
  std::uint32_t line = 0;                         // index into the LineTable
  std::uint64_t blocks = 0;                       // that were left behind in all
  std::uint64_t bytes = 0;                        // of one step's, on average
  std::uint64_t steps = 0;                        // that left some behind
  std::uint64_t peak_blocks = 0, peak_bytes = 0;  // of an earlier step, live at the peak of the scope
};

// Most bytes at the peak first. Only of scopes whose peak is known exactly, and only what was live at it.
std::vector<LateFree> FindLateFrees(const Blocks& blocks, const LineTable& lines, const Steps& steps,
                                    const std::vector<ScopeTotals>& totals);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_LATE_FREES_H_
