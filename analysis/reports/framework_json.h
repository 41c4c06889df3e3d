// Frameworks' own caches in the JSON report.
#ifndef CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_JSON_H_
#define CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "analysis/reports/report.h"

namespace cuheap::analysis {

// Members "cause" and, where it is known what was live, "by_role", of a refusal.
void AddOomContext(nlohmann::ordered_json& json, const Report& report, const OomContext& context);
// One member of the array "framework_caches"; docs/reports.md explains it.
nlohmann::ordered_json FrameworkCacheJson(const Report& report, const FrameworkCache& cache);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_FRAMEWORK_JSON_H_
