// Reads the records of an extent in pieces of bounded size, with the ordering that a living writer asks for.
#ifndef CUHEAP_ANALYSIS_JOURNAL_SCAN_H_
#define CUHEAP_ANALYSIS_JOURNAL_SCAN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "analysis/journal_bytes.h"
#include "analysis/journal_layout.h"

namespace cuheap::analysis {

inline constexpr std::size_t kScanBytes = 1u << 20;

// Calls use(before, record, after, index) for every record: three copies of the record, read one after the other, so
// that `record` was read wholly after the words of `before` and wholly before those of `after`. That is what commit
// words (in `before`) and seqlocks (before and after) need. `live` false: the writer is gone, and all three are one
// copy. Returns false if the file could not be read to the extent's end.
template <typename Record, typename Use>
bool ScanExtent(const JournalBytes& bytes, const ExtentPlace& extent, bool live, Use use) {
  constexpr std::size_t kPerPiece = std::max<std::size_t>(kScanBytes / sizeof(Record), 1);
  const std::uint64_t count = extent.bytes / sizeof(Record);
  const std::size_t piece = static_cast<std::size_t>(std::min<std::uint64_t>(count, kPerPiece));
  // Raw storage: records hold atomics, which cannot be copied as such.
  std::vector<std::uint64_t> copies[3];
  for (int copy = 0; copy < (live ? 3 : 1); ++copy) copies[copy].resize(piece * sizeof(Record) / sizeof(std::uint64_t));
  const auto* before = reinterpret_cast<const Record*>(copies[0].data());
  const auto* record = live ? reinterpret_cast<const Record*>(copies[1].data()) : before;
  const auto* after = live ? reinterpret_cast<const Record*>(copies[2].data()) : before;
  for (std::uint64_t first = 0; first < count; first += piece) {
    const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(count - first, piece));
    for (int copy = 0; copy < (live ? 3 : 1); ++copy) {
      if (!bytes.Read(extent.offset + first * sizeof(Record), copies[copy].data(), here * sizeof(Record))) return false;
    }
    for (std::size_t i = 0; i < here; ++i) use(before[i], record[i], after[i], first + i);
  }
  return true;
}

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_JOURNAL_SCAN_H_
