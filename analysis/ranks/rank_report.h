// The processes of one run beside each other: who differs from the rest, what all have in common, who is missing.
#ifndef CUHEAP_ANALYSIS_RANKS_RANK_REPORT_H_
#define CUHEAP_ANALYSIS_RANKS_RANK_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/ranks/rank_devices.h"
#include "analysis/ranks/rank_spread.h"
#include "analysis/ranks/rank_summary.h"
#include "analysis/ranks/rank_traits.h"
#include "analysis/ranks/shared_lines.h"

namespace cuheap::analysis {

// A file that gave no process.
struct UnreadFile {
  std::string path, error;
  std::optional<std::uint32_t> rank;  // as its name says
};

struct RankRange {
  std::uint32_t first = 0, last = 0;
};

// What ranks are compared by. Only the main process of each rank counts, see RankReport::mains.
enum class RankFigure : std::uint8_t { kPeak, kTensorPeak, kLive, kIdleBesideLive, kSteps, kDuration };
inline constexpr std::size_t kRankFigures = 6;
// False: it is not known of this process.
bool HasFigure(const RankSummary& rank, RankFigure figure);
std::uint64_t FigureOf(const RankSummary& rank, RankFigure figure);  // bytes, a count, or ns

struct FigureSpread {
  RankFigure figure = RankFigure::kPeak;
  Spread spread;
};

// What the rank with the most holds at its peak and the one in the middle does not, line by line.
struct ImbalanceLine {
  std::uint32_t line = 0, caller = 0;     // caller 0: all
  std::uint64_t largest = 0, median = 0;  // bytes
};
struct Imbalance {
  bool of_tensors = false;
  Spread spread;                     // of RankSummary::compared_bytes()
  std::vector<ImbalanceLine> lines;  // by the size of the difference
};

// A line that leaks in one or more ranks.
struct RankLeakLine {
  std::uint32_t line = 0, caller = 0;
  bool host = false;
  std::vector<std::size_t> ranks;       // indices, ascending
  std::uint64_t blocks = 0, bytes = 0;  // of all together
  std::uint64_t most_bytes = 0;
  std::size_t most_rank = 0;
  double least_per_step = 0, most_per_step = 0;
};

struct RankReport {
  SharedLines lines;
  // By rank, then those without one; each by start, host, process and file.
  std::vector<RankSummary> ranks;
  // One process for each rank, the one with the largest peak (others are its helpers, or of another run); without ranks
  // every process.
  std::vector<std::size_t> mains;
  bool ranks_known = false;
  std::uint32_t world_size = 0;                    // the largest that was told; 0: none was
  std::vector<RankRange> missing;                  // ranks below world_size of which there is no snapshot
  std::vector<std::vector<std::size_t>> repeated;  // processes with the same rank
  std::vector<FigureSpread> figures;               // those with something to tell
  Imbalance imbalance;
  std::vector<RankLeakLine> leaks;  // most bytes first
  std::vector<TraitDifference> differences;
  std::vector<DeviceUse> devices;          // that several processes used, or where memory was refused
  std::vector<std::size_t> refused;        // indices by the time of the first refusal
  std::vector<UnreadFile> unread;          // by path
  std::vector<std::string> not_snapshots;  // of a folder: other files of the same kind, by path
  Verdict verdict = Verdict::kNothingSeen;
  std::int64_t begin_ns = 0, end_ns = 0;  // real time from the first start to the last end

  std::uint64_t CountOf(Verdict verdict) const;
  std::uint64_t leaked_bytes() const;
};

// Takes summaries in any order and makes the report of them.
class RankMerge {
 public:
  void Add(RankSummary summary);
  void AddUnread(UnreadFile file);
  void AddNotSnapshot(std::string path);
  RankReport Finish();

 private:
  RankReport report_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_RANKS_RANK_REPORT_H_
