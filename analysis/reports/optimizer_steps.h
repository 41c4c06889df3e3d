// Training steps as PyTorch's optimizers show them.
#ifndef CUHEAP_ANALYSIS_REPORTS_OPTIMIZER_STEPS_H_
#define CUHEAP_ANALYSIS_REPORTS_OPTIMIZER_STEPS_H_

#include <cstdint>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/framework_frames.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

struct OptimizerSteps {
  std::vector<std::int64_t> boundaries_ns;  // ascending: the end of each step; empty: none were seen
  std::uint32_t stack = 0;                  // of the last allocation within Optimizer.step
  std::uint32_t thread = 0;                 // that calls it
};

// Note [Steps by the optimizer]
// Optimizer.step() is what every training step ends with, however many forward and backward passes it takes (gradient
// accumulation). It is seen by what it allocates: temporaries, and in the first step the optimizer's state. The
// allocations of one call follow each other; the next call comes after others. Of several optimizers (or of several
// places that call one) the place that calls most often gives the steps; of equals the last one.
// Some allocate nothing after the first step (SGD, fused AdamW). Then the gradients are asked: the first backward pass
// of a step makes them, further ones add to them in place, and zero_grad() frees them all at once, unless it is told to
// keep them (set_to_none=False). Where nothing is allocated between the pass and zero_grad(), gradients can't be told
// from what the pass makes for itself: then each backward pass is a step. A loop may go on after the optimizer
// (validation, logging): what it does there in most steps, and not before the first call, belongs to the step that the
// call ends; the step then lasts until the end of that.
OptimizerSteps FindOptimizerSteps(const Events& events, const FrameworkStacks& stacks);

// The ends of steps by what zero_grad() frees: blocks of backward passes that outlived the pass. Ascending; empty:
// none.
std::vector<std::int64_t> FindGradientSteps(const Blocks& blocks, const FrameworkStacks& stacks);

// The ends of backward passes, moved on as the optimizer's calls are: steps of a loop without accumulation. Ascending;
// empty: fewer than three.
std::vector<std::int64_t> FindBackwardPasses(const Events& events, const FrameworkStacks& stacks);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_OPTIMIZER_STEPS_H_
