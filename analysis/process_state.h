// Whether the process that a journal names still runs, by /proc.
#ifndef CUHEAP_ANALYSIS_PROCESS_STATE_H_
#define CUHEAP_ANALYSIS_PROCESS_STATE_H_

#include <cstdint>
#include <string>

namespace cuheap::analysis {

struct JournalWriter {
  std::uint64_t pid = 0;
  std::uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat
  std::string host;
  std::uint64_t device = 0, inode = 0;  // of the journal file; inode 0: not known
};

enum class WriterState {
  kRuns,
  kGone,       // no such process, or another one with the same number
  kExecuted,   // the process runs another program now: it has no mapping of the journal any more
  kElsewhere,  // another host: cannot be told
};
WriterState StateOf(const JournalWriter& writer);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_PROCESS_STATE_H_
