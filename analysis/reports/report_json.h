// The report for scripts: docs/reports.md documents every field.
#ifndef CUHEAP_ANALYSIS_REPORTS_REPORT_JSON_H_
#define CUHEAP_ANALYSIS_REPORTS_REPORT_JSON_H_

#include <string>

#include "analysis/reports/report.h"

namespace cuheap::analysis {

// Of the JSON; grows when a field changes its meaning or goes away, not when one is added.
inline constexpr int kReportVersion = 1;

// Pretty-printed, ending in a newline. Same report, same text; everything is in it, whatever the terminal would cut.
std::string RenderJson(const Report& report);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_REPORT_JSON_H_
