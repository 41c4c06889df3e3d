#include "analysis/exports/moment.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <system_error>
#include <utility>

namespace cuheap::analysis {
namespace {

constexpr std::array<std::pair<std::string_view, MomentKind>, 4> kWords{{
    {"peak", MomentKind::kPeak},
    {"device-peak", MomentKind::kDevicePeak},
    {"end", MomentKind::kEnd},
    {"leaked", MomentKind::kLeaked},
}};
constexpr std::array<std::pair<std::string_view, double>, 4> kUnits{{
    {"ns", 1},
    {"us", 1e3},
    {"ms", 1e6},
    {"s", 1e9},
}};
constexpr double kLongest = 9e18;  // what 63 bits of nanoseconds hold

}  // namespace

std::optional<Moment> ParseMoment(std::string_view text) {
  for (const auto& [word, kind] : kWords) {
    if (text == word) return Moment{kind, 0};
  }
  double unit = 1e9;
  for (const auto& [suffix, nanoseconds] : kUnits) {
    if (!text.ends_with(suffix)) continue;
    unit = nanoseconds;
    text.remove_suffix(suffix.size());
    break;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  number *= unit;
  if (!(number >= 0 && number < kLongest)) return std::nullopt;
  return Moment{MomentKind::kTime, std::llround(number)};
}

std::string Describe(const Moment& moment) {
  switch (moment.kind) {
    case MomentKind::kPeak:
      return "at the peak";
    case MomentKind::kDevicePeak:
      return "at the peak of the device";
    case MomentKind::kEnd:
      return "at the end";
    case MomentKind::kLeaked:
      return "leaked";
    case MomentKind::kTime:
      break;
  }
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%lld.%09lld", static_cast<long long>(moment.time_ns / 1'000'000'000),
                static_cast<long long>(moment.time_ns % 1'000'000'000));
  std::string seconds = text.data();
  seconds.erase(seconds.find_last_not_of('0') + 1);
  if (seconds.back() == '.') seconds.pop_back();
  return seconds + " s after the start";
}

}  // namespace cuheap::analysis
