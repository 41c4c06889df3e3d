#include "analysis/reports/replaced_text.h"

#include <algorithm>

#include "analysis/reports/finding_text.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

}  // namespace

std::string AdviceFor(const Replaced& replaced) {
  const std::string peak =
      Human(replaced.peak_bytes - replaced.saving_bytes) + " instead of " + Human(replaced.peak_bytes);
  return "Free the old one before making the new one (Python: x = None before x = load()), or work in place where the "
         "new one is made from the old: the peak of " +
         ScopeName(replaced.scope) + " would be " + peak + ".";
}

void WriteReplaced(const Report& report, bool heading, TextCanvas& canvas) {
  for (const Replaced& replaced : report.replaced) {
    if (heading) {
      canvas.Section("HELD UNTIL REPLACED",
                     Human(replaced.saving_bytes) + " of the peak of " + ScopeName(replaced.scope));
      heading = false;
    } else {
      canvas.Line();
    }
    canvas.Paragraph("At the peak of " + ScopeName(replaced.scope) +
                     " these lines held old blocks although the new ones were there:");
    canvas.Line();
    canvas.Dim("  old bytes   peak lower by   times  line");
    const std::size_t shown = std::min(canvas.top(), replaced.lines.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const Replacement& line = replaced.lines[i];
      canvas.Line(PadLeft(Human(line.old_bytes), 11) + "  " + PadLeft(Human(line.saving_bytes), 14) + "  " +
                  PadLeft(Grouped(line.times), 6) + "  " +
                  ShowLine(report, report.lines.line(line.line), canvas.width() - 37, canvas.utf8()));
      if (line.caller != 0) {
        canvas.Dim(std::string(39, ' ') + "called by " +
                   ShowLine(report, report.lines.line(line.caller), canvas.width() - 49, canvas.utf8()));
      }
    }
    if (shown < replaced.lines.size())
      canvas.Dim(std::string(37, ' ') + "and " + Plural(replaced.lines.size() - shown, "other line"));
    canvas.Detail("-> " + AdviceFor(replaced));
  }
}

}  // namespace cuheap::analysis
