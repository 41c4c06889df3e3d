// Walks are compared with glibc's backtrace(), which unwinds with the C++ runtime's own code.
#include "interpose/stacks/unwinder.h"

#include <execinfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/interpose/stacks/call_shapes.h"
#include "tests/interpose/stacks/capture_library.h"

namespace cuheap::stacks {
namespace {

constexpr unsigned kMax = 250;

// Filled in signal handlers too: no allocation.
struct Both {
  std::uint64_t our_addresses[kMax] = {};
  void* their_addresses[kMax] = {};
  int their_depth = 0;
  CaptureLibraryWalk walk{};

  // Without the first frame: there the addresses differ, for the two calls in WalkBoth.
  std::vector<std::uint64_t> Ours() const { return {our_addresses + 1, our_addresses + walk.depth}; }
  std::vector<std::uint64_t> Theirs() const {
    int first = 1;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    ++first;  // the sanitizer stands before backtrace()
#endif
    std::vector<std::uint64_t> result;
    for (int i = first; i < their_depth; ++i) result.push_back(reinterpret_cast<std::uint64_t>(their_addresses[i]));
    while (!result.empty() && result.back() == 0) result.pop_back();
    return result;
  }
};

[[gnu::noinline]] void WalkBoth(Both& both) {
  both.walk = CaptureLibraryWalkStack(both.our_addresses, kMax);
  both.their_depth = backtrace(both.their_addresses, kMax);
}

void ExpectEqualWalks(const Both& both) {
  EXPECT_FALSE(both.walk.failed);
  EXPECT_FALSE(both.walk.truncated);
  EXPECT_GT(both.walk.depth, 3u);
  EXPECT_EQ(both.Ours(), both.Theirs());
}

TEST(UnwinderTest, AgreesWithBacktraceThroughFramesOfManyShapes) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Both both;
    testing::CallThroughShapes(seed % 25, seed, [&] { WalkBoth(both); });
    SCOPED_TRACE(seed);
    ExpectEqualWalks(both);
    ASSERT_FALSE(HasFailure());
  }
}

TEST(UnwinderTest, AgreesInThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t, &wrong] {
      for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        Both both;
        // Shapes through qsort share a variable: this chain has plain recursion only.
        std::function<void(unsigned)> recurse = [&](unsigned depth) {
          if (depth == 0) {
            WalkBoth(both);
          } else {
            recurse(depth - 1);
          }
        };
        recurse(static_cast<unsigned>(seed + t) % 20);
        if (both.walk.failed || both.Ours() != both.Theirs()) ++wrong;
        if (seed % 10 == 0) ForgetFrameRules();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

void* SmallStackThread(void* argument) {
  WalkBoth(*static_cast<Both*>(argument));
  return nullptr;
}

TEST(UnwinderTest, AThreadWithASmallStackIsWalkedToItsEnd) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 64 * 1024), 0);
  Both both;
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, SmallStackThread, &both), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_FALSE(both.walk.failed);
  EXPECT_EQ(both.Ours(), both.Theirs());
}

[[gnu::noinline]] int Recurse(int depth, CaptureLibraryWalk& walk, std::uint64_t* addresses) {
  if (depth == 0) {
    walk = CaptureLibraryWalkStack(addresses, kMax);
    return 0;
  }
  const int below = Recurse(depth - 1, walk, addresses);
  asm volatile("" : : : "memory");  // no tail call, no loop
  return below + 1;
}

TEST(UnwinderTest, ATooDeepStackKeepsItsInnermostFramesAndSaysSo) {
  CaptureLibraryWalk walk{};
  std::uint64_t addresses[kMax];
  EXPECT_EQ(Recurse(20000, walk, addresses), 20000);
  EXPECT_TRUE(walk.truncated);
  EXPECT_FALSE(walk.failed);
  EXPECT_EQ(walk.depth, kMax);
  EXPECT_EQ(addresses[5], addresses[200]) << "the same call site all the way";
}

TEST(UnwinderTest, DeepStacksOneBelowTheLimitAreWhole) {
  CaptureLibraryWalk walk{};
  std::uint64_t addresses[kMax];
  Recurse(0, walk, addresses);
  const unsigned base = walk.depth;
  Recurse(static_cast<int>(kMax - base), walk, addresses);
  EXPECT_EQ(walk.depth, kMax);
  EXPECT_FALSE(walk.truncated);
  Recurse(static_cast<int>(kMax - base) + 1, walk, addresses);
  EXPECT_TRUE(walk.truncated);
}

Both* g_in_handler = nullptr;
void Handler(int) { WalkBoth(*g_in_handler); }

TEST(UnwinderTest, WalksOutOfASignalHandler) {
  Both both;
  g_in_handler = &both;
  signal(SIGUSR1, Handler);
  raise(SIGUSR1);
  signal(SIGUSR1, SIG_DFL);
  ExpectEqualWalks(both);
}

TEST(UnwinderTest, WalksOutOfASignalHandlerOnItsOwnStack) {
  Both both;
  g_in_handler = &both;
  std::vector<char> memory(256 * 1024);
  stack_t stack{};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  stack_t old;
  ASSERT_EQ(sigaltstack(&stack, &old), 0);
  struct sigaction action{};
  action.sa_handler = Handler;
  action.sa_flags = SA_ONSTACK;
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  raise(SIGUSR1);
  signal(SIGUSR1, SIG_DFL);
  ASSERT_EQ(sigaltstack(&old, nullptr), 0);
  EXPECT_EQ(both.Ours(), both.Theirs());
}

// Where glibc's answer and ours meet in code interrupted anywhere: prologues, epilogues, PLT entries, libc.
std::atomic<int> g_interruptions = 0;
std::atomic<int> g_short_walks = 0;
void TimerHandler(int) {
  std::uint64_t addresses[kMax];
  const CaptureLibraryWalk walk = CaptureLibraryWalkStack(addresses, kMax);
  ++g_interruptions;
  if (walk.failed) ++g_short_walks;
}

TEST(UnwinderTest, InterruptedAnywhereItNeverCrashesAndNearlyAlwaysGetsOut) {
  signal(SIGPROF, TimerHandler);
  const itimerval every{{0, 1000}, {0, 1000}};
  ASSERT_EQ(setitimer(ITIMER_PROF, &every, nullptr), 0);
  for (std::uint64_t seed = 1; g_interruptions < 100 && seed < 3000000; ++seed) {
    testing::CallThroughShapes(seed % 10, seed, [] {});
  }
  const itimerval never{};
  ASSERT_EQ(setitimer(ITIMER_PROF, &never, nullptr), 0);
  signal(SIGPROF, SIG_DFL);
  EXPECT_GE(g_interruptions, 100);
  EXPECT_LE(g_short_walks * 10, g_interruptions) << "PLT entries and little else have rules that we can't use";
}

Both* g_on_context = nullptr;
void OnContext() { WalkBoth(*g_on_context); }

TEST(UnwinderTest, ACoroutinesStackEndsWhereItBegins) {
  for (int round = 0; round < 3; ++round) {
    std::vector<char> memory(128 * 1024);
    ucontext_t here, there;
    ASSERT_EQ(getcontext(&there), 0);
    there.uc_stack.ss_sp = memory.data();
    there.uc_stack.ss_size = memory.size();
    there.uc_link = &here;
    makecontext(&there, OnContext, 0);
    Both both;
    g_on_context = &both;
    ASSERT_EQ(swapcontext(&here, &there), 0);
    EXPECT_EQ(both.Ours(), both.Theirs());
    EXPECT_LE(both.Ours().size(), 3u);
  }
}

// sub rsp, 8; call rdi; add rsp, 8; ret
constexpr unsigned char kCallerCode[] = {0x48, 0x83, 0xEC, 0x08, 0xFF, 0xD7, 0x48, 0x83, 0xC4, 0x08, 0xC3};
std::uint64_t g_addresses[kMax];
CaptureLibraryWalk g_walk;
void WalkFromGeneratedCode() { g_walk = CaptureLibraryWalkStack(g_addresses, kMax); }

TEST(UnwinderTest, CodeWithoutCallFrameInformationEndsTheWalk) {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) GTEST_SKIP() << "no memory that is writable and executable here";
  std::memcpy(page, kCallerCode, sizeof(kCallerCode));
  reinterpret_cast<void (*)(void (*)())>(page)(WalkFromGeneratedCode);
  EXPECT_TRUE(g_walk.failed);
  ASSERT_EQ(g_walk.depth, 2u);
  EXPECT_EQ(g_addresses[1], reinterpret_cast<std::uint64_t>(page) + 6) << "the generated code itself is seen";
  munmap(page, 4096);
}

TEST(UnwinderTest, ARuleThatLeadsNowhereStopsInsteadOfCrashing) {
  // Registers that belong to no stack: unreadable, misaligned, and a guard page.
  void* guarded = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(mprotect(static_cast<char*>(guarded) + 4096, 4096, PROT_NONE), 0);
  Registers registers = CurrentRegisters();
  std::uint64_t addresses[kMax];
  for (std::uint64_t wrong :
       {std::uint64_t{0}, std::uint64_t{0x1234567}, ~std::uint64_t{0} - 64,
        reinterpret_cast<std::uint64_t>(guarded) + 4096 - 16, reinterpret_cast<std::uint64_t>(guarded)}) {
    registers.stack_pointer = wrong;
    registers.frame_pointer = wrong;
    const WalkResult result = WalkStack(registers, 0, 0, addresses, kMax);
    EXPECT_LE(result.depth, 1u);
  }
  munmap(guarded, 8192);
}

TEST(UnwinderTest, ExceptionsStillFindTheirHandlers) {
  int caught = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    try {
      testing::CallThroughShapes(4, seed * 10 + 7, [&] {
        Both both;
        WalkBoth(both);
        throw std::runtime_error("out");
      });
    } catch (const std::runtime_error&) {
      ++caught;
    }
  }
  EXPECT_EQ(caught, 50);
}

}  // namespace
}  // namespace cuheap::stacks
