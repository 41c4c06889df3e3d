// Which line of one snapshot is which line of another: of two runs of a program, perhaps from two checkouts of it.
//
// Note [The same line]
// Files are the same if their paths are; else if they are relative to the folder of each run (its working directory, or
// what its lines have in common); else if one's path ends like the other's, at least in its name, and no other file of
// either run does so better or as well. Within the same function of the same file the lines are laid side by side:
//   - where the text of all of them can be read as it was when the program ran (see SourceLines), lines of equal text
//   in
//     their order; between those, what has the same number, or is alone on both sides: its text was edited;
//   - else, if there are as many before as after, in their order;
//   - else at the one distance at which most of them meet (an edit above a function moves all of its lines).
// What is left over is new or gone. Functions are the same if their names are, template arguments and parameters apart:
// a line of a template has one name of several. Without a file: the same function of the library of the same name;
// without a function: the same offset in it.
#ifndef CUHEAP_ANALYSIS_REPORTS_LINE_MATCH_H_
#define CUHEAP_ANALYSIS_REPORTS_LINE_MATCH_H_

#include <compare>
#include <cstdint>
#include <limits>
#include <vector>

#include "analysis/reports/report.h"
#include "analysis/source_lines.h"

namespace cuheap::analysis {

inline constexpr std::uint32_t kNoLine = std::numeric_limits<std::uint32_t>::max();

enum class LineMatch : std::uint8_t {
  kSame,
  kMoved,  // same function, another number
  kNew,    // only after
  kGone,   // only before
};

// Indices into the two LineTables; kNoLine: none there.
struct LinePair {
  std::uint32_t before = kNoLine, after = kNoLine;
  bool moved = false;
  LineMatch match() const {
    if (before == kNoLine) return LineMatch::kNew;
    if (after == kNoLine) return LineMatch::kGone;
    return moved ? LineMatch::kMoved : LineMatch::kSame;
  }
  friend auto operator<=>(const LinePair&, const LinePair&) = default;
};

// All lines of both reports, each in exactly one pair; "(no stack)" first, then by file, function and number.
// Sources may be null: then no text is compared.
std::vector<LinePair> PairLines(const Report& before, const Report& after, SourceLines* before_source,
                                SourceLines* after_source);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_LINE_MATCH_H_
