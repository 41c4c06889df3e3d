#include "analysis/reports/steps.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace cuheap::analysis {
namespace {

constexpr std::size_t kFewestRepeats = 3;
constexpr std::size_t kFewestOfThread = 8;  // of a thread that is to have steps of its own
constexpr double kLeastAgreement = 0.5;
constexpr std::size_t kLongestCycle = 16;
constexpr std::uint32_t kAllThreads = 0;

struct Candidate {
  std::uint32_t stack = 0, thread = kAllThreads;
  std::vector<std::int64_t> times_ns;
};

struct Intervals {
  std::vector<std::uint64_t> signatures;  // of each interval a hash of the set of stacks it allocates at
  std::size_t most_of_a_stack = 0;        // the greatest number of intervals that one stack allocates in
};

// Allocations of the window in order of time, of each thread and of all.
class AllocationClock {
 public:
  explicit AllocationClock(const Events& events) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events.type[i] != EventType::kAllocate) continue;
      stamps_[kAllThreads].emplace_back(events.time_ns[i], events.stack[i]);
      if (events.thread[i] != kAllThreads) stamps_[events.thread[i]].emplace_back(events.time_ns[i], events.stack[i]);
    }
  }

  // What the thread did between the boundaries; the first interval (set-up and first step) is left out.
  Intervals Between(const std::vector<std::int64_t>& boundaries_ns, std::uint32_t thread) const {
    Intervals intervals;
    std::unordered_map<std::uint32_t, std::size_t> seen;
    const auto found = stamps_.find(thread);
    const std::vector<Stamp>& stamps = found == stamps_.end() ? none_ : found->second;
    auto next = std::upper_bound(stamps.begin(), stamps.end(), Stamp{boundaries_ns.front(), ~std::uint32_t{0}});
    for (std::size_t i = 1; i < boundaries_ns.size(); ++i) {
      std::vector<std::uint32_t> stacks;
      for (; next != stamps.end() && next->first <= boundaries_ns[i]; ++next) stacks.push_back(next->second);
      std::sort(stacks.begin(), stacks.end());
      stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
      std::uint64_t hash = 1469598103934665603u;
      for (const std::uint32_t stack : stacks) hash = (hash ^ stack) * 1099511628211u;
      intervals.signatures.push_back(hash);
      for (const std::uint32_t stack : stacks)
        intervals.most_of_a_stack = std::max(intervals.most_of_a_stack, ++seen[stack]);
    }
    return intervals;
  }

  std::int64_t span_ns() const {
    const auto all = stamps_.find(kAllThreads);
    return all == stamps_.end() ? 0 : all->second.back().first - all->second.front().first;
  }

 private:
  using Stamp = std::pair<std::int64_t, std::uint32_t>;
  std::map<std::uint32_t, std::vector<Stamp>> stamps_;
  std::vector<Stamp> none_;
};

// Share of the most common signature.
double Agreement(const std::vector<std::uint64_t>& signatures) {
  if (signatures.empty()) return 0;
  std::unordered_map<std::uint64_t, std::size_t> counts;
  std::size_t most = 0;
  for (const std::uint64_t signature : signatures) most = std::max(most, ++counts[signature]);
  return static_cast<double>(most) / static_cast<double>(signatures.size());
}

// The number of intervals after which the signatures repeat; 1 if they don't, or if neighbours are alike anyway. A
// stack that allocates in nearly every interval says that an interval is a step, and that others merely come every few
// steps.
std::size_t Cycle(const Intervals& intervals) {
  const std::vector<std::uint64_t>& signatures = intervals.signatures;
  if (10 * intervals.most_of_a_stack >= 8 * signatures.size()) return 1;
  const auto share = [&](std::size_t distance) {
    std::size_t same = 0;
    for (std::size_t i = distance; i < signatures.size(); ++i)
      same += signatures[i] == signatures[i - distance] ? 1 : 0;
    return static_cast<double>(same) / static_cast<double>(signatures.size() - distance);
  };
  if (signatures.size() < 4 || share(1) >= 0.5) return 1;
  for (std::size_t distance = 2; distance <= std::min(kLongestCycle, signatures.size() / 3); ++distance) {
    if (share(distance) >= 0.7) return distance;
  }
  return 1;
}

// Keeps every cycle-th boundary, the last one among them.
std::vector<std::int64_t> Thin(const std::vector<std::int64_t>& boundaries_ns, std::size_t cycle) {
  std::vector<std::int64_t> kept;
  for (std::size_t i = (boundaries_ns.size() - 1) % cycle; i < boundaries_ns.size(); i += cycle)
    kept.push_back(boundaries_ns[i]);
  return kept;
}

// The best candidate, or none. `fallback`: also one whose intervals do not agree, if there is no better.
Steps Best(std::vector<Candidate> candidates, const AllocationClock& clock, StepSource source, bool fallback) {
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    if (a.times_ns.size() != b.times_ns.size()) return a.times_ns.size() > b.times_ns.size();
    return std::pair(a.times_ns.front(), a.stack) < std::pair(b.times_ns.front(), b.stack);
  });
  Steps best;
  for (Candidate& candidate : candidates) {
    Intervals intervals = clock.Between(candidate.times_ns, candidate.thread);
    if (const std::size_t cycle = Cycle(intervals); cycle > 1) {
      candidate.times_ns = Thin(candidate.times_ns, cycle);
      intervals = clock.Between(candidate.times_ns, candidate.thread);
    }
    const double agreement = Agreement(intervals.signatures);
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
  steps.agreement = Agreement(clock.Between(steps.boundaries_ns, kAllThreads).signatures);
  return steps;
}

void FromSynchronizations(const Events& events, const AllocationClock& clock, StepClocks& clocks) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, Candidate> groups;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.type[i] != EventType::kSynchronize) continue;
    Candidate& group = groups[{events.thread[i], events.stack[i]}];
    group.stack = events.stack[i];
    group.thread = events.thread[i];
    group.times_ns.push_back(events.time_ns[i]);
  }
  std::vector<Candidate> candidates;
  std::map<std::uint32_t, std::vector<Candidate>> of_thread;
  for (auto& [key, group] : groups) {
    if (group.times_ns.size() >= kFewestOfThread) of_thread[group.thread].push_back(group);
    if (group.times_ns.size() >= kFewestRepeats) candidates.push_back(std::move(group));
  }
  clocks.main = Best(std::move(candidates), clock, StepSource::kSynchronization, true);
  for (auto& [thread, own] : of_thread) {
    Steps steps = Best(std::move(own), clock, StepSource::kSynchronization, true);
    if (steps.count() >= kFewestRepeats) clocks.by_thread.emplace(thread, std::move(steps));
  }
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
  const std::int64_t span = clock.span_ns();
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

StepClocks FindSteps(const Snapshot& snapshot, const Blocks& blocks) {
  const AllocationClock clock(snapshot.events);
  StepClocks clocks;
  clocks.main = FromMarks(snapshot.events, clock);
  if (clocks.main.source == StepSource::kNone) FromSynchronizations(snapshot.events, clock, clocks);
  if (clocks.main.source == StepSource::kNone) clocks.main = FromAllocations(blocks, clock);
  return clocks;
}

}  // namespace cuheap::analysis
