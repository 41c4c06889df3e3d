#include "analysis/torch_cache/settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>

namespace cuheap::analysis {
namespace {

// False: not a number, or too large for bytes.
bool Mebibytes(std::string_view text, std::uint64_t& bytes) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if (number > TorchCacheSettings::kNoLimit >> 20) return false;
  bytes = number << 20;
  return true;
}

void Apply(std::string_view key, std::string_view value, TorchCacheSettings& settings) {
  std::uint64_t bytes = 0;
  if (key == "expandable_segments") {
    settings.expandable = value == "True";
  } else if (key == "max_split_size_mb" && Mebibytes(value, bytes)) {
    if (bytes > settings.large_segment) settings.max_split = bytes;
  } else if (key == "max_non_split_rounding_mb" && Mebibytes(value, bytes)) {
    if (bytes > settings.large_segment) settings.max_non_split_rounding = bytes;
  } else if (key == "large_segment_size_mb" && Mebibytes(value, bytes)) {
    if (bytes != 0) settings.large_segment = bytes;
  }
}

}  // namespace

TorchCacheSettings ParseTorchCacheSettings(std::string_view text) {
  TorchCacheSettings settings;
  std::string pair;
  int depth = 0;
  const auto finish = [&] {
    const std::size_t colon = pair.find(':');
    if (colon != std::string::npos)
      Apply(std::string_view(pair).substr(0, colon), std::string_view(pair).substr(colon + 1), settings);
    pair.clear();
  };
  for (const char letter : text) {
    if (std::isspace(static_cast<unsigned char>(letter)) != 0) continue;
    depth += letter == '[' ? 1 : letter == ']' ? -1 : 0;
    if (letter == ',' && depth <= 0)
      finish();
    else
      pair += letter;
  }
  finish();
  return settings;
}

}  // namespace cuheap::analysis
