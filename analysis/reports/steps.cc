#include "analysis/reports/steps.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace cuheap::analysis {
namespace {

constexpr std::size_t kFewestRepeats = 3;
constexpr double kLeastAgreement = 0.5;

struct Candidate {
  std::uint32_t stack = 0, thread = 0;
  std::vector<std::int64_t> times_ns;
};

// Allocations of the window in order of time, as (time, hash of the stack's number).
class AllocationClock {
 public:
  explicit AllocationClock(const Events& events) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events.type[i] == EventType::kAllocate) stamps_.emplace_back(events.time_ns[i], events.stack[i]);
    }
  }

  // Share of the intervals between the boundaries that allocate at the same set of stacks as most do. The first
  // interval (set-up and first step) has no say. 1 if nothing is allocated at all.
  double Agreement(const std::vector<std::int64_t>& boundaries_ns) const {
    std::unordered_map<std::uint64_t, std::size_t> sets;
    std::size_t most = 0;
    auto next = std::upper_bound(stamps_.begin(), stamps_.end(), std::pair{boundaries_ns.front(), ~std::uint32_t{0}});
    for (std::size_t i = 1; i < boundaries_ns.size(); ++i) {
      std::vector<std::uint32_t> stacks;
      for (; next != stamps_.end() && next->first <= boundaries_ns[i]; ++next) stacks.push_back(next->second);
      std::sort(stacks.begin(), stacks.end());
      stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
      std::uint64_t hash = 1469598103934665603u;
      for (const std::uint32_t stack : stacks) hash = (hash ^ stack) * 1099511628211u;
      most = std::max(most, ++sets[hash]);
    }
    return static_cast<double>(most) / static_cast<double>(boundaries_ns.size() - 1);
  }

  std::int64_t first_ns() const { return stamps_.empty() ? 0 : stamps_.front().first; }
  std::int64_t last_ns() const { return stamps_.empty() ? 0 : stamps_.back().first; }

 private:
  std::vector<std::pair<std::int64_t, std::uint32_t>> stamps_;
};

// The best candidate, or none. `fallback`: also one whose intervals do not agree, if there is no better.
Steps Best(std::vector<Candidate> candidates, const AllocationClock& clock, StepSource source, bool fallback) {
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    if (a.times_ns.size() != b.times_ns.size()) return a.times_ns.size() > b.times_ns.size();
    return std::pair(a.times_ns.front(), a.stack) < std::pair(b.times_ns.front(), b.stack);
  });
  Steps best;
  for (Candidate& candidate : candidates) {
    const double agreement = clock.Agreement(candidate.times_ns);
    const bool agrees = agreement >= kLeastAgreement;
    if (!agrees && (!fallback || best.source != StepSource::kNone)) continue;
    best = {source, std::move(candidate.times_ns), candidate.stack, agreement};
    if (agrees) break;
  }
  return best;
}

Steps FromMarks(const Events& events, const AllocationClock& clock) {
  Steps steps;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.type[i] == EventType::kStepMark) steps.boundaries_ns.push_back(events.time_ns[i]);
  }
  if (steps.count() < 2) return {};
  steps.source = StepSource::kMarks;
  steps.agreement = clock.Agreement(steps.boundaries_ns);
  return steps;
}

Steps FromSynchronizations(const Events& events, const AllocationClock& clock) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, Candidate> groups;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.type[i] != EventType::kSynchronize) continue;
    Candidate& group = groups[{events.stack[i], events.thread[i]}];
    group.stack = events.stack[i];
    group.thread = events.thread[i];
    group.times_ns.push_back(events.time_ns[i]);
  }
  std::vector<Candidate> candidates;
  for (auto& [key, group] : groups) {
    if (group.times_ns.size() >= kFewestRepeats) candidates.push_back(std::move(group));
  }
  return Best(std::move(candidates), clock, StepSource::kSynchronization, true);
}

Steps FromAllocations(const Blocks& blocks, const AllocationClock& clock) {
  struct Recurring {
    Candidate candidate;
    std::size_t freed = 0;
  };
  std::map<std::uint32_t, Recurring> groups;
  for (const Block& block : blocks.program) {
    if (block.stack == 0 || block.allocated_at == 0) continue;
    Recurring& group = groups[block.stack];
    group.candidate.stack = block.stack;
    group.candidate.times_ns.push_back(block.allocated_ns);
    if (!block.never_freed()) ++group.freed;
  }
  const std::int64_t span = clock.last_ns() - clock.first_ns();
  std::vector<Candidate> candidates;
  for (auto& [stack, group] : groups) {
    const auto& times = group.candidate.times_ns;
    if (times.size() < kFewestRepeats + 1 || group.freed * 10 < times.size() * 8) continue;
    if (times.back() - times.front() < span / 2) continue;  // a loop of the set-up, not the run's
    candidates.push_back(std::move(group.candidate));
  }
  Steps steps = Best(std::move(candidates), clock, StepSource::kAllocation, false);
  // Such a stack begins a step; the boundaries are where steps end, just before.
  if (steps.count() != 0) steps.boundaries_ns.erase(steps.boundaries_ns.begin());
  for (std::int64_t& boundary : steps.boundaries_ns) --boundary;
  return steps;
}

}  // namespace

std::uint32_t Steps::StepOf(std::int64_t time_ns) const {
  if (boundaries_ns.empty()) return 0;
  return static_cast<std::uint32_t>(std::lower_bound(boundaries_ns.begin(), boundaries_ns.end(), time_ns) -
                                    boundaries_ns.begin()) +
         1;
}

Steps FindSteps(const Snapshot& snapshot, const Blocks& blocks) {
  const AllocationClock clock(snapshot.events);
  Steps steps = FromMarks(snapshot.events, clock);
  if (steps.source == StepSource::kNone) steps = FromSynchronizations(snapshot.events, clock);
  if (steps.source == StepSource::kNone) steps = FromAllocations(blocks, clock);
  return steps;
}

}  // namespace cuheap::analysis
