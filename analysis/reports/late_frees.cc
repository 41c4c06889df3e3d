#include "analysis/reports/late_frees.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kLeastSteps = 3;

bool Counts(const Block& block) {
  return !block.in_framework_cache() && !Blocks::OfOthers(block.kind) && block.allocated_ns != kBeforeWindow;
}

class Finder {
 public:
  Finder(const LineTable& lines, const Steps& steps) : lines_(lines), steps_(steps) {}

  // The blocks of one stack, in order of allocation.
  void Stack(const Scope& scope, std::uint32_t stack, const std::vector<const Block*>& blocks, std::int64_t peak_ns) {
    std::vector<const Block*> late;
    std::set<std::uint32_t> left;  // steps
    std::uint64_t freed = 0;
    std::size_t next = 0;  // the first block of a later step
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const Block& block = *blocks[i];
      if (block.never_freed() || block.freed_at_shutdown) continue;
      ++freed;
      const std::uint32_t made = steps_.StepOf(block.allocated_ns);
      next = std::max(next, i);
      while (next < blocks.size() && steps_.StepOf(blocks[next]->allocated_ns) <= made) ++next;
      const bool replaced = next < blocks.size() && blocks[next]->allocated_at < block.freed_at;
      if (replaced || steps_.StepOf(block.freed_ns) != made + 1) continue;
      late.push_back(&block);
      left.insert(made);
    }
    const std::uint32_t line = lines_.OfStack(stack);
    if (line == 0 || left.size() < kLeastSteps || 5 * late.size() < 4 * freed) return;
    LateFree& finding = findings_[{scope, line}];
    finding.scope = scope;
    finding.line = line;
    finding.steps = std::max<std::uint64_t>(finding.steps, left.size());
    for (const Block* block : late) {
      ++finding.blocks;
      finding.bytes += block->bytes;
      if (block->allocated_ns > peak_ns || block->freed_ns <= peak_ns ||
          steps_.StepOf(block->allocated_ns) >= steps_.StepOf(peak_ns))
        continue;
      ++finding.peak_blocks;
      finding.peak_bytes += block->bytes;
    }
  }

  std::vector<LateFree> Finish() {
    std::vector<LateFree> result;
    for (auto& [key, finding] : findings_) {
      if (finding.peak_bytes == 0) continue;
      finding.bytes /= finding.steps;
      result.push_back(finding);
    }
    std::sort(result.begin(), result.end(), [](const LateFree& a, const LateFree& b) {
      return std::tie(b.peak_bytes, a.scope, a.line) < std::tie(a.peak_bytes, b.scope, b.line);
    });
    return result;
  }

 private:
  const LineTable& lines_;
  const Steps& steps_;
  std::map<std::pair<Scope, std::uint32_t>, LateFree> findings_;
};

}  // namespace

std::vector<LateFree> FindLateFrees(const Blocks& blocks, const LineTable& lines, const Steps& steps,
                                    const std::vector<ScopeTotals>& totals) {
  Finder finder(lines, steps);
  if (steps.source != StepSource::kMarks && steps.source != StepSource::kOptimizer) return {};
  std::uint32_t stacks = 0;
  for (const Block& block : blocks.program) stacks = std::max(stacks, block.stack + 1);
  for (const ScopeTotals& scope : totals) {
    if (scope.basis != PeakBasis::kExact) continue;
    std::vector<std::vector<const Block*>> by_stack(stacks);  // in order of allocation, as the blocks are
    for (const Block& block : blocks.program) {
      if (Counts(block) && InScope(scope.scope, block)) by_stack[block.stack].push_back(&block);
    }
    for (std::uint32_t stack = 0; stack < stacks; ++stack) {
      if (by_stack[stack].size() >= kLeastSteps) finder.Stack(scope.scope, stack, by_stack[stack], scope.peak_ns);
    }
  }
  return finder.Finish();
}

}  // namespace cuheap::analysis
