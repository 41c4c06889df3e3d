// The live table of a journal: the blocks that the program holds, and the segments that our pool holds.
#ifndef CUHEAP_ANALYSIS_JOURNAL_LIVE_H_
#define CUHEAP_ANALYSIS_JOURNAL_LIVE_H_

#include <cstdint>

#include "analysis/journal_bytes.h"
#include "analysis/journal_layout.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

// Fills snapshot.live and snapshot.segments, by address; `stack` holds stack ids, `thread` indices of ThreadRecords,
// both unchecked. Slots that are being written are read again while the writer lives; after a kill they are blocks
// whose allocation or free had not returned, which are not counted but noted.
void ReadLiveTable(const JournalBytes& bytes, const JournalLayout& layout, bool live, Snapshot& snapshot,
                   JournalDamage& damage);

// For a running process: brings the live table, which was read slot by slot from `since_ns` on (time of the snapshot),
// to the instant at which snapshot.events ends, by the events since then. Without it a block could be listed that was
// freed while the table was read, and another one at the same address.
void SettleLiveTable(std::int64_t since_ns, Snapshot& snapshot);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_JOURNAL_LIVE_H_
