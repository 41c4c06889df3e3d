// What the optimizer keeps and what its step needs for a moment: other optimizers, and shards of it over several ranks.
#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <unordered_set>

#include "analysis/reports/remedy_plans.h"

namespace cuheap::analysis {
namespace {

struct OptimizerKind {
  bool adam = false;      // Adam or AdamW of PyTorch's: two numbers for each weight
  bool foreach_ = false;  // handles many weights in one operation, with temporaries for all of them
};

OptimizerKind KindOf(const RemedyContext& context) {
  OptimizerKind kind;
  const Snapshot& snapshot = context.facts.snapshot;
  for (const Block* block : context.what_if.blocks()) {
    if (!context.StackOf(*block).optimizer_step || block->stack >= snapshot.stacks.size()) continue;
    for (const std::uint32_t index : snapshot.stacks[block->stack].frames) {
      const Frame& frame = snapshot.frames[index];
      const std::string& file = snapshot.strings[frame.file];
      if (file.find("/torch/optim/") == std::string::npos) continue;
      kind.adam = kind.adam || file.ends_with("/adam.py") || file.ends_with("/adamw.py");
      kind.foreach_ = kind.foreach_ || snapshot.strings[frame.function].find("_multi_tensor_") != std::string::npos;
    }
    if (kind.adam && kind.foreach_) break;
  }
  return kind;
}

bool IsState(CategoryRule rule) {
  return rule == CategoryRule::kOptimizerHeld || rule == CategoryRule::kOptimizerLoaded;
}

// State of so many parts in a thousand is left, and the temporaries as told.
WhatIf::Plan WithState(const RemedyContext& context, std::uint64_t thousandths, bool temporaries) {
  return [&context, thousandths, temporaries](const Block& block, const WhatIf::Sink& sink) {
    const CategoryRule rule = context.Of(block).rule;
    Life life = LifeOf(block);
    if (rule == CategoryRule::kWithinOptimizer && !temporaries) return;
    if (IsState(rule)) life.bytes = context.Rounded(block.bytes * thousandths / 1000);
    if (life.bytes != 0) sink(life);
  };
}

// Two temporaries of the largest weight are what is needed at a time, for as long as there was any.
void TryLoop(const RemedyContext& context, RemedyList& remedies) {
  std::uint64_t largest = 0;
  std::size_t run_before = context.phases.runs().size();
  std::unordered_set<const Block*> firsts;  // of each step
  for (const Block* block : context.what_if.blocks()) {
    if (context.Of(*block).rule != CategoryRule::kWithinOptimizer) continue;
    largest = std::max(largest, block->bytes);
    const std::size_t run = context.phases.IndexAt(block->allocated_at);
    if (run != run_before) firsts.insert(block);
    run_before = run;
  }
  Remedy remedy =
      Try(context, RemedyKind::kLoopOptimizer, Confidence::kMedium, [&](const Block& block, const WhatIf::Sink& sink) {
        if (context.Of(block).rule != CategoryRule::kWithinOptimizer) return sink(LifeOf(block));
        if (!firsts.contains(&block)) return;
        const std::size_t run = context.phases.IndexAt(block.allocated_at);
        sink({block.allocated_at, context.phases.runs()[run].end, 2 * largest});
      });
  remedy.added = 2 * largest;
  remedies.push_back(std::move(remedy));
}

constexpr std::uint32_t kRanksAsAnExample = 8;

// As the launcher told; 0: it did not.
std::uint32_t RanksOf(const Snapshot& snapshot) {
  const auto size = snapshot.process.launcher.find("WORLD_SIZE");
  std::uint32_t ranks = 0;
  if (size != snapshot.process.launcher.end())
    std::from_chars(size->second.data(), size->second.data() + size->second.size(), ranks);
  return ranks;
}

}  // namespace

void TryOptimizers(const RemedyContext& context, RemedyList& remedies) {
  const OptimizerKind kind = KindOf(context);
  if (kind.adam) {
    remedies.push_back(Try(context, RemedyKind::kPlainSgd, Confidence::kHigh, WithState(context, 0, false)));
    remedies.push_back(Try(context, RemedyKind::kMomentumSgd, Confidence::kHigh, WithState(context, 500, false)));
    // A byte in place of four, and four bytes for each block of 256 numbers.
    remedies.push_back(Try(context, RemedyKind::kEightBitAdam, Confidence::kMedium, WithState(context, 254, false)));
  }
  if (!kind.foreach_) return;
  if (kind.adam)
    remedies.push_back(Try(context, RemedyKind::kFusedOptimizer, Confidence::kHigh, WithState(context, 1000, false)));
  TryLoop(context, remedies);
}

bool SeveralRanks(const RemedyContext& context) {
  const std::vector<const Block*>& blocks = context.what_if.blocks();
  return RanksOf(context.facts.snapshot) > 1 || std::any_of(blocks.begin(), blocks.end(), [&](const Block* block) {
           return context.StackOf(*block).collective;
         });
}

void TrySharding(const RemedyContext& context, RemedyList& remedies) {
  if (!context.phases.trains()) return;
  const std::uint32_t known = RanksOf(context.facts.snapshot);
  const std::uint32_t ranks = known > 1 ? known : kRanksAsAnExample;
  const auto shard = [&](std::uint64_t bytes) { return context.Rounded((bytes + ranks - 1) / ranks); };
  // Whole weights are there while they are used: the largest one, and the next that is fetched meanwhile.
  std::uint64_t gathered = 0;
  const Block* first = nullptr;  // that a model made
  for (const Block* block : context.what_if.blocks()) {
    if (context.Of(*block).category == Category::kParameters) gathered = std::max(gathered, 2 * block->bytes);
    if (first == nullptr && context.StackOf(*block).module_call) first = block;
  }
  const auto plan_of = [&](int stage) {
    return [&, stage](const Block& block, const WhatIf::Sink& sink) {
      const Categorised& of = context.Of(block);
      Life life = LifeOf(block);
      if (IsState(of.rule) || of.rule == CategoryRule::kWithinOptimizer) life.bytes = shard(block.bytes);
      if (stage >= 2 && of.rule == CategoryRule::kBackwardHeld) {
        sink({life.begin, std::min(life.begin + 1, life.end), block.bytes});  // until it is reduced
        life.begin = std::min(life.begin + 1, life.end);
        life.bytes = shard(block.bytes);
      }
      if (stage == 3 && of.category == Category::kParameters) life.bytes = shard(block.bytes);
      if (stage == 3 && &block == first) sink({block.allocated_at, kNoPosition, gathered});
      sink(life);
    };
  };
  const auto stage = [&](RemedyKind kind, int number) {
    Remedy remedy = Try(context, kind, Confidence::kMedium, plan_of(number));
    remedy.count = ranks;
    remedy.example = known <= 1;
    if (number == 3) remedy.added = gathered;
    remedies.push_back(std::move(remedy));
  };
  stage(RemedyKind::kShardOptimizer, 1);
  stage(RemedyKind::kShardGradients, 2);
  stage(RemedyKind::kShardParameters, 3);
}

}  // namespace cuheap::analysis
