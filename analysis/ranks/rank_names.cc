#include "analysis/ranks/rank_names.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "analysis/printable.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kNamed = 3;  // processes without a rank, in a sentence

std::string FileStem(const std::string& path) {
  std::string name = path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  for (const std::string_view extension : {".zst", ".json", ".pickle", ".pkl"}) {
    if (name.size() > extension.size() && name.ends_with(extension)) name.resize(name.size() - extension.size());
  }
  return Printable(name);
}

}  // namespace

std::string JoinRanges(const std::vector<RankRange>& ranges) {
  std::string text;
  for (const RankRange& range : ranges) {
    text += (text.empty() ? "" : ", ") + std::to_string(range.first);
    if (range.last != range.first) text += "-" + std::to_string(range.last);
  }
  return text;
}

RankNames::RankNames(const RankReport& report) : report_(report), repeated_(report.ranks.size(), false) {
  for (const std::vector<std::size_t>& same : report.repeated) {
    for (const std::size_t rank : same) repeated_[rank] = true;
  }
}

std::string RankNames::Label(std::size_t rank) const {
  const RankSummary& summary = report_.ranks[rank];
  return summary.identity.rank ? std::to_string(*summary.identity.rank) : FileStem(summary.path);
}

std::string RankNames::One(std::size_t rank) const {
  const RankSummary& summary = report_.ranks[rank];
  if (!summary.identity.rank) return FileStem(summary.path);
  std::string text = "rank " + Label(rank);
  if (!repeated_[rank]) return text;
  return text +
         (summary.pid != 0 ? " (process " + std::to_string(summary.pid) + ")" : " (" + FileStem(summary.path) + ")");
}

std::string RankNames::Many(const std::vector<std::size_t>& ranks) const {
  if (ranks.size() == 1) return One(ranks.front());
  std::set<std::uint32_t> numbers;
  std::vector<std::size_t> others;
  for (const std::size_t rank : ranks) {
    if (report_.ranks[rank].identity.rank)
      numbers.insert(*report_.ranks[rank].identity.rank);
    else
      others.push_back(rank);
  }
  if (ranks.size() == report_.ranks.size() && ranks.size() > 1)
    return "all " + Count(report_.ranks_known && others.empty() ? numbers.size() : ranks.size());
  std::string text;
  if (!numbers.empty()) {
    std::vector<RankRange> ranges;
    for (const std::uint32_t number : numbers) {
      if (!ranges.empty() && ranges.back().last + 1 == number)
        ranges.back().last = number;
      else
        ranges.push_back({number, number});
    }
    text = (numbers.size() == 1 ? "rank " : "ranks ") + JoinRanges(ranges);
  }
  for (std::size_t i = 0; i < std::min(kNamed, others.size()); ++i) text += (text.empty() ? "" : ", ") + One(others[i]);
  if (others.size() > kNamed) text += " and " + Plural(others.size() - kNamed, "other");
  return text;
}

std::string RankNames::Count(std::size_t count) const {
  if (report_.ranks_known) return Plural(count, "rank");
  return count == 1 ? "1 process" : Grouped(count) + " processes";
}

}  // namespace cuheap::analysis
