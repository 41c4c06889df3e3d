#include "analysis/reports/categories.h"

#include <algorithm>

#include "analysis/reports/tensor_lives.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint32_t kFewestSteps = 3;

// Collectives' own libraries, by file name.
bool IsCollectiveLibrary(std::string_view library) {
  return library.starts_with("libnccl") || library.starts_with("libnvshmem") || library.starts_with("libmpi") ||
         library.starts_with("librccl") || library.starts_with("libucs") || library.starts_with("libuct");
}

class Decider {
 public:
  Decider(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines, const FrameworkStacks& stacks,
          const StepClocks& clocks)
      : blocks_(blocks), lines_(lines), stacks_(stacks), clocks_(clocks) {
    silence_tells_ = snapshot.recorder == "pytorch" &&
                     std::any_of(blocks.program.begin(), blocks.program.end(),
                                 [&](const Block& block) { return stacks.Of(block.stack).python; });
    std::vector<TensorPart> parts;
    parts.reserve(blocks.program.size());
    for (const Block& block : blocks.program) {
      parts.push_back(PartOf(block));
      tensors_seen_ = tensors_seen_ || block.framework_tensor();
    }
    if (tensors_seen_) lives_ = MeasureTensorLives(snapshot, blocks, stacks, parts);
  }

  CategoryRule Decide(std::size_t i) const {
    const Block& block = blocks_.program[i];
    const std::string& library = lines_.LibraryOfStack(block.stack);
    if (!library.empty())
      return IsCollectiveLibrary(library) ? CategoryRule::kCollectiveLibrary : CategoryRule::kLibrary;
    if (stacks_.Of(block.stack).collective) return CategoryRule::kCollective;
    if (block.framework_tensor()) return DecideTensor(block, lives_[i]);
    if (block.in_framework_cache())
      return Blocks::OnHost(block.kind) ? CategoryRule::kPinnedStaging : CategoryRule::kFrameworkCache;
    if (block.kind == AllocationKind::kModuleData) return CategoryRule::kModuleData;
    return DecideBySteps(block);
  }

 private:
  TensorPart PartOf(const Block& block) const {
    const FrameworkStacks::Facts& facts = stacks_.Of(block.stack);
    if (!block.framework_tensor() || facts.collective || !lines_.LibraryOfStack(block.stack).empty())
      return TensorPart::kNone;
    if (facts.optimizer_step) return TensorPart::kOptimizer;
    return facts.backward || facts.backward_root || Silent(block) ? TensorPart::kBackward : TensorPart::kAnywhere;
  }

  // Of a PyTorch snapshot with stacks of Python alone: autograd's threads have none.
  bool Silent(const Block& block) const {
    return silence_tells_ && block.stack == 0 && block.allocated_at != 0 && block.framework_tensor();
  }

  CategoryRule DecideTensor(const Block& block, const TensorLife& life) const {
    const FrameworkStacks::Facts& facts = stacks_.Of(block.stack);
    if (facts.optimizer_load) return CategoryRule::kOptimizerLoaded;
    if (facts.backward_root) return CategoryRule::kWithinBackward;
    if (Silent(block)) return life.outlived_phase ? CategoryRule::kSilentHeld : CategoryRule::kSilentWithin;
    const bool brief = life.operation_end != kNoPosition && block.freed_at < life.operation_end;
    switch (FrameworkStacks::PartOf(facts)) {
      case FrameworkStacks::Part::kOptimizer:
        return life.outlived_phase ? CategoryRule::kOptimizerHeld : CategoryRule::kWithinOptimizer;
      case FrameworkStacks::Part::kBackward:
        if (facts.python && facts.module_call) return brief ? CategoryRule::kOneOperation : CategoryRule::kRecomputed;
        return life.outlived_phase ? CategoryRule::kBackwardHeld : CategoryRule::kWithinBackward;
      case FrameworkStacks::Part::kForward:
        if (!brief && MakesFromNothing(facts.operation)) return CategoryRule::kConstantInForward;
        break;
      case FrameworkStacks::Part::kSetup:
        return brief ? CategoryRule::kOneOperation : CategoryRule::kModuleSetup;
      case FrameworkStacks::Part::kReckoning:
        break;
      case FrameworkStacks::Part::kData:
      case FrameworkStacks::Part::kUnknown:
        return brief ? CategoryRule::kOneOperation : DecideData(block, facts);
    }
    if (brief) return CategoryRule::kOneOperation;
    return block.freed_at > life.next_backward ? CategoryRule::kSavedForBackward : CategoryRule::kForward;
  }

  static CategoryRule DecideData(const Block& block, const FrameworkStacks::Facts& facts) {
    if (facts.checkpoint) return CategoryRule::kCheckpoint;
    if (block.stack == 0) return WithoutStack(block);
    if (facts.operation.empty()) return CategoryRule::kUnknownPart;
    return facts.constructor ? CategoryRule::kConstructor : CategoryRule::kData;
  }

  static CategoryRule WithoutStack(const Block& block) {
    return block.allocated_at == 0 ? CategoryRule::kBeforeRecording : CategoryRule::kNoStack;
  }

  CategoryRule DecideBySteps(const Block& block) const {
    const Steps& steps = clocks_.Of(block.thread);
    if (steps.count() < kFewestSteps) return block.stack == 0 ? WithoutStack(block) : CategoryRule::kOutsideOfSteps;
    const std::uint32_t made = block.allocated_ns == kBeforeWindow ? 0 : steps.StepOf(block.allocated_ns);
    const std::uint32_t freed = block.never_freed() ? steps.count() + 2 : steps.StepOf(block.freed_ns);
    if (made == freed) return CategoryRule::kWithinStep;
    return made <= 1 ? CategoryRule::kSetUp : CategoryRule::kAcrossSteps;
  }

  const Blocks& blocks_;
  const LineTable& lines_;
  const FrameworkStacks& stacks_;
  const StepClocks& clocks_;
  bool silence_tells_ = false;
  bool tensors_seen_ = false;
  std::vector<TensorLife> lives_;  // empty if there is no tensor
};

}  // namespace

Categories::Categories(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines,
                       const FrameworkStacks& stacks, const StepClocks& clocks)
    : blocks_(&blocks) {
  const Decider decider(snapshot, blocks, lines, stacks, clocks);
  all_.reserve(blocks.program.size());
  for (std::size_t i = 0; i < blocks.program.size(); ++i) {
    const CategoryRule rule = decider.Decide(i);
    all_.push_back({CategoryOf(rule), rule});
  }
}

}  // namespace cuheap::analysis
