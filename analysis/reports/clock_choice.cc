#include "analysis/reports/clock_choice.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace cuheap::analysis {
namespace {

constexpr std::size_t kFewestBeyond = 4;     // blocks of a line after the last boundary
constexpr std::size_t kFewestBefore = 8;     // before the first
constexpr std::uint64_t kBlocksPerStep = 4;  // before the first boundary, for each step that follows

// Came over a good part of these allocations and of this time, not in one go. `blocks`: by time of allocation.
bool Spread(const std::vector<const Block*>& blocks, std::uint64_t allocations, std::int64_t duration_ns) {
  const Block& first = *blocks.front();
  const Block& last = *blocks.back();
  return 4 * (last.allocated_at - first.allocated_at) >= allocations &&
         4 * (last.allocated_ns - first.allocated_ns) >= duration_ns;
}

bool NearlyAllOfOneSize(const std::vector<const Block*>& blocks) {
  std::unordered_map<std::uint64_t, std::size_t> counts;
  std::size_t most = 0;
  for (const Block* block : blocks) most = std::max(most, ++counts[block->bytes]);
  return 10 * most >= 9 * blocks.size();
}

}  // namespace

ClockChoice::ClockChoice(const Blocks& blocks, const StepClocks& clocks) : clocks_(clocks) {
  std::vector<std::int64_t> times_ns;
  for (const Block& block : blocks.program) {
    if (block.allocated_at != 0) times_ns.push_back(block.allocated_ns);
  }
  parts_.emplace(&clocks.main, Measure(clocks.main, times_ns));
  for (const auto& [thread, steps] : clocks.by_thread) parts_.emplace(&steps, Measure(steps, times_ns));
}

ClockChoice::Part ClockChoice::Measure(const Steps& steps, const std::vector<std::int64_t>& times_ns) const {
  Part part;
  if (steps.count() == 0 || times_ns.empty()) return part;
  const std::int64_t first = steps.boundaries_ns.front(), last = steps.boundaries_ns.back();
  const auto all = static_cast<std::uint64_t>(times_ns.size());
  const auto up_to = [&](std::int64_t time_ns) {
    return static_cast<std::uint64_t>(std::upper_bound(times_ns.begin(), times_ns.end(), time_ns) - times_ns.begin());
  };
  part.head_blocks = up_to(first);
  part.tail_blocks = all - up_to(last);
  part.begin_ns = std::min(times_ns.front(), first);
  part.end_ns = std::max(times_ns.back(), last);
  const std::int64_t span = part.end_ns - part.begin_ns;
  part.open_end = 5 * part.tail_blocks >= all || 5 * (part.end_ns - last) >= span;
  part.open_begin = 4 * part.head_blocks >= 3 * all && 4 * (first - part.begin_ns) >= 3 * span;
  return part;
}

bool ClockChoice::Covers(const Steps& steps, const std::vector<const Block*>& blocks) const {
  const Part& part = PartOf(steps);
  std::vector<const Block*> beyond;
  if (part.open_end) {
    const std::int64_t last = steps.boundaries_ns.back();
    std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(beyond),
                 [&](const Block* block) { return block->allocated_ns > last; });
    if (beyond.size() >= kFewestBeyond && 4 * beyond.size() >= blocks.size() &&
        Spread(beyond, part.tail_blocks, part.end_ns - last)) {
      return false;
    }
    beyond.clear();
  }
  if (!part.open_begin) return true;
  const std::int64_t first = steps.boundaries_ns.front();
  std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(beyond),
               [&](const Block* block) { return block->allocated_ns <= first; });
  return beyond.size() < kFewestBefore || beyond.size() < kBlocksPerStep * steps.count() ||
         4 * beyond.size() < blocks.size() || !Spread(beyond, part.head_blocks, first - part.begin_ns) ||
         !NearlyAllOfOneSize(beyond);
}

const Steps* ClockChoice::Of(std::uint32_t thread, const std::vector<const Block*>& blocks) const {
  for (const Steps* steps : {&clocks_.Of(thread), &clocks_.main}) {
    if (steps->count() != 0 && (blocks.empty() || Covers(*steps, blocks))) return steps;
  }
  return nullptr;
}

}  // namespace cuheap::analysis
