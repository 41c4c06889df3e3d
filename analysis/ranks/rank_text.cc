#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <tuple>

#include "analysis/printable.h"
#include "analysis/ranks/rank_names.h"
#include "analysis/ranks/rank_rendering.h"
#include "analysis/ranks/rank_table.h"
#include "analysis/ranks/rank_words.h"
#include "analysis/reports/text_canvas.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string_view TraitName(RankTrait trait) {
  switch (trait) {
    case RankTrait::kDevice:
      return "device";
    case RankTrait::kCommand:
      return "command";
    case RankTrait::kEnd:
      return "end";
    case RankTrait::kWorldSize:
      return "world size";
    case RankTrait::kRun:
      return "run";
  }
  return {};
}

class Renderer {
 public:
  Renderer(const RankReport& report, const TextOptions& options)
      : report_(report), names_(report), canvas_(options), folder_(report.lines.CommonFolder()) {}

  std::string Render() {
    Verdict();
    OutOfMemory();
    Run();
    Leaks();
    Differences();
    RankTable(report_, names_, canvas_).Print();
    Devices();
    NotRead();
    if (!report_.ranks.empty()) {
      canvas_.Line();
      canvas_.Dim("One process in full: cuheap report FILE");
    }
    return canvas_.Take();
  }

 private:
  std::string ShowLine(std::uint32_t index, std::size_t width) const {
    return ShowSharedLine(report_.lines, index, folder_, width, canvas_.utf8());
  }

  std::vector<std::size_t> With(Verdict verdict) const {
    std::vector<std::size_t> ranks;
    for (std::size_t i = 0; i < report_.ranks.size(); ++i) {
      if (report_.ranks[i].verdict == verdict) ranks.push_back(i);
    }
    return ranks;
  }

  std::vector<std::size_t> Leaking() const {
    std::vector<std::size_t> ranks;
    for (std::size_t i = 0; i < report_.ranks.size(); ++i) {
      if (report_.ranks[i].leak_count != 0) ranks.push_back(i);
    }
    return ranks;
  }

  std::string LeakText() const {
    const std::vector<std::size_t> leaking = Leaking();
    if (leaking.empty()) return {};
    return names_.Many(leaking) + (leaking.size() == 1 ? " leaks: " : " leak: ") +
           Plural(report_.leaks.size(), "line") + ", " + BytesBoth(report_.leaked_bytes()) +
           " held to the end and growing";
  }

  void Verdict() {
    std::string text;
    std::string_view word = "NO LEAKS";
    TextColor color = TextColor::kGood;
    switch (report_.verdict) {
      case analysis::Verdict::kOutOfMemory:
        word = "OUT OF MEMORY";
        color = TextColor::kBad;
        text = names_.Many(report_.refused) + (report_.refused.size() == 1 ? " was" : " were") + " refused memory";
        if (const std::string leaks = LeakText(); !leaks.empty()) text += "; " + leaks;
        break;
      case analysis::Verdict::kLeaks: {
        const std::vector<std::size_t> leaking = Leaking();
        const bool small = std::all_of(leaking.begin(), leaking.end(), [&](std::size_t rank) {
          return report_.ranks[rank].verdict_word == "SMALL LEAK";
        });
        word = small ? "SMALL LEAK" : "LEAK";
        color = small ? TextColor::kWarn : TextColor::kBad;
        text = LeakText();
        break;
      }
      case analysis::Verdict::kGrowing:
        word = "GROWING";
        color = TextColor::kBad;
        text =
            "no line leaks, but PyTorch's cache grows to the end on " + names_.Many(With(analysis::Verdict::kGrowing));
        break;
      case analysis::Verdict::kIncomplete:
        word = "INCOMPLETE";
        color = TextColor::kWarn;
        text = "nothing grows in what is left of the records; parts are lost of " +
               names_.Many(With(analysis::Verdict::kIncomplete));
        break;
      case analysis::Verdict::kNoLeaks:
        text = NoLeaksText(color);
        break;
      case analysis::Verdict::kNothingSeen:
        word = "NO VERDICT";
        color = TextColor::kWarn;
        text = report_.ranks.empty() ? "no file could be read" : "CUDA was used, but not one allocation was seen";
        break;
    }
    if (!report_.unread.empty() && !report_.ranks.empty())
      text += "; " + Plural(report_.unread.size(), "file") + " could not be read";
    canvas_.Verdict(word, text, color);
  }

  // Green only where every process was seen whole.
  std::string NoLeaksText(TextColor& color) const {
    std::string text = "nothing grows on " + names_.Count(report_.mains.size());
    const std::vector<std::size_t> nothing = With(analysis::Verdict::kNothingSeen);
    const bool unseen =
        std::any_of(report_.ranks.begin(), report_.ranks.end(), [](const RankSummary& rank) { return rank.unseen; });
    if (!nothing.empty()) text += "; no allocation was seen of " + names_.Many(nothing);
    if (unseen) text += "; some calls went past cuheap (see the ranks' own reports)";
    if (!nothing.empty() || unseen || !report_.unread.empty()) color = TextColor::kWarn;
    return text;
  }

  std::string SinceBegin(std::int64_t realtime_ns) const { return HumanTime(realtime_ns - report_.begin_ns); }

  static std::int64_t RefusedAt(const RankSummary& rank) { return rank.start_realtime_ns + rank.refusal->time_ns; }

  void OutOfMemory() {
    if (report_.refused.empty()) return;
    const std::size_t first = report_.refused.front();
    const RankSummary& rank = report_.ranks[first];
    canvas_.Section("OUT OF MEMORY", names_.One(first) + " first" + (report_.refused.size() == 1 ? ", alone" : ""));
    const std::string where =
        rank.refusal->device == kUnknownDevice
            ? std::string()
            : " on device " + std::to_string(rank.refusal->device) + (rank.host.empty() ? "" : " of " + rank.host);
    canvas_.Field("refused", BytesBoth(rank.refusal->request) + (rank.refusal->by_framework ? " by PyTorch" : "") +
                                 where + ", " + SinceBegin(RefusedAt(rank)) + " after the first start");
    canvas_.Field("at", ShowLine(rank.refusal->line, canvas_.width() - 20));
    if (rank.refusal->caller != 0) canvas_.Field("called by", ShowLine(rank.refusal->caller, canvas_.width() - 20));
    canvas_.Field("it held", BytesBoth(rank.peak_bytes()) + " at its peak" +
                                 (rank.has_device() && rank.device().capacity_bytes != 0
                                      ? ", of " + Human(rank.device().capacity_bytes)
                                      : ""));
    std::string beside;
    for (const DeviceUser& other : HoldersBeside(report_.ranks, first))
      beside += (beside.empty() ? "" : ", ") + names_.One(other.rank) + " " + Human(other.bytes);
    if (!beside.empty()) canvas_.Field("beside it then", beside);
    std::string later;
    for (std::size_t i = 1; i < std::min(report_.refused.size(), canvas_.top() + 1); ++i) {
      const RankSummary& other = report_.ranks[report_.refused[i]];
      later += (later.empty() ? "" : ", ") + names_.One(report_.refused[i]) + " +" +
               HumanTime(RefusedAt(other) - RefusedAt(rank));
    }
    if (report_.refused.size() > canvas_.top() + 1)
      later += " and " + Plural(report_.refused.size() - canvas_.top() - 1, "other");
    if (!later.empty()) canvas_.Field("after it", later);
  }

  void Run() {
    canvas_.Section("RUN");
    for (const RankSummary& rank : report_.ranks) {
      if (rank.command.empty()) continue;
      canvas_.Field("command", rank.command);
      break;
    }
    std::string ranks = Grouped(report_.mains.size());
    if (report_.ranks_known && report_.world_size != 0) ranks += " of " + Grouped(report_.world_size);
    if (report_.ranks.size() != report_.mains.size()) ranks += ", " + Grouped(report_.ranks.size()) + " processes";
    if (const std::string hosts = Hosts(); !hosts.empty()) ranks += ", on " + hosts;
    canvas_.Field(report_.ranks_known ? "ranks" : "processes", ranks);
    if (std::any_of(report_.ranks.begin(), report_.ranks.end(),
                    [](const RankSummary& rank) { return rank.identity.source == RankSource::kFileName; })) {
      canvas_.Field("", "some ranks are told by the names of their files only");
    }
    Missing();
    if (report_.end_ns > report_.begin_ns)
      canvas_.Field("time", HumanTime(report_.end_ns - report_.begin_ns) + " from the first start to the last end");
  }

  std::string Hosts() const {
    std::set<std::string> hosts;
    for (const RankSummary& rank : report_.ranks) {
      if (!rank.host.empty()) hosts.insert(rank.host);
    }
    if (hosts.empty()) return {};
    if (hosts.size() == 1) return *hosts.begin();
    return Plural(hosts.size(), "host");
  }

  void Missing() {
    if (!report_.missing.empty()) {
      canvas_.Field(
          "missing",
          std::string(report_.missing.size() == 1 && report_.missing[0].first == report_.missing[0].last ? "rank "
                                                                                                         : "ranks ") +
              JoinRanges(report_.missing) +
              ": no snapshot of it was read. It may still run, have been on another node, or have "
              "made no CUDA call");
    }
    if (report_.repeated.empty()) return;
    std::vector<std::size_t> some;
    for (const std::vector<std::size_t>& same : report_.repeated) some.push_back(same.front());
    canvas_.Field("several files",
                  "of " + Plural(report_.repeated.size(), "rank") +
                      ": helper processes, or runs that share a folder. Compared is the one with the largest peak");
  }

  void Leaks() {
    if (report_.leaks.empty()) return;
    canvas_.Section("LEAKS", Plural(report_.leaks.size(), "line"));
    std::size_t shown = 0;
    for (const RankLeakLine& leak : report_.leaks) {
      if (shown++ == canvas_.top()) break;
      canvas_.Strong(PadLeft(std::to_string(shown), 5) + "  " + ShowLine(leak.line, canvas_.width() - 8));
      if (leak.caller != 0) canvas_.Detail("called by " + ShowLine(leak.caller, canvas_.width() - 18));
      canvas_.Detail(LeakWho(leak));
    }
    if (report_.leaks.size() > canvas_.top())
      canvas_.Dim("     and " + Plural(report_.leaks.size() - canvas_.top(), "other line"));
  }

  std::string LeakWho(const RankLeakLine& leak) const {
    const bool all = leak.ranks.size() == report_.ranks.size();
    std::string text = (all || leak.ranks.size() > 1 ? "on " : "only on ") + names_.Many(leak.ranks);
    if (!all && leak.ranks.size() > 1) text += ", not on the others";
    text += ": " + BytesBoth(leak.bytes) + " in " + Plural(leak.blocks, "block");
    if (leak.host) text += " of pinned host memory";
    if (leak.ranks.size() > 1) text += "; most on " + names_.One(leak.most_rank) + ", " + Human(leak.most_bytes);
    if (leak.most_per_step != 0) {
      text += "; +" + HumanBytes(leak.most_per_step) + " a step";
      if (leak.least_per_step != leak.most_per_step && leak.ranks.size() > 1)
        text += " there, +" + HumanBytes(leak.least_per_step) + " at least";
    }
    return text;
  }

  void Differences() {
    canvas_.Section("WHAT DIFFERS");
    bool any = false;
    for (const FigureSpread& figure : report_.figures) any = Figure(figure) || any;
    any = ImbalanceLines() || any;
    for (const TraitDifference& difference : report_.differences) {
      any = true;
      Trait(difference);
    }
    if (!any) canvas_.Paragraph(report_.mains.size() < 2 ? "There is nothing to compare with." : "Nothing of note.");
  }

  // Peaks are always told, other figures only where a rank stands out.
  bool Figure(const FigureSpread& figure) {
    const Spread& spread = figure.spread;
    const bool peak = figure.figure == RankFigure::kPeak || figure.figure == RankFigure::kTensorPeak;
    if (spread.count < 2 || (!peak && spread.outliers.empty())) return false;
    std::string text = FigureText(figure.figure, spread.least) + " to " + FigureText(figure.figure, spread.most) +
                       ", median " + FigureText(figure.figure, spread.median);
    if (spread.least == spread.most) text = "the same everywhere: " + FigureText(figure.figure, spread.most);
    if (peak && spread.least != spread.most) {
      char factor[32];
      std::snprintf(factor, sizeof(factor), "%.2f", spread.imbalance());
      text += "; the most is " + std::string(factor) + " times the mean, on " + names_.One(spread.most_rank);
    }
    canvas_.Field(FigureName(figure.figure), text);
    const std::size_t shown = std::min(canvas_.top(), spread.outliers.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const RankValue& outlier = spread.outliers[i];
      const std::string relative = RelativeText(outlier.value, spread.median);
      canvas_.Field("", "stands out: " + names_.One(outlier.rank) + " with " +
                            FigureText(figure.figure, outlier.value) + (relative.empty() ? "" : ", " + relative));
    }
    if (spread.outliers.size() > shown)
      canvas_.Field("", "and " + Plural(spread.outliers.size() - shown, "other rank"));
    return true;
  }

  bool ImbalanceLines() {
    const Imbalance& imbalance = report_.imbalance;
    if (imbalance.lines.empty()) return false;
    const std::string largest = names_.One(imbalance.spread.most_rank),
                      median = names_.One(imbalance.spread.median_rank);
    canvas_.Line();
    canvas_.Dim("  " + largest + " (the most) beside " + median + " (the median), at their peaks" +
                (imbalance.of_tensors ? " of tensors" : "") + ":");
    canvas_.Dim("    difference       most     median  line");
    const std::size_t shown = std::min(canvas_.top(), imbalance.lines.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const ImbalanceLine& line = imbalance.lines[i];
      const bool more = line.largest > line.median;
      const std::uint64_t size = more ? line.largest - line.median : line.median - line.largest;
      canvas_.Line(PadLeft((more ? "+" : "-") + Human(size), 14) + PadLeft(Human(line.largest), 11) +
                   PadLeft(Human(line.median), 11) + "  " +
                   ShowSharedUse(report_.lines, line.line, line.caller, folder_, canvas_.width() - 40, canvas_.utf8()));
    }
    if (imbalance.lines.size() > shown)
      canvas_.Dim(std::string(38, ' ') + "and " + Plural(imbalance.lines.size() - shown, "other line"));
    if (!report_.differences.empty()) canvas_.Line();
    return true;
  }

  void Trait(const TraitDifference& difference) {
    const std::size_t shown = std::min<std::size_t>(canvas_.top(), difference.values.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const TraitValue& value = difference.values[i];
      canvas_.Field(i == 0 ? TraitName(difference.trait) : "", names_.Many(value.ranks) + ": " + value.value);
    }
    if (difference.values.size() > shown)
      canvas_.Field("", "and " + Grouped(difference.values.size() - shown) + " more");
  }

  void Devices() {
    if (report_.devices.empty()) return;
    canvas_.Section("SHARED DEVICES", Plural(report_.devices.size(), "device") + " used by several of these processes");
    const std::size_t shown = std::min(canvas_.top(), report_.devices.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const DeviceUse& use = report_.devices[i];
      std::string text = use.name + ": together at most " + Human(use.together_bytes);
      if (use.capacity_bytes != 0) {
        text += " of " + Human(use.capacity_bytes) + " (" +
                Percent(static_cast<double>(use.together_bytes) / static_cast<double>(use.capacity_bytes)) + ")";
      }
      for (std::size_t j = 0; j < std::min(canvas_.top(), use.users.size()); ++j)
        text += (j == 0 ? "; then " : ", ") + names_.One(use.users[j].rank) + " " + Human(use.users[j].bytes);
      if (use.users.size() > canvas_.top()) text += " and " + Plural(use.users.size() - canvas_.top(), "other");
      canvas_.Field(Printable(use.host.empty() ? "" : use.host + " ") + std::to_string(use.ordinal), text);
    }
    if (report_.devices.size() > shown)
      canvas_.Field("", "and " + Plural(report_.devices.size() - shown, "other device"));
  }

  void NotRead() {
    if (!report_.not_snapshots.empty()) {
      canvas_.Section("LEFT OUT",
                      Plural(report_.not_snapshots.size(), "file") + " of the folder that are no snapshots");
      const std::size_t shown = std::min(canvas_.top(), report_.not_snapshots.size());
      for (std::size_t i = 0; i < shown; ++i) canvas_.Item(Printable(report_.not_snapshots[i]), TextColor::kPlain);
      if (report_.not_snapshots.size() > shown)
        canvas_.Item("and " + Grouped(report_.not_snapshots.size() - shown) + " more", TextColor::kPlain);
    }
    if (report_.unread.empty()) return;
    canvas_.Section("NOT READ", Plural(report_.unread.size(), "file"));
    const std::size_t shown = std::min(canvas_.top(), report_.unread.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const UnreadFile& file = report_.unread[i];
      canvas_.Item((file.rank ? "rank " + std::to_string(*file.rank) + ": " : "") + file.error, TextColor::kBad);
    }
    if (report_.unread.size() > shown)
      canvas_.Item("and " + Grouped(report_.unread.size() - shown) + " more (--top shows more, --json all)",
                   TextColor::kBad);
  }

  const RankReport& report_;
  RankNames names_;
  TextCanvas canvas_;
  std::string folder_;  // that paths are shown relative to
};

}  // namespace

std::string RenderRanksText(const RankReport& report, const TextOptions& options) {
  return Renderer(report, options).Render();
}

}  // namespace cuheap::analysis
