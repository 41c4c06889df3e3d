// What was saved for the backward pass in the host's memory: torch.autograd.graph.save_on_cpu().
//
// Note [Offloading]
// Each tensor that autograd saves is copied to the host, and back when its node of the backward pass runs. So an
// activation is there until the operations that read it have run (the next two, as in remedy_no_grad.cc), and again
// while its node runs: from the first that is made after what was saved before it went, until the node returns. (What
// was saved goes a little later, when the engine has checked, and perhaps summed, what the node returned.) Weights are
// saved as well, and come back as a copy beside the weight: as large as the gradient that their node makes.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "analysis/reports/remedy_plans.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kReadWithin = 2;  // operations

class Offloading {
 public:
  explicit Offloading(const RemedyContext& context) : context_(context) {
    const std::vector<PhaseRun>& runs = context.phases.runs();
    for (std::size_t run = 0; run + 1 < runs.size(); ++run) {
      if (runs[run].model != kNoPosition && runs[run + 1].phase == Phase::kBackward) Take(runs[run], runs[run + 1]);
    }
  }

  std::uint64_t moved() const { return moved_; }  // bytes, in the pass that moves most

  void Plan(const Block& block, const WhatIf::Sink& sink) const {
    const auto found = away_.find(&block);
    if (found == away_.end()) {
      sink(LifeOf(block));
    } else {
      const auto& [read, node] = found->second;
      const bool away = read < node.begin;
      sink({block.allocated_at, away ? read : node.end, block.bytes});
      if (away) sink({node.begin, node.end, block.bytes});
    }
    if (const auto copy = weights_.find(&block); copy != weights_.end())
      sink({copy->second.begin, copy->second.end, block.bytes});
  }

 private:
  struct Interval {
    std::uint64_t begin = 0, end = 0;
  };
  struct Away {
    std::uint64_t read = 0;  // by the last operation of the forward pass
    Interval node;           // of the backward pass
  };

  std::vector<const Block*> MadeIn(const PhaseRun& run) const {
    const std::vector<const Block*>& all = context_.what_if.blocks();
    const auto at = [&](std::uint64_t position) {
      return std::lower_bound(all.begin(), all.end(), position,
                              [](const Block* block, std::uint64_t of) { return block->allocated_at < of; });
    };
    return {at(run.begin), at(run.end)};
  }

  void Take(const PhaseRun& forward, const PhaseRun& backward) {
    const std::vector<const Block*> made = MadeIn(forward), later = MadeIn(backward);
    std::vector<std::uint64_t> frees;                           // of what was saved
    std::vector<std::pair<const Block*, std::uint64_t>> saved;  // and when it has been read
    std::uint64_t bytes = 0;
    const std::vector<std::uint64_t> read = ReadBy(made, backward.begin);
    for (std::size_t i = 0; i < made.size(); ++i) {
      const Block* block = made[i];
      if (context_.Of(*block).rule != CategoryRule::kSavedForBackward) continue;
      if (block->freed_at < backward.begin || block->freed_at >= backward.end) continue;
      saved.emplace_back(block, read[i]);
      frees.push_back(block->freed_at);
      bytes += block->bytes;
    }
    moved_ = std::max(moved_, bytes);
    const std::map<std::uint64_t, Interval> nodes = NodesOf(frees, later, backward);
    for (const auto& [block, end] : saved) away_[block] = {end, nodes.lower_bound(block->freed_at)->second};
    for (const Block* gradient : later) {
      if (context_.Of(*gradient).rule != CategoryRule::kBackwardHeld) continue;
      const auto node = nodes.lower_bound(gradient->allocated_at);
      if (node != nodes.end()) weights_[gradient] = node->second;
    }
  }

  // For each block: where the last operation is over that may read it, the end of the pass at the latest.
  std::vector<std::uint64_t> ReadBy(const std::vector<const Block*>& made, std::uint64_t end_of_pass) const {
    std::vector<std::size_t> begins;  // of operations
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (i == 0 || context_.StackOf(*made[i]).call != context_.StackOf(*made[i - 1]).call) begins.push_back(i);
    }
    std::vector<std::uint64_t> read(made.size(), end_of_pass);
    for (std::size_t operation = 0; operation + kReadWithin + 1 < begins.size(); ++operation) {
      const std::uint64_t end = made[begins[operation + kReadWithin + 1]]->allocated_at;
      std::fill(read.begin() + static_cast<std::ptrdiff_t>(begins[operation]),
                read.begin() + static_cast<std::ptrdiff_t>(begins[operation + 1]), end);
    }
    return read;
  }

  // The nodes of a backward pass, by where what was saved for them is freed: from their first block until they return.
  // What is freed without anything made between is of one node.
  std::map<std::uint64_t, Interval> NodesOf(std::vector<std::uint64_t> frees, const std::vector<const Block*>& made,
                                            const PhaseRun& backward) const {
    std::sort(frees.begin(), frees.end());
    std::map<std::uint64_t, Interval> nodes;
    auto first = made.begin();
    for (std::size_t i = 0; i < frees.size(); ++i) {
      const auto next = std::lower_bound(first, made.end(), frees[i], [](const Block* block, std::uint64_t position) {
        return block->allocated_at < position;
      });
      if (i + 1 < frees.size() && (next == made.end() || (*next)->allocated_at > frees[i + 1])) continue;
      const std::uint64_t begin = first == made.end() ? backward.begin : (*first)->allocated_at;
      auto returned = next;  // the first block that the node did not make itself
      while (returned != first && !MadeByNode(**std::prev(returned))) --returned;
      const bool knows = returned != first && returned != next;
      nodes[frees[i]] = {begin, knows ? (*returned)->allocated_at : frees[i]};
      first = next;
    }
    return nodes;
  }

  bool MadeByNode(const Block& block) const {
    const std::vector<Stack>& stacks = context_.facts.snapshot.stacks;
    return block.stack < stacks.size() && stacks[block.stack].backward != 0;
  }

  const RemedyContext& context_;
  std::unordered_map<const Block*, Away> away_;
  std::unordered_map<const Block*, Interval> weights_;  // of a gradient: while its weight's copy is there
  std::uint64_t moved_ = 0;
};

}  // namespace

void TryOffloading(const RemedyContext& context, RemedyList& remedies) {
  if (!context.phases.trains()) return;
  const Offloading offloading(context);
  if (offloading.moved() == 0) return;
  Remedy remedy = Try(context, RemedyKind::kOffloading, Confidence::kMedium,
                      [&](const Block& block, const WhatIf::Sink& sink) { offloading.Plan(block, sink); });
  remedy.added = offloading.moved();
  remedies.push_back(std::move(remedy));
}

}  // namespace cuheap::analysis
