// Two runs of many ranks: what changed, by figure, leak and line. Of lines the sum over the ranks and the rank with
// most are compared, each rank at its own peak, since ranks need not be the same in both runs.
//
// Note [Lines of two runs]
// Lines are the same as between the ranks of one run (shared_lines.h); what is left over on both sides is the same if
// it alone is of that function and file: an edit moved it. Callers of a wrapper are told apart where both runs have
// them.
#ifndef CUHEAP_ANALYSIS_RANKS_RANK_DIFF_H_
#define CUHEAP_ANALYSIS_RANKS_RANK_DIFF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/ranks/rank_report.h"
#include "analysis/reports/diff.h"
#include "analysis/reports/report_text.h"

namespace cuheap::analysis {

// A line, or a caller's use of it, with the indices that the two runs have for it; kNoLine: there it is not.
struct RankLinePair {
  std::uint32_t before = kNoLine, after = kNoLine;
  std::uint32_t caller_before = 0, caller_after = 0;  // 0: all
};

struct RankLineDiff {
  RankLinePair line;
  BeforeAfter sum, most;  // bytes of all ranks together, and of the one that has most of it
  BeforeAfter ranks;      // how many have it
};

struct RankLeakDiff {
  LeakChange change = LeakChange::kAlike;
  RankLinePair line;
  BeforeAfter bytes, ranks;
  double rate_before = 0, rate_after = 0;  // the most bytes a step of any rank
};

struct RankFigureDiff {
  RankFigure figure = RankFigure::kPeak;
  BeforeAfter median, most;
};

struct RankDiff {
  const RankReport* before = nullptr;  // both must outlive this
  const RankReport* after = nullptr;
  BeforeAfter ranks, refused, leaked_bytes;  // mains; processes that were refused memory
  std::vector<RankFigureDiff> figures;
  std::vector<RankLeakDiff> leaks;  // in the order of LeakChange, then by bytes
  bool of_tensors = false;
  bool lines_comparable = true;     // false: tensors were observed in one run only
  std::vector<RankLineDiff> lines;  // that changed by more than a small difference, by the size of it
  std::uint64_t small_lines = 0;    // that changed by less
  bool different() const;
};

RankDiff CompareRanks(const RankReport& before, const RankReport& after, const Threshold& threshold = {});

// Both end in a newline.
inline constexpr int kRankDiffVersion = 1;  // of the JSON
std::string RenderRankDiffText(const RankDiff& diff, const TextOptions& options = {});
std::string RenderRankDiffJson(const RankDiff& diff);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_RANKS_RANK_DIFF_H_
