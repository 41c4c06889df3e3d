// The events of all chains of a journal, in order of time.
#ifndef CUHEAP_ANALYSIS_JOURNAL_EVENTS_H_
#define CUHEAP_ANALYSIS_JOURNAL_EVENTS_H_

#include <cstdint>
#include <vector>

#include "analysis/journal_bytes.h"
#include "analysis/journal_layout.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

struct JournalEvents {
  Events events;              // `stack` holds stack ids, `thread` indices of ThreadRecords, both unchecked
  std::uint64_t missing = 0;  // events that were written once and are not there
  std::uint64_t damaged = 0;  // records left out because their fields are impossible
};

// live: the writer may be running. until_ns (CLOCK_MONOTONIC): later events are left out, so that all chains end at the
// same instant though they are read one after the other.
JournalEvents ReadJournalEvents(const JournalBytes& bytes, const JournalLayout& layout, bool live,
                                std::uint64_t until_ns, JournalDamage& damage);

// Conversions of the layout's values; kNone for one that is not known.
AllocationKind FromJournal(journal::AllocationKind kind);
EventType FromJournal(journal::EventType type);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_JOURNAL_EVENTS_H_
