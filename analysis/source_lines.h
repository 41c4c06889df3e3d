// Source lines of the program that was looked at, if its files are still there when a report is made.
#ifndef CUHEAP_ANALYSIS_SOURCE_LINES_H_
#define CUHEAP_ANALYSIS_SOURCE_LINES_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cuheap::analysis {

struct SourceFile {
  std::vector<std::string> lines;  // without line ends; empty: not readable
  bool changed = false;            // written to after the program started: lines may have moved
};

// A snapshot's paths come from wherever it was made, so only regular files of a reasonable size are read.
class SourceLines {
 public:
  // working_directory: what relative paths start from; empty: relative paths are not readable.
  // start_realtime_ns: when the program started, ns since 1970.
  SourceLines(std::string working_directory, std::int64_t start_realtime_ns)
      : working_directory_(std::move(working_directory)), start_realtime_ns_(start_realtime_ns) {}

  // Read once and kept. Never fails: a file that can't be read has no lines.
  const SourceFile& Read(const std::string& file);
  // Line `number` from 1 without the space around it; empty if there is none.
  std::string_view Line(const std::string& file, std::uint32_t number);

 private:
  std::string working_directory_;
  std::int64_t start_realtime_ns_;
  std::map<std::string, SourceFile> files_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_SOURCE_LINES_H_
