// What every block is for: parameters, gradients, activations, ... and the rule that decided.
#ifndef CUHEAP_ANALYSIS_REPORTS_CATEGORIES_H_
#define CUHEAP_ANALYSIS_REPORTS_CATEGORIES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/framework_frames.h"
#include "analysis/reports/lines.h"
#include "analysis/reports/steps.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

// In the order in which tables and charts show them: what stays longest first.
enum class Category : std::uint8_t {
  kParameters,      // and a model's buffers
  kOptimizerState,  // held from one step of an optimizer to the next
  kGradients,
  kActivations,    // results of the forward pass
  kInputs,         // the batch, masks, constants: data that nothing was reckoned for
  kTemporaries,    // gone when the operation, the backward pass, the optimizer's step or the step is over
  kCommunication,  // buffers of collectives
  kWorkspace,      // of CUDA libraries
  kOther,          // what no rule can tell
};
inline constexpr std::size_t kCategories = 9;

// Why a block has its category. docs/reports.md has each rule's limits; Explain() says it in a sentence.
enum class CategoryRule : std::uint8_t {
  kModuleSetup,        // parameters: an nn.Module made or moved it
  kConstructor,        // parameters: data made in a constructor, outside of any forward pass
  kCheckpoint,         // parameters: read from a checkpoint
  kOptimizerHeld,      // optimizer state: made within Optimizer.step, outlived it
  kOptimizerLoaded,    // optimizer state: made by Optimizer.load_state_dict
  kBackwardHeld,       // gradients: made in a backward pass, outlived it
  kSilentHeld,         // gradients: the same, of a PyTorch snapshot, where autograd's threads leave no frame at all
  kSavedForBackward,   // activations: made in a forward pass, live when a backward pass began
  kForward,            // activations: made in a forward pass, freed before any backward pass
  kRecomputed,         // activations: a forward pass run again within a backward pass (checkpointing)
  kData,               // inputs: an operator that makes or copies data, outside of any model
  kConstantInForward,  // inputs: an operator that makes data from nothing, within a model
  kPinnedStaging,      // inputs: PyTorch's pinned memory
  kOneOperation,       // temporaries: freed before another operation allocated
  kWithinBackward,     // temporaries: made in a backward pass, freed within it
  kSilentWithin,       // temporaries: likewise, freed within the pass
  kWithinOptimizer,    // temporaries: made within Optimizer.step, freed within it
  kWithinStep,         // temporaries: no framework's, allocated and freed in one step
  kCollectiveLibrary,  // communication: NCCL, NVSHMEM or MPI asked for it
  kCollective,         // communication: PyTorch's distributed package made it
  kLibrary,            // workspace: a CUDA library asked for it, or PyTorch for one
  kFrameworkCache,     // other: a segment of PyTorch's cache; what lies in it has categories of its own, if observed
  kModuleData,         // other: variables of CUDA modules
  kSetUp,              // other: no framework's, from the set-up, held over steps
  kAcrossSteps,        // other: no framework's, allocated in one step and freed in a later one, or held
  kOutsideOfSteps,     // other: no framework's, and no steps are known
  kUnknownPart,        // other: a tensor, and nothing tells what part of the program it is from
  kBeforeRecording,    // other: allocated before the recording began, without a stack
  kNoStack,            // other: without a stack
};
inline constexpr std::size_t kCategoryRules = 29;

struct Categorised {
  Category category = Category::kOther;
  CategoryRule rule = CategoryRule::kNoStack;
};

std::string_view Name(Category category);     // "optimizer state"
std::string_view Word(Category category);     // "optimizer_state"
std::string_view Word(CategoryRule rule);     // "optimizer_held"
std::string_view Explain(CategoryRule rule);  // a sentence without its full stop
Category CategoryOf(CategoryRule rule);       // each rule decides for one category

// Note [Categories]
// A record has, for each block, the stack that made it, who freed it and when; it does not have which tensors an
// operation read. So categories are told by the part of the program that made a block (framework_frames.h) and by how
// long it lived: what a backward pass made is a gradient if it outlived the pass, what an optimizer's step made is
// state if it outlived the step. A pass ends where the next tensor of its device is made outside of it, a step of an
// optimizer where its thread makes the next one outside of it. If nothing is made afterwards, who freed it tells:
// autograd's thread frees what a backward pass needs for itself, the program's frees gradients. The first rule that
// applies decides; their order is that of Decider in categories.cc.
class Categories {
 public:
  // blocks must outlive it.
  Categories(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines, const FrameworkStacks& stacks,
             const StepClocks& clocks);
  // One for each of blocks.program, in its order.
  const std::vector<Categorised>& all() const { return all_; }
  std::vector<Categorised> Take() && { return std::move(all_); }
  // block: one of blocks.program.
  const Categorised& Of(const Block& block) const {
    return all_[static_cast<std::size_t>(&block - blocks_->program.data())];
  }

 private:
  const Blocks* blocks_;
  std::vector<Categorised> all_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_CATEGORIES_H_
