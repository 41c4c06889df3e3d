#include "analysis/reports/steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "analysis/reports/optimizer_steps.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kFewestRepeats = 3;
constexpr std::size_t kFewestOfThread = 8;  // of a thread that is to have steps of its own
constexpr double kLeastAgreement = 0.5;
constexpr std::size_t kLongestCycle = 16;
constexpr std::uint32_t kAllThreads = 0;
constexpr std::ptrdiff_t kMostOfTail = 3;  // times as many allocations as a step makes

struct Candidate {
  std::uint32_t stack = 0, thread = kAllThreads;
  std::vector<std::int64_t> times_ns;
  double weight = 0;  // the greatest is asked first, then the most frequent one
};

struct Intervals {
  std::vector<std::uint64_t> signatures;                // of each interval a hash of the set of stacks it allocates at
  std::size_t most_of_a_stack = 0;                      // the greatest number of intervals that one stack allocates in
  std::unordered_map<std::uint32_t, std::size_t> seen;  // by stack: the number of intervals it allocates in
};

// Allocations of the window in order of time, of each thread and of all.
class AllocationClock {
  using Rows = std::vector<std::uint32_t>;  // of events

 public:
  explicit AllocationClock(const Events& events) : events_(events) {
    std::map<std::uint32_t, std::size_t> counts;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events.type[i] == EventType::kAllocate) ++counts[events.thread[i]];
    }
    split_ = counts.size() > 1;
    std::size_t total = 0;
    for (const auto& [thread, count] : counts) {
      rows_[thread].reserve(split_ ? count : 0);
      total += count;
    }
    Rows& all = rows_[kAllThreads];
    all.reserve(total);
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events.type[i] != EventType::kAllocate) continue;
      const auto row = static_cast<std::uint32_t>(i);
      all.push_back(row);
      if (split_ && events.thread[i] != kAllThreads) rows_[events.thread[i]].push_back(row);
    }
  }

  // What the thread did between the boundaries; the first interval (set-up and first step) is left out.
  Intervals Between(const std::vector<std::int64_t>& boundaries_ns, std::uint32_t thread) const {
    Intervals intervals;
    const Rows& rows = Of(thread);
    auto next = After(rows, boundaries_ns.front());
    std::vector<std::uint32_t> stacks;
    for (std::size_t i = 1; i < boundaries_ns.size(); ++i) {
      stacks.clear();
      for (; next != rows.end() && events_.time_ns[*next] <= boundaries_ns[i]; ++next)
        stacks.push_back(events_.stack[*next]);
      std::sort(stacks.begin(), stacks.end());
      stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
      std::uint64_t hash = 1469598103934665603u;
      for (const std::uint32_t stack : stacks) hash = (hash ^ stack) * 1099511628211u;
      intervals.signatures.push_back(hash);
      for (const std::uint32_t stack : stacks)
        intervals.most_of_a_stack = std::max(intervals.most_of_a_stack, ++intervals.seen[stack]);
    }
    return intervals;
  }

  // Boundaries may lie at a step's beginning or middle: what follows the last one is then a step as well, cut short or
  // not. It is told by allocating where half of the steps do, and not much more often than they: much more is a loop of
  // its own, which no step covers. If nothing does before the first boundary, that one only
  // ends the set-up.
  void Complete(std::vector<std::int64_t>& boundaries_ns, const Intervals& intervals, std::uint32_t thread) const {
    if (boundaries_ns.size() < 2) return;
    const std::size_t half = boundaries_ns.size() / 2;
    const auto often = [&](std::uint32_t row) {
      const auto found = intervals.seen.find(events_.stack[row]);
      return found != intervals.seen.end() && found->second >= half;
    };
    const Rows& rows = Of(thread);
    const auto tail = After(rows, boundaries_ns.back());
    if (std::none_of(tail, rows.end(), often)) return;
    std::ptrdiff_t most = 1;  // allocations between two boundaries
    for (std::size_t i = 1; i < boundaries_ns.size(); ++i)
      most = std::max(most, After(rows, boundaries_ns[i]) - After(rows, boundaries_ns[i - 1]));
    if (rows.end() - tail > kMostOfTail * most) return;
    const bool head = std::any_of(rows.begin(), After(rows, boundaries_ns.front()), often);
    std::int64_t end_ns = boundaries_ns.back();
    for (auto row = tail; row != rows.end(); ++row) {
      if (intervals.seen.contains(events_.stack[*row])) end_ns = events_.time_ns[*row];
    }
    boundaries_ns.push_back(end_ns);
    if (!head) boundaries_ns.erase(boundaries_ns.begin());
  }

  // The share of the run's allocations that come after.
  double ShareAfter(std::int64_t time_ns) const {
    const Rows& rows = Of(kAllThreads);
    if (rows.empty()) return 0;
    return static_cast<double>(rows.end() - After(rows, time_ns)) / static_cast<double>(rows.size());
  }

  std::int64_t span_ns() const {
    const Rows& rows = Of(kAllThreads);
    return rows.empty() ? 0 : events_.time_ns[rows.back()] - events_.time_ns[rows.front()];
  }

 private:
  const Rows& Of(std::uint32_t thread) const {
    const auto found = rows_.find(thread);
    if (found == rows_.end()) return none_;
    return split_ ? found->second : rows_.at(kAllThreads);
  }

  Rows::const_iterator After(const Rows& rows, std::int64_t time_ns) const {
    return std::upper_bound(rows.begin(), rows.end(), time_ns,
                            [&](std::int64_t time, std::uint32_t row) { return time < events_.time_ns[row]; });
  }

  const Events& events_;
  std::map<std::uint32_t, Rows> rows_;  // by thread
  bool split_ = false;                  // else what the only thread does is all there is
  Rows none_;
};

// Share of the most common signature.
double Agreement(const std::vector<std::uint64_t>& signatures) {
  if (signatures.empty()) return 0;
  std::unordered_map<std::uint64_t, std::size_t> times_seen;
  std::size_t most = 0;
  for (const std::uint64_t signature : signatures) most = std::max(most, ++times_seen[signature]);
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

// Such an allocation begins a step; the boundaries are where steps end, just before.
void BeforeEach(std::vector<std::int64_t>& times_ns) {
  times_ns.erase(times_ns.begin());
  for (std::int64_t& time_ns : times_ns) --time_ns;
}

// The best candidate, or none. `fallback`: also one whose intervals do not agree, if there is no better.
Steps Best(std::vector<Candidate> candidates, const AllocationClock& clock, StepSource source, bool fallback) {
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    if (a.weight != b.weight) return a.weight > b.weight;
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
    if (source == StepSource::kAllocation) BeforeEach(candidate.times_ns);
    clock.Complete(candidate.times_ns, intervals, candidate.thread);
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
  const Intervals intervals = clock.Between(steps.boundaries_ns, kAllThreads);
  steps.agreement = Agreement(intervals.signatures);
  clock.Complete(steps.boundaries_ns, intervals, kAllThreads);
  return steps;
}

Steps FromOptimizer(const Events& events, const AllocationClock& clock, const FrameworkStacks& stacks) {
  OptimizerSteps found = FindOptimizerSteps(events, stacks);
  if (found.boundaries_ns.empty()) return {};
  const double agreement = Agreement(clock.Between(found.boundaries_ns, found.thread).signatures);
  return {StepSource::kOptimizer, std::move(found.boundaries_ns), found.stack, agreement};
}

Steps FromGradients(const Blocks& blocks, const AllocationClock& clock, const FrameworkStacks& stacks) {
  Steps steps;
  steps.boundaries_ns = FindGradientSteps(blocks, stacks);
  if (steps.boundaries_ns.empty()) return {};
  steps.source = StepSource::kGradients;
  const Intervals intervals = clock.Between(steps.boundaries_ns, kAllThreads);
  steps.agreement = Agreement(intervals.signatures);
  clock.Complete(steps.boundaries_ns, intervals, kAllThreads);
  return steps;
}

Steps FromBackwardPasses(const Events& events, const AllocationClock& clock, const FrameworkStacks& stacks) {
  Steps steps;
  steps.boundaries_ns = FindBackwardPasses(events, stacks);
  if (steps.boundaries_ns.empty()) return {};
  steps.source = StepSource::kBackward;
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
    std::size_t first = 0, last = 0;  // the how manieth allocation of all
  };
  std::map<std::uint32_t, Recurring> groups;
  std::size_t allocations = 0;
  for (const Block& block : blocks.program) {
    if (block.allocated_at == 0) continue;
    ++allocations;
    if (block.stack == 0) continue;
    Recurring& group = groups[block.stack];
    group.candidate.stack = block.stack;
    group.candidate.times_ns.push_back(block.allocated_ns);
    if (group.first == 0) group.first = allocations;
    group.last = allocations;
    if (!block.never_freed()) ++group.freed;
  }
  const std::int64_t span = clock.span_ns();
  std::vector<std::size_t> counts;  // of all stacks that recur
  std::size_t most_freed = 0;       // occurrences of the most frequent stack whose blocks are freed again
  const auto is_freed = [](const Recurring& group) { return group.freed * 10 >= group.candidate.times_ns.size() * 8; };
  for (auto group = groups.begin(); group != groups.end();) {
    const auto& times = group->second.candidate.times_ns;
    // A loop of the set-up is not the run's: neither in time (which imports and compilation can fill) nor in number.
    const bool short_loop =
        times.back() - times.front() < span / 2 && 2 * (group->second.last - group->second.first) < allocations;
    if (times.size() < kFewestRepeats + 1 || short_loop) {
      group = groups.erase(group);
      continue;
    }
    counts.push_back(times.size());
    if (is_freed(group->second)) most_freed = std::max(most_freed, times.size());
    ++group;
  }
  std::vector<Candidate> candidates;
  for (auto& [stack, group] : groups) {
    const std::size_t count = group.candidate.times_ns.size();
    // Where something comes and goes more often, what stays may tell the steps around that; alone it is no clock.
    if (!is_freed(group) && most_freed <= count + count / 10) continue;
    const auto alike = std::count_if(counts.begin(), counts.end(), [&](std::size_t other) {
      return 10 * other >= 9 * count && 9 * other <= 10 * count;
    });
    group.candidate.weight = static_cast<double>(alike) * std::sqrt(static_cast<double>(count));
    candidates.push_back(std::move(group.candidate));
  }
  return Best(std::move(candidates), clock, StepSource::kAllocation, false);
}

}  // namespace

std::uint32_t Steps::StepOf(std::int64_t time_ns) const {
  if (boundaries_ns.empty()) return 0;
  return static_cast<std::uint32_t>(std::lower_bound(boundaries_ns.begin(), boundaries_ns.end(), time_ns) -
                                    boundaries_ns.begin()) +
         1;
}

StepClocks FindSteps(const Snapshot& snapshot, const Blocks& blocks, const FrameworkStacks& stacks) {
  const AllocationClock clock(snapshot.events);
  StepClocks clocks;
  clocks.main = FromMarks(snapshot.events, clock);
  if (clocks.main.source == StepSource::kNone) clocks.main = FromOptimizer(snapshot.events, clock, stacks);
  if (clocks.main.source == StepSource::kNone) clocks.main = FromGradients(blocks, clock, stacks);
  if (clocks.main.source == StepSource::kNone) clocks.main = FromBackwardPasses(snapshot.events, clock, stacks);
  if (clocks.main.source == StepSource::kNone) FromSynchronizations(snapshot.events, clock, clocks);
  if (clocks.main.source == StepSource::kNone) {
    clocks.main = FromAllocations(blocks, clock);
  } else if (clocks.main.source == StepSource::kSynchronization &&
             clock.ShareAfter(clocks.main.boundaries_ns.back()) > 0.5) {
    // Synchronisations of a warm-up.
    Steps recurring = FromAllocations(blocks, clock);
    if (recurring.count() > clocks.main.count()) clocks.main = std::move(recurring);
  }
  return clocks;
}

}  // namespace cuheap::analysis
