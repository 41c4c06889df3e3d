// The report for a terminal.
#ifndef CUHEAP_ANALYSIS_REPORTS_REPORT_TEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_REPORT_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "analysis/reports/report.h"
#include "analysis/source_lines.h"

namespace cuheap::analysis {

// What the table of the peak is of.
enum class PeakBy : std::uint8_t { kLine, kLibrary, kLifetime };

struct TextOptions {
  std::size_t width = 100;  // columns; 80 to 160 are used
  std::size_t top = 10;     // rows of every table; the rest is summed up in one row
  bool color = false;       // ANSI colours
  bool utf8 = true;         // sparkline and ellipsis
  bool map = false;         // where the blocks lie in pools
  bool stacks = true;       // of the findings
  PeakBy peak_by = PeakBy::kLine;
  SourceLines* source = nullptr;  // lines of the program's source are shown from here; null: none are
};

// The whole report, ending in a newline. Same report, options and source, same text.
std::string RenderText(const Report& report, const TextOptions& options = {});

// The same, sentence by sentence: see text_canvas.h.
class TextCanvas;
void WriteText(const Report& report, TextCanvas& canvas);

// What `cuheap run` says when the program ended: two to four lines, no newline at the end of the last. Verdict with the
// worst line, peak, and if they exist a loss that matters.
std::string RenderSummary(const Report& report, const TextOptions& options = {});

// The folder that a path is shown relative to: the working directory, or what all the user's lines have in common.
std::string FolderOf(const Report& report, const std::string& file);

// "train.cc:57  LogLoss" with the path shortened, as the report shows it.
std::string ShowLine(const Report& report, const CodeLine& line, std::size_t width, bool utf8);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_REPORT_TEXT_H_
