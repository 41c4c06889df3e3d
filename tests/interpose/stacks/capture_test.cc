// Stacks as they arrive in the journal.
#include <dlfcn.h>
#include <execinfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/interpose/recorder/journal_view.h"
#include "tests/interpose/recorder/recorded_child.h"
#include "tests/interpose/stacks/call_shapes.h"
#include "tests/interpose/stacks/capture_library.h"

#ifndef PASSING_LIBRARIES
#error "the folder of the libraries that pass calls on"
#endif

namespace cuheap {
namespace {

using journal::Counter;
using testing::JournalView;
using testing::Require;
using testing::RunChild;
using testing::TemporaryDirectory;
using testing::ViewStack;

using PassOn = std::uint64_t (*)(std::uint64_t (*)(void*), void*);

void* Open(const std::string& name) {
  void* handle = dlopen((std::string(PASSING_LIBRARIES) + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  Require(handle != nullptr, "dlopen");
  return handle;
}
PassOn PassOnOf(void* handle) { return reinterpret_cast<PassOn>(dlsym(handle, "PassOn")); }

class CaptureTest : public ::testing::Test {
 protected:
  void Start() { Require(CaptureLibraryStart(directory_.path().c_str()), "Start"); }
  std::string Journal() {
    const auto journals = directory_.Journals();
    EXPECT_EQ(journals.size(), 1u);
    return journals.empty() ? "" : journals[0];
  }
  static std::string Name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  // The file names of the modules that a stack passes through, innermost first; "?" for none.
  static std::vector<std::string> ModulesOf(const JournalView& view, const ViewStack& stack) {
    std::vector<std::string> names;
    for (std::uint64_t word : stack.words) {
      const auto module = word >> journal::kModuleShift;
      names.push_back(module == 0 ? "?" : Name(view.modules[module - 1].path));
    }
    return names;
  }
  TemporaryDirectory directory_;
};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kSanitizerFrames = 1;  // it stands before backtrace()
#else
constexpr int kSanitizerFrames = 0;
#endif

// Memory that a child and its parent share.
template <typename T>
T* Shared() {
  return static_cast<T*>(mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

TEST_F(CaptureTest, FramesAreModuleAndOffsetOfTheReturnAddresses) {
  struct Truth {
    std::uint64_t addresses[300];
    int depth;
    std::uint32_t id;
  };
  Truth* truth = Shared<Truth>();
  ASSERT_EQ(RunChild([&] {
              Start();
              testing::CallThroughShapes(12, 5, [&] {
                void* expected[300];
                truth->id = CaptureLibraryAllocate(0x1000, 64);
                truth->depth = backtrace(expected, 300) - kSanitizerFrames;
                std::memcpy(truth->addresses, expected + kSanitizerFrames, truth->depth * sizeof(void*));
              });
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  ASSERT_EQ(view.live.size(), 1u);
  EXPECT_EQ(view.live[0].stack, truth->id);
  ASSERT_EQ(view.stacks.size(), 1u);
  const ViewStack& stack = view.stacks.at(truth->id);
  EXPECT_EQ(stack.flags, 0);
  ASSERT_EQ(stack.words.size(), static_cast<std::size_t>(truth->depth));
  for (std::size_t i = 1; i < stack.words.size(); ++i) {
    const auto& module = view.modules[(stack.words[i] >> journal::kModuleShift) - 1];
    const std::uint64_t address = (stack.words[i] & 0xFFFFFFFFFFFF) + module.load_bias;
    EXPECT_EQ(address, truth->addresses[i]) << i;
    EXPECT_GE(address, module.begin);
    EXPECT_LE(address, module.end);
    EXPECT_EQ(module.build_id.size(), 20u) << module.path;
    EXPECT_EQ(module.path[0], '/');
  }
  EXPECT_THAT(ModulesOf(view, stack).front(), ::testing::StartsWith("capture_test")) << "our own frames are cut off";
  EXPECT_EQ(view.counter(Counter::kStacksInterned), 1u);
  munmap(truth, sizeof(Truth));
}

TEST_F(CaptureTest, EachDifferentStackIsWrittenOnce) {
  struct Ids {
    std::uint32_t of[40];
  };
  Ids* ids = Shared<Ids>();
  ASSERT_EQ(RunChild([&] {
              Start();
              for (int round = 0; round < 50; ++round) {
                for (std::uint64_t seed = 0; seed < 40; ++seed) {
                  std::uint32_t id = 0;
                  testing::CallThroughShapes(6, seed * 977 + 1, [&] { id = CaptureLibraryAllocate(0x1000, 1); });
                  Require(id != 0, "a stack");
                  Require(round == 0 || ids->of[seed] == id, "the same stack has the same id");
                  ids->of[seed] = id;
                }
                if (round % 10 == 9) CaptureLibraryModulesChanged();  // nothing really changed
              }
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  const std::set<std::uint32_t> different(ids->of, ids->of + 40);
  EXPECT_GT(different.size(), 30u);
  EXPECT_EQ(view.stacks.size(), different.size());
  EXPECT_EQ(view.counter(Counter::kStacksInterned), different.size());
  EXPECT_EQ(view.counter(Counter::kStacksFailed), 0u);
  munmap(ids, sizeof(Ids));
}

TEST_F(CaptureTest, AnotherLibraryAtTheSameAddressIsAnotherModule) {
  ASSERT_EQ(RunChild([&] {
              Start();
              const auto allocate = [](void* argument) -> std::uint64_t {
                return CaptureLibraryAllocate(*static_cast<std::uint64_t*>(argument), 1);
              };
              std::uint64_t address = 0x1000, base[2];
              std::uint32_t ids[2];
              const char* names[2] = {"libfirst_at_address.so", "libsecond_at_address.so"};
              for (int i = 0; i < 2; ++i) {
                void* handle = Open(names[i]);
                base[i] = reinterpret_cast<std::uint64_t>(PassOnOf(handle));
                ids[i] = static_cast<std::uint32_t>(PassOnOf(handle)(allocate, &address));
                address += 0x1000;
                CaptureLibraryModulesChanged();
                dlclose(handle);
                CaptureLibraryModulesChanged();
              }
              Require(base[0] == base[1], "the loader puts both at one place");
              Require(ids[0] != ids[1], "two stacks, although all addresses are equal");
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  ASSERT_EQ(view.stacks.size(), 2u);
  std::set<std::string> seen;
  for (const auto& [id, stack] : view.stacks) {
    for (const std::string& name : ModulesOf(view, stack)) seen.insert(name);
  }
  EXPECT_EQ(seen.count("libfirst_at_address.so"), 1u);
  EXPECT_EQ(seen.count("libsecond_at_address.so"), 1u);
}

TEST_F(CaptureTest, TheSameLibraryLoadedAgainIsTheSameModule) {
  ASSERT_EQ(RunChild([&] {
              Start();
              const auto allocate = [](void*) -> std::uint64_t { return CaptureLibraryAllocate(0x1000, 1); };
              std::set<std::uint64_t> bases;
              for (int i = 0; i < 20; ++i) {
                void* handle = Open("libfirst_at_address.so");
                bases.insert(reinterpret_cast<std::uint64_t>(PassOnOf(handle)));
                PassOnOf(handle)(allocate, nullptr);
                CaptureLibraryModulesChanged();
                dlclose(handle);
                CaptureLibraryModulesChanged();
              }
              Require(bases.size() == 1, "the loader puts it at one place");
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.stacks.size(), 1u);
}

TEST_F(CaptureTest, PyTorchIsKnownByTheFirstFrameAboveTheRuntime) {
  ASSERT_EQ(
      RunChild([&] {
        Start();
        // Called directly by the libraries: a function of this program in between would be the caller.
        static PassOn runtime = PassOnOf(Open("libcudart_pass.so"));
        void* c10 = Open("libc10_cuda_pass.so");
        static PassOn pytorch = PassOnOf(c10);
        using Through = std::uint64_t (*)(PassOn, std::uint64_t (*)(void*), void*);
        const auto pytorch_through = reinterpret_cast<Through>(dlsym(c10, "PassOnThrough"));
        const auto through_runtime = [](void*) -> std::uint64_t { return runtime(CaptureLibraryCaptureFor, nullptr); };
        for (bool enabled : {true, false}) {
          CaptureLibraryConfigure(enabled, 64);
          for (int round = 0; round < 3; ++round) {
            Require(CaptureLibraryCapture(true) >> 32 == 0, "this program is not PyTorch");
            Require(runtime(CaptureLibraryCaptureFor, nullptr) >> 32 == 0, "nor through the runtime");
            Require(pytorch(CaptureLibraryCaptureFor, nullptr) >> 32 == 1, "PyTorch calling the driver");
            Require(pytorch_through(runtime, CaptureLibraryCaptureFor, nullptr) >> 32 == 1, "through the runtime");
            Require(pytorch(through_runtime, nullptr) >> 32 == 0, "a function that PyTorch calls is not PyTorch");
          }
        }
        Require((CaptureLibraryCapture(true) & 0xFFFFFFFF) == 0, "stacks are off");
        Require(CaptureLibraryCapture(false) == 0, "nothing was asked");
      }),
      0);
  EXPECT_EQ(JournalView(Journal()).problem(), "");
}

TEST_F(CaptureTest, DepthLimitIsKept) {
  ASSERT_EQ(RunChild([&] {
              Start();
              CaptureLibraryConfigure(true, 5);
              testing::CallThroughShapes(20, 3, [] { CaptureLibraryAllocate(0x1000, 1); });
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.stacks.size(), 1u);
  EXPECT_EQ(view.stacks.begin()->second.words.size(), 5u);
  EXPECT_EQ(view.stacks.begin()->second.flags, journal::kStackTruncated);
}

TEST_F(CaptureTest, GeneratedCodeIsModuleZeroAndTheWalkSaysItStopped) {
  ASSERT_EQ(RunChild([&] {
              Start();
              constexpr unsigned char kCode[] = {0x48, 0x83, 0xEC, 0x08, 0xFF, 0xD7, 0x48, 0x83, 0xC4, 0x08, 0xC3};
              void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              Require(page != MAP_FAILED, "an executable page");
              std::memcpy(page, kCode, sizeof(kCode));
              reinterpret_cast<void (*)(void (*)())>(page)([] { CaptureLibraryAllocate(0x1000, 1); });
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  ASSERT_EQ(view.stacks.size(), 1u);
  const ViewStack& stack = view.stacks.begin()->second;
  ASSERT_GE(stack.words.size(), 2u);  // the lambda is one or two frames
  EXPECT_LE(stack.words.size(), 3u);
  EXPECT_EQ(stack.words.back() >> journal::kModuleShift, 0u);
  EXPECT_EQ(stack.words.back() % 4096, 6u) << "the absolute return address";
  EXPECT_EQ(stack.flags, journal::kStackUnwindFailed);
}

TEST_F(CaptureTest, ManyThreadsInternTheSameStacksWhileModulesChange) {
  ASSERT_EQ(RunChild([&] {
              Start();
              std::atomic<bool> stop = false;
              std::thread changer([&] {
                while (!stop) {
                  CaptureLibraryModulesChanged();
                  usleep(200);
                }
              });
              std::vector<std::thread> threads;
              for (int t = 0; t < 6; ++t) {
                threads.emplace_back([t] {
                  std::function<void(unsigned)> recurse = [&](unsigned depth) {
                    if (depth == 0) {
                      Require(CaptureLibraryAllocate(0x1000 * (t + 1), 1) != 0, "a stack");
                    } else {
                      recurse(depth - 1);
                    }
                  };
                  for (unsigned i = 0; i < 2000; ++i) recurse(i % 30);
                });
              }
              for (auto& thread : threads) thread.join();
              stop = true;
              changer.join();
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.stacks.size(), 30u);
  EXPECT_EQ(view.counter(Counter::kStacksFailed), 0u);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kThreadStack = 64 * 1024;
constexpr unsigned char kUntouched = 0xA5;

// Two stacks that are kept, then one that is not; what the calls took of the thread's stack, in bytes.
std::size_t g_taken = 0;
void* AllocateOnPaintedStack(void* stack) {
  auto* const bytes = static_cast<unsigned char*>(stack);
  auto* const here = static_cast<unsigned char*>(__builtin_frame_address(0));
  for (std::uint64_t i = 1; i <= 2; ++i) Require(CaptureLibraryAllocate(0x1000 * i, 1) != 0, "a stack");
  CaptureLibraryConfigure(false, 64);
  CaptureLibraryCapture(true);
  const auto* const lowest = std::find_if(bytes, here, [](unsigned char byte) { return byte != kUntouched; });
  g_taken = static_cast<std::size_t>(here - lowest);
  return nullptr;
}

// The smallest stack that a thread may have is 16 KiB, and its program counts on most of it.
TEST_F(CaptureTest, CallsTakeLittleOfTheThreadsStack) {
  ASSERT_EQ(RunChild([&] {
              Start();
              CaptureLibraryAllocate(0x9000, 1);  // the loader has bound what is called
              void* stack =
                  mmap(nullptr, kThreadStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
              std::memset(stack, kUntouched, kThreadStack);
              pthread_attr_t attributes;
              pthread_t thread;
              Require(pthread_attr_init(&attributes) == 0 &&
                          pthread_attr_setstack(&attributes, stack, kThreadStack) == 0 &&
                          pthread_create(&thread, &attributes, AllocateOnPaintedStack, stack) == 0 &&
                          pthread_join(thread, nullptr) == 0,
                      "a thread");
              if (g_taken > 4096) fprintf(stderr, "the calls took %zu bytes of the stack\n", g_taken);
              Require(g_taken > 256 && g_taken <= 4096, "little of the stack");
            }),
            0);
}
#endif

std::atomic<int> g_signals = 0;
void AllocateInHandler(int) {
  const int saved_errno = errno;
  ++g_signals;
  CaptureLibraryAllocate(0x9000000 + g_signals * 4096, 1);
  errno = saved_errno;
}

TEST_F(CaptureTest, HandlersThatAllocateNeitherDeadlockNorBreakTheJournal) {
  ASSERT_EQ(RunChild([&] {
              Start();
              signal(SIGPROF, AllocateInHandler);
              const itimerval every{{0, 500}, {0, 500}};
              setitimer(ITIMER_PROF, &every, nullptr);
              for (std::uint64_t i = 0; g_signals < 100 && i < 20'000'000; ++i) {
                CaptureLibraryAllocate(0x1000 + i % 64 * 256, 1);
                CaptureLibraryFree(0x1000 + i % 64 * 256);
              }
              const itimerval never{};
              setitimer(ITIMER_PROF, &never, nullptr);
              Require(g_signals >= 100, "signals came");
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  // Each handler did two things: capture and record. What came inside of the recorder was counted instead.
  EXPECT_GT(view.counter(Counter::kReentries), 0u);
  EXPECT_GE(view.live.size() * 2 + view.counter(Counter::kReentries), 200u - 2);
}

}  // namespace
}  // namespace cuheap
