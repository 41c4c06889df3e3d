// The section DRIVER TIME of the terminal report, and the same facts in JSON.
#ifndef CUHEAP_ANALYSIS_REPORTS_DRIVER_TIME_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_DRIVER_TIME_TEXT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analysis/reports/report.h"
#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

// Nothing if it does not matter: less than a hundredth of the run.
void DriverTimeSection(const Report& report, TextCanvas& canvas);
nlohmann::ordered_json DriverTimeJson(const Report& report);
// What can be done about it; empty if it does not matter.
std::string AdviceForDriverTime(const Report& report);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_DRIVER_TIME_TEXT_H_
