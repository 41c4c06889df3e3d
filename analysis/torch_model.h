// From the pieces of a PyTorch snapshot to events, live memory and totals of the model.
#ifndef CUHEAP_ANALYSIS_TORCH_MODEL_H_
#define CUHEAP_ANALYSIS_TORCH_MODEL_H_

#include "analysis/snapshot.h"
#include "analysis/torch_trace.h"

namespace cuheap::analysis {

// Fills everything but the tables of names, which the trace has filled. `trace` is read only.
//
// Each segment of `cudaMalloc` is an allocation of kind kDevice that PyTorch asked for; an expandable one is mapped
// pieces of kind kVirtual, cut wherever a mapping of the recording began or ended. Each block that was handed out is a
// kTensor. Sizes and what lies before the recording: see torch_snapshot.h.
void MakeTorchModel(const TorchTrace& trace, Snapshot& snapshot);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_TORCH_MODEL_H_
