#include <sys/stat.h>

#include <string>

#include "absl/status/statusor.h"
#include "analysis/exports/held_text.h"
#include "analysis/ranks/rank_rendering.h"
#include "analysis/reports/report.h"
#include "analysis/reports/report_json.h"
#include "analysis/reports/report_text.h"
#include "analysis/reports/text_format.h"
#include "tools/cuheap/commands.h"
#include "tools/cuheap/message.h"
#include "tools/cuheap/named_snapshot.h"
#include "tools/cuheap/rank_files.h"
#include "tools/cuheap/report_page.h"
#include "tools/cuheap/standard_output.h"

namespace cuheap::tools {
namespace {

analysis::TextOptions TextOptionsIn(const ReportOptions& options) {
  analysis::TextOptions text = TextOptionsFor(options.display);
  text.stacks = options.stacks;
  text.peak_by = options.peak_by;
  text.map = options.map;
  return text;
}

int PrintHeld(const analysis::Report& report, const ReportOptions& options, const analysis::TextOptions& text) {
  analysis::Moment moment = *options.at;
  std::string when = analysis::Describe(moment);
  if (options.at_step != 0) {
    if (options.at_step > report.steps.count()) {
      Say("--at step:" + std::to_string(options.at_step) + ": the report finds " +
          std::to_string(report.steps.count()) + " steps" +
          (report.steps.count() == 0 ? "; use a time, such as 1.5s" : ""));
      return kUsageError;
    }
    moment.time_ns = report.steps.boundaries_ns[options.at_step - 1];
    when = "at the end of step " + std::to_string(options.at_step) + ", " + analysis::Describe(moment);
  }
  const std::int64_t ended = report.snapshot->process.duration_ns;
  if (moment.kind == analysis::MomentKind::kTime && ended != 0 && moment.time_ns > ended)
    when += ": at the end, for the run took " + analysis::HumanTime(ended);
  return Print(analysis::RenderHeld(report, moment, when, text));
}

int ReportFile(const ReportOptions& options) {
  if (!options.html.empty()) {
    if (const std::string refusal = PageRefusal(options); !refusal.empty()) {
      Say(refusal);
      return kUsageError;
    }
  }
  const std::string& path = options.paths.front();
  Progress progress(path);
  const absl::StatusOr<analysis::Snapshot> snapshot = LoadNamed(path, progress);
  if (!snapshot.ok()) {
    progress.Clear();
    std::string reason(snapshot.status().message());
    if (absl::IsNotFound(snapshot.status()))
      reason = path + " does not exist; cuheap run writes no snapshot for a program that makes no CUDA call";
    Say(reason);
    return kUsageError;
  }
  progress.Phase("working out the report");
  const analysis::Report report = analysis::MakeReport(*snapshot, {options.ignore});
  progress.Clear();
  if (options.json) return Print(analysis::RenderJson(report));
  analysis::SourceLines source(snapshot->process.working_directory, snapshot->process.start_realtime_ns);
  if (!options.html.empty()) return WritePage(report, options.source ? &source : nullptr, options);
  analysis::TextOptions text = TextOptionsIn(options);
  if (options.source) text.source = &source;
  if (options.at) return PrintHeld(report, options, text);
  return Print(analysis::RenderText(report, text));
}

// Of many processes. One that could not be read does not keep the others' report from being printed, but shows in the
// status.
int ReportRanks(const ReportOptions& options) {
  if (!options.html.empty()) {
    Say("--html makes the page of one snapshot: name one file. Of several there is the text, and --json");
    return kUsageError;
  }
  if (options.at) {
    Say("--at tells of one snapshot: name one file");
    return kUsageError;
  }
  if (options.peak_by != analysis::PeakBy::kLine) {
    Say("--by tells of one snapshot: name one file. Several are compared by line");
    return kUsageError;
  }
  RankFileList list;
  if (const std::string problem = ListRankFiles(options.paths, &list); !problem.empty()) {
    Say(problem);
    return kUsageError;
  }
  const analysis::RankReport report = ReadRanks(list, {options.ignore});
  if (report.ranks.empty() && report.unread.empty()) {
    Say(options.paths.front() + " holds no snapshots: its files are something else");
    return kUsageError;
  }
  const int status = Print(options.json ? analysis::RenderRanksJson(report)
                                        : analysis::RenderRanksText(report, TextOptionsIn(options)));
  if (status == 0 && !report.unread.empty()) {
    Say(std::to_string(report.unread.size()) + " of " + std::to_string(list.files.size()) +
        " files could not be read; the first: " + report.unread.front().error);
    return kUsageError;
  }
  return status;
}

}  // namespace

int ReportOn(const ReportOptions& options) {
  const bool to_file = !options.html.empty() && options.html != "-";
  if (!to_file && !StandardOutputIsOpen()) return kUsageError;
  struct stat facts{};
  const bool folder = stat(options.paths.front().c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
  return folder || options.paths.size() > 1 ? ReportRanks(options) : ReportFile(options);
}

}  // namespace cuheap::tools
