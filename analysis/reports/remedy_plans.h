// The plans behind remedies.h, one function a remedy or family of them.
#ifndef CUHEAP_ANALYSIS_REPORTS_REMEDY_PLANS_H_
#define CUHEAP_ANALYSIS_REPORTS_REMEDY_PLANS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/reports/batch_share.h"
#include "analysis/reports/remedies.h"
#include "analysis/reports/training_phases.h"
#include "analysis/reports/what_if.h"

namespace cuheap::analysis {

// What all plans look at; of one device's tensors.
struct RemedyContext {
  const RunFacts& facts;
  const WhatIf& what_if;
  const TrainingPhases& phases;
  const BatchShare& batch;
  bool tensors = false;  // blocks are PyTorch's, whose sizes are multiples of 512 bytes
  // As PyTorch's cache rounds.
  std::uint64_t Rounded(std::uint64_t bytes) const { return tensors ? (bytes + 511) / 512 * 512 : bytes; }
  const Categorised& Of(const Block& block) const { return facts.categories.Of(block); }
  const FrameworkStacks::Facts& StackOf(const Block& block) const { return facts.stacks.Of(block.stack); }
};

// Replays with the plan, and fills in what that tells.
Remedy Try(const RemedyContext& context, RemedyKind kind, Confidence confidence, const WhatIf::Plan& plan);

using RemedyList = std::vector<Remedy>;
void TrySmallerBatches(const RemedyContext& context, RemedyList& remedies);
void TryMixedPrecision(const RemedyContext& context, RemedyList& remedies);
void TryCheckpointing(const RemedyContext& context, RemedyList& remedies);
void TryOffloading(const RemedyContext& context, RemedyList& remedies);
void TryNoGrad(const RemedyContext& context, RemedyList& remedies);
void TryDetach(const RemedyContext& context, RemedyList& remedies);
void TryDropGradients(const RemedyContext& context, RemedyList& remedies);
void TryFreeEarlier(const RemedyContext& context, RemedyList& remedies);
void TryOptimizers(const RemedyContext& context, RemedyList& remedies);
void TrySharding(const RemedyContext& context, RemedyList& remedies);
// A launcher told of several ranks, or PyTorch made buffers for collectives.
bool SeveralRanks(const RemedyContext& context);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_REMEDY_PLANS_H_
