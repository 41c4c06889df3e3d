// What categories and their rules are called.
#include "analysis/reports/categories.h"

namespace cuheap::analysis {
namespace {

struct RuleWords {
  Category category;
  std::string_view word, sentence;
};

RuleWords WordsOf(CategoryRule rule) {
  switch (rule) {
    case CategoryRule::kModuleSetup:
      return {Category::kParameters, "module_setup", "an nn.Module made it, or moved it with to() or cuda()"};
    case CategoryRule::kConstructor:
      return {Category::kParameters, "constructor", "data made in a constructor, outside of any forward pass"};
    case CategoryRule::kCheckpoint:
      return {Category::kParameters, "checkpoint", "read from a checkpoint"};
    case CategoryRule::kOptimizerHeld:
      return {Category::kOptimizerState, "optimizer_held", "made within Optimizer.step, and outlived it"};
    case CategoryRule::kOptimizerLoaded:
      return {Category::kOptimizerState, "optimizer_loaded", "made by Optimizer.load_state_dict"};
    case CategoryRule::kBackwardHeld:
      return {Category::kGradients, "backward_held", "made in a backward pass, and outlived it"};
    case CategoryRule::kSilentHeld:
      return {Category::kGradients, "silent_held",
              "made where no Python ran, as in backward passes, and outlived that"};
    case CategoryRule::kSavedForBackward:
      return {Category::kActivations, "saved_for_backward", "made in a forward pass, live when a backward pass began"};
    case CategoryRule::kForward:
      return {Category::kActivations, "forward", "made in a forward pass; no backward pass began while it was live"};
    case CategoryRule::kRecomputed:
      return {Category::kActivations, "recomputed", "made by a forward pass that ran again within a backward pass"};
    case CategoryRule::kData:
      return {Category::kInputs, "data", "made or copied as data, outside of any model"};
    case CategoryRule::kConstantInForward:
      return {Category::kInputs, "constant_in_forward", "made from nothing within a model: masks, positions, zeros"};
    case CategoryRule::kPinnedStaging:
      return {Category::kInputs, "pinned_staging", "PyTorch's pinned memory, which copies to and from the device use"};
    case CategoryRule::kOneOperation:
      return {Category::kTemporaries, "one_operation", "freed before another operation allocated"};
    case CategoryRule::kWithinBackward:
      return {Category::kTemporaries, "within_backward", "made in a backward pass, and freed within it"};
    case CategoryRule::kSilentWithin:
      return {Category::kTemporaries, "silent_within", "made where no Python ran, as in backward passes; freed there"};
    case CategoryRule::kWithinOptimizer:
      return {Category::kTemporaries, "within_optimizer", "made within Optimizer.step, and freed within it"};
    case CategoryRule::kWithinStep:
      return {Category::kTemporaries, "within_step", "allocated and freed within one step"};
    case CategoryRule::kCollectiveLibrary:
      return {Category::kCommunication, "collective_library", "a library for collectives asked for it"};
    case CategoryRule::kCollective:
      return {Category::kCommunication, "collective", "PyTorch's distributed package made it"};
    case CategoryRule::kLibrary:
      return {Category::kWorkspace, "library", "a CUDA library asked for it, or PyTorch for one"};
    case CategoryRule::kFrameworkCache:
      return {Category::kOther, "framework_cache", "a segment of PyTorch's cache"};
    case CategoryRule::kModuleData:
      return {Category::kOther, "module_data", "variables of a CUDA module"};
    case CategoryRule::kSetUp:
      return {Category::kOther, "set_up", "allocated before or in the first step, and held over steps"};
    case CategoryRule::kAcrossSteps:
      return {Category::kOther, "across_steps", "allocated in one step, and live in a later one"};
    case CategoryRule::kOutsideOfSteps:
      return {Category::kOther, "outside_of_steps", "no steps are known to tell by how long it is needed"};
    case CategoryRule::kUnknownPart:
      return {Category::kOther, "unknown_part", "its stack does not tell what part of a training made it"};
    case CategoryRule::kBeforeRecording:
      return {Category::kOther, "before_recording", "allocated before the recording began"};
    case CategoryRule::kNoStack:
      break;
  }
  return {Category::kOther, "no_stack", "it has no stack"};
}

}  // namespace

std::string_view Name(Category category) {
  switch (category) {
    case Category::kOptimizerState:
      return "optimizer state";
    case Category::kWorkspace:
      return "library workspace";
    default:
      return Word(category);
  }
}

std::string_view Word(Category category) {
  switch (category) {
    case Category::kParameters:
      return "parameters";
    case Category::kOptimizerState:
      return "optimizer_state";
    case Category::kGradients:
      return "gradients";
    case Category::kActivations:
      return "activations";
    case Category::kInputs:
      return "inputs";
    case Category::kTemporaries:
      return "temporaries";
    case Category::kCommunication:
      return "communication";
    case Category::kWorkspace:
      return "workspace";
    case Category::kOther:
      break;
  }
  return "other";
}

std::string_view Word(CategoryRule rule) { return WordsOf(rule).word; }
std::string_view Explain(CategoryRule rule) { return WordsOf(rule).sentence; }
Category CategoryOf(CategoryRule rule) { return WordsOf(rule).category; }

}  // namespace cuheap::analysis
