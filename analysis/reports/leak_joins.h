// What belongs together among the findings of leaks, and their order.
#ifndef CUHEAP_ANALYSIS_REPORTS_LEAK_JOINS_H_
#define CUHEAP_ANALYSIS_REPORTS_LEAK_JOINS_H_

#include <vector>

#include "analysis/reports/leaks.h"
#include "analysis/reports/lines.h"

namespace cuheap::analysis {

// Most bytes a step first.
void SortParts(LeakFinding& finding);

// Every node of a backward pass makes gradients of its own; those that are kept in the same steps are one finding.
void JoinGradients(std::vector<LeakFinding>& findings);

// Fills LeakFinding::companions.
void FindCompanions(std::vector<LeakFinding>& findings, const LineTable& lines);

// The order that FindLeaks() promises.
void SortFindings(std::vector<LeakFinding>& findings, const LineTable& lines);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_LEAK_JOINS_H_
