// Processes that may not do everything: limits, closed descriptors, filters, roots without /proc, debuggers, pending
// work.
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <thread>

#include "tests/interpose/hazards/scenes.h"

namespace hazards {
namespace {

constexpr int kCannot = 77;  // the machine does not let us

void Limit(int resource, rlim_t value) {
  rlimit limit{};
  Require(getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0, "getrlimit");
  limit.rlim_cur = value;
  Require(setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0, "setrlimit");
}

std::size_t AddressSpace() {
  std::size_t pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  Require(file != nullptr && std::fscanf(file, "%zu", &pages) == 1, "/proc/self/statm");
  std::fclose(file);
  return pages * 4096;
}

// Many live blocks with stacks of many kinds: whoever keeps books needs room for them.
[[gnu::noinline]] CUdeviceptr Nested(int depth, int way) {
  if (depth == 0) return Allocate(2000);
  volatile CUdeviceptr block = (way & 1) != 0 ? Nested(depth - 1, way >> 1) : Nested(depth - 1, way / 2);
  return block;
}
void ManyBlocks(int count) {
  std::vector<CUdeviceptr> blocks;
  blocks.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) blocks.push_back(Nested(12, i));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 10 != 0) Free(blocks[i]);
  }
}

// Less and less address space, down to none. What the program asks for lies in memory that the driver has already.
int TightAddressSpace(const Arguments&) {
  StartDevice();
  for (int i = 0; i < 3; ++i) Say("round trip", RoundTrip(9000));
  Say("round trip", RoundTrip(5000));
  for (const std::size_t more : {64 * kMiB, 8 * kMiB, 1 * kMiB, std::size_t{0}}) {
    Limit(RLIMIT_AS, AddressSpace() + more);
    for (int i = 0; i < 300; ++i) {
      CUdeviceptr block = 0;
      const int result = cuMemAlloc(&block, 9000);
      if (result != CUDA_SUCCESS || cuMemFree(block) != CUDA_SUCCESS) {
        Say("allocation", result);
        break;
      }
    }
    Say("so much more", static_cast<long long>(more));
  }
  return 0;
}

// No descriptor is left, from the start or later; the argument says which.
int NoDescriptors(const Arguments& arguments) {
  const auto exhaust = [] {
    Limit(RLIMIT_NOFILE, 40);
    while (open("/dev/null", O_RDONLY) >= 0) {
    }
    Say("none left", errno == EMFILE);
  };
  if (arguments.at(0) == "early") exhaust();
  StartDevice();
  RoundTrip(5000);
  if (arguments.at(0) != "early") exhaust();
  ManyBlocks(3000);
  Say("round trip", RoundTrip(9000));
  return 0;
}

// Files may grow to so many bytes, no further.
int FileSize(const Arguments& arguments) {
  Limit(RLIMIT_FSIZE, std::stoul(arguments.at(0)));
  StartDevice();
  ManyBlocks(3000);
  Say("round trip", RoundTrip(9000));
  return 0;
}

int LockedMemory(const Arguments&) {
  Limit(RLIMIT_MEMLOCK, 1 * kMiB);
  StartDevice();
  ManyBlocks(100);
  Say("round trip", RoundTrip(9000));
  return 0;
}

// Descriptors 0 to 2 are closed, and whoever writes there hears so; a file opened then is number 0.
int ClosedStdio(const Arguments& arguments) {
  const int report = fcntl(open(arguments.at(0).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), F_DUPFD, 30);
  Require(report >= 0, "open");
  for (int i = 0; i < 30; ++i) close(i);
  std::atomic<bool> stop = false;
  std::atomic<int> written = 0;
  std::thread writer([&] {
    while (!stop) {
      for (int i = 0; i < 3; ++i) {
        if (write(i, "into whose file?\n", 17) >= 0) ++written;
      }
    }
  });
  StartQuietly();
  ManyBlocks(3000);
  stop = true;
  writer.join();
  const int first = open("/dev/null", O_RDONLY);
  char line[100];
  const int size = std::snprintf(line, sizeof(line), "first %d written %d round trip %d\n", first, written.load(),
                                 RoundTrip(9000) ? 1 : 0);
  Require(write(report, line, static_cast<std::size_t>(size)) == size, "write");
  return 0;
}

// Closes everything above 2, as daemons do, and goes on. Descriptors have the numbers that they would have.
int CloseFrom(const Arguments&) {
  StartDevice();
  RoundTrip(5000);
  for (int i = 3; i < 1000; ++i) close(i);
  ManyBlocks(3000);
  Say("next descriptor", open("/dev/null", O_RDONLY));
  Say("round trip", RoundTrip(9000));
  return 0;
}

// A thread with descriptors of its own, all closed.
int OwnFiles(const Arguments&) {
  CUcontext context = StartDevice();
  std::thread([context] {
    Require(unshare(CLONE_FILES) == 0, "unshare");
    for (int i = 3; i < 1000; ++i) close(i);
    Require(cuCtxSetCurrent(context) == CUDA_SUCCESS, "cuCtxSetCurrent");
    ManyBlocks(1000);
    Say("next descriptor", open("/dev/null", O_RDONLY));
  }).join();
  Say("round trip", RoundTrip(9000));
  return 0;
}

// System calls that a container may refuse, with EPERM, as Docker's filter does.
int Refused(const Arguments& arguments) {
  constexpr unsigned kRefused[] = {SYS_fallocate,
                                   SYS_fstatfs,
                                   SYS_statfs,
                                   SYS_getcwd,
                                   SYS_madvise,
                                   SYS_membarrier,
                                   SYS_memfd_create,
                                   SYS_process_vm_readv,
                                   SYS_ptrace,
                                   SYS_userfaultfd,
                                   SYS_perf_event_open,
                                   SYS_readlinkat,
                                   SYS_statx,
                                   SYS_openat2,
                                   SYS_close_range,
                                   SYS_get_mempolicy,
                                   SYS_mlock,
                                   SYS_name_to_handle_at,
                                   SYS_kcmp};
  std::vector<sock_filter> program;
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const unsigned number : kRefused) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (arguments.at(0) != "early") {
    StartDevice();
    RoundTrip(5000);
  }
  Require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return kCannot;
  if (arguments.at(0) == "early") StartDevice();
  ManyBlocks(3000);
  Say("round trip", RoundTrip(9000));
  return 0;
}

// A root directory without /proc, without anything; entered before the first call or after.
int OtherRoot(const Arguments& arguments) {
  const auto enter = [&] {
    if (geteuid() != 0 && unshare(CLONE_NEWUSER) != 0) return false;
    return chroot(arguments.at(0).c_str()) == 0 && chdir("/") == 0;
  };
  if (arguments.at(1) != "early") {
    StartDevice();
    RoundTrip(5000);
  }
  if (!enter()) return kCannot;
  if (arguments.at(1) == "early") StartDevice();
  ManyBlocks(3000);
  Say("round trip", RoundTrip(9000));
  return 0;
}

int NotDumpable(const Arguments&) {
  Require(prctl(PR_SET_DUMPABLE, 0) == 0, "PR_SET_DUMPABLE");
  StartDevice();
  ManyBlocks(300);
  Say("round trip", RoundTrip(9000));
  return 0;
}

// Under a debugger that passes everything on.
int Traced(const Arguments&) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kCannot);
    raise(SIGSTOP);
    StartDevice();
    ManyBlocks(300);
    for (int i = 0; i < 20; ++i) {
      raise(SIGUSR1);  // which the debugger swallows
      if (!RoundTrip(9000)) _exit(95);
    }
    _exit(0);
  }
  int stops = 0;
  for (;;) {
    int status = 0;
    Require(waitpid(child, &status, 0) == child, "waitpid");
    if (WIFEXITED(status)) {
      Say("stops", stops);
      return WEXITSTATUS(status);
    }
    Require(WIFSTOPPED(status), "stopped");
    ++stops;
    ptrace(PTRACE_CONT, child, nullptr, nullptr);
  }
}

// Memory is short, all of it freed before, while work hangs that only this thread can let go: natively, nothing waits.
int PendingWork(const Arguments& arguments) {
  StartDevice();
  Gate gate;
  const std::size_t bytes = std::stoul(arguments.at(0)) * kKiB;
  std::size_t total = 0, free_bytes = 0;
  Require(cuMemGetInfo(&free_bytes, &total) == CUDA_SUCCESS, "cuMemGetInfo");
  std::vector<CUdeviceptr> blocks;
  for (std::size_t used = 0; used + bytes + 8 * kMiB <= free_bytes; used += bytes) blocks.push_back(Allocate(bytes));
  Require(cuCtxSynchronize() == CUDA_SUCCESS, "cuCtxSynchronize");
  for (const CUdeviceptr block : blocks) Free(block);
  gate.Block();
  CUdeviceptr large = 0;
  Say("allocation beside pending work", cuMemAlloc(&large, free_bytes / 2));
  CUdeviceptr small = 0;
  Say("small one", cuMemAlloc(&small, 3000));
  gate.Open();
  Say("waited", cuStreamSynchronize(gate.stream()));
  Say("free", cuMemFree(large));
  Say("round trip", RoundTrip(9000));
  return 0;
}

int Plain(const Arguments&) {
  StartDevice();
  ManyBlocks(300);
  Say("round trip", RoundTrip(9000));
  return 0;
}

}  // namespace

Scenes LimitScenes() {
  return {{"tight_address_space", TightAddressSpace},
          {"no_descriptors", NoDescriptors},
          {"file_size", FileSize},
          {"locked_memory", LockedMemory},
          {"closed_stdio", ClosedStdio},
          {"close_from", CloseFrom},
          {"own_files", OwnFiles},
          {"refused", Refused},
          {"other_root", OtherRoot},
          {"not_dumpable", NotDumpable},
          {"traced", Traced},
          {"pending_work", PendingWork},
          {"plain", Plain}};
}

}  // namespace hazards
