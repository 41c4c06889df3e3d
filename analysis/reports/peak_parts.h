// What was live at the peak, put together in other ways than by line.
#ifndef CUHEAP_ANALYSIS_REPORTS_PEAK_PARTS_H_
#define CUHEAP_ANALYSIS_REPORTS_PEAK_PARTS_H_

#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/lifetimes.h"
#include "analysis/reports/lines.h"
#include "analysis/reports/owners.h"
#include "analysis/reports/totals.h"

namespace cuheap::analysis {

class PeakParts {
 public:
  // All must outlive it.
  PeakParts(const LineTable& lines, const Lifetimes& lifetimes) : lines_(lines), lifetimes_(lifetimes) {}

  // at_peak: the blocks live then that lines are told of (a framework's cache is not, where its tensors are known).
  void Fill(const std::vector<const Block*>& at_peak, ScopeTotals& totals) const;

 private:
  const LineTable& lines_;
  const Lifetimes& lifetimes_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_PEAK_PARTS_H_
