#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/printable.h"
#include "analysis/reports/report.h"
#include "analysis/reports/report_json.h"
#include "analysis/reports/report_text.h"
#include "analysis/snapshot_loader.h"
#include "tools/cuheap/commands.h"
#include "tools/cuheap/message.h"
#include "tools/cuheap/report_page.h"
#include "tools/cuheap/standard_output.h"

namespace cuheap::tools {
namespace {

namespace fs = std::filesystem;

analysis::TextOptions TextOptionsIn(const ReportOptions& options) {
  analysis::TextOptions text = TextOptionsFor(options.display);
  text.stacks = options.stacks;
  text.peak_by = options.peak_by;
  return text;
}

int ReportFile(const ReportOptions& options) {
  if (!options.html.empty()) {
    if (const std::string refusal = PageRefusal(options); !refusal.empty()) {
      Say(refusal);
      return kUsageError;
    }
  }
  const absl::StatusOr<analysis::Snapshot> snapshot =
      analysis::LoadSnapshot(options.path == "-" ? "/dev/stdin" : options.path);
  if (!snapshot.ok()) {
    std::string reason(snapshot.status().message());
    if (absl::IsNotFound(snapshot.status()))
      reason = options.path + " does not exist; cuheap run writes no snapshot for a program that makes no CUDA call";
    Say(reason);
    return kUsageError;
  }
  const analysis::Report report = analysis::MakeReport(*snapshot, {options.ignore});
  if (options.json) return Print(analysis::RenderJson(report));
  analysis::SourceLines source(snapshot->process.working_directory, snapshot->process.start_realtime_ns);
  if (!options.html.empty()) return WritePage(report, options.source ? &source : nullptr, options);
  analysis::TextOptions text = TextOptionsIn(options);
  if (options.source) text.source = &source;
  return Print(analysis::RenderText(report, text));
}

bool IsSnapshotName(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".json") || name.ends_with(".json.zst");
}

// One paragraph a file. Files that are no snapshots are told apart from damaged ones only by their names: a folder may
// hold other JSON.
int ReportFolder(const ReportOptions& options) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(options.path, error), end; !error && entry != end; entry.increment(error)) {
    if (IsSnapshotName(entry->path()) && entry->is_regular_file(error)) paths.push_back(entry->path().string());
  }
  if (error) {
    Say(options.path + ": " + error.message());
    return kUsageError;
  }
  if (!options.html.empty()) {
    Say("--html needs one snapshot, and " + options.path + " is a folder: merging several is not there yet");
    return kUsageError;
  }
  if (options.json) {
    Say("--json needs one snapshot, and " + options.path + " is a folder: merging several is not there yet");
    return kUsageError;
  }
  std::sort(paths.begin(), paths.end());
  const analysis::TextOptions text = TextOptionsIn(options);
  std::string output;
  std::size_t snapshots = 0;
  for (const std::string& path : paths) {
    const absl::StatusOr<analysis::Snapshot> snapshot = analysis::LoadSnapshot(path);
    if (!snapshot.ok()) {
      Say("left out: " + std::string(snapshot.status().message()));
      continue;
    }
    ++snapshots;
    std::string summary = analysis::RenderSummary(analysis::MakeReport(*snapshot, {options.ignore}), text);
    for (std::size_t at = 0; (at = summary.find('\n', at)) != std::string::npos; at += 3) summary.insert(at + 1, "  ");
    output.append(analysis::Printable(path))
        .append("  (process ")
        .append(std::to_string(snapshot->process.pid))
        .append(" on ");
    output.append(analysis::Printable(snapshot->process.host)).append(")\n  ").append(summary).append("\n");
  }
  if (snapshots == 0) {
    Say(options.path + " holds no snapshots (files ending in .json or .json.zst)");
    return kUsageError;
  }
  if (snapshots > 1)
    output += "\nEach process by itself: merging ranks is not there yet. For one in full: cuheap report FILE\n";
  return Print(output);
}

}  // namespace

int ReportOn(const ReportOptions& options) {
  const bool to_file = !options.html.empty() && options.html != "-";
  if (!to_file && !StandardOutputIsOpen()) return kUsageError;
  struct stat status{};
  if (stat(options.path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return ReportFolder(options);
  return ReportFile(options);
}

}  // namespace cuheap::tools
