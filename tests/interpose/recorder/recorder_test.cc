// What the recorder writes, read back from the file that a recording child left.
#include "interpose/recorder/recorder.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/interpose/recorder/journal_view.h"
#include "tests/interpose/recorder/recorded_child.h"

namespace cuheap::recorder {
namespace {

using journal::AllocationKind;
using journal::Counter;
using journal::EventType;
using ::testing::ElementsAre;
using testing::JournalView;
using testing::Require;
using testing::RunChild;
using testing::TemporaryDirectory;
using testing::ViewEvent;

void StartIn(const TemporaryDirectory& directory, std::uint64_t max_event_bytes = 64 << 20) {
  StartOptions options;
  options.directory = directory.path().c_str();
  options.max_event_bytes = max_event_bytes;
  options.configuration = "pack=1\n";
  Require(Start(options), "Start");
}

Allocation Block(std::uint64_t address, std::uint64_t bytes, AllocationKind kind = AllocationKind::kDevice) {
  Allocation block;
  block.address = address;
  block.bytes = bytes;
  block.kind = kind;
  block.device = 0;
  block.context = 0xC0;
  return block;
}

std::vector<EventType> Types(const JournalView& view) {
  std::vector<EventType> types;
  for (const ViewEvent& event : view.events) types.push_back(event.type);
  return types;
}

class RecorderTest : public ::testing::Test {
 protected:
  // The only journal that was written.
  std::string Journal() {
    const auto journals = directory_.Journals();
    EXPECT_EQ(journals.size(), 1u);
    return journals.empty() ? "" : journals[0];
  }
  TemporaryDirectory directory_;
};

TEST_F(RecorderTest, EveryFieldOfAnAllocationArrives) {
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_);
              Allocation block;
              block.address = 0xA1A2A3A4A5A6A700;
              block.bytes = 0xB1B2B3B4;
              block.reserved_bytes = 0xC1C2C3C4C5;
              block.stream = 0xD1D2D3D4;
              block.context = 0xE1E2E3E4;
              block.device = 3;
              block.kind = AllocationKind::kStreamOrdered;
              block.flags = journal::kServedFromPool | journal::kDuringCapture;
              block.stack = 0;
              Allocated(block);
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  ASSERT_EQ(view.live.size(), 1u);
  const auto& live = view.live[0];
  EXPECT_EQ(live.address, 0xA1A2A3A4A5A6A700u);
  EXPECT_EQ(live.bytes, 0xB1B2B3B4u);
  EXPECT_EQ(live.reserved_bytes, 0xC1C2C3C4C5u);
  EXPECT_EQ(live.stream, 0xD1D2D3D4u);
  EXPECT_EQ(live.context, 0xE1E2E3E4u);
  EXPECT_EQ(live.device, 3);
  EXPECT_EQ(live.kind, AllocationKind::kStreamOrdered);
  EXPECT_EQ(live.flags, journal::kServedFromPool | journal::kDuringCapture);
  ASSERT_EQ(view.events.size(), 1u);
  const auto& event = view.events[0];
  EXPECT_EQ(event.type, EventType::kAllocate);
  EXPECT_EQ(event.address, live.address);
  EXPECT_EQ(event.bytes, live.bytes);
  EXPECT_EQ(event.allocation_id, live.allocation_id);
  EXPECT_EQ(event.stream, live.stream);
  EXPECT_EQ(event.time_ns, live.time_ns);
  EXPECT_EQ(event.thread, 1u);
  EXPECT_EQ(event.device, 3);
  EXPECT_EQ(event.flags, live.flags);
  ASSERT_EQ(view.threads.size(), 1u);
  EXPECT_EQ(view.threads[0].tid, view.header().pid) << "the main thread";
}

TEST_F(RecorderTest, HeaderTellsWhoRan) {
  ASSERT_EQ(RunChild([&] {
              setenv("LOCAL_RANK", "7", 1);
              setenv("SOME_SECRET", "hunter2", 1);
              StartIn(directory_);
              const unsigned char uuid[16] = {1, 2, 3};
              DeviceSeen(1, "Simulated H200", 141u << 20, 90, uuid, 140u << 20);
              DeviceSeen(1, "Other", 1, 1, uuid, 1);
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  const auto& header = view.header();
  EXPECT_THAT(header.executable, ::testing::EndsWith("recorder_test"));
  EXPECT_THAT(std::string(header.command_line, header.command_line_bytes), ::testing::HasSubstr("recorder_test"));
  EXPECT_STREQ(header.configuration, "pack=1\n");
  EXPECT_THAT(header.launcher_facts, ::testing::HasSubstr("LOCAL_RANK=7\n"));
  EXPECT_THAT(header.launcher_facts, ::testing::Not(::testing::HasSubstr("hunter2")));
  EXPECT_EQ(header.parent_pid, static_cast<std::uint64_t>(getpid()));
  EXPECT_GT(header.start_ticks, 0u);
  EXPECT_EQ(header.state.load(), static_cast<std::uint32_t>(journal::ProcessState::kRecording))
      << "it never said it ended";
  EXPECT_EQ(header.devices[0].present.load(), 0u);
  EXPECT_STREQ(header.devices[1].name, "Simulated H200") << "only the first report of a device counts";
  EXPECT_EQ(header.devices[1].total_bytes, 141u << 20);
  EXPECT_EQ(header.devices[1].driver_free_at_start.load(), 140u << 20);
}

TEST_F(RecorderTest, AFreeEndsTheBlockAndNamesIt) {
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_);
              Allocated(Block(0x1000, 100));
              Allocated(Block(0x2000, 200));
              const FreeToken token = Freeing(0x1000, 0, 0x57, 0);
              Require(token.known && token.allocation.bytes == 100, "the token names the block");
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  ASSERT_EQ(view.live.size(), 1u);
  EXPECT_EQ(view.live[0].address, 0x2000u);
  ASSERT_THAT(Types(view), ElementsAre(EventType::kAllocate, EventType::kAllocate, EventType::kFree));
  EXPECT_EQ(view.events[2].allocation_id, view.events[0].allocation_id);
  EXPECT_NE(view.events[1].allocation_id, view.events[0].allocation_id);
  EXPECT_EQ(view.events[2].bytes, 100u);
  EXPECT_EQ(view.events[2].stream, 0x57u);
  EXPECT_EQ(view.counter(Counter::kAllocations), 2u);
  EXPECT_EQ(view.counter(Counter::kFrees), 1u);
  EXPECT_EQ(view.header().devices[0].live_bytes.load(), 200u);
  EXPECT_EQ(view.header().devices[0].live_count.load(), 1u);
  EXPECT_EQ(view.header().devices[0].peak_bytes.load(), 300u);
  EXPECT_EQ(view.header().devices[0].peak_time_ns.load(), view.events[1].time_ns);
}

TEST_F(RecorderTest, AFailedFreeLeavesTheBlockAsItWas) {
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_);
              Allocated(Block(0x1000, 100));
              const FreeToken token = Freeing(0x1000, 0);
              FreeFailed(token, 700);
              FreeFailed(Freeing(0xDEAD, 0), 1);  // never allocated
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  ASSERT_THAT(Types(view), ElementsAre(EventType::kAllocate, EventType::kFree, EventType::kFreeFailed));
  EXPECT_EQ(view.events[2].result, 700);
  ASSERT_EQ(view.live.size(), 1u);
  EXPECT_EQ(view.live[0].allocation_id, view.events[0].allocation_id);
  EXPECT_EQ(view.live[0].time_ns, view.events[0].time_ns);
  EXPECT_EQ(view.live[0].thread, 1u);
  EXPECT_EQ(view.live[0].flags, journal::kHadFailedFree);
  EXPECT_EQ(view.counter(Counter::kFrees), 0u);
  EXPECT_EQ(view.counter(Counter::kFreesUnknown), 0u);
  EXPECT_EQ(view.header().devices[0].live_bytes.load(), 100u);
}

TEST_F(RecorderTest, AnAddressHandedOutAgainEndsTheBlockThatHadIt) {
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_);
              Allocated(Block(0x1000, 100));
              Allocated(Block(0x1000, 50));
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  ASSERT_EQ(view.live.size(), 1u);
  EXPECT_EQ(view.live[0].bytes, 50u);
  EXPECT_EQ(view.counter(Counter::kFreesNotSeen), 1u);
  EXPECT_EQ(view.header().devices[0].live_bytes.load(), 50u);
  ASSERT_EQ(view.events.size(), 3u);
  int implicit = 0;
  for (const auto& event : view.events) {
    if (event.type == EventType::kFree && event.flags == journal::kFreeNotSeen && event.bytes == 100) ++implicit;
  }
  EXPECT_EQ(implicit, 1);
}

TEST_F(RecorderTest, EqualAddressesOfDifferentKindsAreDifferentThings) {
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_);
              SegmentAllocated(Block(0x1000, 4096));
              Allocated(Block(0x1000, 100));
              Allocated(Block(0x1000, 7, AllocationKind::kVirtual));
              Allocated(Block(0x1000, 8, AllocationKind::kArray));
              Require(Freeing(0x1000, 0, 0, 0, AllocationKind::kArray).allocation.bytes == 8, "array");
              Require(Freeing(0x1000, 0).allocation.bytes == 100, "memory");
              Require(!Freeing(0x1000, 0).known, "memory is gone");
              Require(Freeing(0x1000, 0, 0, 0, AllocationKind::kHostVirtual).allocation.bytes == 7, "virtual");
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  ASSERT_EQ(view.live.size(), 1u);
  EXPECT_EQ(view.live[0].kind, AllocationKind::kPoolSegment);
  EXPECT_EQ(view.counter(Counter::kAllocations), 3u) << "segments are not the program's";
  EXPECT_EQ(view.header().devices[0].live_bytes.load(), 0u);
}

TEST_F(RecorderTest, ADestroyedContextTakesWhatDiesWithIt) {
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_);
              for (std::uint64_t i = 0; i < 500; ++i) {
                Allocation block = Block(0x100000 + i * 256, 10);
                block.context = i % 2 == 0 ? 0xC0 : 0xC1;
                Allocated(block);
              }
              Allocated(Block(0x900000, 10, AllocationKind::kStreamOrdered));
              Allocated(Block(0x900100, 10, AllocationKind::kVirtual));
              Allocated(Block(0x900200, 10, AllocationKind::kHostPinned));
              SegmentAllocated(Block(0x900300, 10));
              ContextDestroyed(0xC0);
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.live.size(), 252u);
  for (const auto& block : view.live) {
    EXPECT_TRUE(block.context == 0xC1 || block.kind == AllocationKind::kStreamOrdered ||
                block.kind == AllocationKind::kVirtual);
  }
  EXPECT_EQ(view.counter(Counter::kFreesWithContext), 251u);
  EXPECT_EQ(view.events.back().type, EventType::kContextDestroyed);
  EXPECT_EQ(view.header().devices[0].live_bytes.load(), 252u * 10);
  for (const auto& event : view.events) {
    EXPECT_EQ(event.flags,
              event.type == EventType::kFree || event.type == EventType::kSegmentFree ? journal::kFreedWithContext : 0);
  }
}

TEST_F(RecorderTest, AContextThatGoesWhenTheProcessEndsTakesNothingWithIt) {
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_);
              for (std::uint64_t i = 0; i < 500; ++i) {
                Allocation block = Block(0x100000 + i * 256, 10);
                block.context = 0xC0;
                Allocated(block);
              }
              Ending();
              ContextDestroyed(0xC0);
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.live.size(), 500u);
  EXPECT_EQ(view.events.size(), 501u);
  EXPECT_EQ(view.events.back().type, EventType::kContextDestroyed);
  EXPECT_EQ(view.events.back().flags, journal::kFreedAtShutdown);
}

TEST_F(RecorderTest, OnlyTheProgramsDeviceMemoryIsCounted) {
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_);
              Allocated(Block(0x1000, 1, AllocationKind::kDevice));
              Allocated(Block(0x2000, 2, AllocationKind::kManaged));
              Allocated(Block(0x3000, 4, AllocationKind::kHostPinned));
              Allocated(Block(0x4000, 8, AllocationKind::kImported));
              Allocated(Block(0x5000, 16, AllocationKind::kArray));
              SegmentAllocated(Block(0x6000, 32));
              Allocation unknown = Block(0x7000, 64);
              unknown.device = 0xFFFF;
              Allocated(unknown);
              PoolState(0, 1000, 10);
              PoolState(0, 500, 20);
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.live.size(), 7u);
  const auto& device = view.header().devices[0];
  EXPECT_EQ(device.live_bytes.load(), 1u + 2 + 16);
  EXPECT_EQ(device.reserved_bytes.load(), 500u);
  EXPECT_EQ(device.reserved_peak_bytes.load(), 1000u);
  EXPECT_EQ(device.quarantined_bytes.load(), 20u);
}

TEST_F(RecorderTest, FreesAfterTheEndSaySo) {
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_);
              Allocated(Block(0x1000, 1));
              Allocated(Block(0x2000, 2));
              Freeing(0x1000, 0);
              Ending();
              Freeing(0x2000, 0);
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.header().state.load(), static_cast<std::uint32_t>(journal::ProcessState::kEnded));
  EXPECT_GE(view.header().end_monotonic_ns.load(), view.events[2].time_ns);
  ASSERT_EQ(view.events.size(), 4u);
  EXPECT_EQ(view.events[2].flags, 0);
  EXPECT_EQ(view.events[3].flags, journal::kFreedAtShutdown);
}

TEST_F(RecorderTest, OtherEventsAndNotes) {
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_);
              AllocationFailed(Block(0, 1 << 30), 2);
              Synchronized(0, 0xC0, 1234, 0);
              StepMark(17);
              Count(Counter::kPoolHits, 5);
              for (int i = 0; i < 10; ++i) Note(journal::NoteCode::kUnknownAddress, "cuMemAlloc_v2", 4);
              Note(journal::NoteCode::kUnknownAddress, "cuMemFree_v2");
              Note(journal::NoteCode::kPassThrough, std::string(1000, 'x'));
              errno = 77;
              Allocated(Block(0x1000, 1));
              Require(errno == 77, "errno is kept");
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  ASSERT_THAT(Types(view), ElementsAre(EventType::kAllocateFailed, EventType::kSynchronize, EventType::kStepMark,
                                       EventType::kAllocate));
  EXPECT_EQ(view.events[0].bytes, 1u << 30);
  EXPECT_EQ(view.events[0].result, 2);
  EXPECT_EQ(view.events[1].bytes, 1234u);
  EXPECT_EQ(view.events[1].address, 0xC0u);
  EXPECT_EQ(view.events[2].bytes, 17u);
  EXPECT_EQ(view.counter(Counter::kPoolHits), 5u);
  EXPECT_EQ(view.counter(Counter::kAllocationFailures), 1u);
  ASSERT_EQ(view.notes.size(), 3u);
  EXPECT_EQ(view.notes[0].text, "cuMemAlloc_v2");
  EXPECT_EQ(view.notes[0].a, 4u);
  EXPECT_EQ(view.notes[2].text, std::string(224, 'x'));
}

// Every call counts; one of 0.1 ms and more leaves an event.
TEST_F(RecorderTest, TimeInTheDriver) {
  ASSERT_EQ(RunChild([&] {
              DriverCalled(journal::DriverCall::kFree, 1, 0);  // before Start: nothing
              StartIn(directory_);
              DriverCalled(journal::DriverCall::kAllocate, 99'999, 0);
              DriverCalled(journal::DriverCall::kAllocate, 100'000, 0);
              DriverCalled(journal::DriverCall::kFree, 5'000'000, 0);
              errno = 77;
              DriverCalled(journal::DriverCall::kPoolWait, 2, 0);
              Require(errno == 77, "errno is kept");
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  ASSERT_THAT(Types(view), ElementsAre(EventType::kDriverCall, EventType::kDriverCall));
  EXPECT_EQ(view.events[0].address, static_cast<std::uint64_t>(journal::DriverCall::kAllocate));
  EXPECT_EQ(view.events[0].bytes, 100'000u);
  EXPECT_EQ(view.events[1].address, static_cast<std::uint64_t>(journal::DriverCall::kFree));
  const journal::DriverTime& allocate = view.driver_time(journal::DriverCall::kAllocate);
  EXPECT_EQ(allocate.count, 2u);
  EXPECT_EQ(allocate.total_ns, 199'999u);
  EXPECT_EQ(allocate.longest_ns, 100'000u);
  EXPECT_EQ(view.driver_time(journal::DriverCall::kFree).count, 1u);
  EXPECT_EQ(view.driver_time(journal::DriverCall::kPoolWait).total_ns, 2u);
  EXPECT_EQ(view.driver_time(journal::DriverCall::kMap).count, 0u);
}

TEST_F(RecorderTest, NothingHappensBeforeStartAndWithoutDirectory) {
  ASSERT_EQ(RunChild([&] {
              Allocated(Block(0x1000, 1));
              Require(!Freeing(0x1000, 0).known, "nothing is known");
              Require(!Start({}), "no directory, no journal");
              Require(!Started(), "not started");
              Count(Counter::kPoolHits);
              Ending();
            }),
            0);
  EXPECT_TRUE(directory_.Journals().empty());
}

TEST_F(RecorderTest, AtTheCapTheOldestEventsGoAndTheNewestStay) {
  constexpr std::uint64_t kEvents = 20000;
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_, 192 << 10);
              for (std::uint64_t i = 0; i < kEvents / 2; ++i) {
                Allocated(Block(0x1000 + i * 16, i));
                Freeing(0x1000 + i * 16, 0);
              }
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  const std::uint64_t lost = view.counter(Counter::kEventsOverwritten);
  ASSERT_GT(lost, 0u);
  EXPECT_EQ(view.counter(Counter::kEventsDropped), 0u);
  EXPECT_EQ(view.events.size(), kEvents - lost);
  EXPECT_GT(view.events.size(), 1500u);
  for (std::size_t i = 0; i < view.events.size(); ++i) ASSERT_EQ(view.events[i].sequence, lost + 1 + i);
  EXPECT_EQ(view.events.back().bytes, kEvents / 2 - 1);
}

TEST_F(RecorderTest, AnIdleThreadsEventsGiveWayToABusyOnes) {
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_, 192 << 10);
              std::atomic<int> turn = 0;
              std::thread busy_first([&] {
                for (int i = 0; i < 1100; ++i) StepMark(1);  // fills 64 KiB and begins another extent
                turn = 1;
                while (turn != 2) usleep(100);
                StepMark(3);
              });
              while (turn != 1) usleep(100);
              for (int i = 0; i < 5000; ++i) StepMark(2);
              turn = 2;
              busy_first.join();
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  std::uint64_t counts[4] = {};
  for (const auto& event : view.events) ++counts[event.bytes];
  EXPECT_EQ(counts[3], 1u) << "its current extent is never taken from a thread";
  EXPECT_LT(counts[1], 1023u) << "its full extent was recycled for the other thread";
  EXPECT_EQ(counts[1] + counts[2] + counts[3] + view.counter(Counter::kEventsOverwritten), 6101u);
}

TEST_F(RecorderTest, WithoutRoomForEventsTheLiveSetStaysTrue) {
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_, 0);
              for (std::uint64_t i = 1; i <= 1000; ++i) Allocated(Block(i * 4096, 1));
              for (std::uint64_t i = 1; i <= 1000; i += 2) Freeing(i * 4096, 0);
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.events.size(), 0u);
  EXPECT_EQ(view.live.size(), 500u);
  EXPECT_EQ(view.counter(Counter::kEventsDropped), 1500u);
  EXPECT_EQ(view.header().devices[0].live_bytes.load(), 500u);
}

// NVIDIA forbids it, programs do it: a block that is not yet added goes with its context.
TEST_F(RecorderTest, AContextThatGoesWhileThreadsAllocateWrapsNoPeak) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kBytes = 1 << 20;
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_);
              std::atomic<int> left = kThreads;
              std::vector<std::thread> threads;
              for (int t = 0; t < kThreads; ++t) {
                threads.emplace_back([t, &left] {
                  for (int i = 0; i < 50'000; ++i) {
                    Allocated(Block((t + 1) * 0x10000000ull, kBytes));
                    Freeing((t + 1) * 0x10000000ull, 0);
                  }
                  --left;
                });
              }
              while (left != 0) ContextDestroyed(0xC0);
              for (auto& thread : threads) thread.join();
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  const auto& device = view.header().devices[0];
  EXPECT_EQ(device.live_bytes.load(), 0u);
  EXPECT_LE(device.peak_bytes.load(), 2 * kThreads * kBytes);  // what is about to be subtracted counts still
}

TEST_F(RecorderTest, ManyBlocksManyThreadsExactTotals) {
  constexpr int kThreads = 8;
  constexpr std::uint64_t kEach = 5000;
  ASSERT_EQ(RunChild([&] {
              StartIn(directory_);
              std::vector<std::thread> threads;
              for (int t = 0; t < kThreads; ++t) {
                threads.emplace_back([t] {
                  for (std::uint64_t i = 0; i < kEach; ++i) Allocated(Block((t + 1) * 0x10000000ull + i * 512, 3));
                  for (std::uint64_t i = 0; i < kEach; i += 5) Freeing((t + 1) * 0x10000000ull + i * 512, 0);
                });
              }
              for (auto& thread : threads) thread.join();
            }),
            0);
  JournalView view(Journal());
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.live.size(), kThreads * kEach / 5 * 4);
  EXPECT_EQ(view.events.size(), kThreads * (kEach + kEach / 5));
  const auto& device = view.header().devices[0];
  EXPECT_EQ(device.live_bytes.load(), kThreads * kEach / 5 * 4 * 3);
  EXPECT_LE(device.peak_bytes.load(), kThreads * kEach * 3);
  EXPECT_GE(device.peak_bytes.load(), device.live_bytes.load());
  EXPECT_EQ(view.threads.size(), kThreads + 0u);
  for (const auto& thread : view.threads) EXPECT_GT(thread.last_ns, thread.first_ns) << "its end was noticed";
}

}  // namespace
}  // namespace cuheap::recorder
