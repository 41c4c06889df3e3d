#include "tools/cuheap/replaced_file.h"

#include <sys/stat.h>

#include <array>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "analysis/text_file.h"

namespace cuheap::tools {
namespace {

bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat first{}, second{};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 && S_ISREG(first.st_mode) &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// By the first member that snapshot_writer.h gives it.
bool IsSnapshot(const std::string& path) {
  struct stat facts{};
  // Only what has an end is read: a pipe is not waited for.
  if (stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  const absl::StatusOr<std::unique_ptr<analysis::TextSource>> file = analysis::OpenTextFile(path);
  if (!file.ok()) return false;
  std::array<char, 64> start;
  std::size_t read = 0;  // in pieces: the first ones told whether it is compressed
  while (read < start.size()) {
    const std::size_t more = (*file)->Read(start.data() + read, start.size() - read);
    if (more == 0) break;
    read += more;
  }
  return std::string_view(start.data(), read).find("\"cuheap-snapshot\"") != std::string_view::npos;
}

}  // namespace

std::string RefusalToReplace(const std::string& input, const std::string& output) {
  if (IsSameFile(input, output)) return output + " is the snapshot itself: name another file";
  if (IsSnapshot(output)) return output + " is there and is a snapshot: name another file, or remove it first";
  return {};
}

}  // namespace cuheap::tools
