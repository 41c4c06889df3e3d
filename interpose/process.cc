#include "interpose/process.h"

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
#include "interpose/holes.h"
#include "interpose/options/kept_texts.h"
#include "interpose/options/option_parse.h"
#include "interpose/python/object_symbols.h"
#include "interpose/recorder/own_files.h"
#include "interpose/recorder/recorder.h"
#include "interpose/router.h"
#include "interpose/self_check.h"
#include "interpose/stacks/loaded_objects.h"

namespace cuheap {
namespace {

enum class State { kUntouched, kStarting, kReady, kOff };

constinit std::atomic<State> state{State::kUntouched};
constinit std::atomic<bool> forked{false};
constinit std::atomic<pid_t> starter{0};  // the process in which a thread starts us; set before the state says so
// A page that reads 0 in any child, also in one made around pthread_atfork (a raw clone); null if the kernel has none.
constinit std::atomic<const std::atomic<int>*> parent_mark{nullptr};
alignas(Router) constinit unsigned char router_place[sizeof(Router)] = {};

// The options as they were when we were loaded or, if a constructor that ran before ours made the first call, at that
// call. Two places, so that neither waits for the other; the first that is filled counts.
constinit options::KeptTexts texts_at_load;
constinit options::KeptTexts texts_at_call;
constinit std::atomic<const options::KeptTexts*> texts{nullptr};

const options::KeptTexts& KeepTexts(options::KeptTexts& place, const char* const* environment) {
  const options::KeptTexts* kept = texts.load(std::memory_order_acquire);
  if (kept != nullptr) return *kept;
  place.Fill(environment);
  if (texts.compare_exchange_strong(kept, &place, std::memory_order_acq_rel)) return place;
  return *kept;
}

// For the one thread that starts, and the end of the process.
const options::KeptTexts& OptionTexts() { return KeepTexts(texts_at_call, environ); }

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
    recorder::Complain({text, std::min<std::size_t>(static_cast<std::size_t>(length), sizeof(text) - 1)});
  }
}

// "driver=path\n" (by which readers know the simulated one), then "variable=value\n" of every option in force.
std::string_view DescribeOptions(const char* driver, char* text, std::size_t size) {
  std::size_t used = 0;
  if (*driver != '\0') {
    const int length = std::snprintf(text, size, "driver=%s\n", driver);
    if (length > 0 && static_cast<std::size_t>(length) < size / 2) used = static_cast<std::size_t>(length);
  }
  for (const options::Description& option : options::kDescriptions) {
    const char* given = OptionTexts()(option.variable);
    const bool set = given != nullptr && *given != '\0';
    const int length =
        std::snprintf(text + used, size - used, "%s=%s\n", option.variable, set ? given : option.default_value);
    if (length < 0 || used + static_cast<std::size_t>(length) >= size) break;
    used += static_cast<std::size_t>(length);
  }
  return {text, used};
}

// A function of the interpreter, where one is loaded already. Not by dlsym, which would end a text of dlerror that the
// program has yet to read.
const void* FindPython() {
  static constexpr const char* kFunction = "PyGILState_GetThisThreadState";
  const auto is_python = [](const stacks::LoadedObject& candidate) {
    return python::ObjectSymbols(candidate).Find(kFunction).address != 0;
  };
  stacks::LoadedObject object;
  if (!stacks::FindObject(is_python, object)) return nullptr;
  return reinterpret_cast<const void*>(python::ObjectSymbols(object).Find(kFunction).address);
}

void ReportHoles() {
  holes.Drain([](const char* name, std::uintptr_t address) {
    recorder::Note(journal::NoteCode::kUnknownAddress, name, address);
  });
}

void AtExit() {
  // A child's end is not that of the books, which are its parent's.
  if (!InForkedChild()) {
    LookAtEnd();
    ReportHoles();
    ReportUnseen(true);
  }
  recorder::Ending();
}

// driver: its path. True if something is recorded.
bool StartRecorder(const char* driver, const options::Options& options) {
  recorder::StackOptions stacks;
  stacks.enabled = options.stacks;
  stacks.max_depth = static_cast<unsigned>(options.stack_depth);
  stacks.python = options.python_stacks;
  stacks.max_python_depth = static_cast<unsigned>(options.python_stack_depth);
  if (options.python_stacks) stacks.python_function = FindPython();
  recorder::ConfigureStacks(stacks);
  if (options.dir.empty()) return false;
  char text[2048];
  recorder::StartOptions start;
  start.directory = options.dir.data();  // of OptionTexts(): ends with NUL
  start.max_event_bytes = options.event_memory;
  start.configuration = DescribeOptions(driver, text, sizeof(text));
  return recorder::Start(start);
}

// For tests only: what must not be done, a driver call from a handler of ours when the process ends.
void CallAtExit() {
  if (TheRouter()->pool() != nullptr) TheRouter()->pool()->ReleaseIdle();
}

// True if there is a router now.
bool Start(const DriverTable& driver) {
  options::Options options;
  const options::Rejection rejection = options::ParseAll(OptionTexts(), &options);
  if (rejection.variable != nullptr) {
    SayRejected(rejection);
    return false;
  }
  if (options.test_without != options::Rule::kFork) WatchForks();
  if (StartRecorder(driver.path(), options)) std::atexit(AtExit);
  DriverFunctions functions;
  const auto lookup = [&driver](const char* name) {
    const HookId hook = FindHook(name);
    return hook != HookId::kNone ? driver.Real(hook) : driver.Lookup(name);
  };
  const auto missing = [](const char* name) { recorder::Note(journal::NoteCode::kMissingFunction, name); };
  const bool complete = functions.Fill(lookup, missing);
  if (!complete) recorder::Note(journal::NoteCode::kPassThrough, "the driver lacks a function that serving needs");
  try {
    new (router_place) Router(functions, complete, options);
  } catch (...) {
    recorder::Note(journal::NoteCode::kPassThrough, "there was no memory for the pool's books");
    return false;
  }
  if (options.test_without == options::Rule::kExit) std::atexit(CallAtExit);
  return true;
}

}  // namespace

Router* EnterProcess(const DriverTable& driver) {
  if (InForkedChild()) return nullptr;
  State now = state.load(std::memory_order_acquire);
  if (now == State::kUntouched) {
    starter.store(getpid(), std::memory_order_relaxed);
    if (state.compare_exchange_strong(now, State::kStarting, std::memory_order_acq_rel)) {
      now = Start(driver) ? State::kReady : State::kOff;
      state.store(now, std::memory_order_release);
    }
  }
  while (now == State::kStarting) {
    // A child that was forked before we watch for forks: the thread that starts us is not in it.
    if (starter.load(std::memory_order_relaxed) != getpid()) {
      forked.store(true, std::memory_order_relaxed);
      return nullptr;
    }
    sched_yield();
    now = state.load(std::memory_order_acquire);
  }
  if (now != State::kReady) return nullptr;
  ReportHoles();
  return TheRouter();
}

// glibc gives constructors the environment as the loader found it.
__attribute__((constructor)) void AtLoad(int, char**, char** environment) {
  KeepTexts(texts_at_load, environment != nullptr ? environment : environ);
}

// A process that used the GPU without a single call that came to us leaves a journal that says so; every other one that
// made no driver call leaves no trace.
__attribute__((destructor)) void LastLook() {
  if (state.load(std::memory_order_acquire) != State::kUntouched) return;
  const char* folder = OptionTexts()("CUHEAP_DIR");
  if (folder == nullptr || *folder == '\0') return;
  const char* driver = LookAtEnd();
  if (driver == nullptr && holes.pending()) driver = "";
  if (driver == nullptr) return;
  options::Options options;
  if (options::ParseAll(OptionTexts(), &options).variable != nullptr) return;
  options.stacks = options.python_stacks = false;
  if (!StartRecorder(driver, options)) return;
  ReportHoles();
  ReportUnseen(false);
  recorder::Ending();
}

}  // namespace cuheap
