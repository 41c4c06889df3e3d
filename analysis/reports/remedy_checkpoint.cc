// Activation checkpointing: which modules to checkpoint, and what recomputing them costs.
//
// Note [Checkpointing]
// A call of a checkpointed module keeps what it was given and what it returns; the rest of what it saved for the
// backward pass is gone at its end, and there again from the moment when the backward pass comes to it. What a call
// returns is taken to be the largest block of its last operation. The backward pass comes to a call when the last block
// of what followed it is freed. Every module of the forward pass that leads to the peak is tried, those that saved most
// there first, with all its calls; the one with the lowest peak is told.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>

#include "analysis/reports/module_calls.h"
#include "analysis/reports/remedy_plans.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kMostSites = 8;  // that are tried

class Checkpointing {
 public:
  Checkpointing(const RemedyContext& context, const ModuleSites& sites) : context_(context), sites_(sites) {
    for (std::size_t run = 0; run + 1 < context.phases.runs().size(); ++run) {
      const PhaseRun& forward = context.phases.runs()[run];
      if (forward.model != kNoPosition && context.phases.runs()[run + 1].phase == Phase::kBackward)
        passes_.push_back(run);
    }
  }

  bool Possible() const {
    return !passes_.empty() &&
           std::none_of(context_.what_if.blocks().begin(), context_.what_if.blocks().end(),
                        [&](const Block* block) { return context_.Of(*block).rule == CategoryRule::kRecomputed; });
  }

  // Sites whose calls saved most of what is live at the peak, or when the backward pass before it began.
  std::vector<std::uint32_t> Candidates() const {
    std::map<std::uint32_t, std::uint64_t> saved;
    const std::uint64_t at = context_.what_if.actual().at;
    for (const Block* block : context_.what_if.blocks()) {
      if (block->allocated_at > at || block->freed_at <= at || !Saved(*block)) continue;
      for (const std::uint32_t site : sites_.PathOf(block->stack)) saved[site] += block->bytes;
    }
    std::vector<std::uint32_t> order;
    for (const auto& [site, bytes] : saved) order.push_back(site);
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return std::tuple(saved[b], a) < std::tuple(saved[a], b); });
    if (order.size() > kMostSites) order.resize(kMostSites);
    return order;
  }

  Remedy TrySite(std::uint32_t site) {
    again_.clear();
    std::size_t calls = 0;
    std::uint64_t largest = 0;
    for (const std::size_t run : passes_) {
      const std::vector<ModuleCall> of_run = CallsAt(sites_, site, BlocksOf(run));
      calls = std::max(calls, of_run.size());
      Followers followers(*this, run);
      for (auto call = of_run.rbegin(); call != of_run.rend(); ++call)
        largest = std::max(largest, Forget(*call, run, followers));
    }
    Remedy remedy = Try(context_, RemedyKind::kCheckpointing, Confidence::kMedium,
                        [&](const Block& block, const WhatIf::Sink& sink) {
                          const auto found = again_.find(&block);
                          if (found == again_.end()) return sink(LifeOf(block));
                          sink({block.allocated_at, found->second.forgotten, block.bytes});
                          sink({found->second.recomputed, block.freed_at, block.bytes});
                        });
    remedy.target = sites_.ForwardOf(site);
    remedy.count = static_cast<std::uint32_t>(calls);
    remedy.added = largest;
    remedy.target_frame = UserCaller(site);
    return remedy;
  }

 private:
  struct Again {
    std::uint64_t forgotten = 0, recomputed = 0;
  };

  bool Saved(const Block& block) const { return context_.Of(block).rule == CategoryRule::kSavedForBackward; }

  std::span<const Block* const> BlocksOf(std::size_t run) const {
    const std::vector<const Block*>& all = context_.what_if.blocks();
    const auto at = [&](std::uint64_t position) {
      return std::lower_bound(all.begin(), all.end(), position,
                              [](const Block* block, std::uint64_t of) { return block->allocated_at < of; });
    };
    return {at(context_.phases.runs()[run].begin), at(context_.phases.runs()[run].end)};
  }

  // What was saved behind a call, for calls from the last to the first.
  class Followers {
   public:
    Followers(const Checkpointing& of, std::size_t run)
        : of_(of), blocks_(of.BlocksOf(run)), begin_(of.context_.phases.runs()[run + 1].begin), left_(blocks_.size()) {}
    // When the backward pass comes to a call that ended at `end` and whose first block is freed at `first_free`.
    std::uint64_t ReachedAt(std::uint64_t end, std::uint64_t first_free) {
      for (; left_ > 0 && blocks_[left_ - 1]->allocated_at >= end; --left_) {
        if (of_.Saved(*blocks_[left_ - 1])) freed_.insert(blocks_[left_ - 1]->freed_at);
      }
      const auto next = freed_.lower_bound(first_free);
      return next == freed_.begin() ? begin_ : std::max(begin_, *std::prev(next));
    }

   private:
    const Checkpointing& of_;
    std::span<const Block* const> blocks_;
    std::uint64_t begin_;  // of the backward pass
    std::size_t left_;
    std::set<std::uint64_t> freed_;
  };

  // Returns the bytes that recomputing this call brings back.
  std::uint64_t Forget(const ModuleCall& call, std::size_t run, Followers& followers) {
    const std::uint64_t pass_end = context_.phases.runs()[run + 1].end;
    ModuleCall saved;
    for (const Block* block : call) {
      if (Saved(*block) && block->freed_at < pass_end) saved.push_back(block);
    }
    if (saved.empty()) return 0;
    const Block* returned = saved.back();
    const std::uint64_t last = context_.StackOf(*returned).call;
    for (auto block = saved.rbegin(); block != saved.rend() && context_.StackOf(**block).call == last; ++block) {
      if ((*block)->bytes > returned->bytes) returned = *block;
    }
    std::erase(saved, returned);
    if (saved.empty()) return 0;
    const std::uint64_t end = call.back()->allocated_at + 1;
    std::uint64_t first_free = kNoPosition, bytes = 0;
    for (const Block* block : saved) first_free = std::min<std::uint64_t>(first_free, block->freed_at), bytes += block->bytes;
    const std::uint64_t recomputed = followers.ReachedAt(end, first_free);
    for (const Block* block : saved) {
      if (block->freed_at > recomputed && recomputed > end) again_[block] = {end, recomputed};
    }
    return bytes;
  }

  // The frame of the user's code that the call comes from: containers of PyTorch's are stepped over.
  std::uint32_t UserCaller(std::uint32_t site) const {
    const Snapshot& snapshot = context_.facts.snapshot;
    for (; site != 0; site = sites_.ParentOf(site)) {
      const std::uint32_t frame = sites_.CallerFrameOf(site);
      if (frame != 0 && !IsTorchSource(snapshot.strings[snapshot.frames[frame].file])) return frame;
    }
    return 0;
  }

  const RemedyContext& context_;
  const ModuleSites& sites_;
  std::vector<std::size_t> passes_;  // forward runs before a backward pass
  std::unordered_map<const Block*, Again> again_;
};

}  // namespace

void TryCheckpointing(const RemedyContext& context, RemedyList& remedies) {
  const ModuleSites sites(context.facts.snapshot);
  Checkpointing checkpointing(context, sites);
  if (!checkpointing.Possible()) return;
  Remedy best;
  for (const std::uint32_t site : checkpointing.Candidates()) {
    Remedy remedy = checkpointing.TrySite(site);
    if (remedy.saved >= best.saved) best = std::move(remedy);  // of equals the innermost one
  }
  if (best.saved != 0) remedies.push_back(std::move(best));
}

}  // namespace cuheap::analysis
