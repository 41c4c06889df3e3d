#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/printable.h"
#include "analysis/reports/report.h"
#include "analysis/reports/report_json.h"
#include "analysis/reports/report_text.h"
#include "analysis/snapshot_loader.h"
#include "tools/cuheap/commands.h"
#include "tools/cuheap/message.h"

namespace cuheap::tools {
namespace {

namespace fs = std::filesystem;

bool LocaleIsUtf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;  // the first that is set decides
    const std::string_view text(value);
    return text.find("UTF-8") != std::string_view::npos || text.find("utf8") != std::string_view::npos ||
           text.find("UTF8") != std::string_view::npos;
  }
  return false;
}

analysis::TextOptions TextOptionsFor(const ReportOptions& options) {
  analysis::TextOptions text;
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool may_color =
      terminal && (no_color == nullptr || *no_color == '\0') && term != nullptr && std::string_view(term) != "dumb";
  text.color = options.color == ColorChoice::kAlways || (options.color == ColorChoice::kAuto && may_color);
  text.utf8 = LocaleIsUtf8();
  text.top = options.top;
  text.stacks = options.stacks;
  winsize size{};
  if (options.width != 0)
    text.width = options.width;
  else if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0)
    text.width = size.ws_col;
  return text;
}

// Status of the write: a reader that went away (head, less) is no error.
int Print(const std::string& text) {
  // Without the buffer of stdio, which drops what it could not write: a later flush then succeeds.
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = write(STDOUT_FILENO, text.data() + at, text.size() - at);
    if (written >= 0) {
      at += static_cast<std::size_t>(written);
    } else if (errno == EPIPE) {
      return 0;
    } else if (errno != EINTR) {
      Say("cannot write the report: " + std::string(std::strerror(errno)));
      return kUsageError;
    }
  }
  return 0;
}

int NoStandardOutput() {
  Say("cannot write the report: standard output is closed");
  return kUsageError;
}

int ReportFile(const ReportOptions& options) {
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
  analysis::TextOptions text = TextOptionsFor(options);
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
  if (options.json) {
    Say("--json needs one snapshot, and " + options.path + " is a folder: merging several is not there yet");
    return kUsageError;
  }
  std::sort(paths.begin(), paths.end());
  const analysis::TextOptions text = TextOptionsFor(options);
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
  // What comes through exec is never close-on-exec: this is what SecureStandardDescriptors put in a closed one's place.
  const int flags = fcntl(STDOUT_FILENO, F_GETFD);
  if (flags < 0 || (flags & FD_CLOEXEC) != 0) return NoStandardOutput();
  struct stat status{};
  if (stat(options.path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return ReportFolder(options);
  return ReportFile(options);
}

}  // namespace cuheap::tools
