// The shape of a series of additions: does it grow, how regularly, and how fast.
#ifndef CUHEAP_ANALYSIS_REPORTS_GROWTH_H_
#define CUHEAP_ANALYSIS_REPORTS_GROWTH_H_

#include <cstdint>
#include <vector>

#include "analysis/reports/leaks.h"

namespace cuheap::analysis {

struct Addition {
  std::uint32_t step = 0;  // from 1
  std::uint64_t bytes = 0;
};

struct Growth {
  GrowthShape shape = GrowthShape::kOnce;
  Confidence confidence = Confidence::kLow;
  double bytes_per_step = 0, slope_bytes_per_step = 0, slope_r2 = 0;
  std::uint64_t bytes_per_occurrence = 0;
  std::uint32_t period = 0;
  std::vector<std::uint32_t> steps;  // ascending, each once
};

// additions: not empty, in any order, steps in 1 .. step_count + 1. Never says kOverTime or kReplaced, which need more
// than the series.
Growth MeasureGrowth(const std::vector<Addition>& additions, std::uint32_t step_count);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_GROWTH_H_
