// Names that come from programs, made safe for a terminal.
#ifndef CUHEAP_ANALYSIS_PRINTABLE_H_
#define CUHEAP_ANALYSIS_PRINTABLE_H_

#include <string>
#include <string_view>

namespace cuheap::analysis {

// Names of programs, functions, files and hosts are whatever somebody chose: they must not steer the terminal, forge a
// line of ours or turn the order of what is read. '?' stands for each control character (C0 with newline and tab, DEL,
// C1), line and paragraph separator, bidirectional mark, override or isolate, and each byte that is not UTF-8 (terminals
// in an 8-bit mode take some of those for C1 controls). Everything else stays as it is.
std::string Printable(std::string_view text);

// JSON text with the same characters written as \u escapes where they stand in strings, so that it can be shown on a
// terminal and still means the same. Precondition: `json` is valid JSON in UTF-8.
std::string PrintableJson(std::string_view json);

// The text with U+FFFD in the place of each byte that is not UTF-8, else as it is: for formats that must be UTF-8.
std::string ValidUtf8(std::string_view text);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_PRINTABLE_H_
