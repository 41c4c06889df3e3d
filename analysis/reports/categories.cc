#include "analysis/reports/categories.h"

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
    std::vector<TensorPart> parts;
    parts.reserve(blocks.program.size());
    for (const Block& block : blocks.program) {
      parts.push_back(PartOf(block));
      tensors_seen_ = tensors_seen_ || block.framework_tensor();
    }
    lives_ = MeasureTensorLives(snapshot, blocks, stacks, parts);
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
    return facts.backward || facts.backward_root ? TensorPart::kBackward : TensorPart::kAnywhere;
  }

  CategoryRule DecideTensor(const Block& block, const TensorLife& life) const {
    const FrameworkStacks::Facts& facts = stacks_.Of(block.stack);
    if (facts.optimizer_load) return CategoryRule::kOptimizerLoaded;
    if (facts.optimizer_step)
      return life.outlived_phase ? CategoryRule::kOptimizerHeld : CategoryRule::kWithinOptimizer;
    const bool brief = block.freed_at < life.operation_end && life.operation_end != kNoPosition;
    if (facts.backward || facts.backward_root) {
      if (facts.python && facts.module_call) return brief ? CategoryRule::kOneOperation : CategoryRule::kRecomputed;
      return life.outlived_phase ? CategoryRule::kBackwardHeld : CategoryRule::kWithinBackward;
    }
    if (brief) return CategoryRule::kOneOperation;
    if (facts.module_call)
      return MakesFromNothing(facts.operation) ? CategoryRule::kConstantInForward : Activation(block, life);
    if (facts.module_setup) return CategoryRule::kModuleSetup;
    if (facts.checkpoint) return CategoryRule::kCheckpoint;
    if (facts.operation.empty()) return block.stack == 0 ? CategoryRule::kNoStack : CategoryRule::kUnknownPart;
    if (!MakesData(facts.operation)) return Activation(block, life);
    return facts.constructor ? CategoryRule::kConstructor : CategoryRule::kData;
  }

  static CategoryRule Activation(const Block& block, const TensorLife& life) {
    return block.freed_at > life.next_backward ? CategoryRule::kSavedForBackward : CategoryRule::kForward;
  }

  CategoryRule DecideBySteps(const Block& block) const {
    if (block.stack == 0) return CategoryRule::kNoStack;
    const Steps& steps = clocks_.Of(block.thread);
    if (steps.count() < kFewestSteps) return CategoryRule::kOutsideOfSteps;
    const std::uint32_t made = block.allocated_ns == kBeforeWindow ? 0 : steps.StepOf(block.allocated_ns);
    const std::uint32_t freed = block.never_freed() ? steps.count() + 2 : steps.StepOf(block.freed_ns);
    if (made == freed) return CategoryRule::kWithinStep;
    return made <= 1 ? CategoryRule::kSetUp : CategoryRule::kAcrossSteps;
  }

  const Blocks& blocks_;
  const LineTable& lines_;
  const FrameworkStacks& stacks_;
  const StepClocks& clocks_;
  bool tensors_seen_ = false;
  std::vector<TensorLife> lives_;
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
