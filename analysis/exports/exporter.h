// A snapshot in a format of somebody else's: one class for each format.
#ifndef CUHEAP_ANALYSIS_EXPORTS_EXPORTER_H_
#define CUHEAP_ANALYSIS_EXPORTS_EXPORTER_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "analysis/exports/moment.h"
#include "analysis/reports/blocks.h"
#include "analysis/snapshot.h"
#include "analysis/text_file.h"

namespace cuheap::analysis {

struct ExportRequest {
  Moment at;                          // formats of stacks
  std::size_t drawn_blocks = 20'000;  // formats that draw every block: the largest only
};

// Writes piece by piece; beyond snapshot and blocks, memory is proportional to names and stacks, and to what is drawn.
// The same input gives the same bytes.
class Exporter {
 public:
  virtual ~Exporter() = default;
  // What the reader of the file should know goes to `notes`, one sentence each. The sink, whose errors are sticky, is
  // not finished here. Errors: ResourceExhausted.
  virtual absl::Status Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest& request,
                             TextSink& sink, std::vector<std::string>& notes) const = 0;
};

struct ExportFormat {
  std::string_view name, extension;
  bool binary = false;
  bool of_moment = false;  // tells of ExportRequest::at; others tell the whole time
  bool draws_blocks = false;
  std::string_view opened_by;  // for a person: what to do with the file; FILE stands for it
  std::unique_ptr<Exporter> (*make)() = nullptr;
  bool from_csv = false;  // the exporter writes CSV, of which the command makes this format by another program
};
std::span<const ExportFormat> ExportFormats();
const ExportFormat* FindExportFormat(std::string_view name);  // null: there is none of this name

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_EXPORTS_EXPORTER_H_
