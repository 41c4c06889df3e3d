// Loads snapshots: JSON (docs/snapshot.md) or a pickle of PyTorch (torch_snapshot.h), plain or compressed with zstd.
#ifndef CUHEAP_ANALYSIS_SNAPSHOT_LOADER_H_
#define CUHEAP_ANALYSIS_SNAPSHOT_LOADER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

// The result is checked: columns have equal lengths and every index is in range, so that analyses need no tests.
// Members that this version does not know are skipped.
//
// Errors: one message with the file, the place (byte and JSON path) and what to do: NotFound, PermissionDenied,
//         InvalidArgument (cut off, empty, not JSON, not a snapshot, wrong types, inconsistent),
//         FailedPrecondition (made by a newer cuheap).
// Memory: proportional to the model; the text is read in pieces, and reading stops at the first error.
// progress: see text_file.h.
absl::StatusOr<Snapshot> LoadSnapshot(const std::string& path,
                                      std::function<void(std::uint64_t, std::uint64_t)> progress = {});

// The same for text in memory; `name` stands for the path in messages.
absl::StatusOr<Snapshot> LoadSnapshotFromMemory(std::string_view text, const std::string& name);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_SNAPSHOT_LOADER_H_
