// Writes the model as snapshot JSON: docs/snapshot.md, docs/snapshot.schema.json.
#ifndef CUHEAP_ANALYSIS_SNAPSHOT_WRITER_H_
#define CUHEAP_ANALYSIS_SNAPSHOT_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

// Writes `path`, compressed with zstd if its name ends in ".zst". The same snapshot gives the same bytes.
//
// The file is made under a temporary name in the same folder, mode 0600, and renamed when complete: a reader finds the
// old file or the whole new one. A path that exists and is no regular file (/dev/stdout, a pipe) is written in place.
// Bytes that are not UTF-8 in strings (paths may have some) are written as U+FFFD.
//
// Errors: PermissionDenied, ResourceExhausted (no space), ... with the path and what to do. Memory: a fixed buffer.
absl::Status WriteSnapshot(const Snapshot& snapshot, const std::string& path);

// The JSON text itself; for tests and small snapshots.
std::string SnapshotToJson(const Snapshot& snapshot);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_SNAPSHOT_WRITER_H_
