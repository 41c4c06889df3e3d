// How long each tensor of PyTorch lived, measured by what the program did: to the end of the operation that made it, of
// the backward pass, of the optimizer's step.
#ifndef CUHEAP_ANALYSIS_REPORTS_TENSOR_LIVES_H_
#define CUHEAP_ANALYSIS_REPORTS_TENSOR_LIVES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/reports/blocks.h"
#include "analysis/reports/framework_frames.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

// Positions are those of blocks.h; kNoPosition: nothing of the kind followed.
struct TensorLife {
  std::uint32_t operation_end = kNoPosition;  // the next operation of its thread made its first tensor
  std::uint32_t phase_end = kNoPosition;      // the backward pass, or the optimizer's step, that made it was over
  std::uint32_t next_backward = kNoPosition;  // a backward pass of its device made a tensor after it
  bool outlived_phase = false;                // it was live when the pass, or the step, that made it was over
};

// Which part of a training a tensor was made in, as far as it matters for its life.
enum class TensorPart : std::uint8_t { kNone, kBackward, kOptimizer, kAnywhere };

// One for each of blocks.program, in its order. A pass ends with the first tensor that is made on its device outside of
// backward passes, a step of an optimizer with the first that its thread makes outside of it. Gradients that
// zero_grad() frees before that are told by who frees them: another thread than autograd's. At the end of the run,
// where nothing is made any more, also by what became of tensors of the same stack before. parts: of each of
// blocks.program; kNone: no tensor, or one that ends nothing (workspaces).
std::vector<TensorLife> MeasureTensorLives(const Snapshot& snapshot, const Blocks& blocks,
                                           const FrameworkStacks& stacks, const std::vector<TensorPart>& parts);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_TENSOR_LIVES_H_
