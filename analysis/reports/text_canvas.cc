#include "analysis/reports/text_canvas.h"

#include <algorithm>

#include "analysis/reports/text_format.h"

namespace cuheap::analysis {

TextCanvas::TextCanvas(const TextOptions& options)
    : options_(options), width_(std::clamp<std::size_t>(options.width, 80, 160)) {}

std::string TextCanvas::Paint(std::string_view text, TextColor color) const {
  if (!options_.color || color == TextColor::kPlain || text.empty()) return std::string(text);
  std::string_view code;
  switch (color) {
    case TextColor::kGood:
      code = "\033[1;32m";
      break;
    case TextColor::kWarn:
      code = "\033[33m";
      break;
    case TextColor::kBad:
      code = "\033[1;31m";
      break;
    case TextColor::kStrong:
      code = "\033[1m";
      break;
    case TextColor::kDim:
      code = "\033[2m";
      break;
    case TextColor::kPlain:
      break;
  }
  return std::string(code) + std::string(text) + "\033[0m";
}

void TextCanvas::Verdict(std::string_view word, std::string_view text, TextColor color) {
  const std::string indent(Columns(word) + 2, ' ');
  const std::size_t begin = text_.size();
  Wrapped(indent, indent, text, TextColor::kPlain);
  text_.replace(begin, Columns(word), Paint(word, color));
}

void TextCanvas::Section(std::string_view title, std::string_view text) {
  text_ += "\n" + Paint(title, TextColor::kStrong);
  if (!text.empty()) text_ += "  " + Clip(text, width_ - Columns(title) - 2, options_.utf8);
  text_ += "\n";
}

void TextCanvas::Field(std::string_view name, std::string_view text) {
  Wrapped("  " + PadRight(std::string(name), 15) + " ", std::string(18, ' '), text, TextColor::kPlain);
}

void TextCanvas::Line(std::string_view text) { text_ += Clip(text, width_, options_.utf8) + "\n"; }
void TextCanvas::Strong(std::string_view text) {
  text_ += Paint(Clip(text, width_, options_.utf8), TextColor::kStrong) + "\n";
}
void TextCanvas::Dim(std::string_view text) {
  text_ += Paint(Clip(text, width_, options_.utf8), TextColor::kDim) + "\n";
}
void TextCanvas::Paragraph(std::string_view text) { Wrapped("  ", "  ", text, TextColor::kPlain); }
void TextCanvas::Detail(std::string_view text) { Wrapped("     ", "       ", text, TextColor::kPlain); }
void TextCanvas::Item(std::string_view text, TextColor color) { Wrapped("  - ", "    ", text, color); }

void TextCanvas::Wrapped(std::string_view first_indent, std::string_view indent, std::string_view text,
                         TextColor color) {
  std::string line;
  std::string_view lead = first_indent;
  const auto flush = [&] {
    // Of two spaces, as between a place and its function, the first would stay at the end of the line.
    line.erase(line.find_last_not_of(' ') + 1);
    text_ += std::string(lead) + Paint(Clip(line, width_ - Columns(lead), options_.utf8), color) + "\n";
    lead = indent;
    line.clear();
  };
  while (!text.empty()) {
    std::size_t end = std::min(text.find(' '), text.size());
    // A number keeps its unit.
    while (end != 0 && end + 1 < text.size() && text[end - 1] >= '0' && text[end - 1] <= '9') {
      end = std::min(text.find(' ', end + 1), text.size());
    }
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    if (!line.empty() && Columns(lead) + Columns(line) + 1 + Columns(word) > width_) flush();
    if (!line.empty()) line += ' ';
    line += word;
  }
  flush();
}

}  // namespace cuheap::analysis
