// Why memory ran out, as far as what PyTorch was doing tells: see ran_out.h.
#ifndef CUHEAP_ANALYSIS_REPORTS_OOM_CONTEXT_H_
#define CUHEAP_ANALYSIS_REPORTS_OOM_CONTEXT_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace cuheap::analysis {

// What a tensor is for, by the stack that made it.
enum class TensorRole : std::uint8_t {
  kWeights,         // parameters and buffers: made or moved by an nn.Module's set-up
  kGradients,       // made by backward passes, with what those need for a while
  kOptimizerState,  // made by an optimizer's step, likewise
  kActivations,     // made by a forward pass, or by other operators
  kOther,           // data, and what is not known
};
inline constexpr std::size_t kTensorRoles = 5;

enum class OomCause : std::uint8_t {
  kNone,       // nothing of the below
  kLeaks,      // half of what was live belongs to lines that leak
  kWeights,    // the model was being set up
  kOptimizer,  // an optimizer's step
  kFirstStep,  // a forward or backward pass, before two steps were done
  kLastStep,   // an unfinished step that holds twice as much as the largest finished one
};

// At one refusal; bytes of tensors of its device.
struct OomContext {
  OomCause cause = OomCause::kNone;
  std::array<std::uint64_t, kTensorRoles> bytes{};  // live then, by role
  std::uint64_t leaked_bytes = 0;                   // kLeaks: of lines that leak, live then
  std::uint64_t step_bytes = 0;                     // kLastStep: live then of the unfinished step
  std::uint64_t finished_bytes = 0;                 // the most that a finished step had live of its own
  std::uint32_t line = 0;                           // kFirstStep, kLastStep: with most bytes of the step
  std::uint64_t line_bytes = 0;
  bool step_done = false;  // kFirstStep: the optimizer had made a step, and so the first fitted
  bool adam = false;       // kOptimizer: a kind that keeps two numbers for each weight
  std::uint64_t of(TensorRole role) const { return bytes[static_cast<std::size_t>(role)]; }
  std::uint64_t all() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t part : bytes) sum += part;
    return sum;
  }
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_OOM_CONTEXT_H_
