// A PyTorch program that ran out of memory: what it was doing, and what is no leak although it only grew.
//
// Note [Programs that ran out]
// A program that dies while its model is set up, or in its first steps, has freed hardly anything: weights are all made
// by one line, gradients and optimizer state come one after the other, and by counting they grow to the end. What tells
// them from a leak is that the program did it once. So the passes are counted: runs of tensors of one role, made for
// one call (the line that moves the model, the optimizer's caller, the line that enters the model), with tensors of
// others between. What was made in one or two passes is no leak in a run that was refused memory. Nor is it in one that
// ended with an error or by a signal, whatever the reason was. A forward pass that
// nothing parts from the next (the input is made once, the line calls nothing but the model) is told by a stack that
// comes more often than models have layers. Tensors that no module, backward pass or optimizer made (a @ b, kept in a
// list) are judged as ever.
#ifndef CUHEAP_ANALYSIS_REPORTS_RAN_OUT_H_
#define CUHEAP_ANALYSIS_REPORTS_RAN_OUT_H_

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/failures.h"
#include "analysis/reports/framework_cache.h"
#include "analysis/reports/framework_frames.h"
#include "analysis/reports/leaks.h"
#include "analysis/reports/lines.h"
#include "analysis/reports/oom_context.h"
#include "analysis/reports/steps.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

class RanOut {
 public:
  // All must outlive it.
  RanOut(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines, const FrameworkStacks& stacks);

  // Unless memory was refused, or the program failed or was killed, and PyTorch was at work, these change nothing.
  //
  // Steps that are repetitions within one pass are none.
  void DropInventedSteps(Steps& steps) const;
  // Findings that were made in a pass or two are held, not leaks; segments that PyTorch gave back for want of memory
  // did not pile up. Keeps the order by class.
  void DropFirstPasses(std::vector<LeakFinding>& findings) const;
  // Nor is a cache that was filled by them growing.
  void DropGrowth(std::vector<CacheGrowth>& caches) const;
  void Explain(const Steps& steps, const std::vector<LeakFinding>& findings, std::vector<Failure>& failures,
               std::vector<FrameworkCache>& caches) const;

 private:
  using Key = std::pair<TensorRole, std::uint32_t>;  // and whose call it is
  struct Passes {
    std::uint32_t count = 0;
    std::uint32_t most_of_a_stack = 0;
    bool by_module = false;  // an nn.Module was called
    bool AtFirst(TensorRole role) const;
  };

  TensorRole RoleOf(std::uint32_t stack) const;
  Key KeyOf(std::uint32_t stack) const;
  bool MadeAtFirst(std::uint32_t stack) const;
  bool Early() const;
  void CountPasses();
  OomContext ContextAt(std::uint32_t device, std::uint64_t position, std::int64_t time_ns, std::uint32_t stack,
                       std::uint64_t request, const Steps& steps, const std::vector<LeakFinding>& findings) const;
  void MeasureStep(OomContext& context, const std::vector<const Block*>& live, std::int64_t begin_ns) const;
  std::uint64_t LargestFinished(std::uint32_t device, const Steps& steps) const;
  bool InAdam(std::uint32_t stack) const;

  const Snapshot& snapshot_;
  const Blocks& blocks_;
  const LineTable& lines_;
  const FrameworkStacks& stacks_;
  bool cut_short_ = false;
  std::vector<const Block*> tensors_;  // by position
  std::map<Key, Passes> passes_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_RAN_OUT_H_
