#include "analysis/reports/diff_text.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/reports/diff_words.h"
#include "analysis/reports/finding_text.h"
#include "analysis/reports/kinds.h"
#include "analysis/reports/text_canvas.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

class Renderer {
 public:
  Renderer(const DiffDocument& document, const TextOptions& options)
      : document_(document), diff_(*document.diff), canvas_(options) {}

  std::string Render() {
    const DiffWords words = PutDiff(diff_);
    canvas_.Verdict(words.word, words.text, words.color);
    Conditions();
    Runs();
    Figures();
    Leaks();
    for (const ScopeDiff& scope : diff_.scopes) {
      const std::string where = ScopeName(scope.scope);
      Lines(scope, LineFigure::kPeak, "AT THE PEAK", where + ": " + SignedBytes(scope.peak_bytes));
      Lines(scope, LineFigure::kLive, "AT THE END", where + ": " + SignedBytes(scope.live_bytes) + " live");
      Lines(scope, LineFigure::kAllocated, "ALLOCATIONS",
            where + ": " + SignedCount(scope.allocations) + ", " + SignedBytes(scope.allocated_bytes));
    }
    Kinds();
    Limits();
    return canvas_.Take();
  }

 private:
  void Conditions() {
    if (document_.judgements.empty()) return;
    canvas_.Section("FAIL ON");
    for (const Judgement& judgement : document_.judgements) {
      canvas_.Item(std::string(!judgement.known ? "NOT KNOWN  "
                               : judgement.met  ? "FAILED  "
                                                : "passed  ") +
                       judgement.text,
                   judgement.met || !judgement.known ? TextColor::kBad : TextColor::kPlain);
    }
  }

  static std::string RunText(const Report& report) {
    const Snapshot& snapshot = *report.snapshot;
    if (snapshot.recorder == "pytorch") return "recorded by PyTorch, " + Plural(snapshot.events.size(), "event");
    std::string command;
    for (const std::string& argument : snapshot.process.command_line)
      command += (command.empty() ? "" : " ") + argument;
    return (command.empty() ? snapshot.process.executable : command) + ", process " +
           std::to_string(snapshot.process.pid) + " on " + snapshot.process.host +
           (snapshot.simulated ? ", simulated" : "");
  }

  void Runs() {
    canvas_.Section("RUNS");
    canvas_.Field("before", document_.name_before + ": " + RunText(*diff_.before));
    canvas_.Field("after", document_.name_after + ": " + RunText(*diff_.after));
    for (const Setting& setting : diff_.settings) {
      canvas_.Field("setting", setting.name + ": " + (setting.before.empty() ? "not set" : setting.before) +
                                   " before, " + (setting.after.empty() ? "not set" : setting.after) + " after");
    }
  }

  void Figures() {
    if (diff_.changes == 0 && diff_.small_changes == 0) return;
    std::vector<FigureRow> changed;
    std::size_t alike = 0, small = 0;
    for (const FigureRow& row : FigureRows(diff_)) {
      if (row.small)
        ++small;
      else if (row.value.changed())
        changed.push_back(row);
      else
        ++alike;
    }
    canvas_.Section("FIGURES");
    if (!changed.empty()) canvas_.Dim("      change                 before         after  figure");
    for (const FigureRow& row : changed) {
      const auto show = [&](std::uint64_t value) { return row.bytes ? Human(value) : Grouped(value); };
      canvas_.Line(PadLeft(row.bytes ? SignedBytes(row.value) : SignedCount(row.value), 12) + "  " +
                   PadLeft(SignedPercent(row.value), 9) + "  " + PadLeft(show(row.value.before), 10) + "  " +
                   PadLeft(show(row.value.after), 12) + "  " + row.name);
    }
    if (small != 0) canvas_.Dim("  small differences in " + Plural(small, "other figure"));
    if (alike != 0) canvas_.Dim("  no difference in " + Plural(alike, changed.empty() ? "figure" : "other figure"));
    for (const HeldDiff& held : diff_.held) {
      const std::string before = Percent(held.fragmentation_before), after = Percent(held.fragmentation_after);
      if (before == after) continue;
      std::string text = "Fragmentation of ";
      text.append(HolderName(held)).append(": ").append(before).append(" before, ").append(after).append(" after.");
      canvas_.Paragraph(text);
    }
  }

  void Leaks() {
    std::string counts;
    for (const LeakChange change :
         {LeakChange::kNew, LeakChange::kGrew, LeakChange::kShrank, LeakChange::kGone, LeakChange::kAlike}) {
      const std::uint64_t count = diff_.leaks_of(change);
      if (count == 0) continue;
      if (!counts.empty()) counts += ", ";
      counts.append(Grouped(count)).append(" ").append(LeakChangeWord(change));
    }
    const std::size_t told = diff_.leaks.size() - diff_.leaks_of(LeakChange::kAlike);
    if (told == 0) return;
    canvas_.Section("LEAKS", counts);
    const std::size_t shown = std::min(canvas_.top(), told);
    for (std::size_t i = 0; i < shown; ++i) Leak(diff_.leaks[i]);
    if (shown < told) canvas_.Dim("  and " + Plural(told - shown, "other"));
  }

  void Leak(const LeakDiff& leak) {
    const std::string word = PadRight(std::string(LeakChangeWord(leak.change)), 7);
    const std::string text = "  " + word + "  " + ShowLeak(diff_, leak, canvas_.width() - 11, canvas_.utf8());
    if (leak.change <= LeakChange::kGrew)
      canvas_.Strong(text);
    else
      canvas_.Line(text);
    if (leak.callers != LinePair{})
      canvas_.Detail("called by " + ShowLines(diff_, leak.callers, canvas_.width() - 16, canvas_.utf8()));
    canvas_.Detail(LeakPhrase(leak));
  }

  void Lines(const ScopeDiff& scope, LineFigure figure, std::string_view title, const std::string& text) {
    const LineRows rows = RowsOf(scope, figure, diff_.threshold);
    // Small differences alone are said in the first line already.
    if (rows.rows.empty()) return;
    canvas_.Section(title, text);
    canvas_.Dim("     change     before      after   blocks  line");
    const std::size_t shown = std::min(canvas_.top(), rows.rows.size());
    BeforeAfter other_bytes, other_blocks;
    for (std::size_t i = 0; i < rows.rows.size(); ++i) {
      const LineRow& row = rows.rows[i];
      if (i < shown) {
        const std::string kinds = KindsPhrase(*row.line);
        const std::size_t room = canvas_.width() - std::min(canvas_.width() - 20, 44 + kinds.size());
        Row(row.bytes, row.blocks, ShowLines(diff_, row.line->lines, room, canvas_.utf8()) + kinds);
        if (row.callers != nullptr) Callers(*row.callers);
      } else {
        other_bytes.Add(row.bytes);
        other_blocks.Add(row.blocks);
      }
    }
    if (shown < rows.rows.size()) Row(other_bytes, other_blocks, Plural(rows.rows.size() - shown, "other line"));
    if (rows.small_count != 0)
      Row(rows.small_bytes, rows.small_blocks, "small differences in " + Plural(rows.small_count, "line"));
  }

  void Row(const BeforeAfter& bytes, const BeforeAfter& blocks, const std::string& text) {
    canvas_.Line(PadLeft(SignedBytes(bytes), 11) + PadLeft(Human(bytes.before), 11) + PadLeft(Human(bytes.after), 11) +
                 PadLeft(SignedCount(blocks), 9) + "  " + text);
  }

  void Callers(const std::map<LinePair, BeforeAfter>& callers) {
    for (const auto& [lines, bytes] : CallersOf(callers, diff_.threshold, 4)) {
      // Line 0: the stack ends with the wrapper.
      const std::string who = lines.after == 0 || (lines.after == kNoLine && lines.before == 0)
                                  ? "elsewhere"
                                  : ShowPlainLine(diff_, lines, canvas_.width() - 66, canvas_.utf8());
      canvas_.Dim(std::string(44, ' ') + "called by " + who + ": " + SignedBytes(bytes));
    }
  }

  void Kinds() {
    if (!WorthTelling(diff_.before->kinds) && !WorthTelling(diff_.after->kinds)) return;
    std::vector<const KindDiff*> rows;
    for (const KindDiff& kind : diff_.kinds) {
      if (!diff_.threshold.SmallBytes(kind.peak_bytes) || !diff_.threshold.SmallBytes(kind.live_bytes))
        rows.push_back(&kind);
    }
    if (rows.empty()) return;
    std::stable_sort(rows.begin(), rows.end(), [](const KindDiff* a, const KindDiff* b) {
      return std::max(a->peak_bytes.size(), a->live_bytes.size()) >
             std::max(b->peak_bytes.size(), b->live_bytes.size());
    });
    canvas_.Section("KINDS", "what was asked of the driver, by kind of memory");
    canvas_.Dim("   at most     before       after    live at the end     before       after  kind");
    for (const KindDiff* kind : rows) {
      canvas_.Line(PadLeft(SignedBytes(kind->peak_bytes), 10) + PadLeft(Human(kind->peak_bytes.before), 11) +
                   PadLeft(Human(kind->peak_bytes.after), 12) + PadLeft(SignedBytes(kind->live_bytes), 19) +
                   PadLeft(Human(kind->live_bytes.before), 11) + PadLeft(Human(kind->live_bytes.after), 12) + "  " +
                   std::string(KindPhrase(kind->kind)));
    }
  }

  void Limits() {
    if (diff_.limits.empty()) return;
    canvas_.Section("COMPARED WITH CARE");
    for (const Limit& limit : diff_.limits) canvas_.Item(limit.text, TextColor::kWarn);
  }

  const DiffDocument& document_;
  const Diff& diff_;
  TextCanvas canvas_;
};

}  // namespace

std::string RenderDiffText(const DiffDocument& document, const TextOptions& options) {
  return Renderer(document, options).Render();
}

}  // namespace cuheap::analysis
