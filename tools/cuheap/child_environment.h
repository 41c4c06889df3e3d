// The environment of the program that `cuheap run` starts.
#ifndef CUHEAP_TOOLS_CUHEAP_CHILD_ENVIRONMENT_H_
#define CUHEAP_TOOLS_CUHEAP_CHILD_ENVIRONMENT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/cuheap/install_layout.h"

namespace cuheap::tools {

// LD_PRELOAD with ours in front of what others put there; sanitizers' runtimes stay in front of all, since they refuse
// to start otherwise. `existing` may be empty; names already there are not doubled, nor is our library by another path.
// No spaces and colons: LD_PRELOAD is split at those.
std::string MergePreload(const std::vector<std::string>& ours, std::string_view existing);

// "folders:existing", without an empty entry (which would mean the working directory).
std::string MergeLibraryPath(const std::vector<std::string>& folders, std::string_view existing);

// True if a program that gets this environment is recorded already, as one that another `cuheap run` started.
bool IsRecordedElsewhere(const std::vector<std::string>& environment);

struct ChildEnvironmentOptions {
  InstallLayout layout;
  bool simulate = false;
  std::string journal_folder;
  std::vector<std::pair<std::string, std::string>> variables;  // set, or replaced
};
// "NAME=value" each: `environment` (as of environ) with our changes. Everything else stays as it is, in its order.
std::vector<std::string> MakeChildEnvironment(const std::vector<std::string>& environment,
                                              const ChildEnvironmentOptions& options);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_CHILD_ENVIRONMENT_H_
