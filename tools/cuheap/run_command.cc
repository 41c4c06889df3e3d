#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/printable.h"
#include "tools/cuheap/bypass_watch.h"
#include "tools/cuheap/child_environment.h"
#include "tools/cuheap/commands.h"
#include "tools/cuheap/install_layout.h"
#include "tools/cuheap/journal_folder.h"
#include "tools/cuheap/message.h"
#include "tools/cuheap/pool_mode.h"
#include "tools/cuheap/secure_program.h"
#include "tools/cuheap/snapshot_files.h"
#include "tools/cuheap/snapshot_name.h"
#include "tools/cuheap/supervisor.h"
#include "tools/simcuda/driver/device_table.h"

namespace cuheap::tools {
namespace {

namespace fs = std::filesystem;

// Other processes' lines after the main one's; more are counted only.
constexpr std::size_t kOthersNamed = 2;

// Of many processes with files in one place: one line.
void SayOthersTogether(const SnapshotResult& result) {
  const auto others = result.files.size() - 1;
  const auto leaking = static_cast<std::size_t>(
      std::count_if(result.files.begin() + 1, result.files.end(), [](const SnapshotFile& file) { return file.leaks; }));
  const std::string folder = fs::path(result.files.front().path).parent_path().string();
  Say("and " + std::to_string(others) + (others == 1 ? " other process" : " other processes") +
      (leaking == 0 ? "" : ", of which " + std::to_string(leaking) + (leaking == 1 ? " leaks" : " leak")) +
      "; all together: cuheap report " + ShellQuoted(folder.empty() ? "." : folder));
}

void SayResult(const SnapshotResult& result, bool together, bool quiet) {
  for (const std::string& problem : result.problems) Say(problem);
  for (const SnapshotFile& file : result.files) {
    for (const std::string& warning : file.warnings) Say(analysis::Printable(warning));
  }
  if (quiet || result.files.empty()) return;
  const SnapshotFile& main = result.files.front();
  SayLines(analysis::Printable(main.program) + " (process " + std::to_string(main.pid) + "): " + main.summary +
           "\ncuheap report " + ShellQuoted(main.path));
  if (together) {
    if (result.files.size() > 1) SayOthersTogether(result);
    return;
  }
  std::size_t named = 0;
  for (std::size_t i = 1; i < result.files.size() && named < kOthersNamed; ++i, ++named) {
    const SnapshotFile& file = result.files[i];
    Say("also " + file.program + " (process " + std::to_string(file.pid) + ")" + (file.leaks ? ", which leaks" : "") +
        ": cuheap report " + ShellQuoted(file.path));
  }
  if (named + 1 < result.files.size()) {
    const std::string folder = fs::path(main.path).parent_path().string();
    Say("and " + std::to_string(result.files.size() - 1 - named) + " more: cuheap report " +
        ShellQuoted(folder.empty() ? "." : folder));
  }
}

void SayBypassed(const BypassWatch& watch) {
  std::size_t named = 0;
  for (const BypassWatch::Process& process : watch.found()) {
    if (named++ == kOthersNamed) break;
    Say(analysis::Printable(fs::path(process.program).filename().string()) + " (process " +
        std::to_string(process.pid) +
        ") had the CUDA driver loaded and not cuheap: nothing of it was observed. Its environment lost LD_PRELOAD, or "
        "it is "
        "a set-user-id program");
  }
  if (watch.found().size() > kOthersNamed) {
    Say("and " + std::to_string(watch.found().size() - kOthersNamed) + " more such processes");
  }
}

// People write the model as a word of its own, which makes it the program.
std::string ModelHint(const RunOptions& options) {
  const std::string& name = options.command[0];
  if (!options.simulate || simcuda::FindDeviceModel(name) == nullptr) return {};
  return "; for that GPU write --simulate=" + name;
}

// Makes the snapshots; true if the journals are not needed any more.
bool Conclude(const RunOptions& options, const JournalFolder& folder, const Outcome& outcome) {
  const absl::StatusOr<std::vector<std::string>> journals = ListJournals(folder.path);
  if (!journals.ok()) {
    // None: CUDA was not used, unless there was one.
    if (WasChanged(folder)) {
      Say("no journal is left in " + ShellQuoted(folder.path) +
          ": it could not be kept, or something removed it while the program ran. What was recorded is lost; "
          "--journal-dir names another place");
    }
    return true;
  }
  SnapshotRequest request;
  request.journals = *journals;
  request.output = options.output;
  request.main_pid = static_cast<std::uint64_t>(outcome.pid);
  request.main_wait_status = outcome.wait_status;
  const SnapshotResult result = WriteSnapshots(request);
  SayResult(result, NamesEveryProcess(options.output), options.quiet);
  std::string running;
  for (const SnapshotFile& file : result.files) {
    if (file.running) running += (running.empty() ? "" : ", ") + std::to_string(file.pid);
  }
  if (!result.problems.empty() || !running.empty()) {
    if (!running.empty()) Say("still running: process " + running + "; its snapshot shows it as it was now");
    Say("the journals are kept: cuheap recover " + ShellQuoted(folder.path));
    return false;
  }
  return true;
}

}  // namespace

int Run(const RunOptions& asked) {
  RunOptions options = asked;
  if (const std::string reason = PrepareOutput(&options.output); !reason.empty()) {
    Say("the snapshot cannot be written: " + reason);
    return kUsageError;
  }
  absl::StatusOr<InstallLayout> layout = FindInstallLayout(options.simulate);
  if (!layout.ok()) {
    Say(std::string(layout.status().message()));
    return kUsageError;
  }
  const absl::StatusOr<JournalFolder> folder = MakeJournalFolder(options.journal_folder);
  if (!folder.ok()) {
    Say(std::string(folder.status().message()));
    return kUsageError;
  }
  ChildEnvironmentOptions changes;
  changes.layout = *std::move(layout);
  changes.simulate = options.simulate;
  changes.journal_folder = folder->path;
  changes.variables = options.environment;
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);

  if (!options.quiet && IsRecordedElsewhere(environment)) {
    Say("this cuheap run is inside another one, which gets nothing of what this one records");
  }
  if (options.pool) {
    PoolPlan plan = PlanPool(environment);
    if (!options.quiet) {
      for (const std::string& message : plan.messages) Say(message);
    }
    changes.variables.insert(changes.variables.end(), plan.variables.begin(), plan.variables.end());
  }

  BypassWatch watch;
  // The loader would name our library on stderr, and leave it out.
  const std::string secure = WhySecure(options.command[0]);
  const Outcome outcome =
      Supervise(options.command, secure.empty() ? MakeChildEnvironment(environment, changes) : environment,
                [&watch](pid_t program) { watch.Look(program); });
  if (outcome.start_error != 0) {
    RemoveJournalFolder(folder->path);
    Say(options.command[0] + ": " + (outcome.start_error == ENOENT ? "not found" : std::strerror(outcome.start_error)) +
        ModelHint(options));
    return StatusOfStartError(outcome.start_error);
  }
  if (!options.quiet) SayBypassed(watch);
  // A limit on file sizes that was set for the program holds for us too: an error, not our end.
  std::signal(SIGXFSZ, SIG_IGN);
  if (!secure.empty()) {
    Say(options.command[0] + " is " + secure +
        ": the loader keeps preloaded libraries out of it, and nothing was recorded; "
        "if it starts the program that is meant, put cuheap run behind it");
  }
  if (Conclude(options, *folder, outcome)) RemoveJournalFolder(folder->path);
  EndAs(outcome);
}

}  // namespace cuheap::tools
