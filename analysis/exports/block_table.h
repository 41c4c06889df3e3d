// Every block of the program as a row: CSV (RFC 4180) and newline-delimited JSON, with the same columns.
//
// Columns: docs/exports.md. Rows are ordered by time of allocation. Sums that the report tells:
//   held_at_end of memory "device" by device     live_bytes of the device's totals
//   held_at_end of memory "tensor" by device     live_bytes of its tensors' totals
#ifndef CUHEAP_ANALYSIS_EXPORTS_BLOCK_TABLE_H_
#define CUHEAP_ANALYSIS_EXPORTS_BLOCK_TABLE_H_

#include <string>
#include <vector>

#include "analysis/exports/exporter.h"

namespace cuheap::analysis {

// The first line names the columns. Fields are quoted where they must be; what is not known is empty.
class CsvTable final : public Exporter {
 public:
  absl::Status Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest& request, TextSink& sink,
                     std::vector<std::string>& notes) const override;
};

// What is not known is null.
class NdjsonTable final : public Exporter {
 public:
  absl::Status Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest& request, TextSink& sink,
                     std::vector<std::string>& notes) const override;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_BLOCK_TABLE_H_
