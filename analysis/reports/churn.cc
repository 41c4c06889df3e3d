#include "analysis/reports/churn.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kLeastPairs = 20, kLeastSteps = 3;

using Key = std::pair<Scope, std::uint32_t>;

bool IsPair(const Block& block, const Steps& steps) {
  if (block.framework_tensor() || block.in_framework_cache() || Blocks::OfOthers(block.kind)) return false;
  if (block.allocated_ns == kBeforeWindow || block.never_freed() || block.freed_at_shutdown) return false;
  if (steps.source == StepSource::kNone) return true;
  const std::uint32_t made = steps.StepOf(block.allocated_ns), freed = steps.StepOf(block.freed_ns);
  // A step that is told by an allocation ends with it, and what is allocated there is freed in the next one.
  return made == freed || (steps.source == StepSource::kAllocation && made + 1 == freed);
}

std::uint64_t MostAtOnce(const std::vector<const Block*>& blocks) {
  std::vector<std::pair<std::uint64_t, bool>> changes;  // position, allocation
  for (const Block* block : blocks) {
    changes.emplace_back(block->allocated_at, true);
    changes.emplace_back(block->freed_at, false);
  }
  std::sort(changes.begin(), changes.end());
  std::uint64_t now = 0, most = 0;
  for (const auto& [position, allocation] : changes) {
    now = allocation ? now + 1 : now - std::min<std::uint64_t>(now, 1);
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

std::vector<Churn> FindChurn(const Blocks& blocks, const LineTable& lines, const Steps& steps) {
  std::map<Key, std::vector<const Block*>> pairs;
  for (const Block& block : blocks.program) {
    if (!IsPair(block, steps)) continue;
    const bool host = Blocks::OnHost(block.kind);
    pairs[{Scope{host, host ? 0 : block.device}, lines.OfStack(block.stack)}].push_back(&block);
  }
  std::vector<Churn> result;
  for (auto& [key, list] : pairs) {
    if (list.size() < kLeastPairs || key.second == 0) continue;
    std::map<std::uint64_t, std::uint64_t> sizes;
    for (const Block* block : list) ++sizes[block->bytes];
    const auto most =
        std::max_element(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (10 * most->second < 9 * list.size() || most->first == 0) continue;
    std::erase_if(list, [&](const Block* block) { return block->bytes != most->first; });
    Churn churn;
    churn.scope = key.first;
    churn.line = key.second;
    churn.stack = list.front()->stack;
    churn.kind = list.front()->kind;
    churn.bytes = most->first;
    churn.pairs = list.size();
    for (const Block* block : list) churn.served += block->served ? 1 : 0;
    churn.at_once = MostAtOnce(list);
    if (steps.source != StepSource::kNone) {
      std::set<std::uint32_t> in;
      for (const Block* block : list) in.insert(steps.StepOf(block->allocated_ns));
      churn.steps = in.size();
      if (churn.steps < kLeastSteps || 2 * churn.steps < steps.count()) continue;
      churn.pairs_per_step = static_cast<double>(churn.pairs) / static_cast<double>(churn.steps);
    }
    result.push_back(churn);
  }
  std::sort(result.begin(), result.end(), [](const Churn& a, const Churn& b) {
    return std::tuple(b.pairs, b.bytes, a.scope, a.line) < std::tuple(a.pairs, a.bytes, b.scope, b.line);
  });
  return result;
}

}  // namespace cuheap::analysis
