// Reads a journal (interpose/journal/format.h) from outside of the process that writes it: while it runs, after it
// ended, or after it was killed at any instant.
//
//   absl::StatusOr<Snapshot> snapshot = ReadJournal("/tmp/cuheap-1000/4711-123456.journal");
//   if (!snapshot.ok()) return Fail(snapshot.status());
//   Symbolise(*snapshot);                              // analysis/symboliser.h: names and lines
//   absl::Status written = WriteSnapshot(*snapshot, "run.json");
//
// Damage is normal input: whatever is whole is kept, what was lost is said in Snapshot::notes (codes "journal_...") and
// counted in Snapshot::completeness. Only a file that is no readable journal at all is an error.
#ifndef CUHEAP_ANALYSIS_JOURNAL_READER_H_
#define CUHEAP_ANALYSIS_JOURNAL_READER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

struct ReadJournalOptions {
  // False: leave Snapshot::events empty (the live set is still settled by them). For `cuheap top`.
  bool keep_events = true;
};

// The frames of the result are raw: module, offset, and the reason "not symbolised".
//
// Errors: NotFound, PermissionDenied, Unavailable (the file cannot be read), InvalidArgument (not a journal),
//         FailedPrecondition (another version, or the header was never completed). The message names file, place,
//         remedy.
// Memory: proportional to what is kept, whatever the file claims. Threads: any; the writer is never disturbed.
absl::StatusOr<Snapshot> ReadJournal(const std::string& path, const ReadJournalOptions& options = {});

// The same for a journal in memory; `name` stands for the path in messages. The process counts as not running.
absl::StatusOr<Snapshot> ReadJournalFromMemory(std::span<const std::byte> bytes, const std::string& name,
                                               const ReadJournalOptions& options = {});

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_JOURNAL_READER_H_
