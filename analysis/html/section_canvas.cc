#include "analysis/html/section_canvas.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kColumns = 160;  // that tables and names are made for; sentences have any length

// Drawn with block characters.
bool IsCurve(std::string_view text) { return text.starts_with("\xE2\x96"); }

std::string_view WithoutIndent(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

}  // namespace

SectionCanvas::SectionCanvas(const TextOptions& options) : TextCanvas(options, kColumns) {}

void SectionCanvas::Add(EntryStyle style, std::string_view text) {
  sections_.back().entries.push_back({style, std::string(text)});
}

// The page has the verdict apart: verdict_text.h.
void SectionCanvas::Verdict(std::string_view, std::string_view, TextColor) {}

void SectionCanvas::Section(std::string_view title, std::string_view text) {
  sections_.push_back({std::string(title), std::string(text), {}});
}

void SectionCanvas::Field(std::string_view name, std::string_view text) {
  if (IsCurve(text)) return;
  Add(EntryStyle::kField, text);
  sections_.back().entries.back().name = std::string(name);
}

// Tables keep their columns. Curves of block characters are left out: the page draws them.
void SectionCanvas::Line(std::string_view text) {
  if (IsCurve(WithoutIndent(text))) return;
  Add(text.empty() ? EntryStyle::kGap : EntryStyle::kLine, text);
}
void SectionCanvas::Dim(std::string_view text) { Add(EntryStyle::kDim, text); }
void SectionCanvas::Strong(std::string_view text) { Add(EntryStyle::kStrong, WithoutIndent(text)); }
void SectionCanvas::Paragraph(std::string_view text) { Add(EntryStyle::kParagraph, WithoutIndent(text)); }

void SectionCanvas::Detail(std::string_view text) {
  text = WithoutIndent(text);
  const bool advice = text.starts_with("-> ");
  Add(advice ? EntryStyle::kAdvice : EntryStyle::kDetail, advice ? text.substr(3) : text);
}

void SectionCanvas::Item(std::string_view text, TextColor color) {
  Add(EntryStyle::kItem, text);
  sections_.back().entries.back().warning = color == TextColor::kWarn || color == TextColor::kBad;
}

}  // namespace cuheap::analysis
