#include <algorithm>
#include <string>
#include <string_view>

#include "analysis/ranks/rank_diff.h"
#include "analysis/ranks/rank_words.h"
#include "analysis/reports/diff_words.h"
#include "analysis/reports/text_canvas.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string_view ChangeWord(LeakChange change) {
  switch (change) {
    case LeakChange::kNew:
      return "new";
    case LeakChange::kGrew:
      return "grew";
    case LeakChange::kShrank:
      return "shrank";
    case LeakChange::kGone:
      return "gone";
    case LeakChange::kAlike:
      break;
  }
  return "alike";
}

class Renderer {
 public:
  Renderer(const RankDiff& diff, const TextOptions& options)
      : diff_(diff),
        canvas_(options),
        folder_before_(diff.before->lines.CommonFolder()),
        folder_after_(diff.after->lines.CommonFolder()) {}

  std::string Render() {
    Verdict();
    Runs();
    Leaks();
    Figures();
    Lines();
    return canvas_.Take();
  }

 private:
  std::string ShowLine(const RankLinePair& pair, std::size_t width) const {
    const bool gone = pair.after == kNoLine;
    const RankReport& report = gone ? *diff_.before : *diff_.after;
    return ShowSharedUse(report.lines, gone ? pair.before : pair.after, gone ? pair.caller_before : pair.caller_after,
                         gone ? folder_before_ : folder_after_, width, canvas_.utf8());
  }

  void Verdict() {
    if (!diff_.different()) return canvas_.Verdict("ALIKE", "nothing differs by more than a little", TextColor::kGood);
    std::string text;
    const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
    for (const LeakChange change : {LeakChange::kNew, LeakChange::kGrew, LeakChange::kShrank, LeakChange::kGone}) {
      const auto count = static_cast<std::uint64_t>(
          std::count_if(diff_.leaks.begin(), diff_.leaks.end(),
                        [change](const RankLeakDiff& leak) { return leak.change == change; }));
      if (count != 0) add(Plural(count, "leak") + " " + std::string(ChangeWord(change)));
    }
    for (const RankFigureDiff& figure : diff_.figures) {
      if (figure.figure == RankFigure::kPeak && figure.most.changed())
        add("the largest peak " + SignedBytes(figure.most) + ", " + SignedPercent(figure.most));
    }
    if (diff_.refused.changed())
      add("out of memory on " + Grouped(diff_.refused.before) + " before, on " + Grouped(diff_.refused.after) +
          " after");
    if (!diff_.lines.empty())
      add(Plural(diff_.lines.size(), "line") + (diff_.lines.size() == 1 ? " differs" : " differ"));
    const bool worse = std::any_of(diff_.leaks.begin(), diff_.leaks.end(), [](const RankLeakDiff& leak) {
      return leak.change == LeakChange::kNew || leak.change == LeakChange::kGrew;
    });
    canvas_.Verdict("DIFFERENT", text.empty() ? "another number of ranks" : text,
                    worse || diff_.refused.after > diff_.refused.before ? TextColor::kBad : TextColor::kWarn);
  }

  void Runs() {
    canvas_.Section("RUNS");
    for (const bool after : {false, true}) {
      const RankReport& report = after ? *diff_.after : *diff_.before;
      std::string text = Plural(report.mains.size(), report.ranks_known ? "rank" : "file");
      if (report.world_size != 0) text += " of " + Grouped(report.world_size);
      if (!report.unread.empty()) text += "; " + Plural(report.unread.size(), "file") + " could not be read";
      for (const RankSummary& rank : report.ranks) {
        if (rank.command.empty()) continue;
        text += ": " + rank.command;
        break;
      }
      canvas_.Field(after ? "after" : "before", text);
    }
  }

  void Leaks() {
    if (diff_.leaks.empty()) return;
    canvas_.Section("LEAKS");
    const std::size_t shown = std::min(canvas_.top(), diff_.leaks.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const RankLeakDiff& leak = diff_.leaks[i];
      canvas_.Strong(PadLeft(std::string(ChangeWord(leak.change)), 8) + "  " +
                     ShowLine(leak.line, canvas_.width() - 12));
      std::string text;
      if (leak.change != LeakChange::kNew)
        text += Where(leak.ranks.before, leak.bytes.before, leak.rate_before) + " before";
      if (leak.change != LeakChange::kGone)
        text += (text.empty() ? "" : "; ") + Where(leak.ranks.after, leak.bytes.after, leak.rate_after) + " after";
      canvas_.Detail("     " + text);
    }
    if (diff_.leaks.size() > shown) canvas_.Dim("          and " + Plural(diff_.leaks.size() - shown, "other line"));
  }

  static std::string Where(std::uint64_t ranks, std::uint64_t bytes, double rate) {
    return Human(bytes) + " on " + Plural(ranks, "rank") + (rate == 0 ? "" : ", +" + HumanBytes(rate) + " a step");
  }

  void Figures() {
    canvas_.Section("FIGURES");
    canvas_.Dim("                         before       after");
    for (const RankFigureDiff& figure : diff_.figures) {
      Figure(FigureName(figure.figure) + ", most", figure.figure, figure.most);
      Figure(FigureName(figure.figure) + ", median", figure.figure, figure.median);
    }
  }

  void Figure(const std::string& name, RankFigure figure, const BeforeAfter& value) {
    canvas_.Line("  " + PadRight(name, 22) + PadLeft(FigureText(figure, value.before), 11) + " " +
                 PadLeft(FigureText(figure, value.after), 11) + (value.changed() ? "  " + SignedPercent(value) : ""));
  }

  void Lines() {
    canvas_.Section("LINES", diff_.of_tensors ? "at the ranks' peaks of tensors" : "at the ranks' peaks");
    if (!diff_.lines_comparable)
      return canvas_.Paragraph("Tensors were observed in one of the runs only: its lines are not those of the other.");
    if (diff_.lines.empty()) return canvas_.Paragraph("No line differs by more than a little.");
    canvas_.Dim("     all ranks                       the rank with most");
    canvas_.Dim("        change     before      after     before      after  line");
    const std::size_t shown = std::min(canvas_.top(), diff_.lines.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const RankLineDiff& line = diff_.lines[i];
      canvas_.Line(PadLeft(SignedBytes(line.sum), 14) + PadLeft(Human(line.sum.before), 11) +
                   PadLeft(Human(line.sum.after), 11) + PadLeft(Human(line.most.before), 11) +
                   PadLeft(Human(line.most.after), 11) + "  " + ShowLine(line.line, canvas_.width() - 62));
    }
    if (diff_.lines.size() > shown)
      canvas_.Dim(std::string(60, ' ') + "and " + Plural(diff_.lines.size() - shown, "other line"));
    if (diff_.small_lines != 0)
      canvas_.Dim(std::string(60, ' ') + Plural(diff_.small_lines, "line") + " with small differences");
  }

  const RankDiff& diff_;
  TextCanvas canvas_;
  std::string folder_before_, folder_after_;
};

}  // namespace

std::string RenderRankDiffText(const RankDiff& diff, const TextOptions& options) {
  return Renderer(diff, options).Render();
}

}  // namespace cuheap::analysis
