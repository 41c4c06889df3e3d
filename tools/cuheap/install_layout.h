// Where the libraries lie: beside the command, in a build folder as in an installation.
//   bin/cuheap   lib/libcuheap_preload.so   lib/simcuda/
#ifndef CUHEAP_TOOLS_CUHEAP_INSTALL_LAYOUT_H_
#define CUHEAP_TOOLS_CUHEAP_INSTALL_LAYOUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace cuheap::tools {

struct InstallLayout {
  std::string library_folder;                // holds libcuheap_preload.so
  std::string simulated_folder;              // holds the simulated CUDA; empty if it is not there
  std::vector<std::string> simulated_names;  // bare names of the simulated libraries that must be preloaded
};
inline constexpr const char* kPreloadName = "libcuheap_preload.so";

// Errors (NotFound, FailedPrecondition) tell what is missing and where it was looked for. `simulate`: the simulated
// libraries must be there.
absl::StatusOr<InstallLayout> FindInstallLayout(bool simulate);

// The same for an executable of that path.
absl::StatusOr<InstallLayout> FindInstallLayout(const std::string& executable, bool simulate);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_INSTALL_LAYOUT_H_
