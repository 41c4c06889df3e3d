#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/reports/diff.h"
#include "analysis/reports/diff_text.h"
#include "analysis/reports/fail_on.h"
#include "analysis/reports/report.h"
#include "analysis/source_lines.h"
#include "tools/cuheap/commands.h"
#include "tools/cuheap/diff_ranks.h"
#include "tools/cuheap/message.h"
#include "tools/cuheap/named_snapshot.h"
#include "tools/cuheap/replaced_file.h"
#include "tools/cuheap/standard_output.h"

namespace cuheap::tools {
namespace {

std::optional<analysis::Snapshot> Load(const std::string& path) {
  Progress progress(path);
  absl::StatusOr<analysis::Snapshot> snapshot = LoadNamed(path, progress);
  progress.Clear();
  if (snapshot.ok()) return *std::move(snapshot);
  Say(std::string(snapshot.status().message()));
  return std::nullopt;
}

bool WriteMarkdown(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return true;
  Say("cannot write " + path + ": " + std::string(std::strerror(errno == 0 ? EIO : errno)));
  return false;
}

std::string Rendered(const analysis::DiffDocument& document, const DiffOptions& options) {
  if (options.json) return RenderDiffJson(document);
  if (options.markdown == "-") return RenderDiffMarkdown(document, options.display.top);
  return RenderDiffText(document, TextOptionsFor(options.display));
}

// A condition that is met is the stronger answer, one that is not known no answer at all.
int StatusOf(const std::vector<analysis::Judgement>& judgements) {
  int status = 0;
  for (const analysis::Judgement& judgement : judgements) {
    if (judgement.met) {
      Say("failed on " + judgement.text);
      status = 1;
    } else if (!judgement.known) {
      Say("cannot judge " + judgement.text);
      if (status == 0) status = kUsageError;
    }
  }
  return status;
}

}  // namespace

int CompareSnapshots(const DiffOptions& options) {
  if (!StandardOutputIsOpen()) return kUsageError;
  if (AreFolders(options)) return CompareFolders(options);
  if (!options.markdown.empty() && options.markdown != "-") {
    for (const std::string& input : {options.before, options.after}) {
      const std::string refusal = RefusalToReplace(input, options.markdown);
      if (refusal.empty()) continue;
      Say("--markdown " + refusal);
      return kUsageError;
    }
  }
  const std::optional<analysis::Snapshot> before = Load(options.before);
  const std::optional<analysis::Snapshot> after = Load(options.after);  // both files' errors in one go
  if (!before || !after) return kUsageError;
  const analysis::Report before_report = MakeReport(*before, {options.ignore});
  const analysis::Report after_report = MakeReport(*after, {options.ignore});
  analysis::SourceLines before_source(before->process.working_directory, before->process.start_realtime_ns);
  analysis::SourceLines after_source(after->process.working_directory, after->process.start_realtime_ns);
  analysis::DiffOptions how;
  how.threshold = options.threshold;
  if (options.source) {
    how.before_source = &before_source;
    how.after_source = &after_source;
  }
  const analysis::Diff diff = CompareReports(before_report, after_report, how);
  const analysis::DiffDocument document{&diff, options.before, options.after, JudgeConditions(diff, options.fail_on)};
  if (const int status = Print(Rendered(document, options)); status != 0) return status;
  if (!options.markdown.empty() && options.markdown != "-" &&
      !WriteMarkdown(options.markdown, RenderDiffMarkdown(document, options.display.top))) {
    return kUsageError;
  }
  return StatusOf(document.judgements);
}

}  // namespace cuheap::tools
