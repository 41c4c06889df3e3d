#include "tools/cuheap/install_layout.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/status/status.h"

namespace cuheap::tools {
namespace {

namespace fs = std::filesystem;

// Bare names, separated by spaces or newlines; '#' begins a comment.
std::vector<std::string> ReadNames(const fs::path& file) {
  std::vector<std::string> names;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) names.push_back(word);
  }
  return names;
}

// The loader splits LD_LIBRARY_PATH at these, and nothing can quote them.
bool LoaderCanName(const std::string& folder) { return folder.find_first_of(":;") == std::string::npos; }

}  // namespace

absl::StatusOr<InstallLayout> FindInstallLayout(const std::string& executable, bool simulate) {
  const fs::path prefix = fs::path(executable).parent_path().parent_path();
  std::error_code error;
  InstallLayout layout;
  for (const char* folder : {"lib", "lib64"}) {
    const fs::path candidate = prefix / folder;
    if (!fs::exists(candidate / kPreloadName, error)) continue;
    layout.library_folder = candidate.string();
    break;
  }
  if (layout.library_folder.empty()) {
    return absl::NotFoundError(std::string(kPreloadName) + " is not in " + (prefix / "lib").string() +
                               ", where it belongs to this command: build or install cuheap completely");
  }
  if (!LoaderCanName(layout.library_folder)) {
    return absl::FailedPreconditionError(
        "cuheap lies in a folder with ':' or ';' in its name, which the loader cannot preload from: " +
        layout.library_folder);
  }
  const fs::path simulated = fs::path(layout.library_folder) / "simcuda";
  if (fs::exists(simulated / "libcuda.so.1", error)) {
    layout.simulated_folder = simulated.string();
    layout.simulated_names = ReadNames(simulated / "preload.list");
  } else if (simulate) {
    return absl::NotFoundError("the simulated CUDA is not in " + simulated.string() +
                               ": build or install cuheap completely");
  }
  return layout;
}

absl::StatusOr<InstallLayout> FindInstallLayout(bool simulate) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return absl::NotFoundError("cannot tell where cuheap lies: /proc/self/exe: " + error.message());
  return FindInstallLayout(self.string(), simulate);
}

}  // namespace cuheap::tools
