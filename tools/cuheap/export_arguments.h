// The arguments of `cuheap export`.
#ifndef CUHEAP_TOOLS_CUHEAP_EXPORT_ARGUMENTS_H_
#define CUHEAP_TOOLS_CUHEAP_EXPORT_ARGUMENTS_H_

#include <cstddef>
#include <string>

#include "analysis/exports/moment.h"

namespace CLI {  // NOLINT(readability-identifier-naming): it is CLI11's
class App;
}

namespace cuheap::tools {

struct ExportOptions {
  std::string path;    // a snapshot, or "-" for standard input
  std::string format;  // a name that FindExportFormat knows
  std::string output;  // -o; empty: the snapshot's name with the format's extension, here; "-": standard output
  analysis::Moment at;
  std::size_t drawn_blocks = 0;  // 0: the exporter's default
  std::string python;            // --python: for parquet; empty: see parquet_export.h
  bool quiet = false;
};

class ExportArguments {
 public:
  void AddTo(CLI::App& command);
  // After parsing: checks the values. Returns what is wrong, empty if nothing is.
  std::string Check();
  const ExportOptions& options() const { return options_; }

 private:
  std::string CheckFormat() const;

  ExportOptions options_;
  std::string at_, blocks_;
};

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_EXPORT_ARGUMENTS_H_
