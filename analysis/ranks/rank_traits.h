// What should be the same in all processes of a run, and is not: device, command, end, size of the world, run.
#ifndef CUHEAP_ANALYSIS_RANKS_RANK_TRAITS_H_
#define CUHEAP_ANALYSIS_RANKS_RANK_TRAITS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/ranks/rank_summary.h"

namespace cuheap::analysis {

enum class RankTrait : std::uint8_t { kDevice, kCommand, kEnd, kWorldSize, kRun };
inline constexpr std::size_t kRankTraits = 5;

struct TraitValue {
  std::string value;               // in words
  std::vector<std::size_t> ranks;  // indices, ascending
};
struct TraitDifference {
  RankTrait trait = RankTrait::kDevice;
  std::vector<TraitValue> values;  // that of most ranks first, then by name; at least two
};

// Processes of which a trait is not known are left out of it.
std::vector<TraitDifference> CompareTraits(const std::vector<RankSummary>& ranks);

// "exited", "exited with status 1", "killed by signal 9"; as far as known.
std::string HowItEnded(const RankSummary& rank);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_RANKS_RANK_TRAITS_H_
