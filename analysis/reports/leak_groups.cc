#include "analysis/reports/leak_groups.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace cuheap::analysis {

std::vector<BlockGroup> GroupBlocks(const Blocks& blocks, const LineTable& lines, const FrameworkStacks& stacks) {
  std::map<std::tuple<Scope, std::uint32_t, bool, bool>, BlockGroup> groups;
  for (const Block& block : blocks.program) {
    if (block.allocator == Allocator::kCuheap || Blocks::OfOthers(block.kind)) continue;
    const Scope scope{Blocks::OnHost(block.kind), Blocks::OnHost(block.kind) ? 0 : block.device};
    const std::uint32_t line = lines.OfStack(block.stack);
    const bool from_pytorch = block.in_framework_cache();
    const bool backward = block.framework_tensor() && stacks.Of(block.stack).backward;
    BlockGroup& group = groups[{scope, line, from_pytorch, backward}];
    group.scope = scope;
    group.line = line;
    group.from_pytorch = from_pytorch;
    group.backward = backward;
    if (group.library.empty()) group.library = lines.LibraryOfStack(block.stack);
    group.all.push_back(&block);
  }
  std::vector<BlockGroup> result;
  result.reserve(groups.size());
  for (auto& [key, group] : groups) result.push_back(std::move(group));
  return result;
}

BlockGroup Without(const BlockGroup& group) {
  return {group.scope, group.line, group.caller, group.from_pytorch, group.backward, group.library, {}};
}

std::vector<BlockGroup> PartByCaller(const BlockGroup& group, const LineTable& lines) {
  std::set<std::uint32_t> stacks;
  for (const Block* block : group.all) stacks.insert(block->stack);
  const std::vector<std::uint32_t>& first = lines.CallersOfStack(*stacks.begin());
  std::size_t common = first.size();
  bool differ = false;
  for (const std::uint32_t stack : stacks) {
    const std::vector<std::uint32_t>& callers = lines.CallersOfStack(stack);
    const auto end = std::mismatch(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(common),
                                   callers.begin(), callers.end());
    differ = differ || callers != first;
    common = static_cast<std::size_t>(end.first - first.begin());
  }
  if (!differ) return {};
  std::map<std::uint32_t, BlockGroup> parts;
  for (const Block* block : group.all) {
    const std::vector<std::uint32_t>& callers = lines.CallersOfStack(block->stack);
    const std::uint32_t caller = callers.size() > common ? callers[common] : 0;
    const auto [entry, added] = parts.try_emplace(caller);
    if (added) {
      entry->second = Without(group);
      if (caller != 0) entry->second.caller = caller;
    }
    entry->second.all.push_back(block);
  }
  std::vector<BlockGroup> result;
  for (auto& [caller, part] : parts) result.push_back(std::move(part));
  return result;
}

}  // namespace cuheap::analysis
