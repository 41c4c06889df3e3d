#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/printable.h"
#include "tools/cuheap/commands.h"
#include "tools/cuheap/journal_folder.h"
#include "tools/cuheap/message.h"
#include "tools/cuheap/snapshot_files.h"
#include "tools/cuheap/snapshot_name.h"

namespace cuheap::tools {

int Recover(const RecoverOptions& options) {
  std::string output = options.output;
  if (const std::string reason = PrepareOutput(&output); !reason.empty()) {
    Say("the snapshot cannot be written: " + reason);
    return kUsageError;
  }
  const absl::StatusOr<std::vector<std::string>> journals = ListJournals(options.path);
  if (!journals.ok()) {
    Say(std::string(journals.status().message()));
    return kUsageError;
  }
  SnapshotRequest request;
  request.journals = *journals;
  request.output = output;
  const SnapshotResult result = WriteSnapshots(request);
  for (const std::string& problem : result.problems) Say(problem);
  for (const SnapshotFile& file : result.files) {
    if (!options.quiet) {
      SayLines(analysis::Printable(file.program) + " (process " + std::to_string(file.pid) +
               (file.running ? ", still running" : "") + "): " + file.summary + "\ncuheap report " +
               ShellQuoted(file.path));
    }
  }
  if (result.files.empty() && result.problems.empty()) Say("no process of these journals used CUDA");
  return result.files.empty() || !result.problems.empty() ? kUsageError : 0;
}

}  // namespace cuheap::tools
