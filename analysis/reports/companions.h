// Lines of one function that leak in the same steps, told as one: a function that returns early loses all its buffers.
#ifndef CUHEAP_ANALYSIS_REPORTS_COMPANIONS_H_
#define CUHEAP_ANALYSIS_REPORTS_COMPANIONS_H_

#include <cstddef>

#include "analysis/reports/report.h"

namespace cuheap::analysis {

// Whether an earlier finding of the report has this one among its companions.
bool ToldBefore(const Report& report, std::size_t finding);

// The sums of the finding and its companions, with all their lines as parts; itself if it has none.
LeakFinding WithCompanions(const Report& report, const LeakFinding& finding);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_COMPANIONS_H_
