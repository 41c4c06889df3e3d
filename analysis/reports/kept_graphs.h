// Graphs of PyTorch's autograd that are kept alive: all that a forward pass saved for its backward pass.
#ifndef CUHEAP_ANALYSIS_REPORTS_KEPT_GRAPHS_H_
#define CUHEAP_ANALYSIS_REPORTS_KEPT_GRAPHS_H_

#include <cstdint>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/framework_frames.h"
#include "analysis/reports/lines.h"

namespace cuheap::analysis {

// Note [Kept graphs]
// `total += criterion(model(x), y)` without a backward pass or no_grad keeps one small tensor and, through its grad_fn,
// everything that the forward pass saved: blocks of many lines of the model, all of which are innocent. What they have
// in common is the line that entered the model. So blocks are taken together by their way in: the line that called the
// outermost nn.Module (else the innermost line) and that line's callers. Such a use of the model is a kept graph if
// nearly all that outlived it (was not freed before the next line's first allocation) is never freed: a list of some
// activations keeps a few of them, the graph keeps them all. Uses that follow each other and are kept alike (the
// batch, the model, the criterion) are one graph, which is told at the line that entered the model. Two tensors at
// least must be results of operators: data that is collected is no graph. One of a model is enough if the batch that
// the model was given is kept as well, use by use, and nothing else outlives them: `h = model(x, h)`. Use of a model in
// a backward pass (recomputed activations) and in an optimizer is left out.
struct KeptGraph {
  std::uint32_t line = 0;          // that entered the model
  std::uint32_t caller = 0;        // its caller, if others enter there as well
  std::size_t uses = 0;            // that keep something
  std::vector<const Block*> all;   // what those uses allocated, by time
  std::vector<const Block*> kept;  // those that `kept` holds
};

// kept: what counts as never freed, among blocks.program.
std::vector<KeptGraph> FindKeptGraphs(const Blocks& blocks, const LineTable& lines, const FrameworkStacks& stacks,
                                      const BlockSet& kept);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_KEPT_GRAPHS_H_
