// The command line of `cuheap diff`.
#ifndef CUHEAP_TOOLS_CUHEAP_DIFF_ARGUMENTS_H_
#define CUHEAP_TOOLS_CUHEAP_DIFF_ARGUMENTS_H_

#include <string>
#include <vector>

#include "analysis/reports/fail_on.h"
#include "tools/cuheap/display_options.h"

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

namespace cuheap::tools {

struct DiffOptions {
  std::string before, after;  // snapshots; one may be "-", standard input
  bool json = false;
  std::string markdown;  // file; "-": standard output, instead of the text; empty: none
  bool source = true;
  analysis::Threshold threshold;
  std::vector<analysis::FailCondition> fail_on;
  std::vector<std::string> ignore;
  Display display;
};

class DiffArguments {
 public:
  void AddTo(CLI::App& command);  // this must outlive the parsing
  // Empty: all is well; else what is wrong.
  std::string Read();
  const DiffOptions& options() const { return options_; }

 private:
  DiffOptions options_;
  DisplayFlags display_;
  std::vector<std::string> fail_on_, threshold_;
  bool no_source_ = false;
};

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_DIFF_ARGUMENTS_H_
