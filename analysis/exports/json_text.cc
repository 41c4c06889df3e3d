#include "analysis/exports/json_text.h"

#include "analysis/printable.h"

namespace cuheap::analysis {

std::string JsonString(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result = "\"";
  for (const char character : ValidUtf8(text)) {
    const auto code = static_cast<unsigned char>(character);
    if (character == '"' || character == '\\') {
      result.append(1, '\\').append(1, character);
    } else if (code < 0x20 || code == 0x7F) {
      result.append("\\u00").append(1, kDigits[code / 16]).append(1, kDigits[code % 16]);
    } else {
      result += character;
    }
  }
  return result + "\"";
}

}  // namespace cuheap::analysis
