// The commands of cuheap; each returns the exit status.
#ifndef CUHEAP_TOOLS_CUHEAP_COMMANDS_H_
#define CUHEAP_TOOLS_CUHEAP_COMMANDS_H_

#include "tools/cuheap/command_line.h"

namespace cuheap::tools {

// Does not return if the program could be started: ends as the program ended.
int Run(const RunOptions& options);
int ReportOn(const ReportOptions& options);
int Export(const ExportOptions& options);
// Of two snapshots: 1 if a condition is met.
int CompareSnapshots(const DiffOptions& options);
int Recover(const RecoverOptions& options);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_COMMANDS_H_
