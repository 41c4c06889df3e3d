#include "tools/cuheap/journal_folder.h"

#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

namespace cuheap::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kEnough = std::uint64_t{1} << 30;
constexpr std::uint64_t kLeast = std::uint64_t{16} << 20;
constexpr const char* kSuffix = ".journal";

// Of linux/magic.h and of file systems that are not in the kernel's tree.
bool IsNetwork(std::uint64_t type) {
  switch (type) {
    case 0x6969:      // NFS
    case 0x517B:      // SMB
    case 0xFF534D42:  // CIFS
    case 0xFE534D42:  // SMB2
    case 0x65735546:  // FUSE: sshfs, and what not
    case 0x0BD00BD0:  // Lustre
    case 0x47504653:  // GPFS
    case 0x00C36400:  // Ceph
    case 0x01021997:  // 9P
    case 0x5346414F:  // AFS
    case 0x19830326:  // BeeGFS
      return true;
    default:
      return false;
  }
}

std::vector<std::string> Candidates() {
  std::vector<std::string> folders{"/dev/shm"};
  const auto add = [&](const char* variable) {
    const char* value = std::getenv(variable);
    if (value != nullptr && value[0] == '/') folders.emplace_back(value);
  };
  add("TMPDIR");
  folders.emplace_back("/tmp");
  add("XDG_RUNTIME_DIR");
  folders.emplace_back("/var/tmp");
  return folders;
}

absl::StatusOr<JournalFolder> MakeIn(const std::string& folder) {
  std::string name = folder + "/cuheap-" + std::to_string(getuid()) + "-" + std::to_string(getpid()) + "-XXXXXX";
  if (mkdtemp(name.data()) == nullptr)
    return absl::ErrnoToStatus(errno, "cannot make a folder for the journal in " + folder);
  struct stat status{};
  if (stat(name.c_str(), &status) != 0) return absl::ErrnoToStatus(errno, name);
  return JournalFolder{name, status.st_mtim};
}

}  // namespace

std::uint64_t UsableSpace(const std::string& folder, std::string* reason) {
  struct statfs facts{};
  struct stat status{};
  if (stat(folder.c_str(), &status) != 0 || statfs(folder.c_str(), &facts) != 0) {
    *reason = std::strerror(errno);
  } else if (!S_ISDIR(status.st_mode)) {
    *reason = "it is not a folder";
  } else if (access(folder.c_str(), W_OK | X_OK) != 0) {
    *reason = std::strerror(errno);
  } else if (IsNetwork(static_cast<std::uint32_t>(facts.f_type))) {
    *reason = "it is on a network file system";
  } else {
    const auto blocks = static_cast<std::uint64_t>(facts.f_bavail), size = static_cast<std::uint64_t>(facts.f_bsize);
    const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t space = size != 0 && blocks > most / size ? most : blocks * size;
    if (space >= kLeast) return space;
    *reason = "it has less than 16 MiB free";
  }
  return 0;
}

absl::StatusOr<JournalFolder> MakeJournalFolder(const std::string& wanted) {
  std::string reason;
  if (!wanted.empty()) {
    // The program may change its directory, the folder must not move with it.
    std::error_code error;
    const std::string folder = fs::absolute(wanted, error).string();
    if (UsableSpace(folder, &reason) == 0)
      return absl::FailedPreconditionError("the journal cannot go to " + wanted + ": " + reason);
    return MakeIn(folder);
  }
  std::string best, reasons;
  std::uint64_t best_space = 0;
  for (const std::string& folder : Candidates()) {
    const std::uint64_t space = UsableSpace(folder, &reason);
    if (space == 0) reasons.append(reasons.empty() ? "" : "; ").append(folder).append(": ").append(reason);
    if (space > std::min(best_space, kEnough) && best_space < kEnough) {
      best = folder;
      best_space = space;
    }
  }
  if (best.empty())
    return absl::FailedPreconditionError("no folder for the journal (" + reasons + "): name one with --journal-dir");
  return MakeIn(best);
}

bool WasChanged(const JournalFolder& folder) {
  struct stat status{};
  return stat(folder.path.c_str(), &status) != 0 || status.st_mtim.tv_sec != folder.made.tv_sec ||
         status.st_mtim.tv_nsec != folder.made.tv_nsec;
}

absl::StatusOr<std::vector<std::string>> ListJournals(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISDIR(status.st_mode)) return std::vector<std::string>{path};
  std::vector<std::string> journals;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == kSuffix) journals.push_back(entry->path().string());
  }
  if (error) return absl::ErrnoToStatus(error.value(), path);
  if (journals.empty()) return absl::NotFoundError(path + " holds no journals (files ending in " + kSuffix + ")");
  std::sort(journals.begin(), journals.end());
  return journals;
}

void RemoveJournalFolder(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == kSuffix) unlink(entry->path().c_str());
  }
  rmdir(folder.c_str());
}

}  // namespace cuheap::tools
