// Mixed precision by autocast: what becomes half as large, what stays, and the copies that come on top.
//
// Note [Autocast]
// Which operators compute in the smaller type is PyTorch's documented list; others do as their inputs are. What they
// read is not recorded, so it is followed in the order of the forward pass:
//   - matrix products and convolutions give half. What they read in float32 is cast: the copy (half) is what is saved
//     for the backward pass, in place of what a normalisation, a sum or an embedding made before it;
//   - normalisations of layers, softmax, losses, exponentials and powers, and embeddings give float32, and make a copy
//   in
//     float32 of what they read for a moment; cross entropy keeps its logarithms in both types;
//   - sums give float32 if a float32 block of their size was made before and is live (the residual stream of a
//     transformer), else half;
//   - all others give what the operation before them gave. Of what one operation makes, what is at most a quarter of
//   its
//     largest block (masks, statistics) stays.
// Gradients within the backward pass are as large as what they are the gradient of. Each weight of a matrix product or
// convolution is copied, half as large, from the forward pass until its gradient is made; the gradient is made half as
// large and cast. Weights, their gradients and the optimizer's state stay.
#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analysis/reports/remedy_plans.h"

namespace cuheap::analysis {
namespace {

using std::string_view_literals::operator""sv;

enum class Width : std::uint8_t { kHalf, kFull, kFollows, kSum };

template <std::size_t kCount>
bool StartsWithAny(std::string_view text, const std::array<std::string_view, kCount>& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return text.starts_with(part); });
}

// By the operator's name.
Width WidthOf(std::string_view operation) {
  constexpr std::array kHalf = {"linear"sv,
                                "addmm"sv,
                                "addmv"sv,
                                "addr"sv,
                                "matmul"sv,
                                "mm"sv,
                                "bmm"sv,
                                "mv"sv,
                                "baddbmm"sv,
                                "addbmm"sv,
                                "conv"sv,
                                "_convolution"sv,
                                "cudnn_convolution"sv,
                                "einsum"sv,
                                "scaled_dot_product"sv,
                                "_scaled_dot_product"sv,
                                "lstm"sv,
                                "gru"sv,
                                "rnn_"sv,
                                "prelu"sv,
                                "chain_matmul"sv};
  constexpr std::array kFull = {"layer_norm"sv,
                                "native_layer_norm"sv,
                                "group_norm"sv,
                                "rms_norm"sv,
                                "softmax"sv,
                                "_softmax"sv,
                                "log_softmax"sv,
                                "_log_softmax"sv,
                                "softmin"sv,
                                "logsumexp"sv,
                                "cross_entropy"sv,
                                "nll_loss"sv,
                                "mse_loss"sv,
                                "l1_loss"sv,
                                "smooth_l1_loss"sv,
                                "huber_loss"sv,
                                "kl_div"sv,
                                "binary_cross_entropy"sv,
                                "cosine_similarity"sv,
                                "cdist"sv,
                                "exp"sv,
                                "log"sv,
                                "pow"sv,
                                "rsqrt"sv,
                                "reciprocal"sv,
                                "prod"sv,
                                "cumsum"sv,
                                "cumprod"sv,
                                "norm"sv,
                                "linalg_vector_norm"sv,
                                "dist"sv,
                                "erfinv"sv,
                                "tan"sv,
                                "acos"sv,
                                "asin"sv,
                                "cosh"sv,
                                "sinh"sv,
                                "softplus"sv,
                                "sum"sv,
                                "embedding"sv};
  if (operation == "add_Tensor" || operation == "sub_Tensor" || operation == "mul_Tensor" || operation == "cat")
    return Width::kSum;
  if (operation == "tanh" || operation == "expand" || operation == "linalg_inv") return Width::kFollows;
  if (StartsWithAny(operation, kHalf)) return Width::kHalf;
  return StartsWithAny(operation, kFull) ? Width::kFull : Width::kFollows;
}

// A node of the backward pass whose gradients are of what a matrix product or convolution read.
bool OfProduct(std::string_view node) {
  constexpr std::array kNodes = {"Addmm"sv,
                                 "Mm"sv,
                                 "Bmm"sv,
                                 "Mv"sv,
                                 "Addmv"sv,
                                 "Addbmm"sv,
                                 "Baddbmm"sv,
                                 "Linear"sv,
                                 "Convolution"sv,
                                 "CudnnConvolution"sv,
                                 "MiopenConvolution"sv,
                                 "ScaledDotProduct"sv};
  return StartsWithAny(node, kNodes);
}

bool OfFull(std::string_view node) {
  constexpr std::array kNodes = {"NativeLayerNorm"sv,
                                 "LayerNorm"sv,
                                 "NativeGroupNorm"sv,
                                 "Softmax"sv,
                                 "NllLoss"sv,
                                 "MseLoss"sv,
                                 "Exp"sv,
                                 "Pow"sv,
                                 "Embedding"sv,
                                 "Sum"sv,
                                 "BinaryCrossEntropy"sv};
  return StartsWithAny(node, kNodes);
}

class Autocast {
 public:
  explicit Autocast(const RemedyContext& context) : context_(context) {
    std::vector<const Block*> operation;  // what one makes, in order
    for (const Block* block : context.what_if.blocks()) {
      if (!Forward(*block)) {
        Finish(operation);
        if (context.Of(*block).rule == CategoryRule::kData) data_ = block, before_ = nullptr, half_before_ = false;
        continue;
      }
      if (!operation.empty() && context.StackOf(*operation.back()).call != context.StackOf(*block).call)
        Finish(operation);
      operation.push_back(block);
    }
    Finish(operation);
  }

  void Plan(const Block& block, const WhatIf::Sink& sink) const {
    const Life life = LifeOf(block);
    if (context_.Of(block).rule == CategoryRule::kBackwardHeld) return PlanGradient(block, sink);
    if (context_.Of(block).rule == CategoryRule::kWithinBackward && context_.batch.Scales(block))
      return sink({life.begin, life.end, FullInBackward(block) ? block.bytes : Half(block)});
    const auto found = changes_.find(&block);
    if (found == changes_.end()) return sink(life);
    const Change& change = found->second;
    if (change.cast_at != 0) {  // float32 until then, half afterwards
      const std::uint64_t cast = std::min(change.cast_at, life.end);
      sink({life.begin, cast, block.bytes});
      sink({cast, life.end, Half(block)});
    } else {
      sink({life.begin, life.end, change.half ? Half(block) : block.bytes});
    }
    if (change.copy_bytes != 0) sink({life.begin, std::min(life.begin + 1, life.end), change.copy_bytes});
    if (change.saved_copy_bytes != 0) sink({change.saved_from, change.saved_until, change.saved_copy_bytes});
  }

 private:
  struct Change {
    bool half = false;
    std::uint64_t cast_at = 0;
    std::uint64_t copy_bytes = 0;  // made for a moment with the block
    std::uint64_t saved_copy_bytes = 0, saved_from = 0, saved_until = 0;
  };

  bool Forward(const Block& block) const {
    const CategoryRule rule = context_.Of(block).rule;
    const bool made = rule == CategoryRule::kSavedForBackward || rule == CategoryRule::kForward ||
                      rule == CategoryRule::kOneOperation;
    return made && context_.batch.Scales(block) && !context_.StackOf(block).backward;
  }
  std::uint64_t Half(const Block& block) const { return context_.Rounded(block.bytes / 2); }
  std::string_view NodeOf(const Block& block) const {
    const Snapshot& snapshot = context_.facts.snapshot;
    return snapshot.strings[block.stack < snapshot.stacks.size() ? snapshot.stacks[block.stack].backward : 0];
  }

  // Sums over a batch (gradients of biases) add up in float32, in a buffer that does not depend on the type.
  bool FullInBackward(const Block& block) const {
    return OfFull(NodeOf(block)) || context_.StackOf(block).operation.starts_with("sum");
  }

  // One operation is complete: decides what its blocks are.
  void Finish(std::vector<const Block*>& operation) {
    if (operation.empty()) return;
    const Block* largest = operation.front();
    for (const Block* block : operation) {
      if (block->bytes > largest->bytes) largest = block;
    }
    const std::string_view name = context_.StackOf(*largest).operation;
    const Width width = WidthOf(name);
    bool half = width == Width::kHalf || (width == Width::kFollows && half_before_);
    if (width == Width::kSum) half = !FullLive(*largest);
    if (width == Width::kHalf) CastWhatIsRead(*operation.front());
    for (const Block* block : operation) {
      const bool result = 4 * block->bytes > largest->bytes && !Indices(name, *block, operation);
      if (!result) continue;
      Change& change = changes_[block];
      change.half = half;
      if (!half) full_[block->bytes] = block;
    }
    if (name == "cross_entropy_loss" && half_before_)
      HalveCrossEntropy(*largest);
    else if (width == Width::kFull && half_before_ && before_ != nullptr && name != "embedding")
      changes_[largest].copy_bytes = before_->bytes;
    half_before_ = half;
    before_ = largest;
    operation.clear();
  }

  // It takes the logarithms in the type that it was given, casts them for the loss, and keeps both.
  void HalveCrossEntropy(const Block& logarithms) {
    constexpr std::uint64_t kLossNode = 3;  // positions that the loss's part of the backward pass takes: it comes first
    const std::size_t pass = context_.phases.NextOf(Phase::kBackward, logarithms.allocated_at);
    Change& change = changes_[&logarithms];
    change.half = true;
    change.saved_copy_bytes = logarithms.bytes;
    change.saved_from = logarithms.allocated_at;
    change.saved_until =
        pass == context_.phases.runs().size() ? logarithms.freed_at : context_.phases.runs()[pass].begin + kLossNode;
  }

  // Pooling tells where each maximum was: 8 bytes beside 4.
  static bool Indices(std::string_view name, const Block& block, const std::vector<const Block*>& operation) {
    return name.find("max_pool") != std::string_view::npos &&
           std::any_of(operation.begin(), operation.end(),
                       [&](const Block* other) { return other->bytes < block.bytes; });
  }

  bool FullLive(const Block& sum) const {
    const auto found = full_.find(sum.bytes);
    return found != full_.end() && found->second->freed_at > sum.allocated_at;
  }

  void CastWhatIsRead(const Block& product) {
    if (before_ != nullptr && !half_before_) {
      Change& change = changes_[before_];
      const bool saves_its_result = context_.StackOf(*before_).operation.find("softmax") != std::string_view::npos;
      if (!saves_its_result && change.cast_at == 0) change.cast_at = product.allocated_at + 1;
    } else if (before_ == nullptr && data_ != nullptr) {
      Change& change = changes_[data_];
      change = {false, 0, 0, Half(*data_), product.allocated_at, data_->freed_at};
    }
  }

  // Copies of weights and gradients, see the note.
  void PlanGradient(const Block& block, const WhatIf::Sink& sink) const {
    const Life life = LifeOf(block);
    sink(life);
    if (!OfProduct(NodeOf(block))) return;
    const TrainingPhases& phases = context_.phases;
    const std::size_t pass = phases.IndexAt(block.allocated_at);
    if (pass == 0 || pass >= phases.runs().size()) return;
    const PhaseRun& forward = phases.runs()[pass - 1];
    const std::uint64_t begin = forward.model == kNoPosition ? forward.begin : forward.model;
    sink({begin, life.begin + 1, Half(block)});
    sink({life.begin, life.begin + 1, Half(block)});
  }

  const RemedyContext& context_;
  std::unordered_map<const Block*, Change> changes_;
  std::map<std::uint64_t, const Block*> full_;  // the last float32 block of each size
  const Block* before_ = nullptr;               // what the operation before gave
  const Block* data_ = nullptr;
  bool half_before_ = false;
};

// The type is not recorded, but native functions are named after what they are made for.
bool UsesHalfAlready(const RemedyContext& context) {
  if (context.batch.autocast()) return true;
  const std::vector<std::string>& strings = context.facts.snapshot.strings;
  return std::any_of(strings.begin(), strings.end(), [](const std::string& text) {
    return text.find("c10::BFloat16") != std::string::npos || text.find("c10::Half") != std::string::npos ||
           text == "Module.half" || text == "Module.bfloat16";
  });
}

}  // namespace

void TryMixedPrecision(const RemedyContext& context, RemedyList& remedies) {
  if (!context.phases.trains() || UsesHalfAlready(context)) return;
  const Autocast autocast(context);
  remedies.push_back(Try(context, RemedyKind::kMixedPrecision, Confidence::kMedium,
                         [&](const Block& block, const WhatIf::Sink& sink) { autocast.Plan(block, sink); }));
}

}  // namespace cuheap::analysis
