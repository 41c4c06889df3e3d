#include "analysis/html/html_page.h"

#include <string_view>

#include "analysis/html/page_data.h"
#include "analysis/reports/report_text.h"

// What bundle.py made of page/, see page_bundle.S. In three parts; the data and the words go between.
extern "C" {
extern const char cuheap_page_head[], cuheap_page_head_end[];
extern const char cuheap_page_middle[], cuheap_page_middle_end[];
extern const char cuheap_page_tail[], cuheap_page_tail_end[];
}

namespace cuheap::analysis {
namespace {

std::string_view Between(const char* begin, const char* end) { return {begin, static_cast<std::size_t>(end - begin)}; }

void AppendText(std::string& html, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '&':
        html += "&amp;";
        break;
      default:
        html += c;
    }
  }
}

}  // namespace

std::string RenderHtml(const Report& report, SourceLines* source) {
  TextOptions options;
  options.source = source;
  std::string html(Between(cuheap_page_head, cuheap_page_head_end));
  AppendText(html, RenderText(report, options));
  html += Between(cuheap_page_middle, cuheap_page_middle_end);
  html += PageData(report, source);
  html += Between(cuheap_page_tail, cuheap_page_tail_end);
  return html;
}

}  // namespace cuheap::analysis
