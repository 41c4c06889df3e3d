// Why memory ran out, in words; empty where nothing but the figures is known.
#ifndef CUHEAP_ANALYSIS_REPORTS_RAN_OUT_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_RAN_OUT_TEXT_H_

#include <cstdint>
#include <string>

#include "analysis/reports/report.h"

namespace cuheap::analysis {

// "weights 1.5 GiB, gradients 1.5 GiB, activations 0.5 GiB", without what is under a hundredth; empty if nothing was
// live, or if CauseText says so much.
std::string RolesBeside(const OomContext& context);
// One sentence without a full stop; request: bytes that were refused.
std::string CauseText(const Report& report, const OomContext& context, std::uint64_t request);
// What can be done about it.
std::string CauseAdvice(const Report& report, const OomContext& context);
// CauseText of the first failure that the program was told and whose cause is known.
std::string FirstCauseText(const Report& report);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_RAN_OUT_TEXT_H_
