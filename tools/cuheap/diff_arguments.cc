#include "tools/cuheap/diff_arguments.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <utility>

namespace cuheap::tools {
namespace {

constexpr const char* kHelp = R"(
Lines are matched by function and by the end of their file's path, so that runs from two checkouts compare,
and with the lines that edits moved them to. What differs by no more than the threshold is summed up in one
row. Leaks are compared by bytes a step. What cannot be compared, for events are missing, is said.

Conditions for --fail-on (quote them, > is the shell's): FIGURE>BOUND or FIGURE>=BOUND
  FIGURE  peak live            of each device: most bytes at once, bytes at the end
          tensor-peak tensor-live  host-peak host-live     the same of PyTorch's tensors, of pinned memory
          reserved             most bytes held from the driver, by the pool or by PyTorch's cache
          allocations  leaks  leak-bytes                   of the whole run
  BOUND   2GiB, 100            the figure of AFTER
          +64MiB, +10          its growth
          +5%                  its growth in percent of BEFORE

Examples:
  cuheap diff main.json branch.json
  cuheap diff --fail-on 'peak>+5%,leaks>+0' main.json branch.json
  cuheap diff --markdown comment.md --fail-on 'leaks>0' main.json branch.json
  cuheap diff --json main.json branch.json | jq '.leaks[] | select(.change == "new") | .line.after.text'
  cuheap diff before.pickle after.pickle         PyTorch's own memory snapshots
  cuheap diff main/ branch/                      the ranks of two runs: sum and worst rank of every line

Exit status: 0; 1 if a condition of --fail-on is met, each named on standard error; 2 if a file cannot be
read, an option is wrong, or a condition cannot be judged since events are missing. See diff.md.)";

}  // namespace

void DiffArguments::AddTo(CLI::App& command) {
  command.footer(kHelp);
  command.add_option("before", options_.before, "Snapshot made by cuheap run or by PyTorch; - is standard input. Or a folder of ranks")
      ->required()
      ->type_name("BEFORE");
  command.add_option("after", options_.after, "The one to compare with it")->required()->type_name("AFTER");
  command.add_flag("--json", options_.json, "The same facts for scripts (see diff.md)");
  command
      .add_option("--markdown", options_.markdown,
                  "Write a summary for a comment in CI there; - prints it instead of the text")
      ->type_name("FILE|-");
  command.add_option("--fail-on", fail_on_, "End with status 1 if this is met: see below; repeatable")
      ->type_name("CONDITION")
      ->expected(1)
      ->take_all();
  command
      .add_option("--threshold", threshold_,
                  "What counts as a small difference: a size, a percentage, or both with a comma between; 0: nothing "
                  "(default: 64KiB,1%)")
      ->type_name("SIZE|N%")
      ->expected(1)
      ->take_all();
  command.add_flag("--no-source", no_source_, "Read no lines of the program's source to match moved lines by");
  command
      .add_option("--ignore", options_.ignore,
                  "Never charge memory to a frame with this in its function, file or library; repeatable")
      ->type_name("TEXT")
      ->expected(1)
      ->take_all();
  display_.AddTo(command);
}

std::string DiffArguments::Read() {
  options_.source = !no_source_;
  if (options_.before == "-" && options_.after == "-") return "only one of the two can be standard input";
  if (options_.json && options_.markdown == "-") return "--json and --markdown - both write to standard output";
  std::string problem;
  for (const std::string& text : threshold_) {
    if (!analysis::ParseThreshold(text, &options_.threshold, &problem)) return "--threshold: " + problem;
  }
  for (const std::string& text : fail_on_) {
    std::optional<std::vector<analysis::FailCondition>> conditions = analysis::ParseFailOn(text, &problem);
    if (!conditions) return "--fail-on: " + problem;
    for (analysis::FailCondition& condition : *conditions) options_.fail_on.push_back(std::move(condition));
  }
  return display_.Read(&options_.display);
}

}  // namespace cuheap::tools
