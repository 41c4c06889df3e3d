#include "analysis/torch_snapshot.h"

#include <malloc.h>

#include <memory>

#include "analysis/file_error.h"
#include "analysis/pickle_reader.h"
#include "analysis/torch_model.h"
#include "analysis/torch_trace.h"

namespace cuheap::analysis {

absl::StatusOr<Snapshot> LoadTorchSnapshot(TextSource& source, const std::string& name) {
  Snapshot snapshot;
  TorchTrace trace(snapshot);
  auto data = std::make_unique<PickleData>();
  PickleValue root;
  const PickleProblem problem = ReadPickle(source, trace, *data, root);
  if (!problem.text.empty()) {
    return FileError(absl::StatusCode::kInvalidArgument, name, problem.place, problem.text,
                     problem.cut_off ? "write or copy the snapshot again; it has to be complete"
                                     : "give a snapshot as torch.cuda.memory._dump_snapshot() writes it");
  }
  const std::string foreign = trace.Take(*data, root);
  data.reset();
  malloc_trim(0);  // millions of small pieces, which the model would come on top of
  if (!foreign.empty()) {
    return FileError(absl::StatusCode::kInvalidArgument, name, "",
                     "the pickle is no memory snapshot of PyTorch: " + foreign,
                     "give a snapshot as torch.cuda.memory._dump_snapshot() writes it");
  }
  if (!trace.allocator_settings.empty()) snapshot.configuration["PYTORCH_CUDA_ALLOC_CONF"] = trace.allocator_settings;
  MakeTorchModel(trace, snapshot);
  return snapshot;
}

}  // namespace cuheap::analysis
