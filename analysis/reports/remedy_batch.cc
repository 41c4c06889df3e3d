// Smaller batches: half as large, or in two passes whose gradients add up.
#include <algorithm>

#include "analysis/reports/remedy_plans.h"

namespace cuheap::analysis {
namespace {

Life Halved(const RemedyContext& context, const Block& block) {
  Life life = LifeOf(block);
  if (context.batch.Scales(block)) life.bytes = context.Rounded(block.bytes / 2);
  return life;
}

// Where the forward pass of a backward pass begins.
std::uint64_t ForwardBegin(const TrainingPhases& phases, std::uint64_t position) {
  std::size_t run = phases.IndexAt(position);
  if (run == phases.runs().size()) return position;
  if (phases.runs()[run].phase == Phase::kBackward && run > 0) --run;
  return phases.runs()[run].begin;
}

}  // namespace

void TrySmallerBatches(const RemedyContext& context, RemedyList& remedies) {
  remedies.push_back(Try(context, RemedyKind::kSmallerBatch, Confidence::kHigh,
                         [&](const Block& block, const WhatIf::Sink& sink) { sink(Halved(context, block)); }));
  if (!context.phases.trains()) return;
  // Gradients are there from the first of the two passes on; in the second each is made once more and added.
  remedies.push_back(
      Try(context, RemedyKind::kAccumulation, Confidence::kHigh, [&](const Block& block, const WhatIf::Sink& sink) {
        if (context.Of(block).rule != CategoryRule::kBackwardHeld) return sink(Halved(context, block));
        Life life = LifeOf(block);
        sink({life.begin, std::min(life.begin + 1, life.end), life.bytes});
        life.begin = ForwardBegin(context.phases, life.begin);
        sink(life);
      }));
}

}  // namespace cuheap::analysis
