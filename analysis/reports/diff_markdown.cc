#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "analysis/printable.h"
#include "analysis/reports/diff_text.h"
#include "analysis/reports/diff_words.h"
#include "analysis/reports/finding_text.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

// Text in which nothing is markup, a mention, a reference or a link: as entities, which end no table's cell either.
std::string Escaped(std::string_view text) {
  static constexpr std::string_view kPlain = " ,./-+()=%";
  const std::string clean = Printable(text);
  std::string result;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    const auto byte = static_cast<unsigned char>(clean[i]);
    const std::string_view rest = std::string_view(clean).substr(i);
    const bool link =
        rest.starts_with("://") || (clean[i] == '.' && i >= 3 && std::string_view(clean).substr(i - 3, 3) == "www");
    const bool plain = std::isalnum(byte) != 0 || byte >= 0x80 || kPlain.find(clean[i]) != std::string_view::npos ||
                       clean[i] == ':' || clean[i] == ';' || clean[i] == '\'';
    if (plain && !link)
      result += clean[i];
    else
      result.append("&#").append(std::to_string(byte)).append(";");
  }
  return result;
}

std::string Code(std::string_view text) { return "<code>" + Escaped(text) + "</code>"; }

class Writer {
 public:
  Writer(const DiffDocument& document, std::size_t top) : document_(document), diff_(*document.diff), top_(top) {}

  std::string Write() {
    const DiffWords words = PutDiff(diff_);
    text_ = "### GPU memory: " + std::string(words.word) + "\n\n" + Escaped(words.text) + "\n";
    Conditions();
    Figures();
    Leaks();
    for (const ScopeDiff& scope : diff_.scopes) {
      const std::string where = ScopeName(scope.scope);
      Lines(scope, LineFigure::kPeak, "At the peak of " + where);
      Lines(scope, LineFigure::kLive, "Live at the end, " + where);
      Lines(scope, LineFigure::kAllocated, "Allocated, " + where);
    }
    Limits();
    text_ += "\n<sub>before: " + Code(document_.name_before) + ", after: " + Code(document_.name_after) + "</sub>\n";
    return std::move(text_);
  }

 private:
  void Conditions() {
    if (document_.judgements.empty()) return;
    text_ += "\n";
    for (const Judgement& judgement : document_.judgements) {
      text_ += std::string("- ") +
               (!judgement.known ? "**not known**"
                : judgement.met  ? "**failed**"
                                 : "passed") +
               " " + Escaped(judgement.text) + "\n";
    }
  }

  void Figures() {
    std::string rows;
    for (const FigureRow& row : FigureRows(diff_)) {
      if (!row.value.changed() || row.small) continue;
      const auto show = [&](std::uint64_t value) { return row.bytes ? Human(value) : Grouped(value); };
      rows += "| " + Escaped(row.name) + " | " + show(row.value.before) + " | " + show(row.value.after) + " | " +
              (row.bytes ? SignedBytes(row.value) : SignedCount(row.value)) + " | " + SignedPercent(row.value) + " |\n";
    }
    if (!rows.empty()) text_ += "\n| | before | after | change | |\n|---|---:|---:|---:|---:|\n" + rows;
  }

  void Leaks() {
    std::size_t shown = 0, told = 0;
    std::string rows;
    for (const LeakDiff& leak : diff_.leaks) {
      if (leak.change == LeakChange::kAlike) continue;
      if (++told > top_) continue;
      ++shown;
      const std::string line = ShowLeak(diff_, leak, 120, true);
      rows += "- **" + std::string(LeakChangeWord(leak.change)) + "** " + Code(line) +
              (leak.callers == LinePair{} ? "" : ", called by " + Code(ShowLines(diff_, leak.callers, 120, true))) +
              ": " + Escaped(LeakPhrase(leak)) + "\n";
    }
    if (rows.empty()) return;
    text_ += "\n**Leaks**\n\n" + rows;
    if (shown < told) text_ += "- and " + Plural(told - shown, "other") + "\n";
  }

  void Lines(const ScopeDiff& scope, LineFigure figure, const std::string& title) {
    const LineRows rows = RowsOf(scope, figure, diff_.threshold);
    if (rows.rows.empty()) return;
    text_ += "\n<details><summary>" + Escaped(title) + ", by line</summary>\n\n" +
             "| change | before | after | blocks | line |\n|---:|---:|---:|---:|---|\n";
    const std::size_t shown = std::min(top_, rows.rows.size());
    BeforeAfter bytes, blocks;
    for (std::size_t i = 0; i < rows.rows.size(); ++i) {
      const LineRow& row = rows.rows[i];
      if (i < shown) {
        Row(row.bytes, row.blocks, Code(ShowLines(diff_, row.line->lines, 120, true) + KindsPhrase(*row.line)));
      } else {
        bytes.Add(row.bytes);
        blocks.Add(row.blocks);
      }
    }
    if (shown < rows.rows.size()) Row(bytes, blocks, Plural(rows.rows.size() - shown, "other line"));
    if (rows.small_count != 0)
      Row(rows.small_bytes, rows.small_blocks, "small differences in " + Plural(rows.small_count, "line"));
    text_ += "\n</details>\n";
  }

  void Row(const BeforeAfter& bytes, const BeforeAfter& blocks, const std::string& line) {
    text_ += "| " + SignedBytes(bytes) + " | " + Human(bytes.before) + " | " + Human(bytes.after) + " | " +
             SignedCount(blocks) + " | " + line + " |\n";
  }

  void Limits() {
    if (diff_.limits.empty()) return;
    text_ += "\n**Compared with care**\n\n";
    for (const Limit& limit : diff_.limits) text_ += "- " + Escaped(limit.text) + "\n";
  }

  const DiffDocument& document_;
  const Diff& diff_;
  std::size_t top_;
  std::string text_;
};

}  // namespace

std::string RenderDiffMarkdown(const DiffDocument& document, std::size_t top) { return Writer(document, top).Write(); }

}  // namespace cuheap::analysis
