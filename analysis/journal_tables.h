// The small tables of a journal: facts of the process, counters, devices, modules, threads, notes.
#ifndef CUHEAP_ANALYSIS_JOURNAL_TABLES_H_
#define CUHEAP_ANALYSIS_JOURNAL_TABLES_H_

#include <cstddef>
#include <cstring>
#include <string>

#include "analysis/journal_bytes.h"
#include "analysis/journal_layout.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

// The text in a field of fixed size, which lacks its NUL if it fills the field.
template <std::size_t N>
std::string FixedString(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

// Process, configuration, launcher facts, counters, devices, version.
void FillFromHeader(const journal::FileHeader& header, Snapshot& snapshot);

// Modules, threads and notes; index i of a table is the record with index i + 1.
void ReadTables(const JournalBytes& bytes, const JournalLayout& layout, bool live, Snapshot& snapshot,
                JournalDamage& damage);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_JOURNAL_TABLES_H_
