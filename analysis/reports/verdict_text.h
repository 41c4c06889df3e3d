// The verdict in words, for the report's first line and for the summary of a run.
#ifndef CUHEAP_ANALYSIS_REPORTS_VERDICT_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_VERDICT_TEXT_H_

#include <string>
#include <string_view>

#include "analysis/reports/report.h"
#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

struct VerdictWords {
  std::string_view word;  // "LEAK", "NO LEAKS", ...
  std::string text;       // why
  TextColor color = TextColor::kPlain;
};
// Green only if nothing grows, nothing piles up, and nothing was hidden in a framework's cache.
VerdictWords PutVerdict(const Report& report);

// "PyTorch's cache grows by 1.5 MiB a step to the end"; empty if none does.
std::string CacheGrowthText(const Report& report);
// "3.1 MiB piled up and were freed only at the end"; empty if nothing did.
std::string PiledUpText(const Report& report);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_VERDICT_TEXT_H_
