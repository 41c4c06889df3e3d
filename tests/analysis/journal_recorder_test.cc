// Recorder and reader together: a child process records, and is read while it runs, while it is stopped, after it ended
// and after it was killed at a random instant.
//
// The truth is kept beside the journal, in memory that the child shares with the test: each block says whether it is
// surely held, surely not, or just being allocated or freed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "analysis/journal_reader.h"
#include "analysis/snapshot_check.h"
#include "interpose/recorder/recorder.h"
#include "tests/interpose/recorder/recorded_child.h"

namespace cuheap::analysis {
namespace {

using cuheap::testing::Require;
using cuheap::testing::StartChild;
using cuheap::testing::TemporaryDirectory;
using cuheap::testing::WaitFor;

constexpr std::uint64_t kThreads = 3;
constexpr std::uint64_t kBlocks = 200;  // of a thread
constexpr std::uint64_t kBlockBytes = 0x1000;

enum class Held : std::uint32_t { kNo, kAllocating, kYes, kFreeing };

struct Truth {
  std::atomic<std::uint64_t> operations;
  std::atomic<bool> stop;
  std::atomic<bool> bounded;  // stops at kMostOperations, so that no event is overwritten however late the test looks
  std::atomic<bool> slow;  // pauses, so that events do not fill the journal while it is read again and again
  std::atomic<Held> held[kThreads * kBlocks];
  std::atomic<std::uint64_t> bytes[kThreads * kBlocks];
};

std::uint64_t AddressOf(std::uint64_t block) { return 0x700000000000 + block * kBlockBytes; }

class Shared {
 public:
  Shared()
      : truth_(static_cast<Truth*>(
            mmap(nullptr, sizeof(Truth), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Shared() { munmap(truth_, sizeof(Truth)); }
  Truth* operator->() { return truth_; }
  Truth& operator*() { return *truth_; }

 private:
  Truth* truth_;
};

constexpr std::uint64_t kMostOperations = 200'000;  // their events fit into 64 MiB

// Allocates and frees the blocks of thread `t` at random until told to stop.
void Work(std::uint64_t t, Truth& truth, std::uint64_t seed) {
  std::mt19937_64 random(seed + t);
  while (!truth.stop) {
    if (truth.bounded && truth.operations >= kMostOperations) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    const std::uint64_t block = t * kBlocks + random() % kBlocks;
    if (truth.held[block] == Held::kNo) {
      recorder::Allocation allocation;
      allocation.address = AddressOf(block);
      allocation.bytes = 1 + random() % kBlockBytes;
      allocation.device = 0;
      allocation.kind = journal::AllocationKind::kDevice;
      truth.bytes[block] = allocation.bytes;
      truth.held[block] = Held::kAllocating;
      recorder::Allocated(allocation);
      truth.held[block] = Held::kYes;
    } else {
      truth.held[block] = Held::kFreeing;
      const recorder::FreeToken token = recorder::Freeing(AddressOf(block), 0);
      if (random() % 16 == 0) {
        recorder::FreeFailed(token, 1);
        truth.held[block] = Held::kYes;
      } else {
        truth.held[block] = Held::kNo;
      }
    }
    ++truth.operations;
    if (truth.slow) std::this_thread::sleep_for(std::chrono::microseconds(1));
  }
}

pid_t StartWorker(const TemporaryDirectory& directory, Shared& truth, std::uint64_t seed,
                  std::uint64_t max_event_bytes) {
  return StartChild([&, seed, max_event_bytes] {
    recorder::StartOptions options;
    options.directory = directory.path().c_str();
    options.max_event_bytes = max_event_bytes;
    options.configuration = "driver=simulated\n";
    Require(recorder::Start(options), "Start");
    unsigned char uuid[16] = {1};
    recorder::DeviceSeen(0, "Test", 1u << 30, 90, uuid, 1u << 29);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { Work(t, *truth, seed); });
    for (std::thread& thread : threads) thread.join();
    recorder::Ending();
  });
}

void WaitForOperations(Shared& truth, std::uint64_t count) {
  while (truth->operations < count) std::this_thread::yield();
}

Snapshot ReadOnly(const TemporaryDirectory& directory) {
  const std::vector<std::string> journals = directory.Journals();
  EXPECT_EQ(journals.size(), 1u);
  absl::StatusOr<Snapshot> snapshot = ReadJournal(journals.at(0));
  EXPECT_TRUE(snapshot.ok()) << snapshot.status().message();
  if (!snapshot.ok()) return {};
  const auto wrong = FindInconsistency(*snapshot);
  EXPECT_FALSE(wrong) << wrong->place << ": " << wrong->problem;
  for (const Note& note : snapshot->notes) EXPECT_NE(note.code, "journal_damaged") << note.text;
  return *std::move(snapshot);
}

// The live set is exactly what is held; calls that had not returned may count or not.
void ExpectExact(const Snapshot& snapshot, Shared& truth) {
  std::map<std::uint64_t, std::uint64_t> live;
  for (const LiveAllocation& allocation : snapshot.live) {
    EXPECT_TRUE(live.emplace(allocation.address, allocation.bytes).second) << "twice";
  }
  std::uint64_t surely = 0, in_motion = 0, held_bytes = 0;
  for (std::uint64_t block = 0; block < kThreads * kBlocks; ++block) {
    const auto found = live.find(AddressOf(block));
    const Held held = truth->held[block];
    if (held == Held::kYes) {
      ++surely;
      held_bytes += truth->bytes[block];
      ASSERT_NE(found, live.end()) << "a block that is held is missing";
      EXPECT_EQ(found->second, truth->bytes[block]);
    } else if (held == Held::kNo) {
      ASSERT_EQ(found, live.end()) << "a block that was freed is there";
    } else {
      ++in_motion;
    }
  }
  ASSERT_LE(in_motion, kThreads);
  ASSERT_EQ(snapshot.devices.size(), 1u);
  const Device& device = snapshot.devices[0];
  EXPECT_GE(device.live_count, surely);
  EXPECT_LE(device.live_count, surely + in_motion);
  EXPECT_GE(device.live_bytes, held_bytes);
  EXPECT_LE(device.live_bytes, held_bytes + in_motion * kBlockBytes);
  EXPECT_GE(device.peak_bytes, held_bytes);
}

// Replayed, the events give the live set. `missing_frees`: newest frees that a killed thread may not have written.
void ExpectReplayGivesLive(const Snapshot& snapshot, std::uint64_t missing_frees) {
  ASSERT_TRUE(snapshot.completeness.events_complete());
  std::set<std::uint64_t> replayed;
  const Events& events = snapshot.events;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.type[i] == EventType::kAllocate || events.type[i] == EventType::kFreeFailed)
      replayed.insert(events.id[i]);
    if (events.type[i] == EventType::kFree) replayed.erase(events.id[i]);
  }
  std::set<std::uint64_t> live;
  for (const LiveAllocation& allocation : snapshot.live) live.insert(allocation.id);
  std::vector<std::uint64_t> difference;
  std::set_symmetric_difference(replayed.begin(), replayed.end(), live.begin(), live.end(),
                                std::back_inserter(difference));
  EXPECT_LE(difference.size(), missing_frees);
}

TEST(JournalRecorderTest, AnEndedProcessIsExact) {
  TemporaryDirectory directory;
  Shared truth;
  truth->bounded = true;
  const pid_t pid = StartWorker(directory, truth, 1, 64u << 20);
  WaitForOperations(truth, 20'000);
  truth->stop = true;
  ASSERT_EQ(WaitFor(pid), 0);
  const Snapshot snapshot = ReadOnly(directory);
  EXPECT_EQ(snapshot.completeness.end, "exited");
  EXPECT_EQ(snapshot.process.pid, static_cast<std::uint64_t>(pid));
  EXPECT_TRUE(snapshot.simulated);
  EXPECT_EQ(snapshot.devices.at(0).name, "Test");
  ExpectExact(snapshot, truth);
  ExpectReplayGivesLive(snapshot, 0);
  std::uint64_t bytes = 0;
  for (const LiveAllocation& allocation : snapshot.live) bytes += allocation.bytes;
  EXPECT_EQ(snapshot.devices[0].live_bytes, bytes);
  EXPECT_EQ(snapshot.devices[0].live_count, snapshot.live.size());
  EXPECT_EQ(snapshot.counters.at("allocations") - snapshot.counters.at("frees"), snapshot.live.size());
}

TEST(JournalRecorderTest, AProcessKilledAtAnyInstantIsExact) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 25; ++round) {
    TemporaryDirectory directory;
    Shared truth;
    truth->bounded = true;
    const pid_t pid = StartWorker(directory, truth, 100 + round, 64u << 20);
    WaitForOperations(truth, 1 + random() % 3000);
    std::this_thread::sleep_for(std::chrono::nanoseconds(random() % 100'000));
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    // Read as soon as it is gone, still not waited for.
    siginfo_t info;
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
    const Snapshot snapshot = ReadOnly(directory);
    WaitFor(pid);
    EXPECT_EQ(snapshot.completeness.end, "killed");
    ExpectExact(snapshot, truth);
    ExpectReplayGivesLive(snapshot, kThreads);
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(JournalRecorderTest, WithOverwrittenEventsTheLiveSetStaysExact) {
  TemporaryDirectory directory;
  Shared truth;
  const pid_t pid = StartWorker(directory, truth, 3, 512u << 10);
  WaitForOperations(truth, 40'000);
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  WaitFor(pid);
  const Snapshot snapshot = ReadOnly(directory);
  EXPECT_GT(snapshot.completeness.events_overwritten, 0u);
  EXPECT_GT(snapshot.events.size(), 1000u);
  ExpectExact(snapshot, truth);
}

TEST(JournalRecorderTest, AStoppedProcessIsExact) {
  std::mt19937_64 random(4);
  TemporaryDirectory directory;
  Shared truth;
  const pid_t pid = StartWorker(directory, truth, 4, 64u << 20);
  for (int round = 0; round < 10; ++round) {
    WaitForOperations(truth, truth->operations + 1 + random() % 500);
    ASSERT_EQ(kill(pid, SIGSTOP), 0);
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
    const Snapshot snapshot = ReadOnly(directory);
    EXPECT_EQ(snapshot.completeness.end, "running");
    ExpectExact(snapshot, truth);
    ASSERT_EQ(kill(pid, SIGCONT), 0);
    if (HasFailure()) break;
  }
  kill(pid, SIGKILL);
  WaitFor(pid);
}

// While it runs, nothing can be compared with a truth of the same instant, but one snapshot must agree with itself.
TEST(JournalRecorderTest, ARunningProcessGivesSnapshotsThatAgreeWithThemselves) {
  TemporaryDirectory directory;
  Shared truth;
  truth->slow = true;
  const pid_t pid = StartWorker(directory, truth, 5, 64u << 20);
  WaitForOperations(truth, 100);
  std::size_t before = 0;
  for (int round = 0; round < 20; ++round) {
    const Snapshot snapshot = ReadOnly(directory);
    EXPECT_EQ(snapshot.completeness.end, "running");
    EXPECT_GE(snapshot.events.size(), before);
    before = snapshot.events.size();
    std::set<std::uint64_t> addresses;
    for (const LiveAllocation& allocation : snapshot.live) {
      EXPECT_TRUE(addresses.insert(allocation.address).second) << "two blocks at one address";
    }
    // A call whose event was written after the cut, though its time lies before it, may differ.
    ExpectReplayGivesLive(snapshot, 2 * kThreads);
    if (HasFailure()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  kill(pid, SIGKILL);
  WaitFor(pid);
}

// The same, with extents being recycled while they are read.
TEST(JournalRecorderTest, ARunningProcessThatRecyclesItsEventsIsReadWhole) {
  TemporaryDirectory directory;
  Shared truth;
  const pid_t pid = StartWorker(directory, truth, 6, 256u << 10);
  WaitForOperations(truth, 10'000);
  for (int round = 0; round < 50; ++round) {
    const Snapshot snapshot = ReadOnly(directory);
    EXPECT_GT(snapshot.completeness.events_overwritten, 0u);
    EXPECT_EQ(snapshot.completeness.events_dropped, 0u);
    for (std::size_t i = 0; i < snapshot.events.size(); ++i) {
      EXPECT_NE(snapshot.events.type[i], EventType::kNone);
      EXPECT_GE(snapshot.events.address[i], AddressOf(0));
      EXPECT_LT(snapshot.events.address[i], AddressOf(kThreads * kBlocks));
    }
    if (HasFailure()) break;
  }
  kill(pid, SIGKILL);
  WaitFor(pid);
}

}  // namespace
}  // namespace cuheap::analysis
