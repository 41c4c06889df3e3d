// What was held at one moment, for a terminal: the report's table of the peak, for any instant.
#ifndef CUHEAP_ANALYSIS_EXPORTS_HELD_TEXT_H_
#define CUHEAP_ANALYSIS_EXPORTS_HELD_TEXT_H_

#include <string>

#include "analysis/exports/moment.h"
#include "analysis/reports/report.h"
#include "analysis/reports/report_text.h"

namespace cuheap::analysis {

// By line, or by library if options.peak_by says so; TextOptions::top rows of each place. `when` is what the heading
// calls the moment. Ends in a newline.
std::string RenderHeld(const Report& report, const Moment& moment, const std::string& when, const TextOptions& options);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_HELD_TEXT_H_
