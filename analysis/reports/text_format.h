// Words and figures for the terminal: sizes, times, short paths and functions, columns, sparklines.
#ifndef CUHEAP_ANALYSIS_REPORTS_TEXT_FORMAT_H_
#define CUHEAP_ANALYSIS_REPORTS_TEXT_FORMAT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "analysis/reports/totals.h"

namespace cuheap::analysis {

std::string HumanBytes(double bytes);        // "768.0 KiB", "45.0 MiB", "17 B"
std::string Grouped(std::uint64_t number);   // "47,185,920"
std::string BytesBoth(std::uint64_t bytes);  // "45.0 MiB (47,185,920 B)"; below 1 KiB only "17 B"
std::string HumanTime(std::int64_t ns);      // "2.31 s", "12.0 ms", "3 min 20 s"
std::string Percent(double share);           // 0.528 -> "52.8 %"
std::string Plural(std::uint64_t count, std::string_view singular);  // "1 block", "1,200 blocks"

// Without return type, argument list and "(anonymous namespace)::"; template arguments as "<...>"; cut to `width`
// columns. PyTorch's operators and autograd nodes by their names alone.
std::string ShortFunction(std::string_view function, std::size_t width = 60);

// Relative to `folder` if it lies in there; else its last components, as many as fit into `width` ("…/src/train.cc", or
// ".../src/train.cc" without UTF-8). Never less than the file's name.
std::string ShortPath(std::string_view path, std::string_view folder, std::size_t width, bool utf8);

// Columns a UTF-8 text takes, one per code point (paths with wide characters come out narrower than they are shown).
std::size_t Columns(std::string_view text);
std::string PadLeft(std::string text, std::size_t width);
std::string PadRight(std::string text, std::size_t width);
// Cut to `width` columns, with a mark at the end if something was cut. Made safe for a terminal, see printable.h:
// names come from the program.
std::string Clip(std::string_view text, std::size_t width, bool utf8);

// The curve as `width` characters of eight heights; the highest is the greatest value. Empty if there is nothing to
// see.
std::string Sparkline(std::span<const CurvePoint> curve, std::size_t width);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_TEXT_FORMAT_H_
