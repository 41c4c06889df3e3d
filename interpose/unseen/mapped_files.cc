#include "interpose/unseen/mapped_files.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace cuheap::unseen {
namespace {

// The descriptors of a program are few; those beyond are not looked at.
constexpr int kMaxDescriptors = 1024;

bool StartsWith(const char* text, const char* beginning) {
  return std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

// Those that CUDA alone opens (NVML has the others open as well), on Linux and under Windows.
bool IsDeviceFile(const char* path) { return StartsWith(path, "/dev/nvidia-uvm") || StartsWith(path, "/dev/dxg"); }

std::uint64_t ReadHex(const char*& at) {
  std::uint64_t value = 0;
  for (;; ++at) {
    const char c = *at;
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<std::uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value * 16 + static_cast<std::uint64_t>(c - 'a' + 10);
    } else {
      return value;
    }
  }
}

// "begin-end perms offset device inode   path"; false if it is no such line.
struct Line {
  std::uint64_t begin, end, offset;
  bool readable;
  const char* path;  // "" if none
};

bool Parse(const char* text, Line& line) {
  const char* at = text;
  line.begin = ReadHex(at);
  if (*at++ != '-') return false;
  line.end = ReadHex(at);
  if (*at++ != ' ') return false;
  line.readable = *at == 'r';
  for (int i = 0; i < 4; ++i) {
    if (*at++ == '\0') return false;
  }
  if (*at++ != ' ') return false;
  line.offset = ReadHex(at);
  const char* path = std::strchr(at, '/');
  line.path = path == nullptr ? "" : path;
  return true;
}

}  // namespace

const char* FileName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

void MappedFiles::Clear() {
  size_ = 0;
  path_bytes_ = 0;
  left_out_ = 0;
  device_mappings_ = 0;
  open_ = false;
}

const char* MappedFiles::KeepPath(const char* path) {
  const std::size_t bytes = std::strlen(path) + 1;
  if (bytes > kPathBytes - path_bytes_) return nullptr;
  char* kept = paths_ + path_bytes_;
  std::memcpy(kept, path, bytes);
  path_bytes_ += bytes;
  return kept;
}

void MappedFiles::AddLine(const char* text) {
  Line line{};
  if (!Parse(text, line)) return;
  if (*line.path == '\0') return;  // the bss of the file before, a heap, a stack
  if (StartsWith(line.path, "/dev/")) {
    if (IsDeviceFile(line.path)) ++device_mappings_;
    open_ = false;
    return;
  }
  // Further parts of a file follow its first; a file that is loaded twice begins twice.
  if (open_ && line.offset != 0 && std::strcmp(files_[size_ - 1].path, line.path) == 0) {
    files_[size_ - 1].end = line.end;
    return;
  }
  open_ = false;
  if (line.offset != 0 || !line.readable) return;
  const char* path = size_ < kMaxFiles ? KeepPath(line.path) : nullptr;
  if (path == nullptr) {
    ++left_out_;
    return;
  }
  files_[size_++] = {line.begin, line.end, path};
  open_ = true;
}

bool MappedFiles::Read() {
  Clear();
  const long file = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
  if (file < 0) return false;
  char buffer[4096];  // a line holds 73 characters and a path; what is longer is passed over
  std::size_t used = 0;
  bool skipping = false;
  for (;;) {
    const long got = syscall(SYS_read, file, buffer + used, sizeof(buffer) - used);
    if (got <= 0) break;
    used += static_cast<std::size_t>(got);
    std::size_t begin = 0;
    while (const void* newline = std::memchr(buffer + begin, '\n', used - begin)) {
      const auto end = static_cast<std::size_t>(static_cast<const char*>(newline) - buffer);
      buffer[end] = '\0';
      if (!skipping) AddLine(buffer + begin);
      skipping = false;
      begin = end + 1;
    }
    std::memmove(buffer, buffer + begin, used - begin);
    used -= begin;
    if (used == sizeof(buffer)) {
      used = 0;
      skipping = true;
    }
  }
  syscall(SYS_close, file);
  return true;
}

std::size_t OpenDeviceFiles() {
  std::size_t count = 0;
  for (int descriptor = 0; descriptor < kMaxDescriptors; ++descriptor) {
    char name[32], path[64];
    std::snprintf(name, sizeof(name), "/proc/self/fd/%d", descriptor);
    const long length = syscall(SYS_readlinkat, AT_FDCWD, name, path, sizeof(path) - 1);
    if (length <= 0) continue;
    path[length] = '\0';
    if (IsDeviceFile(path)) ++count;
  }
  return count;
}

}  // namespace cuheap::unseen
