#include "analysis/ranks/rank_words.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "analysis/reports/text_format.h"

namespace cuheap::analysis {

std::string_view FigureWord(RankFigure figure) {
  constexpr std::array<std::string_view, kRankFigures> kWords = {
      "peak_bytes", "tensor_peak_bytes", "live_bytes", "idle_beside_live_bytes", "steps", "duration_ns"};
  return kWords.at(static_cast<std::size_t>(figure));
}

std::string FigureName(RankFigure figure) {
  switch (figure) {
    case RankFigure::kPeak:
      return "peak";
    case RankFigure::kTensorPeak:
      return "tensors' peak";
    case RankFigure::kLive:
      return "at the end";
    case RankFigure::kIdleBesideLive:
      return "fragmentation";
    case RankFigure::kSteps:
      return "steps";
    case RankFigure::kDuration:
      return "duration";
  }
  return {};
}

std::string FigureText(RankFigure figure, std::uint64_t value) {
  if (figure == RankFigure::kSteps) return Grouped(value);
  if (figure == RankFigure::kDuration) return HumanTime(static_cast<std::int64_t>(value));
  return HumanBytes(static_cast<double>(value));
}

std::string RelativeText(std::uint64_t value, std::uint64_t median) {
  if (median == 0) return {};
  if (value / 5 >= median) {
    std::array<char, 48> times{};
    std::snprintf(times.data(), times.size(), "%.1f times that",
                  static_cast<double>(value) / static_cast<double>(median));
    return times.data();
  }
  const double share = (static_cast<double>(value) - static_cast<double>(median)) / static_cast<double>(median);
  return share < 0 ? "-" + Percent(-share) : "+" + Percent(share);
}

std::string ShowSharedLine(const SharedLines& lines, std::uint32_t index, const std::string& folder, std::size_t width,
                           bool utf8) {
  const CodeLine& line = lines.line(index);
  if (line.basis == LineBasis::kFunction) {
    const std::string module =
        line.module.substr(line.module.rfind('/') == std::string::npos ? 0 : line.module.rfind('/') + 1);
    return Clip(ShortFunction(line.function, 48) + (module.empty() ? "" : " in " + module), width, utf8);
  }
  if (line.basis != LineBasis::kLine) return Clip(Describe(line), width, utf8);
  const std::string function = ShortFunction(line.function, 40);
  const std::string number = ":" + std::to_string(line.line);
  const std::size_t rest = function.size() + number.size() + 2;
  return ShortPath(lines.file(index), folder, width > rest + 20 ? width - rest : 20, utf8) + number +
         (function.empty() ? "" : "  " + function);
}

std::string ShowSharedUse(const SharedLines& lines, std::uint32_t line, std::uint32_t caller, const std::string& folder,
                          std::size_t width, bool utf8) {
  if (caller == 0) return ShowSharedLine(lines, line, folder, width, utf8);
  const std::string through = " through " + ShortFunction(lines.line(line).function, 24);
  return ShowSharedLine(lines, caller, folder, width - std::min(width, Columns(through)), utf8) + through;
}

}  // namespace cuheap::analysis
