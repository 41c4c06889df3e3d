// What remedies are called, what they assume and what they cost, and their part of the report as text and as JSON.
#ifndef CUHEAP_ANALYSIS_REPORTS_REMEDY_WORDS_H_
#define CUHEAP_ANALYSIS_REPORTS_REMEDY_WORDS_H_

#include <string>
#include <string_view>

#include "analysis/reports/remedies.h"
#include "analysis/reports/report.h"
#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

std::string_view Word(RemedyKind kind);                           // "smaller_batch"
std::string TitleOf(const Report& report, const Remedy& remedy);  // "half the batch"
// What it costs and what was assumed, in sentences.
std::string TermsOf(const Remedy& remedy);
std::string_view Name(Phase phase);  // "backward pass"
std::string_view Word(Phase phase);  // "backward"

// The section of the report; nothing if nothing would help.
void RenderRemedies(const Report& report, TextCanvas& canvas);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_REMEDY_WORDS_H_
