// Signals that come in the middle of things, and handlers that do what handlers should not.
#include <execinfo.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "tests/interpose/hazards/scenes.h"

namespace hazards {
namespace {

std::atomic<int> g_handled = 0;
CUdeviceptr g_blocks[64];
std::atomic<int> g_block_count = 0;
Gate* g_gate = nullptr;
sigjmp_buf g_way_out;

void On(int number, void (*handler)(int), int flags = SA_RESTART) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  Require(sigaction(number, &action, nullptr) == 0, "sigaction");
}

void Every(int timer, long microseconds) {
  itimerval interval{};
  interval.it_interval.tv_usec = microseconds;
  interval.it_value.tv_usec = microseconds;
  Require(setitimer(timer, &interval, nullptr) == 0, "setitimer");
}

void Count(int) { ++g_handled; }

void AllocateInHandler(int) {
  const int at = g_block_count;
  if (at == 64) return;
  g_blocks[at] = Allocate(10 * kKiB);
  g_block_count = at + 1;
  ++g_handled;
}

// The handler allocates, and later frees, while its thread is in no call.
int HandlerAllocates(const Arguments&) {
  StartDevice();
  On(SIGUSR1, AllocateInHandler);
  for (int i = 0; i < 10; ++i) {
    raise(SIGUSR1);
    Say("round trip", RoundTrip(7000));
  }
  Say("handled", g_handled);
  for (int i = 0; i < 5; ++i) Free(g_blocks[i]);
  return 0;
}

void OpenAndFree(int) {
  g_gate->Open();
  for (int i = 0; i < g_block_count; ++i) Say("free in handler", cuMemFree(g_blocks[i]));
  g_block_count = 0;
  CUdeviceptr address = 0;
  Say("allocation in handler", cuMemAlloc(&address, 20 * kKiB));
}

// The common handler of Ctrl-C: it frees, while its thread waits for the device.
int HandlerDuringWait(const Arguments&) {
  StartDevice();
  Gate gate;
  g_gate = &gate;
  for (const std::size_t bytes : {10 * kKiB, 700 * kKiB, 5 * kMiB}) g_blocks[g_block_count++] = Allocate(bytes);
  On(SIGUSR1, OpenAndFree);
  const pthread_t self = pthread_self();
  gate.Block();
  std::thread sender([self] {
    usleep(100'000);
    pthread_kill(self, SIGUSR1);
  });
  Say("waited", cuStreamSynchronize(gate.stream()));
  sender.join();
  for (const std::size_t bytes : {10 * kKiB, 700 * kKiB, 5 * kMiB}) Say("round trip", RoundTrip(bytes));
  return 0;
}

void JumpOut(int) { siglongjmp(g_way_out, 1); }

// A time limit by SIGALRM: the handler jumps out of a wait that would never end. Everything must work as before.
int JumpOutOfWait(const Arguments&) {
  StartDevice();
  Gate gate;
  const CUdeviceptr before = Allocate(10 * kKiB);
  On(SIGUSR1, JumpOut);
  const pthread_t self = pthread_self();
  for (int i = 0; i < 3; ++i) {
    gate.Close();
    gate.Block();
    std::thread sender([self] {
      usleep(50'000);
      pthread_kill(self, SIGUSR1);
    });
    if (sigsetjmp(g_way_out, 1) == 0) Say("waited", cuStreamSynchronize(gate.stream()));
    Say("jumped out", i);
    sender.join();
    gate.Open();
    Say("waited at last", cuStreamSynchronize(gate.stream()));
  }
  const CUdeviceptr after = Allocate(20 * kKiB);
  Say("round trip", RoundTrip(7000));
  Free(before);
  Say("free", cuMemFree(after));
  Allocate(30 * kKiB);
  return 0;
}

// Work that takes calls of every kind, for so many milliseconds of processor time.
void Work(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const CUdeviceptr small = Allocate(1000 + static_cast<std::size_t>(i) % 64 * 1000);
    const CUdeviceptr large = Allocate(3 * kMiB);
    Free(small);
    if (i % 16 == 0) Require(cuCtxSynchronize() == CUDA_SUCCESS, "cuCtxSynchronize");
    Free(large);
  }
}

// A sampling profiler: SIGPROF every millisecond, with a stack each.
void Sample(int) {
  void* frames[40];
  if (backtrace(frames, 40) > 0) ++g_handled;
}

int Profiler(const Arguments&) {
  StartDevice();
  void* frames[4];
  backtrace(frames, 4);  // loads what it needs, which a handler must not
  On(SIGPROF, Sample);
  Every(ITIMER_PROF, 1000);
  while (g_handled < 100) Work(10);
  Every(ITIMER_PROF, 0);
  Say("sampled", g_handled >= 100);
  Say("round trip", RoundTrip(7000));
  return 0;
}

// Interrupted system calls, all over.
int Storm(const Arguments&) {
  StartDevice();
  On(SIGALRM, Count, 0);
  Every(ITIMER_REAL, 200);
  while (g_handled < 500) Work(5);
  Every(ITIMER_REAL, 0);
  Say("interrupted", g_handled >= 500);
  Say("round trip", RoundTrip(7000));
  return 0;
}

// Handlers on a stack of their own, which lies in no thread's stack.
int AlternateStack(const Arguments&) {
  StartDevice();
  stack_t stack{};
  stack.ss_size = 64 * kKiB;
  stack.ss_sp = std::malloc(stack.ss_size);
  Require(sigaltstack(&stack, nullptr) == 0, "sigaltstack");
  On(SIGUSR1, AllocateInHandler, SA_ONSTACK);
  for (int i = 0; i < 10; ++i) raise(SIGUSR1);
  Say("handled", g_handled);
  for (int i = 0; i < 5; ++i) Free(g_blocks[i]);
  Say("round trip", RoundTrip(7000));
  return 0;
}

// A program that handles its own faults, and lives on.
int OwnFaults(const Arguments&) {
  StartDevice();
  On(SIGSEGV, JumpOut);
  for (int i = 0; i < 5; ++i) {
    if (sigsetjmp(g_way_out, 1) == 0) {
      *static_cast<volatile int*>(nullptr) = i;
    }
    Say("round trip", RoundTrip(7000));
  }
  return 0;
}

// Output into a pipe whose reader has gone.
int ClosedPipe(const Arguments&) {
  int ends[2];
  Require(pipe(ends) == 0, "pipe");
  StartDevice();
  Allocate(300 * kKiB);
  close(ends[0]);
  dup2(ends[1], STDOUT_FILENO);
  dup2(ends[1], STDERR_FILENO);
  Say("nobody reads this", 0);
  return 0;
}

}  // namespace

Scenes SignalScenes() {
  return {{"handler_allocates", HandlerAllocates}, {"handler_during_wait", HandlerDuringWait},
          {"jump_out_of_wait", JumpOutOfWait},     {"profiler", Profiler},
          {"storm", Storm},                        {"alternate_stack", AlternateStack},
          {"own_faults", OwnFaults},               {"closed_pipe", ClosedPipe}};
}

}  // namespace hazards
