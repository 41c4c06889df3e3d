// What could be let go earlier: gradients that the optimizer has used, batches and outputs behind the backward pass,
// and what leaks.
#include <algorithm>
#include <map>
#include <unordered_set>

#include "analysis/reports/remedy_plans.h"

namespace cuheap::analysis {
namespace {

// When gradients made at a position have been used: behind the optimizer's next step. Where that allocates nothing, it
// is over when the next batch or forward pass begins, if no further backward pass adds to them before.
std::uint64_t UsedBy(const RemedyContext& context, std::uint64_t position) {
  const TrainingPhases& phases = context.phases;
  if (phases.optimizer_seen()) {
    const std::size_t step = phases.NextOf(Phase::kOptimizer, position);
    return step == phases.runs().size() ? kNoPosition : phases.runs()[step].end;
  }
  const std::size_t pass = phases.IndexAt(position);
  if (pass + 1 >= phases.runs().size()) return kNoPosition;
  const PhaseRun& next = phases.runs()[pass + 1];
  return next.model == kNoPosition ? next.end : next.model;
}

Life EndedAt(Life life, std::uint64_t end) {
  life.end = std::max(life.begin + 1, std::min(life.end, end));
  return life;
}

// Gradients that one pass makes and later ones add to (set_to_none=False, or none at all): what later passes make for a
// moment in their manner is what they would keep.
class KeptGradients {
 public:
  explicit KeptGradients(const RemedyContext& context) : context_(context) {
    for (const Block* block : context.what_if.blocks()) {
      if (Kept(*block)) ++counts_[MannerOf(*block)];
    }
    std::map<std::pair<std::size_t, Manner>, std::size_t> met;  // by pass
    for (const Block* block : context.what_if.blocks()) {
      if (context.Of(*block).rule != CategoryRule::kWithinBackward) continue;
      const Manner manner = MannerOf(*block);
      const auto count = counts_.find(manner);
      if (count == counts_.end()) continue;
      if (++met[{context.phases.IndexAt(block->allocated_at), manner}] <= count->second) added_.insert(block);
    }
  }
  // Lives through a step of the optimizer and a pass that adds to it.
  bool Kept(const Block& block) const {
    if (context_.Of(block).rule != CategoryRule::kBackwardHeld || !context_.phases.optimizer_seen()) return false;
    const std::uint64_t used = UsedBy(context_, block.allocated_at);
    return used != kNoPosition && context_.phases.BackwardsWithin(used - 1, block.freed_at) != 0;
  }
  bool WouldBeKept(const Block& block) const { return added_.contains(&block); }

 private:
  using Manner = std::pair<std::uint32_t, std::uint64_t>;  // node, bytes
  Manner MannerOf(const Block& block) const {
    const std::vector<Stack>& stacks = context_.facts.snapshot.stacks;
    return {block.stack < stacks.size() ? stacks[block.stack].backward : 0, block.bytes};
  }
  const RemedyContext& context_;
  std::map<Manner, std::size_t> counts_;
  std::unordered_set<const Block*> added_;
};

}  // namespace

void TryDropGradients(const RemedyContext& context, RemedyList& remedies) {
  if (!context.phases.trains()) return;
  const KeptGradients kept(context);
  remedies.push_back(Try(context, RemedyKind::kDropGradients,
                         context.phases.optimizer_seen() ? Confidence::kHigh : Confidence::kMedium,
                         [&](const Block& block, const WhatIf::Sink& sink) {
                           const bool gradient = context.Of(block).rule == CategoryRule::kBackwardHeld;
                           if (kept.WouldBeKept(block)) {
                             Life life = LifeOf(block);
                             life.end = UsedBy(context, block.allocated_at);
                             return sink(life);
                           }
                           const bool added_to = !context.phases.optimizer_seen() &&
                                                 context.phases.BackwardsWithin(block.allocated_at, block.freed_at) > 1;
                           if (!gradient || added_to) return sink(LifeOf(block));
                           sink(EndedAt(LifeOf(block), UsedBy(context, block.allocated_at)));
                         }));
}

void TryFreeEarlier(const RemedyContext& context, RemedyList& remedies) {
  if (!context.phases.trains()) return;
  const TrainingPhases& phases = context.phases;
  remedies.push_back(
      Try(context, RemedyKind::kFreeEarlier, Confidence::kMedium, [&](const Block& block, const WhatIf::Sink& sink) {
        const CategoryRule rule = context.Of(block).rule;
        const bool of_a_pass = rule == CategoryRule::kSavedForBackward || rule == CategoryRule::kData;
        if (!of_a_pass || !phases.OfAPass(block)) return sink(LifeOf(block));
        const std::size_t pass = phases.NextOf(Phase::kBackward, block.allocated_at);
        if (pass == phases.runs().size()) return sink(LifeOf(block));
        sink(EndedAt(LifeOf(block), phases.runs()[pass].end));
      }));
}

// A finding names its stacks; of those, blocks that stayed to the end are what it counts.
void TryDetach(const RemedyContext& context, RemedyList& remedies) {
  std::unordered_set<std::uint32_t> of_findings;
  bool certain = true;
  for (const LeakFinding& finding : context.facts.findings) {
    if (finding.leak_class != LeakClass::kLeak || !finding.from_pytorch) continue;
    if (finding.cause == LeakCause::kNone || finding.cause == LeakCause::kOptimizerState) continue;
    certain = certain && finding.confidence == Confidence::kHigh;
    for (const StackShare& share : finding.stacks) of_findings.insert(share.stack);
  }
  if (of_findings.empty()) return;
  const Steps& steps = context.facts.steps;
  const Events& events = context.facts.snapshot.events;
  const auto end_of_step = [&](const Block& block) {
    const std::uint32_t step = steps.StepOf(block.allocated_ns);
    if (step == 0 || step > steps.count()) return block.freed_at;
    const auto after = std::upper_bound(events.time_ns.begin(), events.time_ns.end(), steps.boundaries_ns[step - 1]);
    return static_cast<std::uint64_t>(after - events.time_ns.begin()) + 1;
  };
  remedies.push_back(Try(context, RemedyKind::kDetach, certain ? Confidence::kHigh : Confidence::kMedium,
                         [&](const Block& block, const WhatIf::Sink& sink) {
                           const bool leaks = of_findings.contains(block.stack) &&
                                              steps.StepOf(block.freed_ns) > steps.StepOf(block.allocated_ns) + 1;
                           sink(leaks ? EndedAt(LifeOf(block), end_of_step(block)) : LifeOf(block));
                         }));
}

}  // namespace cuheap::analysis
