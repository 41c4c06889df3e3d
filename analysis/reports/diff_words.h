// Words and signed figures of a comparison, shared by its renderings.
#ifndef CUHEAP_ANALYSIS_REPORTS_DIFF_WORDS_H_
#define CUHEAP_ANALYSIS_REPORTS_DIFF_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/reports/diff.h"
#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

std::string SignedBytes(const BeforeAfter& value);    // "+15.0 MiB", "-17 B", "0 B"
std::string SignedCount(const BeforeAfter& value);    // "+1,200"
std::string SignedPercent(const BeforeAfter& value);  // "+33.3 %"; from 0 "new"; to 0 "gone"

std::string HolderName(const HeldDiff& held);        // "cuheap's pool on device 0", "PyTorch's cache on device 0"
std::string_view MatchWord(LineMatch match);         // "same", "moved", "new", "gone"
std::string_view LeakChangeWord(LeakChange change);  // "new", "grew", "shrank", "gone", "alike"

// "src/train.cc:57  LogLoss (moved from line 55)", "... (new)": the line as its own report shows it, and what became of
// it.
std::string ShowLines(const Diff& diff, const LinePair& lines, std::size_t width, bool utf8);
// Without what became of it.
std::string ShowPlainLine(const Diff& diff, const LinePair& lines, std::size_t width, bool utf8);
// Without "(new)" or "(gone)": the change of the leak says that already.
std::string ShowLeak(const Diff& diff, const LeakDiff& leak, std::size_t width, bool utf8);
// " (was device, is managed)" where the kinds of its memory changed; else empty.
std::string KindsPhrase(const LineDiff& line);
// "+768.0 KiB a step, before +512.0 KiB; 45.0 MiB in 60 blocks never freed, before 30.0 MiB in 60"
std::string LeakPhrase(const LeakDiff& leak);

// One figure of the whole run, or of one memory.
struct FigureRow {
  std::string name;  // "peak of device 0"
  BeforeAfter value;
  bool bytes = true;   // else a number
  bool small = false;  // see Note [Small differences]; false as well if nothing changed
};
// Peaks, what is live at the end, what was held, allocations, steps, leaks: those that are not 0 on both sides.
std::vector<FigureRow> FigureRows(const Diff& diff);

struct DiffWords {
  std::string_view word;  // "NO DIFFERENCE", "DIFFERENT", "NEW LEAK", "OUT OF MEMORY"
  std::string text;
  TextColor color = TextColor::kPlain;
};
DiffWords PutDiff(const Diff& diff);

// Callers of a wrapper whose bytes changed by more than a small difference, the largest change first: at most `most`.
std::vector<std::pair<LinePair, BeforeAfter>> CallersOf(const std::map<LinePair, BeforeAfter>& callers,
                                                        const Threshold& threshold, std::size_t most);

// Lines of a table, and what was too small for a row of its own.
struct LineRow {
  const LineDiff* line = nullptr;
  BeforeAfter bytes, blocks;
  const std::map<LinePair, BeforeAfter>* callers = nullptr;  // null: not told in this table
};
struct LineRows {
  std::vector<LineRow> rows;  // by size of the change, then as in ScopeDiff::lines
  std::uint64_t small_count = 0;
  BeforeAfter small_bytes, small_blocks;
};
enum class LineFigure : std::uint8_t { kPeak, kLive, kAllocated };
LineRows RowsOf(const ScopeDiff& scope, LineFigure figure, const Threshold& threshold);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_DIFF_WORDS_H_
