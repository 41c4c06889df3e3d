// Categories in the JSON report.
#ifndef CUHEAP_ANALYSIS_REPORTS_CATEGORY_JSON_H_
#define CUHEAP_ANALYSIS_REPORTS_CATEGORY_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "analysis/reports/category_totals.h"

namespace cuheap::analysis {

// Member "categories" of an entry of "memory" and "tensors"; docs/reports.md explains it.
nlohmann::ordered_json CategoriesJson(const ScopeCategories& categories);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_CATEGORY_JSON_H_
