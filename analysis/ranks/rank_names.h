// What processes are called in sentences: by their ranks, or else by their files.
#ifndef CUHEAP_ANALYSIS_RANKS_RANK_NAMES_H_
#define CUHEAP_ANALYSIS_RANKS_RANK_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/ranks/rank_report.h"

namespace cuheap::analysis {

// "0-3, 7" of ascending numbers.
std::string JoinRanges(const std::vector<RankRange>& ranges);

class RankNames {
 public:
  explicit RankNames(const RankReport& report);  // must outlive this
  // "3", or the file's name without folder and extension.
  std::string Label(std::size_t rank) const;
  // "rank 3"; "rank 3 (process 4711)" where several processes have it.
  std::string One(std::size_t rank) const;
  // "all 8 ranks", "ranks 0-3, 7", "first.4711 and 12 other processes".
  std::string Many(const std::vector<std::size_t>& ranks) const;
  // "8 ranks", "1 process".
  std::string Count(std::size_t count) const;

 private:
  const RankReport& report_;
  std::vector<bool> repeated_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_RANKS_RANK_NAMES_H_
