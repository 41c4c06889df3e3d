#include "interpose/unseen/own_memory_reader.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace cuheap::unseen {

OwnMemoryReader::~OwnMemoryReader() {
  if (file_ >= 0) syscall(SYS_close, file_);
  if (page_map_ >= 0) syscall(SYS_close, page_map_);
}

// By system calls of our own: sanitizers and other tools intercept the C library's functions.
std::size_t OwnMemoryReader::Read(std::uint64_t address, void* out, std::size_t bytes) {
  if (!by_file_) {
    const iovec local{out, bytes};
    const iovec remote{reinterpret_cast<void*>(address), bytes};
    const long got = syscall(SYS_process_vm_readv, syscall(SYS_getpid), &local, 1UL, &remote, 1UL, 0UL);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != ENOSYS && errno != EPERM) return 0;
    by_file_ = true;
    file_ = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC, 0));
  }
  if (file_ < 0) return 0;
  const long got = syscall(SYS_pread64, file_, out, bytes, static_cast<long>(address));
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

// Source: Documentation/admin-guide/mm/pagemap.rst of Linux: bit 63 present, 62 swapped, 61 page of a file.
void OwnMemoryReader::FindWritten(std::uint64_t address, bool* written, std::size_t count) {
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kSwapped = std::uint64_t{1} << 62,
                          kOfFile = std::uint64_t{1} << 61;
  constexpr std::size_t kAtOnce = 512;
  if (page_map_ == -1) {
    page_map_ = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0));
    if (page_map_ < 0) page_map_ = -2;
  }
  for (std::size_t done = 0; done < count;) {
    std::uint64_t entries[kAtOnce] = {};
    const std::size_t wanted = std::min(count - done, kAtOnce);
    const long got = page_map_ < 0 ? -1
                                   : syscall(SYS_pread64, page_map_, entries, wanted * sizeof(entries[0]),
                                             static_cast<long>((address / 4096 + done) * sizeof(entries[0])));
    const bool known = got == static_cast<long>(wanted * sizeof(entries[0]));
    for (std::size_t i = 0; i < wanted; ++i) {
      const bool own = (entries[i] & kSwapped) != 0 || (entries[i] & (kPresent | kOfFile)) == kPresent;
      written[done + i] = !known || own;
    }
    done += wanted;
  }
}

}  // namespace cuheap::unseen
