// What can be done about a finding, in one sentence made from its facts. Empty where the facts suggest nothing.
#ifndef CUHEAP_ANALYSIS_REPORTS_ADVICE_H_
#define CUHEAP_ANALYSIS_REPORTS_ADVICE_H_

#include <string>

#include "analysis/reports/report.h"

namespace cuheap::analysis {

// Leaks and what piled up; memory that is held on purpose needs no advice.
std::string AdviceFor(const Report& report, const LeakFinding& finding);
std::string AdviceFor(const Report& report, const CacheGrowth& cache);
std::string AdviceFor(const Report& report, const Failure& failure);
// Fragmentation that matters: a tenth of what is held, and more than 1 MiB.
std::string AdviceFor(const PoolUse& pool);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_ADVICE_H_
