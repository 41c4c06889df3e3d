// The recorder against what processes do: fork, vfork, exec, threads by the thousand, teardown, exit.
#include <errno.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "interpose/recorder/recorder.h"
#include "tests/interpose/recorder/journal_view.h"
#include "tests/interpose/recorder/recorded_child.h"

extern char** environ;

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer starts no threads in a child forked from a process with threads, and is itself gone in the last
// rounds of a thread's teardown.
constexpr bool kThreadsInForkedChild = false;
constexpr int kTeardownRounds = 2;
#elif defined(__SANITIZE_ADDRESS__)
// AddressSanitizer's own locks are not made safe for fork: a thread's start in the child now and then waits for ever.
constexpr bool kThreadsInForkedChild = false;
constexpr int kTeardownRounds = 4;
#else
constexpr bool kThreadsInForkedChild = true;
constexpr int kTeardownRounds = 4;
#endif

namespace cuheap::recorder {
namespace {

using journal::AllocationKind;
using journal::Counter;
using journal::EventType;
using testing::JournalView;
using testing::Require;
using testing::RunChild;
using testing::TemporaryDirectory;

bool StartAt(const char* directory, std::uint64_t max_event_bytes = 64u << 20) {
  StartOptions options;
  options.directory = directory;
  options.max_event_bytes = max_event_bytes;
  return Start(options);
}

void Allocate(std::uint64_t address, std::uint64_t bytes = 1) {
  Allocation block;
  block.address = address;
  block.bytes = bytes;
  block.kind = AllocationKind::kDevice;
  block.device = 0;
  Allocated(block);
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class RecorderProcessTest : public ::testing::Test {
 protected:
  void StartHere(std::uint64_t max_event_bytes = 64u << 20) {
    Require(StartAt(directory_.path().c_str(), max_event_bytes), "Start");
  }
  std::string OnlyJournal() {
    const auto journals = directory_.Journals();
    EXPECT_EQ(journals.size(), 1u);
    return journals.empty() ? "" : journals[0];
  }
  TemporaryDirectory directory_;
};

void UseEverything() {
  Allocate(0x9000, 9);
  Freeing(0x1000, 0);
  Synchronized(0, 1, 2, 0);
  Count(Counter::kPoolHits, 100);
  Note(journal::NoteCode::kCapture, "a child");
  PoolState(0, 1, 1);
  ContextDestroyed(0);
  StepMark(1);
  Ending();
}

TEST_F(RecorderProcessTest, AForkedChildNeverTouchesItsParentsJournal) {
  ASSERT_EQ(RunChild([&] {
              StartHere();
              Allocate(0x1000);
              const std::string path = directory_.Journals().at(0);
              for (bool raw : {false, true}) {
                const std::string before = Contents(path);
                const pid_t child = raw ? static_cast<pid_t>(syscall(SYS_fork)) : fork();
                if (child == 0) {
                  UseEverything();
                  std::thread(UseEverything).join();
                  _exit(Started() ? 1 : 0);
                }
                // Not the parent's atfork handler either, as far as the comparison goes: it notes the fork once.
                Require(testing::WaitFor(child) == 0, "nothing is started in the child");
                std::string after = Contents(path);
                if (!raw) {
                  Require(after.size() >= before.size(), "the parent noted the fork");
                  continue;
                }
                Require(after == before, "not a byte has changed");
              }
              Allocate(0x2000);
            }),
            0);
  JournalView view(OnlyJournal());
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.live.size(), 2u);
  EXPECT_EQ(view.events.size(), 2u);
  ASSERT_EQ(view.notes.size(), 1u);
  EXPECT_EQ(view.notes[0].code, journal::NoteCode::kForked);
}

TEST_F(RecorderProcessTest, AForkedChildMayStartItsOwnJournal) {
  ASSERT_EQ(RunChild([&] {
              StartHere();
              Allocate(0x1000, 1);
              std::atomic<bool> stop = false;
              // Forks while other threads hold the recorder's locks, which nobody unlocks in the child.
              std::vector<std::thread> busy;
              for (int t = 0; t < 4; ++t) {
                busy.emplace_back([&stop, t] {
                  for (std::uint64_t i = 0; !stop; ++i) {
                    Allocate(0x100000 * (t + 1) + i % 1000 * 64, 2);
                    Freeing(0x100000 * (t + 1) + i % 1000 * 64, 0);
                  }
                });
              }
              for (int i = 0; i < 20; ++i) {
                const pid_t child = fork();
                if (child == 0) {
                  alarm(20);
                  StartHere();
                  Allocate(0x5000, 5);
                  Allocate(0x6000, 6);
                  Freeing(0x6000, 0);
                  if (kThreadsInForkedChild) {
                    std::thread([] { Allocate(0x7000, 7); }).join();
                  } else {
                    Allocate(0x7000, 7);
                  }
                  _exit(0);
                }
                Require(testing::WaitFor(child) == 0, "the child recorded");
              }
              stop = true;
              for (auto& thread : busy) thread.join();
            }),
            0);
  const auto journals = directory_.Journals();
  ASSERT_EQ(journals.size(), 21u);
  int parents = 0;
  for (const auto& path : journals) {
    JournalView view(path);
    ASSERT_EQ(view.problem(), "") << path;
    if (view.live.size() == 1) {
      ++parents;
      EXPECT_EQ(view.live[0].address, 0x1000u);
      continue;
    }
    ASSERT_EQ(view.live.size(), 2u);
    EXPECT_EQ(view.threads.size(), kThreadsInForkedChild ? 2u : 1u);
    EXPECT_EQ(view.header().devices[0].live_bytes.load(), 12u);
    EXPECT_EQ(view.header().devices[0].peak_bytes.load(), 12u);
    EXPECT_EQ(view.header().image, 0u);
  }
  EXPECT_EQ(parents, 1);
}

TEST_F(RecorderProcessTest, VforkAndSpawnLeaveTheRecorderAlone) {
  ASSERT_EQ(RunChild([&] {
              StartHere();
              Allocate(0x1000);
              const pid_t child = vfork();
              if (child == 0) {
                execl("/bin/true", "true", static_cast<char*>(nullptr));
                _exit(1);
              }
              Require(testing::WaitFor(child) == 0, "vfork and exec");
              char name[] = "true";
              char* arguments[] = {name, nullptr};
              pid_t spawned;
              Require(posix_spawn(&spawned, "/bin/true", nullptr, nullptr, arguments, environ) == 0, "posix_spawn");
              Require(testing::WaitFor(spawned) == 0, "spawned");
              Allocate(0x2000);
              Freeing(0x1000, 0);
            }),
            0);
  JournalView view(OnlyJournal());
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.live.size(), 1u);
  EXPECT_EQ(view.events.size(), 3u);
}

// This program starts itself as the image that comes by exec: see main.
constexpr char kAgain[] = "--as-second-image";
constexpr char kRefused[] = "--as-refused-image";

TEST_F(RecorderProcessTest, ExecLeavesTheFirstImagesJournalAndMakesASecond) {
  ASSERT_EQ(RunChild([&] {
              StartHere();
              Allocate(0x1000, 11);
              execl("/proc/self/exe", "again", kAgain, directory_.path().c_str(), static_cast<char*>(nullptr));
              Require(false, "exec");
            }),
            0);
  const auto journals = directory_.Journals();
  ASSERT_EQ(journals.size(), 2u);
  JournalView second(journals[0]), first(journals[1]);  // "….1.journal" sorts before "….journal"
  ASSERT_EQ(first.problem(), "");
  ASSERT_EQ(second.problem(), "");
  EXPECT_EQ(first.header().image, 0u);
  EXPECT_EQ(second.header().image, 1u);
  EXPECT_EQ(first.header().pid, second.header().pid);
  ASSERT_EQ(first.live.size(), 1u);
  EXPECT_EQ(first.live[0].bytes, 11u);
  EXPECT_EQ(first.header().state.load(), static_cast<std::uint32_t>(journal::ProcessState::kRecording));
  ASSERT_EQ(second.live.size(), 1u);
  EXPECT_EQ(second.live[0].bytes, 22u);
}

TEST_F(RecorderProcessTest, ThousandsOfShortThreadsNeedNoThousandsOfExtents) {
  constexpr int kThreads = 3000;
  ASSERT_EQ(RunChild([&] {
              StartHere();
              for (int i = 0; i < kThreads; ++i) {
                std::thread([i] {
                  Allocate(0x100000 + i * 64ull);
                  if (i % 3 == 0) Freeing(0x100000 + i * 64ull, 0);
                }).join();
              }
            }),
            0);
  JournalView view(OnlyJournal());
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.events.size(), kThreads + kThreads / 3);
  EXPECT_EQ(view.live.size(), kThreads - kThreads / 3);
  EXPECT_EQ(view.threads.size(), static_cast<std::size_t>(kThreads));
  EXPECT_LE(view.event_extents, 4u) << "one chain was handed on";
  std::set<std::uint64_t> ids;
  for (const auto& event : view.events) {
    EXPECT_EQ(ids.insert(event.allocation_id).second, event.type == EventType::kAllocate) << "ids repeat";
  }
}

TEST_F(RecorderProcessTest, AThousandThreadsAtOnceWithinTheCap) {
  constexpr int kThreads = 1000;
  ASSERT_EQ(RunChild([&] {
              StartHere(16u << 20);  // 256 extents of 64 KiB for 1000 threads
              std::atomic<int> waiting = 0;
              std::atomic<bool> go = false;
              std::vector<pthread_t> threads(kThreads);
              struct Argument {
                std::atomic<int>* waiting;
                std::atomic<bool>* go;
                int number;
              };
              std::vector<Argument> arguments;
              for (int i = 0; i < kThreads; ++i) arguments.push_back({&waiting, &go, i});
              pthread_attr_t attributes;
              pthread_attr_init(&attributes);
              pthread_attr_setstacksize(&attributes, 64 * 1024);
              for (int i = 0; i < kThreads; ++i) {
                const auto body = [](void* pointer) -> void* {
                  auto* argument = static_cast<Argument*>(pointer);
                  Allocate(0x100000 + argument->number * 64ull);
                  ++*argument->waiting;
                  while (!*argument->go) usleep(2000);
                  Freeing(0x100000 + argument->number * 64ull, 0);
                  return nullptr;
                };
                Require(pthread_create(&threads[i], &attributes, body, &arguments[i]) == 0, "pthread_create");
              }
              while (waiting != kThreads) usleep(1000);
              go = true;
              for (pthread_t thread : threads) pthread_join(thread, nullptr);
            }),
            0);
  JournalView view(OnlyJournal());
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.live.size(), 0u);
  EXPECT_EQ(view.threads.size(), static_cast<std::size_t>(kThreads));
  EXPECT_LE(view.event_extents, 256u);
  EXPECT_EQ(view.events.size() + view.counter(Counter::kEventsDropped), 2u * kThreads);
  EXPECT_GE(view.events.size(), 500u);
  EXPECT_EQ(view.header().devices[0].peak_bytes.load(), static_cast<std::uint64_t>(kThreads));
}

pthread_key_t g_key;
int g_rounds = 0;
void FreeInTeardown(void* argument) {
  Freeing(reinterpret_cast<std::uint64_t>(argument), 0);
  Allocate(0x500000 + static_cast<std::uint64_t>(++g_rounds) * 64);
  if (g_rounds < kTeardownRounds) pthread_setspecific(g_key, argument);  // every round that there is
}

TEST_F(RecorderProcessTest, WhatThreadsFreeInTheirTeardownIsRecorded) {
  ASSERT_EQ(RunChild([&] {
              StartHere();
              Allocate(0x1000);
              // A key made after the recorder's: its destructor runs after the recorder's in each round.
              Require(pthread_key_create(&g_key, FreeInTeardown) == 0, "a key");
              struct FreesInDestructor {
                ~FreesInDestructor() { Freeing(0x2000, 0); }
              };
              std::thread([] {
                static thread_local FreesInDestructor early;
                static_cast<void>(&early);
                asm volatile("" : : "r"(&early) : "memory");
                Allocate(0x2000);
                Allocate(0x3000);
                pthread_setspecific(g_key, reinterpret_cast<void*>(0x3000));
              }).join();
              std::thread([] { Allocate(0x4000); }).join();  // gets the chain, which is in order
            }),
            0);
  JournalView view(OnlyJournal());
  ASSERT_EQ(view.problem(), "");
  std::set<std::uint64_t> live;
  for (const auto& block : view.live) live.insert(block.address);
  std::set<std::uint64_t> expected = {0x1000, 0x4000};
  for (int round = 1; round <= kTeardownRounds; ++round) expected.insert(0x500000 + round * 64u);
  EXPECT_EQ(live, expected);
  EXPECT_EQ(view.events.size(), 6u + kTeardownRounds);
  for (const auto& event : view.events) {
    const std::uint32_t thread = event.address == 0x1000 ? 1 : event.address == 0x4000 ? 3 : 2;
    EXPECT_EQ(event.thread, thread) << "also when the thread's state is gone";
  }
}

TEST_F(RecorderProcessTest, FreesOfExitHandlersSaySo) {
  // The child ends by exit, not by _exit.
  const pid_t child = testing::StartChild([&] {
    StartHere();
    Allocate(0x1000);
    Allocate(0x2000);
    // Registered after the recorder's handler, so it runs before; the other way round for the second.
    atexit([] { Freeing(0x2000, 0); });
    atexit(Ending);
    atexit([] { Freeing(0x1000, 0); });
    exit(0);
  });
  ASSERT_EQ(testing::WaitFor(child), 0);
  JournalView view(OnlyJournal());
  ASSERT_EQ(view.problem(), "");
  ASSERT_EQ(view.events.size(), 4u);
  EXPECT_EQ(view.events[2].flags, 0);
  EXPECT_EQ(view.events[3].flags, journal::kFreedAtShutdown);
  EXPECT_EQ(view.header().state.load(), static_cast<std::uint32_t>(journal::ProcessState::kEnded));
}

TEST_F(RecorderProcessTest, NoSpaceLeftKeepsCountingAndSaysWhatIsMissing) {
  ASSERT_EQ(RunChild([&] {
              signal(SIGXFSZ, SIG_IGN);
              StartHere();
              for (std::uint64_t i = 0; i < 600; ++i) Allocate(0x100000 + i * 64);
              rlimit old;
              getrlimit(RLIMIT_FSIZE, &old);
              const rlimit small{1, old.rlim_max};  // nothing can grow from here on
              Require(setrlimit(RLIMIT_FSIZE, &small) == 0, "setrlimit");
              for (std::uint64_t i = 600; i < 20000; ++i) Allocate(0x100000 + i * 64);
              for (std::uint64_t i = 0; i < 20000; ++i) Freeing(0x100000 + i * 64, 0);
              for (std::uint64_t i = 0; i < 10; ++i) Allocate(0x100000 + i * 64);
            }),
            0);
  JournalView view(OnlyJournal());
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.counter(Counter::kAllocations), 20010u);
  EXPECT_EQ(view.counter(Counter::kFrees), 20000u);
  EXPECT_GT(view.counter(Counter::kLiveDropped), 0u);
  EXPECT_EQ(view.counter(Counter::kLiveDropped), view.counter(Counter::kFreesUnknown));
  EXPECT_EQ(view.live.size(), 10u) << "slots that were freed serve again";
  EXPECT_EQ(view.header().devices[0].live_bytes.load(), 10u);
  // Events go on in the extents there are: the newest are kept.
  EXPECT_EQ(view.events.size() + view.counter(Counter::kEventsOverwritten) + view.counter(Counter::kEventsDropped),
            40010u - view.counter(Counter::kFreesUnknown));
  EXPECT_EQ(view.events.back().type, EventType::kAllocate);
}

TEST_F(RecorderProcessTest, WhyThereIsNoJournalIsSaidOnce) {
  ASSERT_EQ(chmod(directory_.path().c_str(), 0755), 0);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ASSERT_EQ(RunChild([&] {
              dup2(pipe_ends[1], 2);  // only what was there from the beginning counts as standard error
              execl("/proc/self/exe", "again", kRefused, directory_.path().c_str(), static_cast<char*>(nullptr));
            }),
            0);
  close(pipe_ends[1]);
  char text[1000] = "";
  const auto size = read(pipe_ends[0], text, sizeof(text) - 1);
  close(pipe_ends[0]);
  ASSERT_GT(size, 0);
  const std::string said(text, static_cast<std::size_t>(size));
  EXPECT_EQ(said, "cuheap: not recording: " + directory_.path() + " is open to other users (mode 755, must be 700)\n");
  ASSERT_EQ(chmod(directory_.path().c_str(), 0700), 0);
}

int RunRefused(const char* directory) {
  errno = 55;
  if (StartAt(directory)) return 1;
  if (errno != 55 || Started()) return 2;
  Allocate(0x1000);
  return 0;
}

int RunAsSecondImage(const char* directory) {
  if (!StartAt(directory)) return 1;
  Allocate(0x1000, 22);
  return 0;
}

}  // namespace
}  // namespace cuheap::recorder

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], cuheap::recorder::kAgain) == 0) return cuheap::recorder::RunAsSecondImage(argv[2]);
  if (argc == 3 && strcmp(argv[1], cuheap::recorder::kRefused) == 0) return cuheap::recorder::RunRefused(argv[2]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
