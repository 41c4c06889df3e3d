// Fuzzes what is made of a snapshot: whatever a file that can be loaded says, its report ends, without damage, as text
// and as JSON, and so do its exports.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/exports/exporter.h"
#include "analysis/reports/report.h"
#include "analysis/reports/report_json.h"
#include "analysis/reports/report_text.h"
#include "analysis/snapshot_loader.h"
#include "analysis/text_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cuheap::analysis;
  const auto snapshot = LoadSnapshotFromMemory({reinterpret_cast<const char*>(data), size}, "fuzzed");
  if (!snapshot.ok()) return 0;
  const Report report = MakeReport(*snapshot);
  if (RenderText(report).empty() || RenderJson(report).empty()) std::abort();
  const Blocks blocks = JoinBlocks(*snapshot);
  for (const ExportFormat& format : ExportFormats()) {
    std::string text;
    std::vector<std::string> notes;
    const auto sink = TextToString(text);
    // Some have nothing to write of some snapshots.
    static_cast<void>(format.make()->Write(*snapshot, blocks, ExportRequest{}, *sink, notes));
    static_cast<void>(sink->Finish());
  }
  return 0;
}
