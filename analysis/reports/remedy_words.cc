#include "analysis/reports/remedy_words.h"

#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string OnRanks(const Remedy& remedy) {
  return "over " + Plural(remedy.count, "rank") + (remedy.example ? " (that many GPUs as an example)" : "");
}

}  // namespace

std::string_view Word(RemedyKind kind) {
  switch (kind) {
    case RemedyKind::kSmallerBatch:
      return "smaller_batch";
    case RemedyKind::kAccumulation:
      return "gradient_accumulation";
    case RemedyKind::kMixedPrecision:
      return "mixed_precision";
    case RemedyKind::kCheckpointing:
      return "activation_checkpointing";
    case RemedyKind::kOffloading:
      return "offload_saved";
    case RemedyKind::kNoGrad:
      return "no_grad";
    case RemedyKind::kDetach:
      return "detach";
    case RemedyKind::kDropGradients:
      return "drop_gradients";
    case RemedyKind::kFreeEarlier:
      return "free_earlier";
    case RemedyKind::kPlainSgd:
      return "sgd";
    case RemedyKind::kMomentumSgd:
      return "sgd_momentum";
    case RemedyKind::kEightBitAdam:
      return "adam_8bit";
    case RemedyKind::kFusedOptimizer:
      return "fused_optimizer";
    case RemedyKind::kLoopOptimizer:
      return "loop_optimizer";
    case RemedyKind::kShardOptimizer:
      return "zero_1";
    case RemedyKind::kShardGradients:
      return "zero_2";
    case RemedyKind::kShardParameters:
      break;
  }
  return "zero_3";
}

std::string TitleOf(const Report& report, const Remedy& remedy) {
  switch (remedy.kind) {
    case RemedyKind::kSmallerBatch:
      return "half the batch";
    case RemedyKind::kAccumulation:
      return "gradient accumulation: the same batch in two halves";
    case RemedyKind::kMixedPrecision:
      return "mixed precision: torch.autocast(\"cuda\", dtype=torch.bfloat16)";
    case RemedyKind::kCheckpointing: {
      const Snapshot& snapshot = *report.snapshot;
      const std::string name =
          remedy.target == "forward" ? "modules" : remedy.target.substr(0, remedy.target.rfind('.'));
      const Frame& frame = snapshot.frames[remedy.target_frame];
      const std::string& file = snapshot.strings[frame.file];
      return "activation checkpointing of " + name + ", " + Plural(remedy.count, "call") + " a pass" +
             (remedy.target_frame == 0
                  ? ""
                  : ", called at " + file.substr(file.rfind('/') + 1) + ":" + std::to_string(frame.line));
    }
    case RemedyKind::kOffloading:
      return "what is saved for the backward pass in host memory: with torch.autograd.graph.save_on_cpu(pin_memory=True)";
    case RemedyKind::kNoGrad:
      return "torch.no_grad() where no backward pass follows";
    case RemedyKind::kDetach:
      return "not keeping what leaks: loss.item(), detach()";
    case RemedyKind::kDropGradients:
      return "optimizer.zero_grad(set_to_none=True) right behind optimizer.step()";
    case RemedyKind::kFreeEarlier:
      return "del of batch, outputs and loss behind loss.backward()";
    case RemedyKind::kPlainSgd:
      return "SGD without momentum in place of Adam";
    case RemedyKind::kMomentumSgd:
      return "SGD with momentum in place of Adam";
    case RemedyKind::kEightBitAdam:
      return "an 8-bit Adam (bitsandbytes, torchao)";
    case RemedyKind::kFusedOptimizer:
      return "the fused optimizer: Adam(..., fused=True)";
    case RemedyKind::kLoopOptimizer:
      return "the optimizer's loop in place of foreach: foreach=False";
    case RemedyKind::kShardOptimizer:
      return "ZeRO stage 1 " + OnRanks(remedy) + ": shards of the optimizer's state";
    case RemedyKind::kShardGradients:
      return "ZeRO stage 2 " + OnRanks(remedy) + ": shards of state and gradients";
    case RemedyKind::kShardParameters:
      break;
  }
  return "FSDP, ZeRO stage 3 " + OnRanks(remedy) + ": shards of state, gradients and weights";
}

std::string TermsOf(const Remedy& remedy) {
  switch (remedy.kind) {
    case RemedyKind::kSmallerBatch:
      return "Changes the training: gradients of fewer samples. Assumes that activations, their gradients and the "
             "batch "
             "scale; weights, state and masks do not.";
    case RemedyKind::kAccumulation:
      return "The same gradients (but for batch normalisation) in two passes, each less busy. Gradients are live "
             "during "
             "the second.";
    case RemedyKind::kMixedPrecision:
      return "Faster on tensor cores; check the loss. Assumes that all is float32 now, and follows types in the order "
             "of "
             "the forward pass; copies of the weights are added.";
    case RemedyKind::kCheckpointing:
      return "Costs a second forward pass of these modules; the largest call brings " + Human(remedy.added) +
             " back while it is differentiated. torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False).";
    case RemedyKind::kOffloading:
      return "Around the forward pass. Copies " + Human(remedy.added) +
             " or more to the host in each pass, and back: that much slower, and as much pinned host memory.";
    case RemedyKind::kNoGrad:
      return "Costs nothing. Assumes that what a pass makes is read by one of the next three operations.";
    case RemedyKind::kDetach:
      return "Costs nothing: see the findings. Assumes that what leaks is gone at the end of its step.";
    case RemedyKind::kDropGradients:
      return "Costs nothing, if nothing reads the gradients later.";
    case RemedyKind::kFreeEarlier:
      return "Costs nothing. Assumes that nothing reads them behind the backward pass.";
    case RemedyKind::kPlainSgd:
    case RemedyKind::kMomentumSgd:
      return "Another training: learning rate and schedule have to be found again.";
    case RemedyKind::kEightBitAdam:
      return "Nearly the same training, by a package of others. Assumes one byte for each number and a factor for 256.";
    case RemedyKind::kFusedOptimizer:
      return "The same numbers, usually faster; its step needs no temporaries.";
    case RemedyKind::kLoopOptimizer:
      return "Slower steps. Assumes that two temporaries as large as the largest one are live at a time.";
    case RemedyKind::kShardOptimizer:
      return "One more collective a step. Assumes equal shards; buckets and buffers of the collectives are not "
             "counted.";
    case RemedyKind::kShardGradients:
      return "Assumes equal shards, each gradient whole until it is reduced; buckets and buffers are not counted.";
    case RemedyKind::kShardParameters:
      break;
  }
  return "Weights are sent in each pass. Assumes equal shards, and " + Human(remedy.added) +
         " for whole weights (twice the largest); buffers are not counted.";
}

std::string_view Name(Phase phase) {
  switch (phase) {
    case Phase::kBackward:
      return "backward pass";
    case Phase::kOptimizer:
      return "optimizer's step";
    case Phase::kForward:
      break;
  }
  return "forward pass";
}

std::string_view Word(Phase phase) {
  switch (phase) {
    case Phase::kBackward:
      return "backward";
    case Phase::kOptimizer:
      return "optimizer";
    case Phase::kForward:
      break;
  }
  return "forward";
}

}  // namespace cuheap::analysis
