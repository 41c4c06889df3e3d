#include "analysis/reports/training_phases.h"

#include <algorithm>

namespace cuheap::analysis {
namespace {

Phase PhaseOf(const FrameworkStacks::Facts& facts) {
  if (facts.optimizer_step) return Phase::kOptimizer;
  return facts.backward || facts.backward_root ? Phase::kBackward : Phase::kForward;
}

}  // namespace

TrainingPhases::TrainingPhases(const std::vector<const Block*>& blocks, const FrameworkStacks& stacks) {
  for (const Block* block : blocks) {
    if (block->allocated_at == 0) continue;
    const FrameworkStacks::Facts& facts = stacks.Of(block->stack);
    const Phase phase = PhaseOf(facts);
    if (runs_.empty() || runs_.back().phase != phase) {
      if (!runs_.empty()) runs_.back().end = block->allocated_at;
      runs_.push_back({phase, block->allocated_at, kNoPosition, kNoPosition});
      if (phase == Phase::kBackward) backwards_.push_back(block->allocated_at);
      optimizer_seen_ = optimizer_seen_ || phase == Phase::kOptimizer;
    }
    PhaseRun& run = runs_.back();
    if (phase == Phase::kForward && facts.module_call) run.model = std::min(run.model, block->allocated_at);
  }
}

std::size_t TrainingPhases::IndexAt(std::uint64_t position) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), position,
                                      [](std::uint64_t at, const PhaseRun& run) { return at < run.begin; });
  return after == runs_.begin() ? runs_.size() : static_cast<std::size_t>(after - runs_.begin()) - 1;
}

std::size_t TrainingPhases::NextOf(Phase phase, std::uint64_t position) const {
  auto run = std::upper_bound(runs_.begin(), runs_.end(), position,
                              [](std::uint64_t at, const PhaseRun& of) { return at < of.begin; });
  while (run != runs_.end() && run->phase != phase) ++run;
  return static_cast<std::size_t>(run - runs_.begin());
}

std::size_t TrainingPhases::BackwardsWithin(std::uint64_t begin, std::uint64_t end) const {
  const auto first = std::upper_bound(backwards_.begin(), backwards_.end(), begin);
  const auto last = std::lower_bound(first, backwards_.end(), end);
  return static_cast<std::size_t>(last - first);
}

}  // namespace cuheap::analysis
