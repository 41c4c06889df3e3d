#include "analysis/reports/module_calls.h"

#include <algorithm>

#include "analysis/backward.h"
#include "analysis/reports/framework_frames.h"

namespace cuheap::analysis {
namespace {

bool SameStacks(const ModuleCall& a, const ModuleCall& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Block* one, const Block* other) { return one->stack == other->stack; });
}

// Appends the calls that the recurrence of the first stack makes of one, or that one if they differ.
void SplitByRecurrence(ModuleCall whole, std::vector<ModuleCall>& calls) {
  std::vector<ModuleCall> parts;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    // An operation may make several blocks with one stack.
    const bool again = whole[i]->stack == whole.front()->stack && (i == 0 || whole[i - 1]->stack != whole[i]->stack);
    if (again) parts.emplace_back();
    parts.back().push_back(whole[i]);
  }
  const bool alike =
      std::all_of(parts.begin(), parts.end(), [&](const ModuleCall& part) { return SameStacks(part, parts.front()); });
  if (!alike) return calls.push_back(std::move(whole));
  for (ModuleCall& part : parts) calls.push_back(std::move(part));
}

}  // namespace

ModuleSites::ModuleSites(const Snapshot& snapshot) : snapshot_(snapshot) {
  std::map<Site, std::uint32_t> known;
  sites_.emplace_back();
  for (const Stack& stack : snapshot.stacks) paths_.push_back(PathIn(stack, known));
  if (paths_.empty()) paths_.emplace_back();
}

std::vector<std::uint32_t> ModuleSites::PathIn(const Stack& stack, std::map<Site, std::uint32_t>& known) {
  std::vector<std::uint32_t> path;
  std::uint32_t caller = 0;
  bool entering = false;  // the frame before was of nn.Module.__call__
  for (auto index = stack.frames.rbegin(); index != stack.frames.rend(); ++index) {
    if (*index >= snapshot_.frames.size()) continue;
    const Frame& frame = snapshot_.frames[*index];
    if (frame.kind != FrameKind::kPython || snapshot_.strings[frame.reason].starts_with(kForwardOf)) continue;
    if (IsModuleCall(snapshot_.strings[frame.function], snapshot_.strings[frame.file])) {
      entering = true;
      continue;
    }
    if (entering) {
      const Site site{path.empty() ? 0 : path.back(), caller, snapshot_.strings[frame.function],
                      snapshot_.strings[frame.file]};
      const auto [entry, added] = known.try_emplace(site, static_cast<std::uint32_t>(sites_.size()));
      if (added) sites_.push_back(site);
      path.push_back(entry->second);
    }
    entering = false;
    caller = *index;
  }
  return path;
}

std::vector<ModuleCall> CallsAt(const ModuleSites& sites, std::uint32_t site, std::span<const Block* const> blocks) {
  std::vector<ModuleCall> calls;
  ModuleCall open;
  const auto close = [&] {
    if (!open.empty()) SplitByRecurrence(std::move(open), calls);
    open.clear();
  };
  for (const Block* block : blocks) {
    const std::vector<std::uint32_t>& path = sites.PathOf(block->stack);
    if (std::find(path.begin(), path.end(), site) != path.end())
      open.push_back(block);
    else
      close();
  }
  close();
  return calls;
}

}  // namespace cuheap::analysis
