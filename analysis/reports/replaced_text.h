// What is held until it is replaced, in words.
#ifndef CUHEAP_ANALYSIS_REPORTS_REPLACED_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_REPLACED_TEXT_H_

#include <string>

#include "analysis/reports/report.h"
#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

// What to do, and what the peak would be then.
std::string AdviceFor(const Replaced& replaced);

// The rows of what the overlaps cost, scope by scope; a section of their own if `heading`.
void WriteReplaced(const Report& report, bool heading, TextCanvas& canvas);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_REPLACED_TEXT_H_
