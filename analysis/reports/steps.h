// The steps of a run: training steps, requests, iterations. Growth is counted per step.
#ifndef CUHEAP_ANALYSIS_REPORTS_STEPS_H_
#define CUHEAP_ANALYSIS_REPORTS_STEPS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/framework_frames.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

// What a step was recognised by, most trusted first.
enum class StepSource : std::uint8_t {
  kNone,             // no steps were found: growth is told over time only
  kMarks,            // the program calls cuheap_step()
  kOptimizer,        // PyTorch's Optimizer.step, see optimizer_steps.h
  kGradients,        // gradients that PyTorch's zero_grad frees, likewise
  kBackward,         // PyTorch's backward passes, likewise
  kSynchronization,  // one recurring context-wide synchronisation (of one stack and thread)
  kAllocation,       // one recurring allocation (of one stack) whose blocks are freed again
};

// Step i (from 1) lasts from boundary i-1 to boundary i; what comes before the first boundary belongs to step 1, so
// that set-up counts as step 1, and what comes after the last one to step count + 1 ("after the last step"). Programs
// that mark or synchronise at a step's beginning have their steps counted right as well: the last boundary is then the
// last step's last allocation.
struct Steps {
  StepSource source = StepSource::kNone;
  std::vector<std::int64_t> boundaries_ns;  // ascending: the end of each step
  std::uint32_t stack = 0;                  // what recurs, if source is neither kNone nor kMarks
  double agreement = 0;                     // share of steps (0..1) that allocate at the same stacks as most steps do
  std::uint32_t count() const { return static_cast<std::uint32_t>(boundaries_ns.size()); }
  // 1 .. count() + 1, or 0 if there are no steps. An event at a boundary's own time belongs to the step it ends.
  std::uint32_t StepOf(std::int64_t time_ns) const;
};

// Threads may have loops of their own, each with its own pace.
struct StepClocks {
  Steps main;                                // of the run: the most frequent loop
  std::map<std::uint32_t, Steps> by_thread;  // threads that synchronise in a loop of their own
  // The thread's own steps, or the run's.
  const Steps& Of(std::uint32_t thread) const {
    const auto found = by_thread.find(thread);
    return found == by_thread.end() ? main : found->second;
  }
};

// Note [How steps are found]
// Marks win, and hold for all threads. Else what PyTorch's optimizer allocates, or what zero_grad() frees, or a
// backward pass tells the steps. Else every (stack, thread) that synchronised a context at least three times is a
// candidate; between two of its synchronisations the thread allocates at a set of stacks; the candidate whose intervals
// agree (most have the most common set) is the loop's. A loop that synchronises several times a step (without stacks
// these cannot be told apart) shows as sets that repeat every p intervals, none of them with a part in all: then every
// p-th synchronisation ends a step. Among the candidates that agree the most frequent one wins. Else the same question
// is asked of allocations: the stack whose blocks come and go (a block that is never freed is what we look for, not a
// clock), and of several those whose number most stacks share: what a step does in an inner loop comes more often, but
// few stacks come that often. So it is if most of the run's allocations come after the last synchronisation, which then
// was of a warm-up. What follows the last boundary counts as a step if it allocates like one.
StepClocks FindSteps(const Snapshot& snapshot, const Blocks& blocks, const FrameworkStacks& stacks);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_STEPS_H_
