// Remedies in the JSON report.
#ifndef CUHEAP_ANALYSIS_REPORTS_REMEDY_JSON_H_
#define CUHEAP_ANALYSIS_REPORTS_REMEDY_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "analysis/reports/remedies.h"
#include "analysis/reports/report.h"

namespace cuheap::analysis {

// One member of the array "remedies"; docs/reports.md explains it.
nlohmann::ordered_json RemediesJson(const Report& report, const Remedies& remedies);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_REMEDY_JSON_H_
