#include "analysis/ranks/rank_spread.h"

#include <algorithm>
#include <tuple>

namespace cuheap::analysis {
namespace {

constexpr std::size_t kFewestForOutliers = 3;

std::uint64_t Distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

}  // namespace

Spread MeasureSpread(std::vector<RankValue> values, std::uint64_t floor) {
  Spread spread;
  spread.count = values.size();
  if (values.empty()) return spread;
  std::sort(values.begin(), values.end(), [](const RankValue& a, const RankValue& b) {
    return std::tie(a.value, a.rank) < std::tie(b.value, b.rank);
  });
  const RankValue& middle = values[(values.size() - 1) / 2];
  spread.least = values.front().value;
  spread.most = values.back().value;
  spread.median = middle.value;
  for (const RankValue& value : values) {
    spread.mean += static_cast<double>(value.value) / static_cast<double>(values.size());
    if (value.value == spread.most && values[spread.most_rank].value != spread.most)
      spread.most_rank = static_cast<std::size_t>(&value - values.data());
    if (value.value == spread.median && values[spread.median_rank].value != spread.median)
      spread.median_rank = static_cast<std::size_t>(&value - values.data());
  }
  spread.most_rank = values[spread.most_rank].rank;
  spread.median_rank = values[spread.median_rank].rank;
  std::vector<std::uint64_t> distances;
  distances.reserve(values.size());
  for (const RankValue& value : values) distances.push_back(Distance(value.value, spread.median));
  const auto half = distances.begin() + static_cast<std::ptrdiff_t>((distances.size() - 1) / 2);
  std::nth_element(distances.begin(), half, distances.end());
  spread.deviation = *half;
  if (values.size() < kFewestForOutliers) return spread;
  for (const RankValue& value : values) {
    const std::uint64_t distance = Distance(value.value, spread.median);
    const auto far = static_cast<double>(distance);
    if (far > kOutlierLimit * kMadToDeviation * static_cast<double>(spread.deviation) &&
        far > kOutlierShare * static_cast<double>(spread.median) && distance > floor) {
      spread.outliers.push_back(value);
    }
  }
  std::sort(spread.outliers.begin(), spread.outliers.end(), [&](const RankValue& a, const RankValue& b) {
    const std::uint64_t far_a = Distance(a.value, spread.median), far_b = Distance(b.value, spread.median);
    return far_a != far_b ? far_a > far_b : a.rank < b.rank;
  });
  return spread;
}

}  // namespace cuheap::analysis
