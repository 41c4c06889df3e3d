// Stacks that are no ordinary stacks, code that comes and goes, and loaders that wait.
#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <thread>

#include "tests/interpose/hazards/scenes.h"

namespace hazards {
namespace {

// Not a tail call, and not made a loop of.
[[gnu::noinline]] int Recurse(int depth) {
  volatile int here = depth;
  if (depth == 0) {
    Allocate(100 * kKiB);
    return 0;
  }
  return Recurse(depth - 1) + here - depth;
}

int DeepRecursion(const Arguments&) {
  StartDevice();
  RunInThread(64 * kMiB, [] {
    StartQuietly();
    for (int i = 0; i < 3; ++i) Recurse(100'000);
  });
  Say("round trip", RoundTrip(9000));
  return 0;
}

// Coroutines on stacks of their own, whose places in memory come, go and change their size.
struct Coroutine {
  ucontext_t context{}, caller{};
  void* stack = nullptr;
  std::size_t bytes = 0;
  std::size_t asks = 0;
  int step = 0;
};
Coroutine* g_running = nullptr;

void CoroutineMain() {
  Coroutine& self = *g_running;
  for (self.step = 0; self.step < 3; ++self.step) {
    const CUdeviceptr block = Allocate(self.asks);
    swapcontext(&self.context, &self.caller);
    Free(block);
  }
  // The result is wanted, or this would be a jump, and this function not in the stack.
  [[maybe_unused]] const volatile CUdeviceptr kept = Allocate(self.asks);
}

void Resume(Coroutine& coroutine) {
  g_running = &coroutine;
  swapcontext(&coroutine.caller, &coroutine.context);
}

void Begin(Coroutine& coroutine, void* where, std::size_t bytes, std::size_t asks) {
  // The page above is nobody's: a walk that goes on beyond the stack would fault.
  coroutine.stack = mmap(where, bytes + 4 * kKiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Require(coroutine.stack != MAP_FAILED, "mmap");
  Require(mprotect(static_cast<char*>(coroutine.stack) + bytes, 4 * kKiB, PROT_NONE) == 0, "mprotect");
  coroutine.bytes = bytes;
  coroutine.asks = asks;
  getcontext(&coroutine.context);
  coroutine.context.uc_stack.ss_sp = coroutine.stack;
  coroutine.context.uc_stack.ss_size = bytes;
  coroutine.context.uc_link = &coroutine.caller;
  makecontext(&coroutine.context, CoroutineMain, 0);
}

int Coroutines(const Arguments&) {
  StartDevice();
  void* where = nullptr;
  for (const std::size_t bytes : {256 * kKiB, 64 * kKiB, 128 * kKiB, 32 * kKiB}) {
    auto coroutines = std::make_unique<std::array<Coroutine, 8>>();
    std::size_t asks = 11 * kKiB;
    for (Coroutine& coroutine : *coroutines) {
      Begin(coroutine, &coroutine == coroutines->data() ? where : nullptr, bytes, asks += kKiB);
    }
    for (int round = 0; round < 4; ++round) {
      for (Coroutine& coroutine : *coroutines) Resume(coroutine);
    }
    for (Coroutine& coroutine : *coroutines) munmap(coroutine.stack, coroutine.bytes + 4 * kKiB);
    where = (*coroutines)[0].stack;
  }
  Say("round trip", RoundTrip(9000));
  return 0;
}

using AllocateFunction = CUdeviceptr (*)(std::size_t);

// A library with frames in stacks goes, and another comes to its place, again and again.
int Unload(const Arguments& arguments) {
  StartDevice();
  int same_place = 0;
  void* last = nullptr;
  for (int i = 0; i < 10; ++i) {
    for (std::size_t which = 0; which < 2; ++which) {
      void* library = dlopen(arguments.at(which).c_str(), RTLD_NOW | RTLD_LOCAL);
      Require(library != nullptr, "dlopen");
      auto* allocate = reinterpret_cast<AllocateFunction>(dlsym(library, "AllocateFromHere"));
      Require(allocate != nullptr, "dlsym");
      const CUdeviceptr block = allocate((which + 1) * 1000);
      Require(block != 0, "AllocateFromHere");
      if (i != 9) Free(block);
      if (reinterpret_cast<void*>(allocate) == last) ++same_place;
      last = reinterpret_cast<void*>(allocate);
      Require(dlclose(library) == 0, "dlclose");
    }
  }
  Say("came to the other's place", same_place > 0);
  Say("round trip", RoundTrip(9000));
  return 0;
}

// A library whose constructor waits, with the loader's lock held, for a thread that uses CUDA by pointers which the
// program has had for long. The first call of the process may be among them.
int WaitingConstructor(const Arguments& arguments) {
  if (arguments.at(1) == "later") StartDevice();
  void* library = dlopen(arguments.at(0).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Say(dlerror(), -1);
  Say("loaded", 1);
  if (arguments.at(1) != "later") StartDevice();
  Say("round trip", RoundTrip(9000));
  return 0;
}

}  // namespace

Scenes StackScenes() {
  return {{"deep_recursion", DeepRecursion}, {"coroutines", Coroutines}, {"unload", Unload},
          {"waiting_constructor", WaitingConstructor}};
}

}  // namespace hazards
