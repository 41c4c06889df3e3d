// "What would help", for people.
#include <algorithm>

#include "analysis/reports/finding_text.h"
#include "analysis/reports/remedy_words.h"
#include "analysis/reports/report_text.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string PlaceText(const Report& report, const PeakPlace& place) {
  const std::string step = place.step == 0                     ? ""
                           : place.step > report.steps.count() ? "after the last step, "
                                                               : "step " + Grouped(place.step) + ", ";
  return step + std::string(Name(place.phase));
}

std::string LinesText(const Report& report, const Remedy& remedy, const TextCanvas& canvas) {
  constexpr std::size_t kLines = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(kLines, remedy.lines.size()); ++i) {
    text += (i == 0 ? "" : ", ") + ShowLine(report, report.lines.line(remedy.lines[i].line), 44, canvas.utf8()) + " " +
            Human(remedy.lines[i].bytes);
  }
  if (remedy.lines.size() > kLines) text += ", and " + Plural(remedy.lines.size() - kLines, "other line");
  return text;
}

}  // namespace

void RenderRemedies(const Report& report, TextCanvas& canvas) {
  for (const Remedies& remedies : report.remedies) {
    if (remedies.entries.empty()) continue;
    canvas.Section("WHAT WOULD HELP", "peak of " + ScopeName(remedies.scope) + ": " + Human(remedies.peak.bytes) +
                                          (remedies.peak.step > report.steps.count() ? ", " : " in ") +
                                          PlaceText(report, remedies.peak));
    canvas.Dim("      saves     new peak   then highest in (each remedy alone)");
    const std::size_t shown = std::min(canvas.top(), remedies.entries.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const Remedy& remedy = remedies.entries[i];
      canvas.Line(PadLeft(Human(remedy.saved), 11) + "  " + PadLeft(Human(remedy.after.bytes), 11) + "   " +
                  PlaceText(report, remedy.after));
      canvas.Detail("-> " + TitleOf(report, remedy) + ". " + TermsOf(remedy));
      if (!remedy.lines.empty()) canvas.Detail("of " + LinesText(report, remedy, canvas));
    }
    if (shown < remedies.entries.size()) canvas.Dim("  and " + Plural(remedies.entries.size() - shown, "other remedy"));
  }
}

}  // namespace cuheap::analysis
