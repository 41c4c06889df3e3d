// Forward passes that no backward pass follows, and that keep what one would need.
//
// Note [Without gradients]
// A use of the model is what is allocated from the line that enters it until data is made or another line enters. If
// most of what it made is still live at its end, and freed without a backward pass, then autograd kept it for one.
// Under no_grad() each block would go when what reads it has run. What reads it is not recorded: blocks are taken to
// live through the next two operations, in models with branches a little short, in others a little long.
#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <vector>

#include "analysis/reports/module_calls.h"
#include "analysis/reports/remedy_plans.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kReadWithin = 2;  // operations
constexpr std::size_t kFewestKept = 3;  // blocks; an output or two are no graph

class WithoutGradients {
 public:
  explicit WithoutGradients(const RemedyContext& context) : context_(context), sites_(context.facts.snapshot) {
    std::vector<const Block*> use;
    std::uint32_t entry = 0;
    for (const Block* block : context.what_if.blocks()) {
      const std::vector<std::uint32_t>& path = sites_.PathOf(block->stack);
      const bool other = !path.empty() && !use.empty() && path.front() != entry;
      if (EndsUse(*block) || other) Judge(use);
      if (!MadeForward(*block) || (path.empty() && use.empty())) continue;
      if (!path.empty()) entry = path.front();
      use.push_back(block);
    }
    Judge(use);
  }

  bool Any() const { return !end_.empty(); }
  Life Of(const Block& block) const {
    Life life = LifeOf(block);
    const auto found = end_.find(&block);
    if (found != end_.end()) life.end = std::min(life.end, found->second);
    return life;
  }

 private:
  bool MadeForward(const Block& block) const {
    const CategoryRule rule = context_.Of(block).rule;
    return rule == CategoryRule::kForward || rule == CategoryRule::kSavedForBackward ||
           rule == CategoryRule::kOneOperation || rule == CategoryRule::kConstantInForward;
  }

  bool EndsUse(const Block& block) const {
    const FrameworkStacks::Facts& stack = context_.StackOf(block);
    return context_.Of(block).rule == CategoryRule::kData || stack.backward || stack.optimizer_step;
  }

  void Judge(std::vector<const Block*>& use) {
    if (use.empty()) return;
    const std::uint64_t end = use.back()->allocated_at;
    std::uint64_t made = 0, kept = 0;
    std::size_t blocks = 0;
    for (const Block* block : use) {
      if (context_.Of(*block).rule == CategoryRule::kOneOperation) continue;
      made += block->bytes;
      if (block->freed_at <= end || block->never_freed()) continue;
      if (context_.phases.BackwardsWithin(end, block->freed_at) != 0) continue;
      kept += block->bytes;
      ++blocks;
    }
    if (blocks >= kFewestKept && 2 * kept > made) EndAll(use);
    use.clear();
  }

  // Each block where the last operation that may read it is over.
  void EndAll(const std::vector<const Block*>& use) {
    std::vector<std::size_t> begins;  // of operations
    for (std::size_t i = 0; i < use.size(); ++i) {
      if (i == 0 || context_.StackOf(*use[i]).call != context_.StackOf(*use[i - 1]).call) begins.push_back(i);
    }
    for (std::size_t operation = 0; operation + kReadWithin + 1 < begins.size(); ++operation) {
      const std::uint64_t end = use[begins[operation + kReadWithin + 1]]->allocated_at;
      for (std::size_t i = begins[operation]; i < begins[operation + 1]; ++i) end_[use[i]] = end;
    }
  }

  const RemedyContext& context_;
  const ModuleSites sites_;
  std::unordered_map<const Block*, std::uint64_t> end_;
};

}  // namespace

void TryNoGrad(const RemedyContext& context, RemedyList& remedies) {
  const WithoutGradients without(context);
  if (!without.Any()) return;
  remedies.push_back(Try(context, RemedyKind::kNoGrad, Confidence::kMedium,
                         [&](const Block& block, const WhatIf::Sink& sink) { sink(without.Of(block)); }));
}

}  // namespace cuheap::analysis
