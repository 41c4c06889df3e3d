// Where the report in words is written to: sections, fields, wrapped paragraphs, colours. This one is the terminal's;
// the HTML page has one of its own, which keeps the same sentences apart.
#ifndef CUHEAP_ANALYSIS_REPORTS_TEXT_CANVAS_H_
#define CUHEAP_ANALYSIS_REPORTS_TEXT_CANVAS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "analysis/reports/report_text.h"

namespace cuheap::analysis {

enum class TextColor : std::uint8_t { kPlain, kGood, kWarn, kBad, kStrong, kDim };

class TextCanvas {
 public:
  explicit TextCanvas(const TextOptions& options);
  virtual ~TextCanvas() = default;
  TextCanvas(const TextCanvas&) = delete;
  TextCanvas& operator=(const TextCanvas&) = delete;

  virtual void Verdict(std::string_view word, std::string_view text, TextColor color);
  // A heading after an empty line, with what is most important of it on the same line.
  virtual void Section(std::string_view title, std::string_view text = {});
  virtual void Field(std::string_view name, std::string_view text);  // continued under itself if it is too long
  virtual void Line(std::string_view text = {});                     // as it is, cut at the width
  virtual void Strong(std::string_view text);
  virtual void Dim(std::string_view text);
  virtual void Paragraph(std::string_view text);              // wrapped at words, indented
  virtual void Detail(std::string_view text);                 // of a numbered entry: indented, wrapped
  virtual void Item(std::string_view text, TextColor color);  // "- text", wrapped

  std::size_t width() const { return width_; }
  std::size_t top() const { return options_.top; }
  bool utf8() const { return options_.utf8; }
  bool map() const { return options_.map; }
  bool stacks() const { return options_.stacks; }
  PeakBy peak_by() const { return options_.peak_by; }
  SourceLines* source() const { return options_.source; }
  std::string Take() { return std::move(text_); }

 protected:
  TextCanvas(const TextOptions& options, std::size_t width) : options_(options), width_(width) {}

 private:
  std::string Paint(std::string_view text, TextColor color) const;
  void Wrapped(std::string_view first_indent, std::string_view indent, std::string_view text, TextColor color);

  TextOptions options_;
  std::size_t width_;
  std::string text_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_TEXT_CANVAS_H_
