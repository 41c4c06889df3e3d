#include "analysis/reports/text_format.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "analysis/printable.h"

namespace cuheap::analysis {
namespace {

std::string Fixed(double value, int digits) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", digits, value);
  return buffer.data();
}

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Position after the bracket that closes the one at `open`; npos if it is not closed.
std::size_t AfterClosing(std::string_view text, std::size_t open, char opening, char closing) {
  std::size_t depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == opening)
      ++depth;
    else if (text[i] == closing && text[i - 1] != '-' && --depth == 0)
      return i + 1;
  }
  return std::string_view::npos;
}

// PyTorch's names of operators and autograd nodes say little more than the operator: "at::_ops::linear::call(...)" is
// "at::linear", "torch::autograd::generated::AddmmBackward0::apply(...)" is "AddmmBackward0".
std::string WithoutTorchPlumbing(std::string_view function) {
  const auto between = [&](std::string_view prefix, std::string_view suffix) -> std::string_view {
    const std::size_t end = function.find(suffix);
    if (!function.starts_with(prefix) || end == std::string_view::npos || end < prefix.size()) return {};
    return function.substr(prefix.size(), end - prefix.size());
  };
  if (const std::string_view name = between("at::_ops::", "::call("); !name.empty()) return "at::" + std::string(name);
  if (const std::string_view name = between("torch::autograd::generated::", "::apply("); !name.empty())
    return std::string(name);
  return std::string(function);
}

void EraseAll(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
}

// "f(int)::{lambda(char)#1}::operator()(char) const" becomes "f::{lambda#1}::operator()".
void EraseArguments(std::string& name) {
  // What g++ calls a lambda's class once it is inlined.
  if (name.starts_with("(anonymous)::operator()")) name.replace(0, 11, "{lambda}");
  std::size_t open = name.find('(', 1);
  while (open != std::string::npos) {
    if (open >= 8 && name.compare(open - 8, 10, "operator()") == 0) {
      open = name.find('(', open + 2);
      continue;
    }
    const std::size_t end = AfterClosing(name, open, '(', ')');
    std::string_view rest = end == std::string::npos ? std::string_view() : std::string_view(name).substr(end);
    if (rest.starts_with(" const::")) rest.remove_prefix(6);
    // Arguments of an enclosing function or of a lambda's class: the name goes on.
    if (!rest.starts_with("::") && !rest.starts_with("#") && !rest.starts_with("}")) return name.resize(open);
    name.erase(open, name.size() - rest.size() - open);
    open = name.find('(', open);
  }
}

}  // namespace

std::string HumanBytes(double bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  // 1023.96 KiB would read "1024.0 KiB".
  while (unit + 1 < kUnits.size() && bytes >= (unit == 0 ? 1024 : 1023.95)) {
    bytes /= 1024;
    ++unit;
  }
  return Fixed(bytes, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

std::string Grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string BytesBoth(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  return HumanBytes(static_cast<double>(bytes)) + " (" + Grouped(bytes) + " B)";
}

std::string HumanTime(std::int64_t ns) {
  const double seconds = static_cast<double>(ns) / 1e9;
  if (seconds >= 3600)
    return std::to_string(ns / 3'600'000'000'000) + " h " + std::to_string(ns / 60'000'000'000 % 60) + " min";
  if (seconds >= 60)
    return std::to_string(ns / 60'000'000'000) + " min " + std::to_string(ns / 1'000'000'000 % 60) + " s";
  if (seconds >= 0.9995) return Fixed(seconds, 2) + " s";
  if (seconds >= 0.0009995) return Fixed(seconds * 1e3, 1) + " ms";
  return std::to_string(ns / 1000) + " us";
}

std::string Percent(double share) { return Fixed(100 * share, 1) + " %"; }

std::string Plural(std::uint64_t count, std::string_view singular) {
  return Grouped(count) + " " + std::string(singular) + (count == 1 ? "" : "s");
}

std::string ShortFunction(std::string_view function, std::size_t width) {
  // Python's <module>, <lambda>, main.<locals>.step
  if (function.starts_with('<') || function.find(".<locals>.") != std::string_view::npos)
    return Clip(function, width, false);
  std::string name = WithoutTorchPlumbing(function);
  EraseAll(name, "(anonymous namespace)::");
  EraseAll(name, "[abi:cxx11]");
  for (std::size_t at = name.find('<'); at != std::string::npos; at = name.find('<', at + 5)) {
    if (at >= 8 && name.compare(at - 8, 8, "operator") == 0) break;
    const std::size_t end = AfterClosing(name, at, '<', '>');
    if (end == std::string::npos) break;
    if (end - at > 5) name.replace(at, end - at, "<...>");
  }
  EraseArguments(name);
  if (name.find("operator") == std::string::npos) {
    if (const std::size_t space = name.rfind(' '); space != std::string::npos && space + 1 < name.size())
      name.erase(0, space + 1);
  }
  // The last words of a qualified name tell more than the first.
  for (std::size_t at = name.find("::"); name.size() > width && at != std::string::npos; at = name.find("::")) {
    if (const std::size_t open = name.find_first_of("<( "); open < at) break;
    name.erase(0, at + 2);
  }
  return Clip(name, width, false);
}

std::string ShortPath(std::string_view path, std::string_view folder, std::size_t width, bool utf8) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.remove_suffix(1);
  if (folder.size() > 1 && path.size() > folder.size() + 1 && path.starts_with(folder) && path[folder.size()] == '/') {
    path.remove_prefix(folder.size() + 1);
  }
  if (Columns(path) <= width) return std::string(path);
  const std::string_view mark = utf8 ? "\u2026" : "...";
  std::size_t start = path.rfind('/');
  if (start == std::string_view::npos) return std::string(path);
  for (std::size_t earlier = start; earlier != 0 && earlier != std::string_view::npos;) {
    earlier = path.rfind('/', earlier - 1);
    if (earlier == std::string_view::npos || Columns(path.substr(earlier)) + Columns(mark) > width) break;
    start = earlier;
  }
  return std::string(mark) + std::string(path.substr(start));
}

std::size_t Columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !IsContinuation(byte); }));
}

std::string PadLeft(std::string text, std::size_t width) {
  const std::size_t columns = Columns(text);
  if (columns < width) text.insert(0, width - columns, ' ');
  return text;
}

std::string PadRight(std::string text, std::size_t width) {
  const std::size_t columns = Columns(text);
  if (columns < width) text.append(width - columns, ' ');
  return text;
}

std::string Clip(std::string_view text, std::size_t width, bool utf8) {
  const std::string clean = Printable(text);
  if (Columns(clean) <= width) return clean;
  const std::string_view mark = utf8 ? "\u2026" : "...";
  const std::size_t keep = width > Columns(mark) ? width - Columns(mark) : 0;
  std::size_t columns = 0, end = 0;
  while (end < clean.size() && (columns < keep || IsContinuation(clean[end]))) {
    ++end;
    if (end == clean.size() || !IsContinuation(clean[end])) ++columns;
  }
  return clean.substr(0, end) + std::string(mark);
}

std::string Sparkline(std::span<const CurvePoint> curve, std::size_t width) {
  constexpr std::array kHeights = {"\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};
  std::uint64_t most = 0;
  for (const CurvePoint& point : curve) most = std::max(most, point.bytes);
  if (most == 0 || width == 0) return {};
  std::string line;
  for (std::size_t column = 0; column < width; ++column) {
    const std::size_t begin = column * curve.size() / width;
    const std::size_t end = std::max(begin + 1, (column + 1) * curve.size() / width);
    std::uint64_t value = 0;
    for (std::size_t i = begin; i < std::min(end, curve.size()); ++i) value = std::max(value, curve[i].bytes);
    const double share = static_cast<double>(value) / static_cast<double>(most);
    line += kHeights[std::min<std::size_t>(7, static_cast<std::size_t>(share * 8))];
  }
  return line;
}

}  // namespace cuheap::analysis
