#include "analysis/ranks/rank_report.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kFloorBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kFloorNs = 1'000'000'000;

std::uint64_t FloorOf(RankFigure figure) {
  if (figure == RankFigure::kSteps) return 0;
  return figure == RankFigure::kDuration ? kFloorNs : kFloorBytes;
}

class Finisher {
 public:
  explicit Finisher(RankReport& report) : report_(report) {}

  void Finish() {
    SortRanks();
    ChooseMains();
    FindMissing();
    Figures();
    MeasureImbalance();
    MergeLeaks();
    report_.differences = CompareTraits(report_.ranks);
    report_.devices = FindSharedDevices(report_.ranks);
    OrderRefusals();
    Conclude();
  }

 private:
  void SortRanks() {
    std::sort(report_.ranks.begin(), report_.ranks.end(), [](const RankSummary& a, const RankSummary& b) {
      const auto key = [](const RankSummary& of) {
        return std::tuple(!of.identity.rank, of.identity.rank.value_or(0), of.start_realtime_ns, of.host, of.pid,
                          of.path);
      };
      return key(a) < key(b);
    });
    const auto by_path = [](const UnreadFile& a, const UnreadFile& b) { return a.path < b.path; };
    std::sort(report_.unread.begin(), report_.unread.end(), by_path);
    std::sort(report_.not_snapshots.begin(), report_.not_snapshots.end());
  }

  void ChooseMains() {
    const std::vector<RankSummary>& ranks = report_.ranks;
    report_.ranks_known =
        std::any_of(ranks.begin(), ranks.end(), [](const RankSummary& rank) { return rank.identity.rank.has_value(); });
    for (std::size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
      end = begin + 1;
      if (!ranks[begin].identity.rank) {
        if (!report_.ranks_known) report_.mains.push_back(begin);
        continue;
      }
      std::size_t main = begin;
      for (; end < ranks.size() && ranks[end].identity.rank == ranks[begin].identity.rank; ++end) {
        if (ranks[end].peak_bytes() > ranks[main].peak_bytes()) main = end;
      }
      report_.mains.push_back(main);
      if (end - begin == 1) continue;
      std::vector<std::size_t>& same = report_.repeated.emplace_back();
      for (std::size_t i = begin; i < end; ++i) same.push_back(i);
    }
  }

  void FindMissing() {
    for (const RankSummary& rank : report_.ranks)
      report_.world_size = std::max(report_.world_size, rank.identity.world_size.value_or(0));
    if (!report_.ranks_known || report_.world_size == 0) return;
    std::uint32_t expected = 0;
    const auto missing_below = [&](std::uint32_t rank) {
      if (expected < rank) report_.missing.push_back({expected, rank - 1});
      expected = std::max(expected, rank + 1);
    };
    for (const std::size_t main : report_.mains)
      missing_below(std::min(*report_.ranks[main].identity.rank, report_.world_size));
    missing_below(report_.world_size);
  }

  Spread SpreadOf(RankFigure figure) const {
    std::vector<RankValue> values;
    for (const std::size_t main : report_.mains) {
      if (HasFigure(report_.ranks[main], figure)) values.push_back({main, FigureOf(report_.ranks[main], figure)});
    }
    return MeasureSpread(std::move(values), FloorOf(figure));
  }

  void Figures() {
    for (std::size_t i = 0; i < kRankFigures; ++i) {
      const auto figure = static_cast<RankFigure>(i);
      if (Spread spread = SpreadOf(figure); spread.most != 0) report_.figures.push_back({figure, std::move(spread)});
    }
  }

  void MeasureImbalance() {
    Imbalance& imbalance = report_.imbalance;
    std::size_t with_device = 0, with_tensors = 0;
    for (const std::size_t main : report_.mains) {
      with_device += report_.ranks[main].has_device() ? 1 : 0;
      with_tensors += report_.ranks[main].lines_of_tensors ? 1 : 0;
    }
    imbalance.of_tensors = with_tensors == with_device && with_device != 0;
    imbalance.spread = SpreadOf(imbalance.of_tensors ? RankFigure::kTensorPeak : RankFigure::kPeak);
    // Where only some ranks' tensors were seen, one's tensors would stand beside another's segments.
    const bool alike = imbalance.of_tensors || with_tensors == 0;
    if (!alike || imbalance.spread.count < 2 || imbalance.spread.most == imbalance.spread.median) return;
    const std::vector<RankLine>& largest = report_.ranks[imbalance.spread.most_rank].peak_lines;
    const std::vector<RankLine>& median = report_.ranks[imbalance.spread.median_rank].peak_lines;
    // A wrapper's callers are told apart where several are, and compared where both ranks have that.
    const std::set<std::uint32_t> by_caller = Both(LinesWithCallers(largest), LinesWithCallers(median));
    std::map<std::pair<std::uint32_t, std::uint32_t>, ImbalanceLine> lines;
    const auto entry = [&](const RankLine& of) -> ImbalanceLine& {
      return lines[{of.line, by_caller.contains(of.line) ? of.caller : 0}];
    };
    for (const RankLine& line : largest) entry(line).largest += line.bytes;
    for (const RankLine& line : median) entry(line).median += line.bytes;
    for (auto& [key, line] : lines) {
      std::tie(line.line, line.caller) = key;
      if (line.largest != line.median) imbalance.lines.push_back(line);
    }
    std::sort(imbalance.lines.begin(), imbalance.lines.end(), [&](const ImbalanceLine& a, const ImbalanceLine& b) {
      const auto difference = [](const ImbalanceLine& of) {
        return of.largest > of.median ? of.largest - of.median : of.median - of.largest;
      };
      if (difference(a) != difference(b)) return difference(a) > difference(b);
      return a.line != b.line ? report_.lines.Before(a.line, b.line) : report_.lines.Before(a.caller, b.caller);
    });
  }

  static std::set<std::uint32_t> LinesWithCallers(const std::vector<RankLine>& lines) {
    std::set<std::uint32_t> with;
    for (const RankLine& line : lines) {
      if (line.caller != 0) with.insert(line.line);
    }
    return with;
  }

  static std::set<std::uint32_t> Both(const std::set<std::uint32_t>& a, const std::set<std::uint32_t>& b) {
    std::set<std::uint32_t> both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.end()));
    return both;
  }

  void MergeLeaks() {
    using Key = std::tuple<std::uint32_t, std::uint32_t, bool>;
    std::map<Key, RankLeakLine> merged;
    for (std::size_t i = 0; i < report_.ranks.size(); ++i) {
      std::map<Key, RankLeak> own;  // on several devices
      for (const RankLeak& leak : report_.ranks[i].leaks) {
        RankLeak& sum = own[Key(leak.line, leak.caller, leak.scope.host)];
        sum.blocks += leak.blocks;
        sum.bytes += leak.bytes;
        sum.bytes_per_step += leak.bytes_per_step;
      }
      for (const auto& [key, leak] : own) AddLeak(merged[key], i, leak);
    }
    for (auto& [key, leak] : merged) {
      std::tie(leak.line, leak.caller, leak.host) = key;
      report_.leaks.push_back(std::move(leak));
    }
    std::sort(report_.leaks.begin(), report_.leaks.end(), [&](const RankLeakLine& a, const RankLeakLine& b) {
      if (a.bytes != b.bytes) return a.bytes > b.bytes;
      if (a.line != b.line) return report_.lines.Before(a.line, b.line);
      if (a.caller != b.caller) return report_.lines.Before(a.caller, b.caller);
      return a.host < b.host;
    });
  }

  static void AddLeak(RankLeakLine& line, std::size_t rank, const RankLeak& leak) {
    const bool first = line.ranks.empty();
    line.least_per_step = first ? leak.bytes_per_step : std::min(line.least_per_step, leak.bytes_per_step);
    line.most_per_step = std::max(line.most_per_step, leak.bytes_per_step);
    if (first || leak.bytes > line.most_bytes) {
      line.most_bytes = leak.bytes;
      line.most_rank = rank;
    }
    line.ranks.push_back(rank);
    line.blocks += leak.blocks;
    line.bytes += leak.bytes;
  }

  void OrderRefusals() {
    for (std::size_t i = 0; i < report_.ranks.size(); ++i) {
      if (report_.ranks[i].refusal) report_.refused.push_back(i);
    }
    std::sort(report_.refused.begin(), report_.refused.end(), [&](std::size_t a, std::size_t b) {
      const auto when = [&](std::size_t of) {
        return report_.ranks[of].start_realtime_ns + report_.ranks[of].refusal->time_ns;
      };
      return std::tuple(when(a), a) < std::tuple(when(b), b);
    });
  }

  void Conclude() {
    // From the gravest on: what one rank is, the run is; but it was seen if anything was.
    constexpr std::array kBySeverity = {Verdict::kOutOfMemory, Verdict::kLeaks,   Verdict::kGrowing,
                                        Verdict::kIncomplete,  Verdict::kNoLeaks, Verdict::kNothingSeen};
    report_.verdict = *std::find_if(kBySeverity.begin(), std::prev(kBySeverity.end()),
                                    [&](Verdict verdict) { return report_.CountOf(verdict) != 0; });
    std::int64_t begin = std::numeric_limits<std::int64_t>::max();
    for (const RankSummary& rank : report_.ranks) {
      if (rank.start_realtime_ns == 0) continue;  // not known
      begin = std::min(begin, rank.start_realtime_ns);
      report_.end_ns = std::max(report_.end_ns, rank.end_realtime_ns());
    }
    report_.begin_ns = report_.end_ns == 0 ? 0 : begin;
  }

  RankReport& report_;
};

}  // namespace

bool HasFigure(const RankSummary& rank, RankFigure figure) {
  switch (figure) {
    case RankFigure::kPeak:
    case RankFigure::kLive:
    case RankFigure::kIdleBesideLive:
      return rank.has_device();
    case RankFigure::kTensorPeak:
      return rank.lines_of_tensors;
    case RankFigure::kSteps:
      return rank.steps != 0;
    case RankFigure::kDuration:
      return rank.pid != 0;
  }
  return false;
}

std::uint64_t FigureOf(const RankSummary& rank, RankFigure figure) {
  switch (figure) {
    case RankFigure::kPeak:
      return rank.peak_bytes();
    case RankFigure::kTensorPeak:
      return rank.tensor_peak_bytes();
    case RankFigure::kLive:
      return rank.live_bytes();
    case RankFigure::kIdleBesideLive:
      return rank.has_device() ? rank.device().idle_beside_live_bytes : 0;
    case RankFigure::kSteps:
      return rank.steps;
    case RankFigure::kDuration:
      return static_cast<std::uint64_t>(std::max<std::int64_t>(0, rank.duration_ns));
  }
  return 0;
}

std::uint64_t RankReport::CountOf(Verdict wanted) const {
  return static_cast<std::uint64_t>(
      std::count_if(ranks.begin(), ranks.end(), [wanted](const RankSummary& rank) { return rank.verdict == wanted; }));
}

std::uint64_t RankReport::leaked_bytes() const {
  std::uint64_t bytes = 0;
  for (const RankSummary& rank : ranks) bytes += rank.leaked_bytes;
  return bytes;
}

void RankMerge::Add(RankSummary summary) {
  std::vector<std::uint32_t> shared;
  shared.reserve(summary.lines.size());
  for (const CodeLine& line : summary.lines) shared.push_back(report_.lines.Of(line, summary.working_directory));
  for (RankLine& line : summary.peak_lines) {
    line.line = shared[line.line];
    line.caller = shared[line.caller];
  }
  for (RankLeak& leak : summary.leaks) {
    leak.line = shared[leak.line];
    leak.caller = shared[leak.caller];
  }
  if (summary.refusal) {
    summary.refusal->line = shared[summary.refusal->line];
    summary.refusal->caller = shared[summary.refusal->caller];
  }
  std::vector<CodeLine>().swap(summary.lines);
  summary.peak_lines.shrink_to_fit();
  summary.leaks.shrink_to_fit();
  report_.ranks.push_back(std::move(summary));
}

void RankMerge::AddUnread(UnreadFile file) { report_.unread.push_back(std::move(file)); }
void RankMerge::AddNotSnapshot(std::string path) { report_.not_snapshots.push_back(std::move(path)); }

RankReport RankMerge::Finish() {
  Finisher(report_).Finish();
  return std::move(report_);
}

}  // namespace cuheap::analysis
