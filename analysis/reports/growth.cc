#include "analysis/reports/growth.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace cuheap::analysis {
namespace {

// The most common distance between neighbours and the share of distances that equal it.
struct Rhythm {
  std::uint32_t period = 0, widest = 0;
  double share = 0;
};

Rhythm RhythmOf(const std::vector<std::uint32_t>& steps) {
  std::map<std::uint32_t, std::size_t> distances;
  for (std::size_t i = 1; i < steps.size(); ++i) ++distances[steps[i] - steps[i - 1]];
  Rhythm rhythm;
  std::size_t most = 0;
  for (const auto& [distance, count] : distances) {
    rhythm.widest = std::max(rhythm.widest, distance);
    if (count > most) {
      most = count;
      rhythm.period = distance;
    }
  }
  if (steps.size() > 1) rhythm.share = static_cast<double>(most) / static_cast<double>(steps.size() - 1);
  return rhythm;
}

GrowthShape ShapeOf(const std::vector<std::uint32_t>& steps, const Rhythm& rhythm, std::uint32_t step_count) {
  if (steps.size() < 2) return GrowthShape::kOnce;
  const std::uint32_t first = steps.front(), last = steps.back();
  const std::uint32_t quiet = last >= step_count ? 0 : step_count - last;
  if (steps.size() == 2) {
    // The set-up and the last step's remains make two steps as well; two in the middle of the run do not come from
    // those.
    const bool middle = first > 1 && last < step_count && quiet <= 2 * rhythm.widest;
    return middle ? GrowthShape::kIrregular : GrowthShape::kStopped;
  }
  const double density = static_cast<double>(steps.size()) / (last - first + 1);
  if (density >= 0.9 && quiet <= 1) return GrowthShape::kEveryStep;
  if (rhythm.period > 1 && rhythm.share >= 0.8 && quiet <= rhythm.period) return GrowthShape::kEveryFewSteps;
  // Three steps at the start of a long run are a warm-up; the longest silence so far, twice, is what growth may take.
  if (quiet <= std::max<std::uint32_t>(1, 2 * rhythm.widest) && 2 * (last - first) >= step_count - first)
    return GrowthShape::kIrregular;
  return GrowthShape::kStopped;
}

// What a step adds that adds something. Set-up adds to the first one, and the last one may be cut short: where most add
// the same, that is it, else the mean of those between.
double PerOccurrence(const std::map<std::uint32_t, std::uint64_t>& by_step) {
  std::vector<std::uint64_t> sorted;
  double sum = 0;
  for (const auto& [step, bytes] : by_step) {
    sorted.push_back(bytes);
    sum += static_cast<double>(bytes);
  }
  if (sorted.size() < 4) return sum / static_cast<double>(sorted.size());
  sum -= static_cast<double>(by_step.begin()->second) + static_cast<double>(by_step.rbegin()->second);
  std::sort(sorted.begin(), sorted.end());
  const std::uint64_t median = sorted[sorted.size() / 2];
  const auto equal = std::equal_range(sorted.begin(), sorted.end(), median);
  if (10 * static_cast<std::size_t>(equal.second - equal.first) > 6 * sorted.size()) return static_cast<double>(median);
  return sum / static_cast<double>(sorted.size() - 2);
}

// Least squares through the cumulated bytes after every step from first - 1 on; from first on if that added much more
// than others do, which is set-up.
void FitSlope(Growth& growth, const std::map<std::uint32_t, std::uint64_t>& by_step, std::uint32_t last,
              double per_occurrence) {
  std::uint32_t first = by_step.begin()->first;
  if (static_cast<double>(by_step.begin()->second) > 1.5 * per_occurrence && by_step.size() >= 4) ++first;
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0, cumulated = 0;
  const auto add = [&](double x, double y) { n += 1, sx += x, sy += y, sxx += x * x, sxy += x * y, syy += y * y; };
  add(0, 0);
  for (std::uint32_t step = first; step <= last; ++step) {
    const auto found = by_step.find(step);
    if (found != by_step.end()) cumulated += static_cast<double>(found->second);
    add(step - first + 1, cumulated);
  }
  const double variance_x = n * sxx - sx * sx, variance_y = n * syy - sy * sy, covariance = n * sxy - sx * sy;
  if (variance_x <= 0 || variance_y <= 0) return;
  growth.slope_bytes_per_step = covariance / variance_x;
  growth.slope_r2 = covariance * covariance / (variance_x * variance_y);
}

Confidence ConfidenceOf(const Growth& growth) {
  if (growth.shape == GrowthShape::kIrregular)
    return growth.steps.size() >= 8 && growth.slope_r2 >= 0.9 ? Confidence::kMedium : Confidence::kLow;
  if (!Grows(growth.shape)) return Confidence::kHigh;
  if (growth.steps.size() >= 8 && growth.slope_r2 >= 0.95) return Confidence::kHigh;
  return growth.steps.size() >= 4 ? Confidence::kMedium : Confidence::kLow;
}

}  // namespace

bool Grows(GrowthShape shape) {
  return shape == GrowthShape::kEveryStep || shape == GrowthShape::kEveryFewSteps || shape == GrowthShape::kIrregular ||
         shape == GrowthShape::kOverTime;
}

Growth MeasureGrowth(const std::vector<Addition>& additions, std::uint32_t step_count) {
  std::map<std::uint32_t, std::uint64_t> by_step;
  std::uint64_t total = 0;
  for (const Addition& addition : additions) {
    by_step[addition.step] += addition.bytes;
    total += addition.bytes;
  }
  Growth growth;
  for (const auto& [step, bytes] : by_step) growth.steps.push_back(step);
  if (growth.steps.empty()) return growth;
  const Rhythm rhythm = RhythmOf(growth.steps);
  growth.shape = ShapeOf(growth.steps, rhythm, step_count);
  const double per_occurrence = PerOccurrence(by_step);
  growth.bytes_per_occurrence = static_cast<std::uint64_t>(std::llround(per_occurrence));
  const std::uint32_t first = growth.steps.front(), last = growth.steps.back();
  FitSlope(growth, by_step, std::max(last, step_count), per_occurrence);
  if (growth.shape == GrowthShape::kEveryStep)
    growth.bytes_per_step = per_occurrence * static_cast<double>(growth.steps.size()) / (last - first + 1);
  if (growth.shape == GrowthShape::kEveryFewSteps) {
    growth.period = rhythm.period;
    growth.bytes_per_step = per_occurrence / rhythm.period;
  }
  if (growth.shape == GrowthShape::kIrregular)
    growth.bytes_per_step = static_cast<double>(total) / (std::max(last, step_count) - first + 1);
  growth.confidence = ConfidenceOf(growth);
  return growth;
}

}  // namespace cuheap::analysis
