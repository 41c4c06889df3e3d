#include "analysis/reports/batch_share.h"

#include <algorithm>

namespace cuheap::analysis {
namespace {

bool UsesAutocast(const Snapshot& snapshot) {
  return std::any_of(snapshot.strings.begin(), snapshot.strings.end(), [](const std::string& text) {
    return text.starts_with("at::autocast::cached_cast") || text.starts_with("at::autocast::WrapFunction_");
  });
}

}  // namespace

BatchShare::BatchShare(const std::vector<const Block*>& blocks, const Categories& categories,
                       const FrameworkStacks& stacks, const Snapshot& snapshot, const TrainingPhases& phases)
    : categories_(categories),
      stacks_(stacks),
      snapshot_(snapshot),
      phases_(phases),
      autocast_(UsesAutocast(snapshot)) {
  for (const Block* block : blocks) {
    const Category category = categories.Of(*block).category;
    if (category == Category::kParameters) weights_.insert(block->bytes);
    if (category != Category::kGradients) continue;
    gradients_.insert(MannerOf(*block));
    weights_.insert(block->bytes);
    makes_gradients_.insert(phases.IndexAt(block->allocated_at));
  }
}

BatchShare::Manner BatchShare::MannerOf(const Block& block) const {
  return {block.stack < snapshot_.stacks.size() ? snapshot_.stacks[block.stack].backward : 0, block.bytes};
}

bool BatchShare::CastOfWeight(const Block& block) const {
  return autocast_ && (weights_.contains(2 * block.bytes) ||
                       (block.bytes >= 512 && weights_.contains(2 * block.bytes - 512)));  // rounded up
}

bool BatchShare::ScalesInForward(const Block& block) const {
  if (CastOfWeight(block)) return false;
  if (stacks_.Of(block.stack).module_call) return true;
  const std::size_t run = phases_.IndexAt(block.allocated_at);
  return run < phases_.runs().size() && phases_.runs()[run].model <= block.allocated_at;
}

bool BatchShare::ScalesInBackward(const Block& block) const {
  if (CastOfWeight(block)) return false;
  if (!gradients_.contains(MannerOf(block))) return true;
  return makes_gradients_.contains(phases_.IndexAt(block.allocated_at));
}

bool BatchShare::Scales(const Block& block) const {
  switch (categories_.Of(block).rule) {
    case CategoryRule::kSavedForBackward:
    case CategoryRule::kForward:
    case CategoryRule::kRecomputed:
    case CategoryRule::kOneOperation:
      return ScalesInForward(block) || stacks_.Of(block.stack).backward;
    case CategoryRule::kData:
      return phases_.OfAPass(block);
    case CategoryRule::kWithinBackward:
      return ScalesInBackward(block);
    default:
      return false;
  }
}

}  // namespace cuheap::analysis
