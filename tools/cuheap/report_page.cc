#include "tools/cuheap/report_page.h"

#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analysis/html/html_page.h"
#include "analysis/text_file.h"
#include "tools/cuheap/message.h"
#include "tools/cuheap/replaced_file.h"
#include "tools/cuheap/standard_output.h"

namespace cuheap::tools {
namespace {

absl::Status WriteFile(const std::string& path, const std::string& html) {
  absl::StatusOr<std::unique_ptr<analysis::TextSink>> file = analysis::CreateTextFile(path);
  if (!file.ok()) return file.status();
  (*file)->Write(html);
  return (*file)->Finish();
}

}  // namespace

std::string PageRefusal(const ReportOptions& options) {
  const std::string& page = options.html;
  if (page.ends_with(".zst")) return "--html " + page + ": browsers do not open .zst files: leave .zst out";
  if (page == "-") {
    if (isatty(STDOUT_FILENO) == 1)
      return "--html -: standard output is a terminal: name a file, or send it to a program";
    return {};
  }
  struct stat facts{};
  if (stat(page.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode))
    return "--html " + page + " is a folder: name a file in it";
  const std::string refusal = RefusalToReplace(options.paths.front(), page);
  return refusal.empty() ? refusal : "--html " + refusal;
}

int WritePage(const analysis::Report& report, analysis::SourceLines* source, const ReportOptions& options) {
  const std::string html = analysis::RenderHtml(report, source);
  if (options.html == "-") return Print(html);
  if (const absl::Status status = WriteFile(options.html, html); !status.ok()) {
    Say(std::string(status.message()));
    return kUsageError;
  }
  Say("wrote " + options.html + ": open it in a browser");
  return 0;
}

}  // namespace cuheap::tools
