#include "analysis/html/listed_blocks.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>

namespace cuheap::analysis {
namespace {

class Findings {
 public:
  Findings(const Report& report, const Blocks& blocks) : report_(report) {
    for (std::size_t i = 0; i < report.findings.size(); ++i) {
      const LeakFinding& finding = report.findings[i];
      // The first that has a stack keeps it: findings are ordered by severity.
      for (const StackShare& share : finding.stacks)
        of_stack_.try_emplace(Key(finding.scope.host, finding.scope.device, share.stack),
                              static_cast<std::uint32_t>(i));
    }
    for (const Block& block : blocks.program) last_allocation_ = std::max(last_allocation_, block.allocated_at);
  }

  std::uint32_t Of(const Block& block) const {
    if (!Kept(block)) return kNoFinding;
    const bool host = Blocks::OnHost(block.kind);
    const auto found = of_stack_.find(Key(host, host ? 0 : block.device, block.stack));
    return found == of_stack_.end() ? kNoFinding : found->second;
  }

 private:
  // Ordinals have 16 bits, see kUnknownDevice.
  static std::uint64_t Key(bool host, std::uint32_t device, std::uint32_t stack) {
    return std::uint64_t{host} << 63 | std::uint64_t{device} << 32 | stack;
  }

  // Held to the end, as leaks.h has it.
  bool Kept(const Block& block) const {
    if (block.never_freed() || block.freed_at_shutdown) return true;
    if (block.framework_tensor() && block.freed_at > last_allocation_) return true;
    const std::uint32_t steps = report_.steps.count();
    return steps != 0 && report_.steps.StepOf(block.freed_ns) > steps &&
           report_.steps.StepOf(block.allocated_ns) <= steps;
  }

  const Report& report_;
  std::unordered_map<std::uint64_t, std::uint32_t> of_stack_;
  std::uint64_t last_allocation_ = 0;
};

bool HeldAtNamed(const Block& block, const std::vector<MemoryHistory>& histories) {
  return std::any_of(histories.begin(), histories.end(), [&](const MemoryHistory& history) {
    if (history.host != Blocks::OnHost(block.kind) || (!history.host && history.device != block.device)) return false;
    return std::any_of(history.named.begin(), history.named.end(),
                       [&](const NamedInstant& named) { return HeldAfter(block, history.position[named.instant]); });
  });
}

}  // namespace

BlockList ChooseBlocks(const Report& report, const Blocks& blocks, const std::vector<MemoryHistory>& histories,
                       std::size_t most) {
  struct Candidate {
    int rank = 0;
    std::uint64_t bytes = 0;
    ListedBlock listed;
    bool operator<(const Candidate& other) const {
      return std::tie(rank, other.bytes, listed.block) < std::tie(other.rank, bytes, other.listed.block);
    }
  };
  const Findings findings(report, blocks);
  std::priority_queue<Candidate> chosen;  // the worst of them on top: of millions only so many are kept
  for (std::size_t i = 0; i < blocks.program.size(); ++i) {
    const Block& block = blocks.program[i];
    const std::uint32_t finding = findings.Of(block);
    const bool grows = finding != kNoFinding && (report.findings[finding].leak_class == LeakClass::kLeak ||
                                                 report.findings[finding].leak_class == LeakClass::kFreedAtEnd);
    const int rank = grows ? 0 : finding != kNoFinding || HeldAtNamed(block, histories) ? 1 : 2;
    const Candidate candidate{rank, block.bytes, {static_cast<std::uint32_t>(i), finding}};
    if (chosen.size() == most) {
      if (!(candidate < chosen.top())) continue;
      chosen.pop();
    }
    chosen.push(candidate);
  }
  BlockList list;
  list.all = blocks.program.size();
  for (; !chosen.empty(); chosen.pop()) list.blocks.push_back(chosen.top().listed);
  std::sort(list.blocks.begin(), list.blocks.end(),
            [](const ListedBlock& a, const ListedBlock& b) { return a.block < b.block; });
  return list;
}

}  // namespace cuheap::analysis
