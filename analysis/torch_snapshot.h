// Memory snapshots of PyTorch (torch.cuda.memory._dump_snapshot, torch.cuda.memory._snapshot pickled) as the model.
//
// What they hold: the segments of PyTorch's cache with every block as it is at the end, and, if recording was on, the
// last events before. Format: torch/cuda/memory.py, `_snapshot` and `_record_memory_history`; all forms since 2023 are
// read: blocks with a `history` and without addresses, frees that appear only as completed, lists for tuples.
//
// Note [PyTorch's sizes]
// An event's size is what was requested, a block's is what it occupies: a multiple of 512 bytes, and up to 1 MiB more
// where a rest would be too small to split off. Tensors of the model have the latter where the block is still there,
// and the request rounded up to 512 where only the event is. So what was requested and freed inside the recording may
// have occupied more than is told.
//
// Note [Before the recording]
// Blocks and segments without an event were allocated before it began, or the event was pushed out of PyTorch's own
// ring. Neither is told apart in the file; both make `completeness.events_overwritten` greater than 0.
#ifndef CUHEAP_ANALYSIS_TORCH_SNAPSHOT_H_
#define CUHEAP_ANALYSIS_TORCH_SNAPSHOT_H_

#include <string>

#include "absl/status/statusor.h"
#include "analysis/json_reader.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

// Reads from `source`; `name` stands for the file in messages. Errors: InvalidArgument (cut off, no pickle, Python
// objects, not a snapshot of PyTorch), with the place and what to do. Oddities that leave the file usable (headers that
// do not add up, unknown actions, overlapping blocks) become notes of the snapshot.
absl::StatusOr<Snapshot> LoadTorchSnapshot(TextSource& source, const std::string& name);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_TORCH_SNAPSHOT_H_
