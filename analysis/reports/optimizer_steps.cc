#include "analysis/reports/optimizer_steps.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace cuheap::analysis {
namespace {

constexpr std::size_t kFewestCalls = 3;

using Rows = std::vector<std::uint32_t>;  // of events: allocations

// A place that calls an optimizer: thread and Python frame.
using Place = std::pair<std::uint32_t, std::uint32_t>;

struct Calls {
  std::vector<std::size_t> ends;  // of each call the index of its last allocation among those of the thread
  std::size_t first = 0;          // of the first call's allocations
  std::uint32_t stack = 0;
};

// The calls' ends, moved on over what the loop does after them; see the note.
std::vector<std::size_t> Extended(const Events& events, const Rows& own, const Calls& calls) {
  const auto stack_of = [&](std::size_t i) { return events.stack[own[i]]; };
  std::unordered_map<std::uint32_t, std::size_t> steps_of_stack;  // between two calls
  for (std::size_t call = 1; call < calls.ends.size(); ++call) {
    std::unordered_set<std::uint32_t> seen;
    for (std::size_t i = calls.ends[call - 1] + 1; i <= calls.ends[call]; ++i) {
      if (seen.insert(stack_of(i)).second) ++steps_of_stack[stack_of(i)];
    }
  }
  const auto often = [&](std::uint32_t stack) {
    const auto found = steps_of_stack.find(stack);
    return found != steps_of_stack.end() && 2 * found->second >= calls.ends.size() - 1;
  };
  std::unordered_set<std::uint32_t> before, after;
  for (std::size_t i = 0; i < calls.first; ++i) before.insert(stack_of(i));
  for (std::size_t i = calls.ends.back() + 1; i < own.size(); ++i) {
    if (often(stack_of(i)) && !before.contains(stack_of(i))) after.insert(stack_of(i));
  }
  std::vector<std::size_t> ends = calls.ends;
  for (std::size_t call = 0; call < ends.size() && !after.empty(); ++call) {
    for (std::size_t i = calls.ends[call] + 1; i < own.size(); ++i) {
      if (after.contains(stack_of(i)))
        ends[call] = i;
      else if (often(stack_of(i)))
        break;
    }
  }
  return ends;
}

class Finder {
 public:
  Finder(const Events& events, const FrameworkStacks& stacks) : events_(events) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events.type[i] != EventType::kAllocate) continue;
      Rows& own = allocations_[events.thread[i]];
      own.push_back(static_cast<std::uint32_t>(i));
      const FrameworkStacks::Facts& facts = stacks.Of(events.stack[i]);
      std::uint32_t& calling = calling_[events.thread[i]];
      if (!facts.optimizer_step) {
        calling = 0;
        continue;
      }
      Calls& calls = calls_[{events.thread[i], facts.optimizer_caller}];
      if (calls.ends.empty()) calls.first = own.size() - 1;
      if (calling != facts.optimizer_caller + 1) calls.ends.push_back(0);
      calls.ends.back() = own.size() - 1;
      calls.stack = events.stack[i];
      calling = facts.optimizer_caller + 1;
    }
  }

  OptimizerSteps Find() const {
    const std::pair<const Place, Calls>* best = nullptr;
    const auto rank = [&](const std::pair<const Place, Calls>& of) {
      return std::pair(of.second.ends.size(), events_.time_ns[allocations_.at(of.first.first)[of.second.ends.back()]]);
    };
    for (const auto& entry : calls_) {
      if (entry.second.ends.size() >= kFewestCalls && (best == nullptr || rank(entry) > rank(*best))) best = &entry;
    }
    if (best == nullptr) return {};
    OptimizerSteps steps;
    steps.thread = best->first.first;
    steps.stack = best->second.stack;
    const Rows& own = allocations_.at(steps.thread);
    for (const std::size_t end : Extended(events_, own, best->second))
      steps.boundaries_ns.push_back(events_.time_ns[own[end]]);
    return steps;
  }

 private:
  const Events& events_;
  std::unordered_map<std::uint32_t, Rows> allocations_;  // by thread
  std::unordered_map<std::uint32_t, std::uint32_t>
      calling_;  // by thread: the place whose call goes on, plus one; 0: none
  std::map<Place, Calls> calls_;
};

}  // namespace

OptimizerSteps FindOptimizerSteps(const Events& events, const FrameworkStacks& stacks) {
  if (!stacks.Any(&FrameworkStacks::Facts::optimizer_step)) return {};
  return Finder(events, stacks).Find();
}

std::vector<std::int64_t> FindGradientSteps(const Blocks& blocks, const FrameworkStacks& stacks) {
  std::vector<std::uint64_t> others;  // positions of allocations outside of backward passes
  std::vector<const Block*> gradients;
  for (const Block& block : blocks.program) {
    if (!block.framework_tensor() || block.allocated_at == 0) continue;
    const FrameworkStacks::Facts& facts = stacks.Of(block.stack);
    if (!facts.backward)
      others.push_back(block.allocated_at);
    else if (!facts.python && block.freed_at != kNoPosition)
      gradients.push_back(&block);
  }
  std::sort(others.begin(), others.end());
  const auto next = [&](std::uint64_t at) {
    const auto found = std::upper_bound(others.begin(), others.end(), at);
    return found == others.end() ? kNoPosition : *found;
  };
  std::erase_if(gradients, [&](const Block* block) { return next(block->allocated_at) > block->freed_at; });
  std::sort(gradients.begin(), gradients.end(),
            [](const Block* a, const Block* b) { return a->freed_at < b->freed_at; });
  struct Burst {
    std::uint64_t until = 0;  // position of the next allocation
    std::int64_t end_ns = 0;
    std::size_t blocks = 0;
  };
  std::vector<Burst> bursts;
  std::size_t most = 0;
  for (const Block* block : gradients) {
    if (bursts.empty() || block->freed_at > bursts.back().until) bursts.push_back({next(block->freed_at), 0, 0});
    bursts.back().end_ns = block->freed_ns;
    most = std::max(most, ++bursts.back().blocks);
  }
  // The interpreter frees the last ones, if nothing is allocated after them: no step of the loop.
  std::erase_if(bursts, [&](const Burst& burst) { return 2 * burst.blocks < most || burst.until == kNoPosition; });
  if (bursts.size() < kFewestCalls) return {};
  std::vector<std::int64_t> ends;
  for (const Burst& burst : bursts) ends.push_back(burst.end_ns);
  return ends;
}

std::vector<std::int64_t> FindBackwardPasses(const Events& events, const FrameworkStacks& stacks) {
  if (!stacks.Any(&FrameworkStacks::Facts::backward)) return {};
  Rows all;
  Calls passes;
  bool within = false;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.type[i] != EventType::kAllocate) continue;
    all.push_back(static_cast<std::uint32_t>(i));
    const bool backward = stacks.Of(events.stack[i]).backward;
    if (backward && !within) {
      if (passes.ends.empty()) passes.first = all.size() - 1;
      passes.ends.push_back(0);
    }
    if (backward) passes.ends.back() = all.size() - 1;
    within = backward;
  }
  if (passes.ends.size() < kFewestCalls) return {};
  std::vector<std::int64_t> ends;
  for (const std::size_t end : Extended(events, all, passes)) ends.push_back(events.time_ns[all[end]]);
  return ends;
}

}  // namespace cuheap::analysis
