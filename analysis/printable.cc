#include "analysis/printable.h"

#include <cstddef>
#include <cstdint>

namespace cuheap::analysis {
namespace {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t length = 0;  // in bytes; 0: not UTF-8
};

// Overlong forms, surrogates and what lies beyond U+10FFFF are not UTF-8.
CodePoint Decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 ? 4 : (lead >= 0xE0 ? 3 : 2);
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  std::uint32_t value = lead & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  if (overlong || (value >= 0xD800 && value <= 0xDFFF) || value > 0x10FFFF) return {};
  return {value, length};
}

bool Steers(std::uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code <= 0x9F)) return true;      // C0, DEL, C1
  if (code == 0x61C || code == 0x200E || code == 0x200F) return true;  // marks of direction
  if (code >= 0x2028 && code <= 0x202E) return true;  // separators of lines and paragraphs; embeddings and overrides
  return code >= 0x2066 && code <= 0x2069;            // isolates
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = Decode(text);
    if (point.length == 0 || Steers(point.value))
      result += '?';
    else
      result.append(text.substr(0, point.length));
    text.remove_prefix(point.length == 0 ? 1 : point.length);
  }
  return result;
}

std::string PrintableJson(std::string_view json) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  result.reserve(json.size());
  while (!json.empty()) {
    const CodePoint point = Decode(json);
    const std::size_t length = point.length == 0 ? 1 : point.length;
    // Space between tokens stays; in strings C0 is escaped already. All of these lie below U+10000.
    if (point.length != 0 && point.value >= 0x7F && Steers(point.value)) {
      result += "\\u";
      for (int shift = 12; shift >= 0; shift -= 4) result += kDigits[point.value >> shift & 0xF];
    } else {
      result.append(json.substr(0, length));
    }
    json.remove_prefix(length);
  }
  return result;
}

std::string ValidUtf8(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = Decode(text);
    result.append(point.length == 0 ? kReplacement : text.substr(0, point.length));
    text.remove_prefix(point.length == 0 ? 1 : point.length);
  }
  return result;
}

}  // namespace cuheap::analysis
