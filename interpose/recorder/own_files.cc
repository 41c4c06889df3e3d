#include "interpose/recorder/own_files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace cuheap::recorder {
namespace {

constexpr int kFirstFree = 3;

int Open(int directory, const char* name, int flags, unsigned mode) {
  return static_cast<int>(syscall(SYS_openat, directory, name, flags | O_CLOEXEC, mode));
}

// Stands in for the closed ones among the descriptors 0 to 2 while a file is opened. By O_PATH: reading and writing
// fail with the error that a closed one gives.
class StandardDescriptorsTaken {
 public:
  StandardDescriptorsTaken() {
    for (int descriptor = 0; descriptor < kFirstFree; ++descriptor) {
      if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
      const int taken = Open(AT_FDCWD, "/", O_PATH, 0);
      if (taken < 0) return;
      if (taken >= kFirstFree) {  // another thread was faster
        CloseOwn(taken);
      } else {
        taken_[taken] = true;
      }
    }
  }
  ~StandardDescriptorsTaken() {
    for (int descriptor = 0; descriptor < kFirstFree; ++descriptor) {
      if (taken_[descriptor]) CloseOwn(descriptor);
    }
  }
  StandardDescriptorsTaken(const StandardDescriptorsTaken&) = delete;
  StandardDescriptorsTaken& operator=(const StandardDescriptorsTaken&) = delete;

 private:
  bool taken_[kFirstFree] = {};
};

// What descriptor 2 was at the beginning. Written before the program runs.
struct Stderr {
  bool open = false;
  dev_t device = 0;
  ino_t inode = 0;
};
constinit Stderr g_stderr;

[[gnu::constructor]] void RememberStderr() {
  const int saved_errno = errno;
  struct stat facts;
  if (fstat(STDERR_FILENO, &facts) == 0) g_stderr = {true, facts.st_dev, facts.st_ino};
  errno = saved_errno;
}

// write(2) without SIGPIPE, which is not this thread's fault.
void WriteQuietly(std::string_view line) {
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const long written = syscall(SYS_write, STDERR_FILENO, line.data(), line.size());
  if (written < 0 && errno == EPIPE && !was_pending) {
    const timespec now{};
    syscall(SYS_rt_sigtimedwait, &pipe, nullptr, &now, sizeof(unsigned long));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

int OpenOwn(int directory, const char* name, int flags, unsigned mode) {
  const StandardDescriptorsTaken others;
  const int descriptor = Open(directory, name, flags, mode);
  if (descriptor < 0 || descriptor >= kFirstFree) return descriptor;
  // The program has just closed it, or there was no descriptor left for all of them.
  CloseOwn(descriptor);
  errno = EMFILE;
  return -1;
}

void CloseOwn(int descriptor) {
  const int saved_errno = errno;
  syscall(SYS_close, descriptor);
  errno = saved_errno;
}

void Complain(std::string_view line) {
  const int saved_errno = errno;
  struct stat facts;
  if (g_stderr.open && fstat(STDERR_FILENO, &facts) == 0 && facts.st_dev == g_stderr.device &&
      facts.st_ino == g_stderr.inode) {
    WriteQuietly(line);
  }
  errno = saved_errno;
}

}  // namespace cuheap::recorder
