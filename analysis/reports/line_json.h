// A line of code in JSON: the same members wherever a report names one.
#ifndef CUHEAP_ANALYSIS_REPORTS_LINE_JSON_H_
#define CUHEAP_ANALYSIS_REPORTS_LINE_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "analysis/reports/lines.h"

namespace cuheap::analysis {

// A "line" of docs/reports.md.
nlohmann::ordered_json LineJson(const CodeLine& line);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_LINE_JSON_H_
