// The report in words, kept as what it is made of: the page shows the very sentences of the terminal report, in its own
// way. Whatever a section of that report comes to say is on the page without a change here.
#ifndef CUHEAP_ANALYSIS_HTML_SECTION_CANVAS_H_
#define CUHEAP_ANALYSIS_HTML_SECTION_CANVAS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

enum class EntryStyle : std::uint8_t { kStrong, kDetail, kAdvice, kDim, kLine, kField, kParagraph, kItem, kGap };

struct SectionEntry {
  EntryStyle style = EntryStyle::kLine;
  std::string text;
  std::string name = {};  // of kField
  bool warning = false;   // of kItem
};

struct ReportSection {
  std::string title;  // "FAILED ALLOCATIONS"; empty: what comes before the first heading, the leaks
  std::string text;   // on the heading's line
  std::vector<SectionEntry> entries;
};

class SectionCanvas final : public TextCanvas {
 public:
  // options.width and color have no effect.
  explicit SectionCanvas(const TextOptions& options);

  void Verdict(std::string_view word, std::string_view text, TextColor color) override;
  void Section(std::string_view title, std::string_view text) override;
  void Field(std::string_view name, std::string_view text) override;
  void Line(std::string_view text) override;
  void Strong(std::string_view text) override;
  void Dim(std::string_view text) override;
  void Paragraph(std::string_view text) override;
  void Detail(std::string_view text) override;
  void Item(std::string_view text, TextColor color) override;

  const std::vector<ReportSection>& sections() const { return sections_; }

 private:
  void Add(EntryStyle style, std::string_view text);

  std::vector<ReportSection> sections_{1};
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_HTML_SECTION_CANVAS_H_
