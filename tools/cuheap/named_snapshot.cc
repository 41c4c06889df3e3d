#include "tools/cuheap/named_snapshot.h"

#include <cstdint>

#include "analysis/snapshot_loader.h"

namespace cuheap::tools {

absl::StatusOr<analysis::Snapshot> LoadNamed(const std::string& path, Progress& progress) {
  return analysis::LoadSnapshot(path == "-" ? "/dev/stdin" : path,
                                [&](std::uint64_t read, std::uint64_t all) { progress.Read(read, all); });
}

}  // namespace cuheap::tools
