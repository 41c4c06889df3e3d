#include "analysis/ranks/rank_diff.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

// A number for each line of both runs: the same line, the same number.
class LineNumbers {
 public:
  LineNumbers(const RankReport& before, const RankReport& after) {
    std::map<std::string, std::uint32_t> by_key;
    const auto number = [&](const SharedLines& lines, std::vector<std::uint32_t>& numbers) {
      for (std::uint32_t i = 0; i < lines.size(); ++i) {
        const auto found = by_key.try_emplace(lines.key(i), static_cast<std::uint32_t>(by_key.size())).first;
        numbers.push_back(found->second);
      }
    };
    number(before.lines, before_);
    number(after.lines, after_);
    JoinMoved(before.lines, after.lines);
  }
  std::uint32_t Of(bool after, std::uint32_t line) const { return (after ? after_ : before_)[line]; }

 private:
  using Place = std::pair<std::string, std::string>;  // file and function

  static std::map<Place, std::vector<std::uint32_t>> Alone(const SharedLines& lines,
                                                           const std::vector<std::uint32_t>& numbers,
                                                           const std::vector<std::uint32_t>& others) {
    const std::set<std::uint32_t> known(others.begin(), others.end());
    std::map<Place, std::vector<std::uint32_t>> left;
    for (std::uint32_t i = 0; i < lines.size(); ++i) {
      const CodeLine& line = lines.line(i);
      if (line.basis == LineBasis::kLine && !known.contains(numbers[i]))
        left[{lines.file(i), ShortFunction(line.function, line.function.size())}].push_back(i);
    }
    return left;
  }

  void JoinMoved(const SharedLines& before, const SharedLines& after) {
    const auto gone = Alone(before, before_, after_), fresh = Alone(after, after_, before_);
    for (const auto& [place, lines] : gone) {
      const auto other = fresh.find(place);
      if (lines.size() == 1 && other != fresh.end() && other->second.size() == 1)
        after_[other->second[0]] = before_[lines[0]];
    }
  }

  std::vector<std::uint32_t> before_, after_;
};

std::uint64_t& Side(BeforeAfter& value, bool after) { return after ? value.after : value.before; }

class Comparer {
 public:
  Comparer(const RankReport& before, const RankReport& after, const Threshold& threshold)
      : reports_{&before, &after}, threshold_(threshold), numbers_(before, after) {
    diff_.before = &before;
    diff_.after = &after;
  }

  RankDiff Compare() {
    for (const bool after : {false, true}) {
      const RankReport& report = *reports_[after ? 1 : 0];
      Side(diff_.ranks, after) = report.mains.size();
      Side(diff_.refused, after) = report.refused.size();
      Side(diff_.leaked_bytes, after) = report.leaked_bytes();
    }
    Figures();
    Leaks();
    diff_.of_tensors = reports_[0]->imbalance.of_tensors;
    diff_.lines_comparable = diff_.of_tensors == reports_[1]->imbalance.of_tensors;
    if (diff_.lines_comparable) Lines();
    return std::move(diff_);
  }

 private:
  using Key = std::tuple<std::uint32_t, std::uint32_t, bool>;  // numbers of line and caller; host memory

  void Figures() {
    for (std::size_t i = 0; i < kRankFigures; ++i) {
      RankFigureDiff figure{static_cast<RankFigure>(i), {}, {}};
      for (const bool after : {false, true}) {
        for (const FigureSpread& spread : reports_[after ? 1 : 0]->figures) {
          if (spread.figure != figure.figure) continue;
          Side(figure.median, after) = spread.spread.median;
          Side(figure.most, after) = spread.spread.most;
        }
      }
      if (figure.most.before != 0 || figure.most.after != 0) diff_.figures.push_back(figure);
    }
  }

  static void SetLine(RankLinePair& pair, bool after, std::uint32_t line, std::uint32_t caller) {
    (after ? pair.after : pair.before) = line;
    (after ? pair.caller_after : pair.caller_before) = caller;
  }

  // As in a diff of two snapshots: by bytes a step where both have steps, else by bytes.
  LeakChange ChangeOf(const RankLeakDiff& leak) const {
    if (leak.line.before == kNoLine) return LeakChange::kNew;
    if (leak.line.after == kNoLine) return LeakChange::kGone;
    BeforeAfter value = leak.bytes;
    if (leak.rate_before > 0 && leak.rate_after > 0)
      value = {static_cast<std::uint64_t>(leak.rate_before), static_cast<std::uint64_t>(leak.rate_after)};
    if (static_cast<double>(value.size()) <=
        threshold_.share * static_cast<double>(std::max(value.before, value.after)))
      return LeakChange::kAlike;
    return value.after > value.before ? LeakChange::kGrew : LeakChange::kShrank;
  }

  void Leaks() {
    std::map<Key, RankLeakDiff> leaks;
    for (const bool after : {false, true}) {
      for (const RankLeakLine& line : reports_[after ? 1 : 0]->leaks) {
        RankLeakDiff& leak = leaks[Key(numbers_.Of(after, line.line), numbers_.Of(after, line.caller), line.host)];
        SetLine(leak.line, after, line.line, line.caller);
        Side(leak.bytes, after) += line.bytes;
        Side(leak.ranks, after) += line.ranks.size();
        (after ? leak.rate_after : leak.rate_before) = line.most_per_step;
      }
    }
    for (auto& [key, leak] : leaks) {
      leak.change = ChangeOf(leak);
      diff_.leaks.push_back(leak);
    }
    std::sort(diff_.leaks.begin(), diff_.leaks.end(), [&](const RankLeakDiff& a, const RankLeakDiff& b) {
      if (a.change != b.change) return a.change < b.change;
      const std::uint64_t most_a = std::max(a.bytes.before, a.bytes.after),
                          most_b = std::max(b.bytes.before, b.bytes.after);
      return most_a != most_b ? most_a > most_b : Before(a.line, b.line);
    });
  }

  bool Before(const RankLinePair& a, const RankLinePair& b) const {
    const auto key = [&](const RankLinePair& pair) {
      const bool after = pair.after != kNoLine;
      const SharedLines& lines = reports_[after ? 1 : 0]->lines;
      return std::pair(lines.key(after ? pair.after : pair.before),
                       lines.key(after ? pair.caller_after : pair.caller_before));
    };
    return key(a) < key(b);
  }

  std::set<std::uint32_t> WithCallers(bool after) const {
    std::set<std::uint32_t> lines;
    const RankReport& report = *reports_[after ? 1 : 0];
    for (const std::size_t main : report.mains) {
      for (const RankLine& line : report.ranks[main].peak_lines) {
        if (line.caller != 0) lines.insert(numbers_.Of(after, line.line));
      }
    }
    return lines;
  }

  void Lines() {
    const std::set<std::uint32_t> callers_before = WithCallers(false), callers_after = WithCallers(true);
    std::map<Key, RankLineDiff> lines;
    for (const bool after : {false, true}) {
      const RankReport& report = *reports_[after ? 1 : 0];
      for (const std::size_t main : report.mains) {
        std::map<Key, std::uint64_t> own;
        for (const RankLine& line : report.ranks[main].peak_lines) {
          const std::uint32_t number = numbers_.Of(after, line.line);
          const bool split = callers_before.contains(number) && callers_after.contains(number);
          const Key key(number, split ? numbers_.Of(after, line.caller) : numbers_.Of(after, 0), false);
          SetLine(lines[key].line, after, line.line, split ? line.caller : 0);
          own[key] += line.bytes;
        }
        for (const auto& [key, bytes] : own) {
          RankLineDiff& line = lines[key];
          Side(line.sum, after) += bytes;
          Side(line.most, after) = std::max(Side(line.most, after), bytes);
          ++Side(line.ranks, after);
        }
      }
    }
    for (const auto& [key, line] : lines) {
      if (!threshold_.SmallBytes(line.sum) || !threshold_.SmallBytes(line.most))
        diff_.lines.push_back(line);
      else if (line.sum.changed() || line.most.changed())
        ++diff_.small_lines;
    }
    std::sort(diff_.lines.begin(), diff_.lines.end(), [&](const RankLineDiff& a, const RankLineDiff& b) {
      return a.sum.size() != b.sum.size() ? a.sum.size() > b.sum.size() : Before(a.line, b.line);
    });
  }

  const RankReport* reports_[2];
  const Threshold& threshold_;
  LineNumbers numbers_;
  RankDiff diff_;
};

}  // namespace

bool RankDiff::different() const {
  const bool leak =
      std::any_of(leaks.begin(), leaks.end(), [](const RankLeakDiff& of) { return of.change != LeakChange::kAlike; });
  return leak || !lines.empty() || ranks.changed() || refused.changed();
}

RankDiff CompareRanks(const RankReport& before, const RankReport& after, const Threshold& threshold) {
  return Comparer(before, after, threshold).Compare();
}

}  // namespace cuheap::analysis
