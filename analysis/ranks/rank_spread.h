// How one figure spreads over the ranks, and which ranks stand out.
//
// Note [Outliers]
// Few ranks and one that leaks: mean and standard deviation would follow the leak. So the middle is the median m and
// the usual distance the median of |x - m| (MAD); of an even number of values the lower of the two in the middle, so
// that both are values of ranks. A rank stands out if |x - m| is more than 3.5 times 1.4826 MAD (the limit that
// Iglewicz and Hoaglin recommend; 1.4826 makes of the MAD a standard deviation), and more than 5 % of m, and more than
// a floor that the figure has: ranks that are alike to the byte have a MAD of 0, and not every byte is worth a word.
// Below three ranks nobody stands out.
#ifndef CUHEAP_ANALYSIS_RANKS_RANK_SPREAD_H_
#define CUHEAP_ANALYSIS_RANKS_RANK_SPREAD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuheap::analysis {

struct RankValue {
  std::size_t rank = 0;  // index into RankReport::ranks
  std::uint64_t value = 0;
};

struct Spread {
  std::size_t count = 0;
  std::uint64_t least = 0, most = 0, median = 0, deviation = 0;  // deviation: the MAD
  double mean = 0;
  std::size_t most_rank = 0, median_rank = 0;  // the first of several
  std::vector<RankValue> outliers;             // farthest from the median first
  double imbalance() const { return mean == 0 ? 1 : static_cast<double>(most) / mean; }  // most / mean
};

inline constexpr double kOutlierLimit = 3.5, kMadToDeviation = 1.4826, kOutlierShare = 0.05;

// values: of any order; none: an empty spread.
Spread MeasureSpread(std::vector<RankValue> values, std::uint64_t floor);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_RANKS_RANK_SPREAD_H_
