// The snapshot that a command line names.
#ifndef CUHEAP_TOOLS_CUHEAP_NAMED_SNAPSHOT_H_
#define CUHEAP_TOOLS_CUHEAP_NAMED_SNAPSHOT_H_

#include <string>

#include "absl/status/statusor.h"
#include "analysis/snapshot.h"
#include "tools/cuheap/progress.h"

namespace cuheap::tools {

// "-" is standard input. Errors: as LoadSnapshot's; `progress` shows how far it is.
absl::StatusOr<analysis::Snapshot> LoadNamed(const std::string& path, Progress& progress);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_NAMED_SNAPSHOT_H_
