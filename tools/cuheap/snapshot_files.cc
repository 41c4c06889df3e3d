#include "tools/cuheap/snapshot_files.h"

#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "analysis/backward.h"
#include "analysis/journal_reader.h"
#include "analysis/reports/report.h"
#include "analysis/reports/report_text.h"
#include "analysis/snapshot_writer.h"
#include "analysis/symboliser.h"
#include "tools/cuheap/snapshot_name.h"

namespace cuheap::tools {
namespace {

namespace fs = std::filesystem;

// What is needed of a process before it is known which one is the main one.
struct Found {
  std::string journal;
  std::uint64_t pid = 0;
  std::int64_t start_ns = 0;
};

// The journal knows whether the exit handlers were reached, the supervisor how the process ended.
void AddEnd(int wait_status, analysis::Completeness& completeness) {
  if (completeness.end == "executed" || completeness.end == "running") return;  // not this image's end
  if (WIFSIGNALED(wait_status)) {
    completeness.end = "killed";  // a crash in an exit handler, too
    completeness.exit_signal = static_cast<std::uint32_t>(WTERMSIG(wait_status));
  } else if (WIFEXITED(wait_status)) {
    if (completeness.end != "exited") completeness.end = "quit";
    completeness.exit_status = static_cast<std::uint32_t>(WEXITSTATUS(wait_status));
  }
}

class Maker {
 public:
  explicit Maker(const SnapshotRequest& request) : request_(request) {}

  SnapshotResult Make() {
    // Two readings: the file names depend on which processes there are, and all of them at once might not fit in
    // memory.
    std::vector<Found> found = Survey();
    const std::optional<std::size_t> main = MainOf(found);
    for (std::size_t i = 0; i < found.size(); ++i) Write(found[i], main && *main == i);
    std::sort(result_.files.begin(), result_.files.end(), [](const SnapshotFile& a, const SnapshotFile& b) {
      return std::tuple(!a.is_main, a.pid, a.path) < std::tuple(!b.is_main, b.pid, b.path);
    });
    return std::move(result_);
  }

 private:
  std::vector<Found> Survey() {
    std::vector<Found> found;
    for (const std::string& journal : request_.journals) {
      analysis::ReadJournalOptions options;
      options.keep_events = false;
      const absl::StatusOr<analysis::Snapshot> snapshot = analysis::ReadJournal(journal, options);
      if (!snapshot.ok()) {
        // Its process ended before the journal began: nothing was recorded, nothing is lost.
        const bool never_begun =
            snapshot.status().code() == absl::StatusCode::kFailedPrecondition && request_.main_pid != 0;
        if (!never_begun) result_.problems.emplace_back(snapshot.status().message());
        continue;
      }
      if (UsedCuda(*snapshot)) found.push_back({journal, snapshot->process.pid, snapshot->process.start_realtime_ns});
    }
    return found;
  }

  std::optional<std::size_t> MainOf(const std::vector<Found>& found) const {
    if (found.empty()) return std::nullopt;
    std::optional<std::size_t> main;
    for (std::size_t i = 0; i < found.size(); ++i) {
      // A process that became another by exec has several journals: the last is what the program came to be.
      if (found[i].pid == request_.main_pid && (!main || found[i].start_ns >= found[*main].start_ns)) main = i;
    }
    if (main) return main;
    return static_cast<std::size_t>(std::min_element(found.begin(), found.end(),
                                                     [](const Found& a, const Found& b) {
                                                       return std::tie(a.start_ns, a.pid) < std::tie(b.start_ns, b.pid);
                                                     }) -
                                    found.begin());
  }

  void Write(const Found& process, bool is_main) {
    absl::StatusOr<analysis::Snapshot> snapshot = analysis::ReadJournal(process.journal);
    if (!snapshot.ok()) {
      result_.problems.emplace_back(snapshot.status().message());
      return;
    }
    if (is_main && request_.main_wait_status && process.pid == request_.main_pid) {
      AddEnd(*request_.main_wait_status, snapshot->completeness);
    }
    analysis::Symbolise(*snapshot);
    analysis::ExplainBackward(*snapshot);
    SnapshotFile file;
    file.journal = process.journal;
    file.pid = process.pid;
    file.is_main = is_main;
    file.running = snapshot->completeness.end == "running";
    file.program = fs::path(snapshot->process.executable).filename().string();
    const std::string& output = request_.output;
    file.path = Unused(output.empty()              ? DefaultName(*snapshot)
                       : NamesEveryProcess(output) ? NameFor(output, *snapshot)
                       : is_main                   ? output
                                                   : WithPid(output, process.pid));
    absl::Status written = analysis::WriteSnapshot(*snapshot, file.path);
    if (!written.ok() && request_.output.empty()) {
      // The working directory may be read-only; what was recorded must not be lost for it.
      std::error_code error;
      const fs::path elsewhere = fs::temp_directory_path(error) / file.path;
      if (!error && analysis::WriteSnapshot(*snapshot, elsewhere.string()).ok()) {
        result_.problems.emplace_back(std::string(written.message()) + "; it went to " + elsewhere.string());
        file.path = elsewhere.string();
        written = absl::OkStatus();
      }
    }
    if (!written.ok()) {
      result_.problems.emplace_back(written.message());
      return;
    }
    for (const analysis::Note& note : snapshot->notes) {
      if (note.code == "pool_not_taken") file.warnings.push_back("--pool did not take: " + note.text);
    }
    const analysis::Report report = analysis::MakeReport(*snapshot);
    file.summary = analysis::RenderSummary(report);
    file.leaks = report.leak_count() != 0;
    result_.files.push_back(std::move(file));
  }

  // No two processes of one run write one file.
  std::string Unused(std::string path) {
    for (int number = 2; !taken_.insert(path).second; ++number) {
      path = WithPid(path, static_cast<std::uint64_t>(number));
    }
    return path;
  }

  const SnapshotRequest& request_;
  std::set<std::string> taken_;
  SnapshotResult result_;
};

}  // namespace

SnapshotResult WriteSnapshots(const SnapshotRequest& request) { return Maker(request).Make(); }

bool UsedCuda(const analysis::Snapshot& snapshot) {
  const auto allocations = snapshot.counters.find("allocations");
  // Or used it where nothing of it came to us.
  const bool unseen = std::any_of(snapshot.notes.begin(), snapshot.notes.end(),
                                  [](const analysis::Note& note) { return note.code.starts_with("unseen_"); });
  return unseen || !snapshot.devices.empty() || snapshot.events.size() != 0 || !snapshot.live.empty() ||
         !snapshot.segments.empty() || (allocations != snapshot.counters.end() && allocations->second != 0);
}

}  // namespace cuheap::tools
