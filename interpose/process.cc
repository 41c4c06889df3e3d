#include "interpose/process.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "interpose/driver_table.h"
#include "interpose/frameworks/pytorch.h"
#include "interpose/holes.h"
#include "interpose/options/option_parse.h"
#include "interpose/real_loader.h"
#include "interpose/recorder/recorder.h"
#include "interpose/router.h"

namespace cuheap {
namespace {

enum class State { kUntouched, kStarting, kReady, kOff };

constinit std::atomic<State> state{State::kUntouched};
constinit std::atomic<bool> forked{false};
// A page that reads 0 in any child, also in one made around pthread_atfork (a raw clone); null if the kernel has none.
constinit std::atomic<const std::atomic<int>*> parent_mark{nullptr};
alignas(Router) constinit unsigned char router_place[sizeof(Router)] = {};

Router* TheRouter() { return std::launder(reinterpret_cast<Router*>(router_place)); }

bool InForkedChild() {
  if (forked.load(std::memory_order_relaxed)) return true;
  const std::atomic<int>* mark = parent_mark.load(std::memory_order_acquire);
  return mark != nullptr && mark->load(std::memory_order_relaxed) == 0;
}

void InChild() {
  forked.store(true, std::memory_order_relaxed);
  if (state.load(std::memory_order_acquire) == State::kReady && TheRouter()->pool() != nullptr) {
    TheRouter()->pool()->DisableInChild();
    if (TheRouter()->streams() != nullptr) TheRouter()->streams()->pool().DisableInChild();
  }
}

void WatchForks() {
  pthread_atfork(nullptr, nullptr, InChild);
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, 4096, MADV_WIPEONFORK) != 0) {  // Linux < 4.14
    munmap(page, 4096);
    return;
  }
  auto* mark = new (page) std::atomic<int>(1);
  parent_mark.store(mark, std::memory_order_release);
}

void SayRejected(const options::Rejection& rejection) {
  char value[200];
  const std::size_t size = std::min(rejection.value.size(), sizeof(value) - 1);
  std::memcpy(value, rejection.value.data(), size);
  value[size] = '\0';
  char text[512];
  const int length =
      std::snprintf(text, sizeof(text), "cuheap: %s=%s is not understood: %s. This process runs without cuheap.\n",
                    rejection.variable, value, rejection.remedy);
  if (length > 0) {
    [[maybe_unused]] const auto written =
        write(STDERR_FILENO, text, std::min<std::size_t>(static_cast<std::size_t>(length), sizeof(text) - 1));
  }
}

// "driver=path\n" (by which readers know the simulated one), then "variable=value\n" of every option in force.
std::string_view DescribeOptions(const DriverTable& driver, char* text, std::size_t size) {
  std::size_t used = 0;
  if (*driver.path() != '\0') {
    const int length = std::snprintf(text, size, "driver=%s\n", driver.path());
    if (length > 0 && static_cast<std::size_t>(length) < size / 2) used = static_cast<std::size_t>(length);
  }
  for (const options::Description& option : options::kDescriptions) {
    const char* given = std::getenv(option.variable);
    const bool set = given != nullptr && *given != '\0';
    const int length =
        std::snprintf(text + used, size - used, "%s=%s\n", option.variable, set ? given : option.default_value);
    if (length < 0 || used + static_cast<std::size_t>(length) >= size) break;
    used += static_cast<std::size_t>(length);
  }
  return {text, used};
}

// A function of the interpreter, where the program's global scope has one. A libpython that was opened RTLD_LOCAL is
// found when it shows up in a stack.
const void* FindPython() {
  const DlsymFunction real_dlsym = RealDlsym();
  const void* found = real_dlsym == nullptr ? nullptr : real_dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
  if (found == nullptr) dlerror();  // the miss is ours, not the program's
  return found;
}

void StartRecorder(const DriverTable& driver, const options::Options& options) {
  recorder::StackOptions stacks;
  stacks.enabled = options.stacks;
  stacks.max_depth = static_cast<unsigned>(options.stack_depth);
  stacks.python = options.python_stacks;
  stacks.max_python_depth = static_cast<unsigned>(options.python_stack_depth);
  if (options.python_stacks) stacks.python_function = FindPython();
  recorder::ConfigureStacks(stacks);
  if (options.dir.empty()) return;
  char text[2048];
  recorder::StartOptions start;
  start.directory = options.dir.data();  // from the environment: ends with NUL
  start.max_event_bytes = options.event_memory;
  start.configuration = DescribeOptions(driver, text, sizeof(text));
  if (recorder::Start(start)) std::atexit(recorder::Ending);
}

// True if there is a router now.
bool Start(const DriverTable& driver) {
  options::Options options;
  const options::Rejection rejection = options::ParseAll([](const char* name) { return std::getenv(name); }, &options);
  if (rejection.variable != nullptr) {
    SayRejected(rejection);
    return false;
  }
  WatchForks();
  StartRecorder(driver, options);
  DriverFunctions functions;
  const auto lookup = [&driver](const char* name) {
    const HookId hook = FindHook(name);
    return hook != HookId::kNone ? driver.Real(hook) : driver.Lookup(name);
  };
  const auto missing = [](const char* name) { recorder::Note(journal::NoteCode::kMissingFunction, name); };
  const bool complete = functions.Fill(lookup, missing);
  if (!complete) recorder::Note(journal::NoteCode::kPassThrough, "the driver lacks a function that serving needs");
  new (router_place) Router(functions, complete, options);
  return true;
}

void ReportHoles() {
  holes.Drain([](const char* name, std::uintptr_t address) {
    recorder::Note(journal::NoteCode::kUnknownAddress, name, address);
  });
}

}  // namespace

Router* EnterProcess(const DriverTable& driver) {
  if (InForkedChild()) return nullptr;
  State now = state.load(std::memory_order_acquire);
  if (now == State::kUntouched) {
    if (state.compare_exchange_strong(now, State::kStarting, std::memory_order_acq_rel)) {
      now = Start(driver) ? State::kReady : State::kOff;
      state.store(now, std::memory_order_release);
    }
  }
  while (now == State::kStarting) {
    sched_yield();
    now = state.load(std::memory_order_acquire);
  }
  if (now != State::kReady) return nullptr;
  ReportHoles();
  return TheRouter();
}

void SelfCheck(const DriverTable& driver) {
  frameworks::FindPyTorch();
  char text[200];
  Dl_info driver_file{};
  dladdr(driver.Real(HookId::cuInit), &driver_file);
  unsigned elsewhere = 0;
  for (std::size_t i = 0; i < kHookCount; ++i) {
    void* real = driver.Real(static_cast<HookId>(i));
    Dl_info owner{};
    if (real != nullptr && dladdr(real, &owner) != 0 && owner.dli_fbase != driver_file.dli_fbase) ++elsewhere;
  }
  std::snprintf(text, sizeof(text), "%zu of %zu hooked functions are in this driver (%.120s)",
                kHookCount - driver.missing_count(), kHookCount, driver.path());
  recorder::Note(journal::NoteCode::kSelfCheck, text, kHookCount - driver.missing_count(), kHookCount);
  if (elsewhere != 0) {
    std::snprintf(text, sizeof(text), "%u hooked functions of the driver lie in another library", elsewhere);
    recorder::Note(journal::NoteCode::kSelfCheck, text, elsewhere);
  }
  Dl_info owner{};
  const char* name = "";
  if (dladdr(reinterpret_cast<void*>(RealDlsym()), &owner) != 0 && owner.dli_fname != nullptr) {
    const char* slash = std::strrchr(owner.dli_fname, '/');
    name = slash != nullptr ? slash + 1 : owner.dli_fname;
  }
  if (std::string_view(name) != "libc.so.6" && std::string_view(name) != "libdl.so.2") {
    std::snprintf(text, sizeof(text), "dlsym is also hooked by %.150s", name);
    recorder::Note(journal::NoteCode::kSelfCheck, text);
  }
}

}  // namespace cuheap
