// Processes that fork, become others, and end in every way there is.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>

#include "tests/interpose/hazards/scenes.h"

namespace hazards {
namespace {

int StatusOf(pid_t child) {
  int status = 0;
  Require(waitpid(child, &status, 0) == child, "waitpid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void AllocateSome(int count) {
  for (int i = 0; i < count; ++i) Allocate((static_cast<std::size_t>(i) + 1) * 300 * kKiB);
}

// Threads that allocate and free until told to stop.
class Busy {
 public:
  explicit Busy(int count) {
    CUcontext context = nullptr;
    Require(cuCtxGetCurrent(&context) == CUDA_SUCCESS, "cuCtxGetCurrent");
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, context, i] {
        Require(cuCtxSetCurrent(context) == CUDA_SUCCESS, "cuCtxSetCurrent");
        while (!stop_) Free(Allocate((static_cast<std::size_t>(i) + 1) * 10 * kKiB));
      });
    }
  }
  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

// A parent with 4 blocks forks 8 children, which only use the CPU. What they find of CUDA is its own business.
int Fork(const Arguments&) {
  StartDevice();
  AllocateSome(4);
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      CUdeviceptr address = 0;
      Say("child allocates", cuMemAlloc(&address, 1000));
      Say("child frees", cuMemFree(0x1000));
      Say("child initializes", cuInit(0));
      if (i % 2 == 0) _exit(i);
      std::exit(i);
    }
    children.push_back(child);
    Say("child ended", StatusOf(child));
  }
  Say("round trip", RoundTrip(5000));
  return 0;
}

// The same while other threads allocate, so that the fork comes in the middle of everything.
int ForkBusy(const Arguments&) {
  StartDevice();
  AllocateSome(4);
  Busy busy(3);
  for (int i = 0; i < 12; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      CUdeviceptr address = 0;
      const int result = cuMemAlloc(&address, 1000);
      if (i % 2 == 0) _exit(result);
      std::exit(result);
    }
    if (StatusOf(child) != CUDA_ERROR_NOT_INITIALIZED) Say("child of busy parent", i);
  }
  busy.Stop();
  return Say("forked", 0);
}

// A child of the bare system call, which runs no fork handlers.
int ForkRaw(const Arguments&) {
  StartDevice();
  AllocateSome(2);
  const auto child = static_cast<pid_t>(syscall(SYS_fork));
  if (child == 0) _exit(23);
  Say("child ended", StatusOf(child));
  return 0;
}

// A fork while another thread is in the process's first call, before anybody could hear of forks: the child's calls are
// as good as ever. What is forked here is in the middle of that call; the child calls in a thread that is not.
void ForkNow() {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // a hang ends by it
    int result = -1;
    std::thread([&result] { result = cuInit(0); }).join();
    _exit(result);
  }
  if (const int status = StatusOf(child); status != 0) Say("child of the first call", status);
}

int ForkAtStart(const Arguments&) {
  auto* const before = static_cast<void (**)()>(dlsym(RTLD_DEFAULT, "cuheap_hazard_before_registration"));
  Require(before != nullptr, "the library that tells of registrations");
  *before = ForkNow;
  StartDevice();
  AllocateSome(2);
  return 0;
}

int Leak(const Arguments& arguments) {
  StartQuietly();
  AllocateSome(std::atoi(arguments.at(0).c_str()));
  return 0;
}

std::vector<char*> LeakCommand(std::string& path, std::string& scene, std::string& count) {
  return {path.data(), scene.data(), count.data(), nullptr};
}

// fork + exec, vfork + exec, posix_spawn of a program that uses CUDA itself.
int Start(const Arguments& arguments) {
  StartDevice();
  AllocateSome(4);
  std::string path = OwnPath(), scene = "leak", count = "3";
  std::vector<char*> command = LeakCommand(path, scene, count);
  pid_t child = -1;
  if (arguments.at(0) == "fork") {
    child = fork();
  } else if (arguments.at(0) == "vfork") {
    child = vfork();
  } else {
    Require(posix_spawn(&child, path.c_str(), nullptr, nullptr, command.data(), environ) == 0, "posix_spawn");
  }
  if (child == 0) {
    execv(path.c_str(), command.data());
    _exit(97);
  }
  Say("child ended", StatusOf(child));
  Say("round trip", RoundTrip(5000));
  return 0;
}

// Becomes another program that uses CUDA.
int Become(const Arguments&) {
  StartDevice();
  AllocateSome(4);
  std::string path = OwnPath(), scene = "leak", count = "3";
  execv(path.c_str(), LeakCommand(path, scene, count).data());
  return 97;
}

// Before its first call of the driver's it writes over the options in its environment, as those that change their title
// do, and clears it. What the simulated driver is told stays.
int ClearedEnvironment(const Arguments&) {
  static std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "SIMCUDA_", 8) == 0) kept.emplace_back(*entry);
    if (std::strncmp(*entry, "CUHEAP_", 7) == 0) std::memset(*entry, 'x', std::strlen(*entry));
  }
  clearenv();
  for (std::string& entry : kept) putenv(entry.data());
  StartDevice();
  AllocateSome(3);
  return 0;
}

int ExitInThread(const Arguments&) {
  StartDevice();
  AllocateSome(3);
  Busy busy(2);
  std::thread([] { std::exit(7); }).join();
  return 96;
}

int UnderscoreExit(const Arguments&) {
  StartDevice();
  AllocateSome(3);
  _exit(5);
}

int QuickExit(const Arguments&) {
  StartDevice();
  AllocateSome(3);
  std::quick_exit(6);
}

int Uncaught(const Arguments&) {
  StartDevice();
  AllocateSome(3);
  throw std::runtime_error("nobody catches this");
}

int Abort(const Arguments&) {
  StartDevice();
  AllocateSome(3);
  std::abort();
}

// Killed outright while it works, after so many microseconds.
int Killed(const Arguments& arguments) {
  StartDevice();
  AllocateSome(3);
  Busy busy(2);
  std::this_thread::sleep_for(std::chrono::microseconds(std::atoi(arguments.at(0).c_str())));
  kill(getpid(), SIGKILL);
  return 96;
}

// A daemon, forked twice, that uses CUDA when nobody waits for it any more; its first parent stays until it has begun.
int Daemonise(const Arguments& arguments) {
  int ready[2];
  Require(pipe(ready) == 0, "pipe");
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    // Not even the output is the starter's.
    const int file = open(arguments.at(0).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(file, 1);
    dup2(null, 2);
    StartDevice();
    AllocateSome(2);
    Say("daemon works", 1);
    Require(write(ready[1], "x", 1) == 1, "write");
    close(ready[0]);
    close(ready[1]);
    while (access((arguments.at(0) + ".stop").c_str(), F_OK) != 0) usleep(5000);
    Say("daemon ends", 0);
    std::exit(0);
  }
  Say("first child ended", StatusOf(child));
  close(ready[1]);
  char byte = 0;
  Say("daemon began", read(ready[0], &byte, 1));
  return 0;
}

std::vector<CUdeviceptr>& Kept() {
  static std::vector<CUdeviceptr> kept;
  return kept;
}

// Made before the driver's exit handler, so destroyed after it.
struct FreesLate {
  ~FreesLate() {
    for (const CUdeviceptr block : Kept()) Say("late free", cuMemFree(block));
    if (Kept().empty()) return;
    CUdeviceptr address = 0;
    Say("late allocation", cuMemAlloc(&address, 1000));
    Say("late synchronize", cuCtxSynchronize());
  }
};
const std::vector<CUdeviceptr>& made_before = Kept();
const FreesLate frees_late;

int StaticDestructors(const Arguments&) {
  Require(made_before.empty(), "the list is made before its user");
  StartDevice();
  for (const std::size_t bytes : {5 * kKiB, 900 * kKiB, 5 * kMiB}) Kept().push_back(Allocate(bytes));
  return 0;
}

}  // namespace

Scenes ProcessScenes() {
  return {{"fork", Fork},
          {"fork_busy", ForkBusy},
          {"fork_raw", ForkRaw},
          {"fork_at_start", ForkAtStart},
          {"start", Start},
          {"leak", Leak},
          {"become", Become},
          {"abort", Abort},
          {"cleared_environment", ClearedEnvironment},
          {"exit_in_thread", ExitInThread},
          {"underscore_exit", UnderscoreExit},
          {"uncaught", Uncaught},
          {"quick_exit", QuickExit},
          {"killed", Killed},
          {"daemonise", Daemonise},
          {"static_destructors", StaticDestructors}};
}

}  // namespace hazards
