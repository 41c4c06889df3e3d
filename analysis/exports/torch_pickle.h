// A memory snapshot as PyTorch writes them (torch.cuda.memory._dump_snapshot), for its viewers. Format:
// torch/cuda/memory.py, `_snapshot`; the opcodes are those that torch/utils/viz/MemoryViz.js reads.
//
// What the model has not is not made up: an event's size is what the model knows of it, `requested_size` is the same as
// `size` where only the size is known. Host memory is left out, and so are other processes' objects.
#ifndef CUHEAP_ANALYSIS_EXPORTS_TORCH_PICKLE_H_
#define CUHEAP_ANALYSIS_EXPORTS_TORCH_PICKLE_H_

#include <string>
#include <vector>

#include "analysis/exports/exporter.h"

namespace cuheap::analysis {

class TorchPickle final : public Exporter {
 public:
  absl::Status Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest& request, TextSink& sink,
                     std::vector<std::string>& notes) const override;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_TORCH_PICKLE_H_
