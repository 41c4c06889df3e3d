// What a training does after what: forward passes, backward passes, steps of the optimizer, by the tensors they make.
#ifndef CUHEAP_ANALYSIS_REPORTS_TRAINING_PHASES_H_
#define CUHEAP_ANALYSIS_REPORTS_TRAINING_PHASES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/framework_frames.h"

namespace cuheap::analysis {

enum class Phase : std::uint8_t {
  kForward,    // anything else: forward passes, loading of data, losses, set-up
  kBackward,   // a backward pass
  kOptimizer,  // a step of the optimizer
};

struct PhaseRun {
  Phase phase = Phase::kForward;
  std::uint64_t begin = 0;            // position of its first allocation
  std::uint64_t end = kNoPosition;    // of the first allocation of the next one
  std::uint64_t model = kNoPosition;  // kForward: of its first allocation within the call of an nn.Module
};

// Note [Phases]
// A phase is a run of allocations of one kind; what allocates nothing (a fused optimizer) is not seen. What is freed at
// the end of one is gone before the next one's first allocation.
class TrainingPhases {
 public:
  // blocks: tensors of one device, by position.
  TrainingPhases(const std::vector<const Block*>& blocks, const FrameworkStacks& stacks);

  const std::vector<PhaseRun>& runs() const { return runs_; }
  // Index of the run that a position lies in; runs().size() if it lies before all.
  std::size_t IndexAt(std::uint64_t position) const;
  // Index of the first run of a phase that begins after the position; runs().size(): none does.
  std::size_t NextOf(Phase phase, std::uint64_t position) const;
  // How many backward passes begin after `begin` and before `end`.
  std::size_t BackwardsWithin(std::uint64_t begin, std::uint64_t end) const;
  // Made for one pass: it was gone, or the record was over, before three backward passes had begun.
  bool OfAPass(const Block& block) const { return BackwardsWithin(block.allocated_at, block.freed_at) <= 2; }
  bool trains() const { return !backwards_.empty(); }
  bool optimizer_seen() const { return optimizer_seen_; }

 private:
  std::vector<PhaseRun> runs_;
  std::vector<std::uint64_t> backwards_;  // where they begin
  bool optimizer_seen_ = false;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_TRAINING_PHASES_H_
