// Parquet by a Python with pyarrow: the block table goes through parquet_writer.py, which is part of this program.
//
// cuheap links no Parquet library: those that write it weigh more than all of cuheap, and who reads Parquet has
// pyarrow.
#ifndef CUHEAP_TOOLS_CUHEAP_PARQUET_EXPORT_H_
#define CUHEAP_TOOLS_CUHEAP_PARQUET_EXPORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "analysis/snapshot.h"
#include "tools/cuheap/filter_sink.h"

namespace cuheap::tools {

// python: a program; empty: what CUHEAP_PYTHON names, else python3. Errors: there is none, or it has no pyarrow, with
// what to do.
absl::StatusOr<std::unique_ptr<FilterSink>> StartParquetWriter(const std::string& python);

// What holds for every row, which goes before the table.
std::string ParquetHeader(const analysis::Snapshot& snapshot);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_PARQUET_EXPORT_H_
