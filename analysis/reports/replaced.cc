#include "analysis/reports/replaced.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kFewestReplacements = 2;
constexpr std::uint64_t kSmallShare = 100;  // of the peak: what holds less than a hundredth of it is not looked at
constexpr std::size_t kMostStacks = 64;

// From the first allocation of the newer blocks on, an old block is superfluous.
struct Overlap {
  const Block* block = nullptr;
  std::uint64_t from = 0;  // position
};

struct StackReplacements {
  std::uint32_t stack = 0;
  std::uint64_t times = 0;
  std::vector<Overlap> overlaps;
};

// The blocks of one stack, one allocation or free after the other.
class Watch {
 public:
  explicit Watch(std::uint32_t stack) { found_.stack = stack; }

  // blocks: of the stack, by time of allocation.
  StackReplacements Follow(const std::vector<const Block*>& blocks) {
    std::vector<std::pair<std::uint64_t, const Block*>> frees;
    for (const Block* block : blocks) {
      if (block->freed_at != kNoPosition) frees.emplace_back(block->freed_at, block);
    }
    std::sort(frees.begin(), frees.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, a.second->id) < std::tie(b.first, b.second->id);
    });
    auto next = frees.begin();
    for (const Block* block : blocks) {
      while (next != frees.end() && next->first < block->allocated_at) Free(*(next++)->second);
      Allocate(*block);
    }
    while (next != frees.end()) {
      Free(*(next++)->second);
      if (freed_.size() == row_ && !live_.empty())
        EndOfFrees();  // the last ones that were replaced; the way out may follow at once
    }
    if (!live_.empty()) EndOfFrees();  // else nothing was to be replaced any more
    if (found_.times < kFewestReplacements || 5 * found_.times < 4 * rounds_) found_.overlaps.clear();
    return std::move(found_);
  }

 private:
  void Allocate(const Block& block) {
    EndOfFrees();
    live_.emplace(std::pair(block.allocated_at, block.id), &block);
    live_bytes_ += block.bytes;
  }

  void Free(const Block& block) {
    const auto found = live_.find(std::pair(block.allocated_at, block.id));
    if (found == live_.end()) return;  // freed in the instant of its allocation
    live_bytes_ -= block.bytes;
    live_.erase(found);
    freed_.push_back(&block);
    freed_bytes_ += block.bytes;
  }

  // After a row of frees: are the newer blocks left?
  void EndOfFrees() {
    if (freed_.empty()) return;
    std::uint64_t newest_freed = 0;
    for (const Block* block : freed_) newest_freed = std::max(newest_freed, block->allocated_at);
    ++rounds_;
    if (!live_.empty() && live_.begin()->first.first > newest_freed && live_bytes_ <= 2 * freed_bytes_ &&
        freed_bytes_ <= 2 * live_bytes_) {
      ++found_.times;
      row_ = freed_.size();
      for (const Block* block : freed_) found_.overlaps.push_back({block, live_.begin()->first.first});
    }
    freed_.clear();
    freed_bytes_ = 0;
  }

  StackReplacements found_;
  std::uint64_t rounds_ = 0;                                              // of frees
  std::map<std::pair<std::uint64_t, std::uint64_t>, const Block*> live_;  // by age
  std::uint64_t live_bytes_ = 0, freed_bytes_ = 0;
  std::vector<const Block*> freed_;  // since the last allocation
  std::size_t row_ = 0;              // how many were, when they were replaced
};

// Bytes live after each event of one scope.
class LiveBytes {
 public:
  LiveBytes(const Scope& scope, const Blocks& blocks) {
    std::uint64_t last = 0;
    for (const Block& block : blocks.program) {
      last = std::max(last, block.allocated_at);
      if (block.freed_at != kNoPosition) last = std::max(last, block.freed_at);
    }
    bytes_.resize(static_cast<std::size_t>(last) + 1);
    for (const Block& block : blocks.program) {
      if (!InScope(scope, block)) continue;
      bytes_[block.allocated_at] += static_cast<std::int64_t>(block.bytes);
      if (block.freed_at != kNoPosition) bytes_[block.freed_at] -= static_cast<std::int64_t>(block.bytes);
    }
    for (std::size_t i = 1; i < bytes_.size(); ++i) bytes_[i] += bytes_[i - 1];
    peak_at_ = static_cast<std::uint64_t>(std::max_element(bytes_.begin(), bytes_.end()) - bytes_.begin());
  }

  std::uint64_t peak_at() const { return peak_at_; }
  std::uint64_t peak() const { return static_cast<std::uint64_t>(std::max<std::int64_t>(0, bytes_[peak_at_])); }
  bool LiveAtPeak(const Block& block) const { return block.allocated_at <= peak_at_ && block.freed_at > peak_at_; }

  // How much lower the peak is without these.
  std::uint64_t Saving(const std::vector<const Overlap*>& overlaps) const {
    std::map<std::uint64_t, std::int64_t> changes;
    for (const Overlap* overlap : overlaps) {
      changes[overlap->from] -= static_cast<std::int64_t>(overlap->block->bytes);
      changes[overlap->block->freed_at] += static_cast<std::int64_t>(overlap->block->bytes);
    }
    std::int64_t most = 0, less = 0;
    auto change = changes.begin();
    for (std::uint64_t at = 0; at < bytes_.size(); ++at) {
      if (change != changes.end() && change->first == at) less += (change++)->second;
      most = std::max(most, bytes_[at] + less);
    }
    return peak() - std::min(peak(), static_cast<std::uint64_t>(most));
  }

 private:
  std::vector<std::int64_t> bytes_;  // by position
  std::uint64_t peak_at_ = 0;
};

class Finder {
 public:
  Finder(const Scope& scope, const Blocks& blocks, const LineTable& lines)
      : blocks_(blocks), lines_(lines), scope_(scope), live_(scope, blocks) {}

  Replaced Find() const {
    Replaced result;
    result.scope = scope_;
    result.peak_bytes = live_.peak();
    std::vector<StackReplacements> stacks;
    for (const auto& [stack, list] : BlocksOf(Candidates())) {
      StackReplacements found = Watch(stack).Follow(list);
      if (!found.overlaps.empty()) stacks.push_back(std::move(found));
    }
    std::vector<const Overlap*> all;
    std::map<std::uint32_t, std::vector<const StackReplacements*>> by_line;
    for (const StackReplacements& stack : stacks) {
      by_line[lines_.OfStack(stack.stack)].push_back(&stack);
      for (const Overlap& overlap : stack.overlaps) all.push_back(&overlap);
    }
    for (const auto& [line, list] : by_line) {
      if (Replacement replacement = Describe(line, list); replacement.saving_bytes != 0)
        result.lines.push_back(replacement);
    }
    result.saving_bytes = all.empty() ? 0 : live_.Saving(all);
    std::sort(result.lines.begin(), result.lines.end(), [&](const Replacement& a, const Replacement& b) {
      if (a.saving_bytes != b.saving_bytes) return a.saving_bytes > b.saving_bytes;
      if (a.old_bytes != b.old_bytes) return a.old_bytes > b.old_bytes;
      const std::string first = analysis::Describe(lines_.line(a.line)),
                        second = analysis::Describe(lines_.line(b.line));
      return std::tie(first, a.line) < std::tie(second, b.line);
    });
    return result;
  }

 private:
  bool Counts(const Block& block) const {
    return InScope(scope_, block) && (scope_.tensors || !block.in_framework_cache()) && block.stack != 0;
  }

  // Stacks with a good part of the peak in two blocks or more.
  std::set<std::uint32_t> Candidates() const {
    std::map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> at_peak;  // bytes, blocks
    for (const Block& block : blocks_.program) {
      if (!Counts(block) || !live_.LiveAtPeak(block)) continue;
      at_peak[block.stack].first += block.bytes;
      ++at_peak[block.stack].second;
    }
    std::vector<std::pair<std::uint64_t, std::uint32_t>> largest;
    for (const auto& [stack, sum] : at_peak) {
      if (sum.second >= 2 && sum.first >= live_.peak() / kSmallShare) largest.emplace_back(sum.first, stack);
    }
    std::sort(largest.begin(), largest.end(),
              [](const auto& a, const auto& b) { return std::tie(b.first, a.second) < std::tie(a.first, b.second); });
    if (largest.size() > kMostStacks) largest.resize(kMostStacks);
    std::set<std::uint32_t> stacks;
    for (const auto& [bytes, stack] : largest) stacks.insert(stack);
    return stacks;
  }

  std::map<std::uint32_t, std::vector<const Block*>> BlocksOf(const std::set<std::uint32_t>& stacks) const {
    std::map<std::uint32_t, std::vector<const Block*>> result;
    if (stacks.empty()) return result;
    for (const Block& block : blocks_.program) {
      if (Counts(block) && stacks.contains(block.stack)) result[block.stack].push_back(&block);
    }
    return result;
  }

  Replacement Describe(std::uint32_t line, const std::vector<const StackReplacements*>& stacks) const {
    Replacement result;
    result.line = line;
    std::set<std::uint32_t> callers;
    std::vector<const Overlap*> overlaps;
    for (const StackReplacements* stack : stacks) {
      result.times = std::max(result.times, stack->times);
      callers.insert(lines_.CallerOfStack(stack->stack));
      for (const Overlap& overlap : stack->overlaps) {
        overlaps.push_back(&overlap);
        if (overlap.from > live_.peak_at() || overlap.block->freed_at <= live_.peak_at()) continue;
        result.old_bytes += overlap.block->bytes;
        ++result.old_blocks;
      }
    }
    if (callers.size() == 1) result.caller = *callers.begin();
    // Nothing old at the peak: nothing to gain.
    if (result.old_bytes != 0) result.saving_bytes = live_.Saving(overlaps);
    return result;
  }

  const Blocks& blocks_;
  const LineTable& lines_;
  Scope scope_;
  LiveBytes live_;
};

}  // namespace

std::vector<Replaced> FindReplaced(const Blocks& blocks, const LineTable& lines) {
  std::set<Scope> scopes;
  for (const Block& block : blocks.program) {
    if (Blocks::OnHost(block.kind)) scopes.insert({true, 0});
    if (Blocks::OnDevice(block.kind)) scopes.insert({false, block.device});
    if (block.is_tensor()) scopes.insert({false, block.device, true});
  }
  std::vector<Replaced> result;
  for (const Scope& scope : scopes) {
    Replaced found = Finder(scope, blocks, lines).Find();
    if (!found.lines.empty()) result.push_back(std::move(found));
  }
  return result;
}

}  // namespace cuheap::analysis
