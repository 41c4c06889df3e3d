// Lines that free a block and ask for the same size again, step after step: what one buffer that is kept would save.
//
// Note [Churn]
// Asked of what the program gets from the driver or from our pool. Blocks that a framework makes for its tensors, and
// the segments of its cache, are left out: caching them is what that cache is for. A pair is a block that is freed in
// the step that allocated it; without steps, any block that is freed while the program runs. A line churns if in at
// least half of the steps (and in three) it makes such pairs, twenty or more in all, and nine of ten have the same
// size.
#ifndef CUHEAP_ANALYSIS_REPORTS_CHURN_H_
#define CUHEAP_ANALYSIS_REPORTS_CHURN_H_

#include <cstdint>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/lines.h"
#include "analysis/reports/steps.h"
#include "analysis/reports/totals.h"

namespace cuheap::analysis {

struct Churn {
  Scope scope;
  std::uint32_t line = 0, stack = 0;  // index into the LineTable; of the first block
  AllocationKind kind = AllocationKind::kNone;
  std::uint64_t pairs = 0, served = 0;                           // served: of these, by our pool
  std::uint64_t bytes = 0;                                       // of one block, as most of them are
  std::uint64_t at_once = 0;                                     // most of those that were live at the same time
  std::uint64_t steps = 0;                                       // in which it happens; 0: no steps are known
  double pairs_per_step = 0;                                     // over those steps
  std::uint64_t kept_bytes() const { return at_once * bytes; }   // what buffers that are kept would hold
  std::uint64_t saved_calls() const { return pairs - at_once; }  // allocations, and as many frees
};

// Most pairs first.
std::vector<Churn> FindChurn(const Blocks& blocks, const LineTable& lines, const Steps& steps);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_CHURN_H_
