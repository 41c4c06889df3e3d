// The report of many ranks, for a terminal and for scripts.
#ifndef CUHEAP_ANALYSIS_RANKS_RANK_RENDERING_H_
#define CUHEAP_ANALYSIS_RANKS_RANK_RENDERING_H_

#include <string>

#include "analysis/ranks/rank_report.h"
#include "analysis/reports/report_text.h"

namespace cuheap::analysis {

// Of the JSON; as kReportVersion of report_json.h.
inline constexpr int kRankReportVersion = 1;

// Both end in a newline. Same report, same text.
std::string RenderRanksText(const RankReport& report, const TextOptions& options = {});
std::string RenderRanksJson(const RankReport& report);

// A device's memory over the time of all processes, in `columns` characters of eight heights, of which the highest is
// `most`; blank where the process was not there.
std::string RankTimeline(const RankReport& report, const RankSummary& rank, std::size_t columns, std::uint64_t most);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_RANKS_RANK_RENDERING_H_
