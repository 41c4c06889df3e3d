// Why memory was not used, and where everything lies, in JSON.
#ifndef CUHEAP_ANALYSIS_REPORTS_FRAGMENTATION_JSON_H_
#define CUHEAP_ANALYSIS_REPORTS_FRAGMENTATION_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "analysis/reports/report.h"

namespace cuheap::analysis {

nlohmann::ordered_json FragmentationJson(const Report& report, const Fragmentation& fragmentation);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_FRAGMENTATION_JSON_H_
