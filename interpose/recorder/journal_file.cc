#include "interpose/recorder/journal_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "interpose/recorder/own_files.h"

namespace cuheap::recorder {
namespace {

constexpr std::uint64_t kRetryNs = 1'000'000'000;
constexpr unsigned kMaxImages = 1000;

// Below, bare system calls stand where glibc's wrappers are cancellation points: a thread must not be cancelled while
// it holds a lock of ours.

// Is it the space that is missing, rather than the way to ask for it?
bool IsFull(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO || error == EROFS;
}

// Space behind [offset, offset + bytes) becomes real; false with errno.
bool Allocate(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  // Growing a file beyond this limit sends SIGXFSZ, which would end the program.
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && offset + bytes > limit.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  for (;;) {
    if (syscall(SYS_fallocate, descriptor, 0, offset, bytes) == 0) return true;
    if (errno != EINTR) break;
  }
  if (IsFull(errno)) return false;
  // A file system without fallocate, or a filter that refuses it: writing zeros allocates just as well.
  static const char kZeros[4096] = {};
  for (std::uint64_t done = 0; done < bytes;) {
    const long written = syscall(SYS_pwrite64, descriptor, kZeros, sizeof(kZeros), offset + done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<std::uint64_t>(written);
  }
  return true;
}

bool IsNetworkFileSystem(int descriptor) {
  struct statfs facts;
  if (fstatfs(descriptor, &facts) != 0) return false;
  switch (static_cast<std::uint32_t>(facts.f_type)) {
    case 0x6969:      // NFS
    case 0x517B:      // SMB
    case 0xFF534D42:  // CIFS
    case 0xFE534D42:  // SMB2
    case 0x0BD00BD0:  // Lustre
    case 0x47504653:  // GPFS
    case 0x00C36400:  // Ceph
    case 0x5346414F:  // AFS
      return true;
    default:
      return false;
  }
}

bool Fail(OpenError& error, const char* what, const char* path) {
  const int reason = errno;
  // GNU strerror_r is not used: strerrordesc_np would need glibc 2.32. Numbers are enough for the rare ones.
  const char* text = reason == ENOSPC   ? "no space left on device"
                     : reason == EDQUOT ? "disk quota exceeded"
                     : reason == EACCES ? "permission denied"
                     : reason == ENOENT ? "no such directory (make it with mkdir -m 700)"
                     : reason == EFBIG  ? "larger than the limit on file sizes (ulimit -f)"
                     : reason == EROFS  ? "read-only file system"
                                        : nullptr;
  if (text != nullptr) {
    std::snprintf(error.text, sizeof(error.text), "%s %.150s: %s", what, path, text);
  } else {
    std::snprintf(error.text, sizeof(error.text), "%s %.150s: errno %d", what, path, reason);
  }
  return false;
}

// Opens the directory if it is one that nobody else can put files in; -1 otherwise.
int OpenPrivateDirectory(const char* directory, OpenError& error) {
  // It is not made here: a program that outlives its `cuheap run` must not bring back the folder that was cleaned up.
  const int descriptor = OpenOwn(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  if (descriptor < 0) {
    if (errno == ELOOP || errno == ENOTDIR) {
      std::snprintf(error.text, sizeof(error.text), "%.150s is a link or not a directory: no journal is put there",
                    directory);
    } else {
      Fail(error, "cannot open the journal directory", directory);
    }
    return -1;
  }
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) {
    Fail(error, "cannot read the journal directory", directory);
  } else if (facts.st_uid != geteuid()) {
    std::snprintf(error.text, sizeof(error.text), "%.150s belongs to another user: no journal is put there", directory);
  } else if ((facts.st_mode & 077) != 0) {
    std::snprintf(error.text, sizeof(error.text), "%.150s is open to other users (mode %03o, must be 700)", directory,
                  static_cast<unsigned>(facts.st_mode & 0777));
  } else {
    return descriptor;
  }
  CloseOwn(descriptor);
  return -1;
}

// Appends; false if there is no room.
bool Append(char* text, std::size_t size, const char* more) {
  const std::size_t used = std::strlen(text), added = std::strlen(more);
  if (size - used <= added) return false;
  std::memcpy(text + used, more, added + 1);
  return true;
}

// The path must stay true when the program changes its working directory. Built in place: this may be the first call of
// a thread with a small stack.
bool MakeAbsolute(const char* directory, char* out, std::size_t size) {
  out[0] = '\0';
  if (directory[0] == '/') return Append(out, size, directory);
  return syscall(SYS_getcwd, out, size) > 0 && Append(out, size, "/") && Append(out, size, directory);
}

}  // namespace

std::uint64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

bool JournalFile::Create(const char* directory, std::uint64_t pid, std::uint64_t start_ticks, OpenError& error) {
  char name[96];
  if (!MakeAbsolute(directory, path_, sizeof(path_) - sizeof(name) - 1)) {
    std::snprintf(error.text, sizeof(error.text), "the path of the journal directory is too long");
    return false;
  }
  const int directory_descriptor = OpenPrivateDirectory(path_, error);
  if (directory_descriptor < 0) return false;
  int descriptor = -1;
  unsigned image = 0;
  for (; image < kMaxImages; ++image) {
    // After exec pid and start time are those of the image before, whose journal stays.
    if (image == 0) {
      std::snprintf(name, sizeof(name), "%llu-%llu.journal", static_cast<unsigned long long>(pid),
                    static_cast<unsigned long long>(start_ticks));
    } else {
      std::snprintf(name, sizeof(name), "%llu-%llu.%u.journal", static_cast<unsigned long long>(pid),
                    static_cast<unsigned long long>(start_ticks), image);
    }
    descriptor = OpenOwn(directory_descriptor, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (descriptor >= 0 || errno != EEXIST) break;
  }
  if (descriptor < 0) {
    Fail(error, "cannot create a journal in", path_);
    CloseOwn(directory_descriptor);
    return false;
  }
  bool good = false;
  struct stat facts;
  if (fchmod(descriptor, 0600) != 0 || fstat(descriptor, &facts) != 0 ||
      !Allocate(descriptor, 0, journal::kHeaderBytes)) {
    Fail(error, "cannot write a journal in", path_);
  } else {
    void* memory = mmap(nullptr, journal::kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) {
      Fail(error, "cannot map a journal in", path_);
    } else {
      file_system_ = facts.st_dev;
      inode_ = facts.st_ino;
      file_bytes_ = journal::kHeaderBytes;
      network_ = IsNetworkFileSystem(descriptor);
      header_ = static_cast<journal::FileHeader*>(memory);
      header_->version = journal::kVersion;
      header_->header_bytes = static_cast<std::uint32_t>(journal::kHeaderBytes);
      header_->max_devices = journal::kMaxDevices;
      header_->max_extents = journal::kMaxExtents;
      header_->pointer_bytes = sizeof(void*);
      header_->pid = pid;
      header_->start_ticks = start_ticks;
      header_->image = image;
      good = true;
    }
  }
  if (!good) syscall(SYS_unlinkat, directory_descriptor, name, 0);
  good = good && Append(path_, sizeof(path_), "/") && Append(path_, sizeof(path_), name);
  CloseOwn(descriptor);
  CloseOwn(directory_descriptor);
  return good;
}

void JournalFile::Publish() {
  header_->state.store(static_cast<std::uint32_t>(journal::ProcessState::kRecording), std::memory_order_release);
  header_->magic.store(journal::kMagic, std::memory_order_release);
}

int JournalFile::Reopen() const {
  const int descriptor = OpenOwn(AT_FDCWD, path_, O_RDWR | O_NOFOLLOW, 0);
  if (descriptor < 0) return -1;
  struct stat facts;
  if (fstat(descriptor, &facts) == 0 && facts.st_dev == file_system_ && facts.st_ino == inode_) return descriptor;
  CloseOwn(descriptor);
  return -1;
}

void* JournalFile::AllocateAndMap(std::uint64_t bytes) {
  const int descriptor = Reopen();
  if (descriptor < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (Allocate(descriptor, file_bytes_, bytes)) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, static_cast<off_t>(file_bytes_));
  }
  CloseOwn(descriptor);
  return memory == MAP_FAILED ? nullptr : memory;
}

JournalFile::NewExtent JournalFile::AddExtent(journal::ExtentKind kind, std::uint32_t owner, std::uint64_t bytes,
                                              std::uint64_t least_bytes, void (*prepare)(void*, void*),
                                              void* argument) {
  const int saved_errno = errno;
  std::lock_guard<std::mutex> lock(mutex_);
  const std::uint32_t index = header_->extent_count.load(std::memory_order_relaxed);
  if (index >= journal::kMaxExtents) {
    out_of_space_.store(true, std::memory_order_relaxed);
    return {};
  }
  if (retry_after_ns_ != 0 && MonotonicNs() < retry_after_ns_) return {};
  void* memory = AllocateAndMap(bytes);
  if (memory == nullptr && least_bytes < bytes) {
    bytes = least_bytes;
    memory = AllocateAndMap(bytes);
  }
  errno = saved_errno;
  if (memory == nullptr) {
    retry_after_ns_ = MonotonicNs() + kRetryNs;
    out_of_space_.store(true, std::memory_order_relaxed);
    return {};
  }
  retry_after_ns_ = 0;
  if (prepare != nullptr) prepare(memory, argument);
  header_->extents[index] = journal::Extent{static_cast<std::uint32_t>(kind), owner, file_bytes_, bytes};
  file_bytes_ += bytes;
  header_->extent_count.store(index + 1, std::memory_order_release);
  return {memory, bytes};
}

}  // namespace cuheap::recorder
