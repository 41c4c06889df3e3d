#include "analysis/reports/diff_words.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "analysis/reports/finding_text.h"
#include "analysis/reports/report_text.h"
#include "analysis/reports/text_format.h"
#include "analysis/snapshot_names.h"

namespace cuheap::analysis {
namespace {

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }
std::string Sign(const BeforeAfter& value) {
  if (!value.changed()) return "";
  return value.after > value.before ? "+" : "-";
}

std::string KindNames(const std::set<AllocationKind>& kinds) {
  std::string text;
  for (const AllocationKind kind : kinds) text += (text.empty() ? "" : " and ") + std::string(ToString(kind));
  return text;
}

// Of the figures that everybody asks for first.
std::string Headline(const Diff& diff) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (diff.refusals.before == 0 && diff.refusals.after != 0) add("memory is refused now and was not before");
  if (diff.refusals.before != 0 && diff.refusals.after == 0) add("memory was refused before and is not now");
  for (const auto& [change, words] :
       {std::pair(LeakChange::kNew, "new leak"), std::pair(LeakChange::kGrew, "leak that grew")}) {
    const std::uint64_t count = diff.leaks_of(change);
    if (count == 0) continue;
    add(change == LeakChange::kGrew ? (count == 1 ? "1 leak grew" : Grouped(count) + " leaks grew")
                                    : Plural(count, words));
  }
  if (const std::uint64_t gone = diff.leaks_of(LeakChange::kGone); gone != 0) add(Plural(gone, "leak") + " gone");
  for (const ScopeDiff& scope : diff.scopes) {
    if (scope.peak_bytes.changed() && !diff.threshold.SmallBytes(scope.peak_bytes)) {
      const std::string share = scope.peak_bytes.before == 0 || scope.peak_bytes.after == 0
                                    ? ""
                                    : " (" + SignedPercent(scope.peak_bytes) + ")";
      add("peak of " + ScopeName(scope.scope) + " " + SignedBytes(scope.peak_bytes) + share);
    }
  }
  if (text.empty()) {
    add(diff.changes == 1 ? "1 figure or line differs" : Grouped(diff.changes) + " figures and lines differ");
    add("the peaks do not");
  }
  return text;
}

}  // namespace

std::string SignedBytes(const BeforeAfter& value) { return Sign(value) + Human(value.size()); }
std::string SignedCount(const BeforeAfter& value) { return Sign(value) + Grouped(value.size()); }
std::string SignedPercent(const BeforeAfter& value) {
  if (!value.changed()) return "0.0 %";
  if (value.before == 0) return "new";
  if (value.after == 0) return "gone";
  return Sign(value) + Percent(static_cast<double>(value.size()) / static_cast<double>(value.before));
}

std::string HolderName(const HeldDiff& held) {
  return (held.framework ? "PyTorch's cache on device " : "cuheap's pool on device ") + std::to_string(held.device);
}

std::string_view MatchWord(LineMatch match) {
  constexpr std::array<std::string_view, 4> kWords = {"same", "moved", "new", "gone"};
  return kWords.at(static_cast<std::size_t>(match));
}

std::string_view LeakChangeWord(LeakChange change) {
  constexpr std::array<std::string_view, 5> kWords = {"new", "grew", "shrank", "gone", "alike"};
  return kWords.at(static_cast<std::size_t>(change));
}

std::string ShowLines(const Diff& diff, const LinePair& lines, std::size_t width, bool utf8) {
  std::string mark;
  switch (lines.match()) {
    case LineMatch::kMoved:
      mark = " (was line " + std::to_string(diff.before->lines.line(lines.before).line) + ")";
      break;
    case LineMatch::kNew:
      mark = " (new)";
      break;
    case LineMatch::kGone:
      mark = " (gone)";
      break;
    case LineMatch::kSame:
      break;
  }
  return ShowPlainLine(diff, lines, width - std::min(width, mark.size()), utf8) + mark;
}

std::string ShowPlainLine(const Diff& diff, const LinePair& lines, std::size_t width, bool utf8) {
  return ShowLine(lines.after != kNoLine ? *diff.after : *diff.before, diff.LineOf(lines), width, utf8);
}

std::string ShowLeak(const Diff& diff, const LeakDiff& leak, std::size_t width, bool utf8) {
  if (leak.cache) return "PyTorch's cache, " + ScopeName(leak.scope);
  const LineMatch match = leak.lines.match();
  if (match == LineMatch::kSame || match == LineMatch::kMoved) return ShowLines(diff, leak.lines, width, utf8);
  return ShowPlainLine(diff, leak.lines, width, utf8);
}

std::string KindsPhrase(const LineDiff& line) {
  if (line.kinds_before.empty() || line.kinds_after.empty() || line.kinds_before == line.kinds_after) return "";
  return " (was " + KindNames(line.kinds_before) + ", is " + KindNames(line.kinds_after) + ")";
}

std::string LeakPhrase(const LeakDiff& leak) {
  const auto rate = [](double bytes) { return bytes > 0 ? "+" + HumanBytes(bytes) + " a step" : std::string(); };
  const auto held = [](std::uint64_t bytes, std::uint64_t blocks) {
    return Human(bytes) + " in " + Plural(blocks, "block");
  };
  const auto side = [&](double bytes_per_step, std::uint64_t bytes, std::uint64_t blocks) {
    return rate(bytes_per_step) + (bytes_per_step > 0 ? ", " : "") + held(bytes, blocks);
  };
  const std::string before = side(leak.rate_before, leak.bytes.before, leak.blocks.before);
  std::string after = side(leak.rate_after, leak.bytes.after, leak.blocks.after);
  if (leak.change == LeakChange::kNew) return after;
  if (leak.change == LeakChange::kGone) return "before " + before;
  return after.append("; before ").append(before);
}

std::vector<FigureRow> FigureRows(const Diff& diff) {
  std::vector<FigureRow> rows;
  const auto add = [&](const std::string& name, const BeforeAfter& value, bool bytes) {
    if (value.before == 0 && value.after == 0) return;
    const bool small = bytes ? diff.threshold.SmallBytes(value) : diff.threshold.SmallCount(value);
    rows.push_back({name, value, bytes, value.changed() && small});
  };
  for (const ScopeDiff& scope : diff.scopes) {
    const std::string where = ScopeName(scope.scope);
    add("peak of " + where, scope.peak_bytes, true);
    add("live at the end, " + where, scope.live_bytes, true);
    if (!scope.counts) continue;
    add("allocations, " + where, scope.allocations, false);
    add("bytes allocated, " + where, scope.allocated_bytes, true);
  }
  for (const HeldDiff& held : diff.held) {
    add("held by " + HolderName(held) + ", most", held.peak_bytes, true);
    add("held by " + HolderName(held) + ", end", held.bytes, true);
    add("idle beside live blocks of it", held.pinned_bytes, true);
  }
  const auto exact = [&](const std::string& name, const BeforeAfter& value, bool bytes) {
    add(name, value, bytes);
    if (!rows.empty() && rows.back().name == name) rows.back().small = false;
  };
  exact("lines that leak", diff.leak_count, false);
  exact("leaked bytes", diff.leaked_bytes, true);
  exact("steps", diff.steps, false);
  exact("refusals of memory", diff.refusals, false);
  return rows;
}

DiffWords PutDiff(const Diff& diff) {
  if (!diff.different()) {
    const bool limited =
        std::any_of(diff.limits.begin(), diff.limits.end(), [](const Limit& limit) { return limit.code != "running"; });
    return {"NO DIFFERENCE",
            (diff.small_changes == 0 ? "every figure that was compared is the same"
                                     : "beyond small ones (" + Grouped(diff.small_changes) + ")") +
                std::string(limited ? "; not everything could be compared, see below" : ""),
            limited ? TextColor::kWarn : TextColor::kGood};
  }
  if (diff.refusals.after != 0 && diff.refusals.before == 0) return {"OUT OF MEMORY", Headline(diff), TextColor::kBad};
  if (diff.leaks_of(LeakChange::kNew) != 0) return {"NEW LEAK", Headline(diff), TextColor::kBad};
  return {"DIFFERENT", Headline(diff), TextColor::kWarn};
}

std::vector<std::pair<LinePair, BeforeAfter>> CallersOf(const std::map<LinePair, BeforeAfter>& callers,
                                                        const Threshold& threshold, std::size_t most) {
  std::vector<std::pair<LinePair, BeforeAfter>> rows;
  for (const auto& [lines, bytes] : callers) {
    if (bytes.changed() && !threshold.SmallBytes(bytes)) rows.emplace_back(lines, bytes);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  if (rows.size() > most) rows.resize(most);
  return rows;
}

LineRows RowsOf(const ScopeDiff& scope, LineFigure figure, const Threshold& threshold) {
  LineRows result;
  if ((figure == LineFigure::kPeak && !scope.peak_by_line) || (figure == LineFigure::kAllocated && !scope.counts))
    return result;
  for (const LineDiff& line : scope.lines) {
    LineRow row{&line, line.peak_bytes, line.peak_blocks, &line.peak_callers};
    if (figure == LineFigure::kLive) row = {&line, line.live_bytes, line.live_blocks, &line.live_callers};
    if (figure == LineFigure::kAllocated) row = {&line, line.allocated_bytes, line.allocations, nullptr};
    const bool kinds = figure == LineFigure::kPeak && !KindsPhrase(line).empty();
    if (!row.bytes.changed() && !row.blocks.changed() && !kinds) continue;
    const bool small = threshold.SmallBytes(row.bytes) &&
                       (figure != LineFigure::kAllocated || threshold.SmallCount(row.blocks)) && !kinds;
    if (small) {
      ++result.small_count;
      result.small_bytes.Add(row.bytes);
      result.small_blocks.Add(row.blocks);
    } else {
      result.rows.push_back(row);
    }
  }
  std::stable_sort(result.rows.begin(), result.rows.end(), [](const LineRow& a, const LineRow& b) {
    return std::tuple(a.bytes.size(), a.blocks.size()) > std::tuple(b.bytes.size(), b.blocks.size());
  });
  return result;
}

}  // namespace cuheap::analysis
