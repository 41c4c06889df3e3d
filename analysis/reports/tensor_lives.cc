#include "analysis/reports/tensor_lives.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace cuheap::analysis {
namespace {

// Blocks whose end is not known yet get it together.
class OpenBlocks {
 public:
  explicit OpenBlocks(std::uint32_t TensorLife::* member) : member_(member) {}
  void Add(std::size_t block) { blocks_.push_back(static_cast<std::uint32_t>(block)); }
  void End(std::vector<TensorLife>& lives, std::uint64_t position) {
    for (const std::uint32_t block : blocks_) lives[block].*member_ = static_cast<std::uint32_t>(position);
    blocks_.clear();
  }

 private:
  std::uint32_t TensorLife::* member_;
  std::vector<std::uint32_t> blocks_;
};

// The operation that a thread is at.
struct Operation {
  std::uint64_t call = 0;
  std::unordered_set<std::uint32_t> stacks;
  OpenBlocks open{&TensorLife::operation_end};
};

class Meter {
 public:
  Meter(const Snapshot& snapshot, const Blocks& blocks, const FrameworkStacks& stacks,
        const std::vector<TensorPart>& parts)
      : snapshot_(snapshot), blocks_(blocks), stacks_(stacks), parts_(parts), lives_(blocks.program.size()) {}

  std::vector<TensorLife> Measure() {
    for (std::size_t i = 0; i < blocks_.program.size(); ++i) {
      if (parts_[i] != TensorPart::kNone && blocks_.program[i].allocated_at != 0) Pass(i);
    }
    // Those whose end is not known are judged by the others.
    for (const bool known : {true, false}) {
      for (std::size_t i = 0; i < blocks_.program.size(); ++i) {
        if (parts_[i] != TensorPart::kBackward && parts_[i] != TensorPart::kOptimizer) continue;
        if ((lives_[i].phase_end != kNoPosition) == known) lives_[i].outlived_phase = Outlived(i);
      }
    }
    return std::move(lives_);
  }

 private:
  // Blocks come by time.
  void Pass(std::size_t i) {
    const Block& block = blocks_.program[i];
    last_at_ = block.allocated_at;
    const TensorPart part = parts_[i];
    InOperation(operations_[block.thread], i);
    OpenBlocks& step = steps_.try_emplace(block.thread, &TensorLife::phase_end).first->second;
    OpenBlocks& pass = passes_.try_emplace(block.device, &TensorLife::phase_end).first->second;
    OpenBlocks& before = before_backward_.try_emplace(block.device, &TensorLife::next_backward).first->second;
    if (part == TensorPart::kBackward) {
      pass.Add(i);
      before.End(lives_, block.allocated_at);
      return;
    }
    pass.End(lives_, block.allocated_at);
    if (part == TensorPart::kOptimizer)
      step.Add(i);
    else
      step.End(lives_, block.allocated_at);
    before.Add(i);
  }

  // A call that comes again with a stack that it has had is another one.
  void InOperation(Operation& operation, std::size_t i) {
    const Block& block = blocks_.program[i];
    const std::uint64_t call = stacks_.Of(block.stack).call;
    if (call != operation.call || operation.stacks.contains(block.stack)) {
      operation.open.End(lives_, block.allocated_at);
      operation.stacks.clear();
    }
    operation.call = call;
    operation.stacks.insert(block.stack);
    operation.open.Add(i);
  }

  bool Outlived(std::size_t i) {
    const Block& block = blocks_.program[i];
    if (block.freed_at == kNoPosition) return true;
    std::unordered_map<std::uint32_t, bool>& known =
        parts_[i] == TensorPart::kBackward ? backward_stacks_ : optimizer_stacks_;
    if (lives_[i].phase_end == kNoPosition) {
      if (parts_[i] == TensorPart::kBackward && FreedElsewhere(block)) return true;
      const auto found = known.find(block.stack);
      return found != known.end() ? found->second : block.freed_at > last_at_ && !OnAutogradsThread(block);
    }
    const bool outlived =
        block.freed_at > lives_[i].phase_end || (parts_[i] == TensorPart::kBackward && FreedElsewhere(block));
    known[block.stack] = outlived;
    return outlived;
  }

  // By another thread than the one that made it, where both are known.
  bool FreedElsewhere(const Block& block) const {
    const std::uint32_t thread = FreeingThread(block);
    return thread != 0 && block.thread != 0 && thread != block.thread;
  }
  bool OnAutogradsThread(const Block& block) const {
    return !stacks_.Of(block.stack).python && FreeingThread(block) == block.thread && block.thread != 0;
  }
  std::uint32_t FreeingThread(const Block& block) const {
    return block.freed_at - 1 < snapshot_.events.size() ? snapshot_.events.thread[block.freed_at - 1] : 0;
  }

  const Snapshot& snapshot_;
  const Blocks& blocks_;
  const FrameworkStacks& stacks_;
  const std::vector<TensorPart>& parts_;
  std::vector<TensorLife> lives_;
  std::uint64_t last_at_ = 0;
  std::unordered_map<std::uint32_t, Operation> operations_;                     // by thread
  std::unordered_map<std::uint32_t, OpenBlocks> steps_;                         // by thread
  std::unordered_map<std::uint32_t, OpenBlocks> passes_, before_backward_;      // by device
  std::unordered_map<std::uint32_t, bool> backward_stacks_, optimizer_stacks_;  // whether the last one outlived
};

}  // namespace

std::vector<TensorLife> MeasureTensorLives(const Snapshot& snapshot, const Blocks& blocks,
                                           const FrameworkStacks& stacks, const std::vector<TensorPart>& parts) {
  return Meter(snapshot, blocks, stacks, parts).Measure();
}

}  // namespace cuheap::analysis
