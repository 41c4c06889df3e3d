// From journals to snapshot files: which processes used CUDA, what their files are called, what is said about them.
#ifndef CUHEAP_TOOLS_CUHEAP_SNAPSHOT_FILES_H_
#define CUHEAP_TOOLS_CUHEAP_SNAPSHOT_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "analysis/snapshot.h"

namespace cuheap::tools {

struct SnapshotRequest {
  std::vector<std::string> journals;
  std::string output;          // -o, see snapshot_name.h; empty: cuheap.<program>.<pid>.json in the working directory
  std::uint64_t main_pid = 0;  // 0: the process that started first
  std::optional<int> main_wait_status = {};  // of main_pid, as of waitpid
};

struct SnapshotFile {
  std::string path;
  std::string journal;
  std::string summary;                // lines as RenderSummary gives them
  std::string program;                // file name of the executable
  std::vector<std::string> warnings;  // one line each, to be said even when nothing else is
  std::uint64_t pid = 0;
  bool is_main = false;
  bool running = false;  // the process had not ended
  bool leaks = false;
};

struct SnapshotResult {
  std::vector<SnapshotFile> files;    // the main process first, then by process id
  std::vector<std::string> problems;  // one line each: journals that could not be read, files that could not be written
};

// Reads every journal, symbolises and writes the file of each process that used CUDA; a journal is let go before the
// next is read. A journal that was never completed (its process died while it began) counts as no use of CUDA.
SnapshotResult WriteSnapshots(const SnapshotRequest& request);

bool UsedCuda(const analysis::Snapshot& snapshot);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_SNAPSHOT_FILES_H_
