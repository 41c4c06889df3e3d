#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/ranks/rank_rendering.h"

namespace cuheap::analysis {
namespace {

constexpr std::array kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

}  // namespace

std::string RankTimeline(const RankReport& report, const RankSummary& rank, std::size_t columns, std::uint64_t most) {
  std::string text;
  if (!rank.has_device() || most == 0 || columns == 0) return text;
  const std::vector<CurvePoint>& curve = rank.device().curve;
  // Where the clock is not known, it begins with the others.
  const std::int64_t offset = rank.start_realtime_ns == 0 ? 0 : rank.start_realtime_ns - report.begin_ns;
  const auto width =
      static_cast<double>(std::max<std::int64_t>(1, report.end_ns - report.begin_ns)) / static_cast<double>(columns);
  std::size_t next = 0;  // first point after the column's begin
  for (std::size_t column = 0; column < columns; ++column) {
    const auto begin = static_cast<std::int64_t>(std::floor(static_cast<double>(column) * width)) - offset;
    const auto end = static_cast<std::int64_t>(std::ceil(static_cast<double>(column + 1) * width)) - offset;
    while (next < curve.size() && curve[next].time_ns <= begin) ++next;
    bool there = next != 0 && begin <= rank.duration_ns;
    std::uint64_t bytes = there ? curve[next - 1].bytes : 0;
    for (std::size_t i = next; i < curve.size() && curve[i].time_ns < end; ++i) {
      there = true;
      bytes = std::max(bytes, curve[i].bytes);
    }
    const double share = static_cast<double>(bytes) / static_cast<double>(most);
    text += there ? kHeights[std::min<std::size_t>(7, static_cast<std::size_t>(share * 8))] : " ";
  }
  return text;
}

}  // namespace cuheap::analysis
