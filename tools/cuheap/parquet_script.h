// The text of parquet_writer.py: no file of it is looked for when cuheap runs.
#ifndef CUHEAP_TOOLS_CUHEAP_PARQUET_SCRIPT_H_
#define CUHEAP_TOOLS_CUHEAP_PARQUET_SCRIPT_H_

namespace cuheap::tools {

extern const char* const kParquetScript;

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_PARQUET_SCRIPT_H_
