#include "analysis/ranks/rank_traits.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

// Empty: not known.
std::string ValueOf(const RankSummary& rank, RankTrait trait) {
  switch (trait) {
    case RankTrait::kDevice:
      if (!rank.has_device() || rank.device().name.empty()) return {};
      return rank.device().name + ", " + HumanBytes(static_cast<double>(rank.device().capacity_bytes));
    case RankTrait::kCommand:
      return rank.command.empty() ? rank.executable : rank.command;
    case RankTrait::kEnd:
      return rank.pid == 0 ? std::string() : HowItEnded(rank);
    case RankTrait::kWorldSize:
      return rank.identity.world_size ? std::to_string(*rank.identity.world_size) : std::string();
    case RankTrait::kRun:
      return rank.run;
  }
  return {};
}

}  // namespace

std::string HowItEnded(const RankSummary& rank) {
  if (rank.exit_signal) return "killed by signal " + std::to_string(*rank.exit_signal);
  if (rank.end == "killed") return "killed, or left by _exit";
  if (rank.end == "unknown") return "end not known";
  const std::string word = rank.end == "quit" ? "ended without exit handlers" : rank.end;
  // Only of the program that cuheap run started the status is known: a 0 there is what "exited" is elsewhere.
  if (rank.exit_status.value_or(0) != 0) return word + " with status " + std::to_string(*rank.exit_status);
  return word;
}

std::vector<TraitDifference> CompareTraits(const std::vector<RankSummary>& ranks) {
  std::vector<TraitDifference> differences;
  for (std::size_t i = 0; i < kRankTraits; ++i) {
    const auto trait = static_cast<RankTrait>(i);
    std::map<std::string, std::vector<std::size_t>> by_value;
    for (std::size_t j = 0; j < ranks.size(); ++j) {
      if (std::string value = ValueOf(ranks[j], trait); !value.empty()) by_value[std::move(value)].push_back(j);
    }
    if (by_value.size() < 2) continue;
    TraitDifference difference{trait, {}};
    for (auto& [value, with] : by_value) difference.values.push_back({value, std::move(with)});
    std::stable_sort(difference.values.begin(), difference.values.end(),
                     [](const TraitValue& a, const TraitValue& b) { return a.ranks.size() > b.ranks.size(); });
    differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace cuheap::analysis
