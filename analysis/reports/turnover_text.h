// What comes and goes: the sections CHURN and LATE FREES of the terminal report, and the same facts in JSON.
#ifndef CUHEAP_ANALYSIS_REPORTS_TURNOVER_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_TURNOVER_TEXT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analysis/reports/report.h"
#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

// Nothing if there is nothing to say. Late frees of less than 1 % of the peak are in JSON only.
void TurnoverSections(const Report& report, TextCanvas& canvas);
nlohmann::ordered_json ChurnJson(const Report& report, const Churn& churn);
nlohmann::ordered_json LateFreeJson(const Report& report, const LateFree& late);
std::string AdviceFor(const Churn& churn);
std::string AdviceForLateFrees();

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_TURNOVER_TEXT_H_
