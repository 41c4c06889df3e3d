// The command line of cuheap: which command, with which options. Everything is checked here, before anything is done.
#ifndef CUHEAP_TOOLS_CUHEAP_COMMAND_LINE_H_
#define CUHEAP_TOOLS_CUHEAP_COMMAND_LINE_H_

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/reports/report_text.h"
#include "tools/cuheap/diff_arguments.h"
#include "tools/cuheap/display_options.h"
#include "tools/cuheap/export_arguments.h"

namespace cuheap::tools {

struct RunOptions {
  std::vector<std::string> command;  // the program and its arguments, not empty
  std::string output;                // -o; empty: cuheap.<program>.<pid>.json
  std::string journal_folder;        // --journal-dir; empty: chosen
  bool quiet = false;
  bool simulate = false;
  bool pool = false;  // --pool: frameworks' caches are bypassed (tools/cuheap/pool_mode.h)
  // For the preload library and the simulated CUDA: environment variables.
  std::vector<std::pair<std::string, std::string>> environment;
};

struct ReportOptions {
  // A snapshot, or "-" for standard input; several, or folders with snapshots, are the processes of one run. Not empty.
  std::vector<std::string> paths;
  bool json = false;
  std::string html;  // --html: the page's name; "-" is standard output; empty: none
  bool map = false;
  bool stacks = true;
  bool source = true;
  analysis::PeakBy peak_by = analysis::PeakBy::kLine;
  std::optional<analysis::Moment> at;  // --at: what was held then, instead of the report
  std::uint32_t at_step = 0;           // --at step:N: at the end of that step
  Display display;
  std::vector<std::string> ignore;
};

struct RecoverOptions {
  std::string path;  // a journal, or a folder with journals
  std::string output;
  bool quiet = false;
};

// Something to print and leave with: --help, --version (status 0, on stdout) or an error (status 2, on stderr).
struct Done {
  int status = 0;
  std::string text;
};

using Command = std::variant<RunOptions, ReportOptions, ExportOptions, DiffOptions, RecoverOptions, Done>;

Command ParseCommandLine(const std::vector<std::string>& arguments);  // without argv[0]

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_COMMAND_LINE_H_
