// What a framework reports of its own cache, and where physical memory is mapped, read back from the journal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "interpose/recorder/recorder.h"
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

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

Allocation Block(std::uint64_t address, std::uint64_t bytes, AllocationKind kind) {
  Allocation block;
  block.address = address;
  block.bytes = bytes;
  block.kind = kind;
  block.device = 0;
  block.flags = journal::kCallerIsPyTorch;
  if (kind == AllocationKind::kDevice) block.context = 0xC0;
  return block;
}

void FreeTensor(std::uint64_t address) { Freeing(address, 0, 0, 0, AllocationKind::kTensor); }

class TensorRecordsTest : public ::testing::Test {
 protected:
  // Records in a child, then reads its journal.
  JournalView Record(const std::function<void()>& body) {
    EXPECT_EQ(RunChild([&] {
                StartOptions options;
                options.directory = directory_.path().c_str();
                Require(Start(options), "Start");
                body();
              }),
              0);
    const auto journals = directory_.Journals();
    EXPECT_EQ(journals.size(), 1u);
    return JournalView(journals.empty() ? "" : journals[0]);
  }
  TemporaryDirectory directory_;
};

TEST_F(TensorRecordsTest, TensorsAndTheirSegmentAreCountedApart) {
  const JournalView view = Record([] {
    Allocated(Block(0x1000000, 2 * kMiB, AllocationKind::kDevice));
    Allocated(Block(0x1000000, 512, AllocationKind::kTensor));  // the first tensor has the segment's address
    Allocated(Block(0x1000200, 1024, AllocationKind::kTensor));
    FreeTensor(0x1000000);
    Allocated(Block(0x1000000, 2048, AllocationKind::kTensor));
    FreeTensor(0x1000200);
  });
  ASSERT_EQ(view.problem(), "");
  const journal::DeviceRecord& device = view.header().devices[0];
  EXPECT_EQ(device.live_bytes.load(), 2 * kMiB) << "tensors lie in memory that is counted already";
  EXPECT_EQ(device.live_count.load(), 1u);
  EXPECT_EQ(device.peak_bytes.load(), 2 * kMiB);
  EXPECT_EQ(device.tensor_live_bytes.load(), 2048u);
  EXPECT_EQ(device.tensor_live_count.load(), 1u);
  EXPECT_EQ(device.tensor_peak_bytes.load(), 1024u + 2048u);
  EXPECT_EQ(device.framework_held_bytes.load(), 2 * kMiB);
  EXPECT_EQ(view.counter(Counter::kAllocations), 1u);
  EXPECT_EQ(view.counter(Counter::kFrees), 0u);
  EXPECT_EQ(view.counter(Counter::kTensorAllocations), 3u);
  EXPECT_EQ(view.counter(Counter::kTensorFrees), 2u);
  ASSERT_EQ(view.live.size(), 2u);
  for (const auto& event : view.events) {
    if (event.kind == AllocationKind::kTensor && event.bytes == 2048) {
      EXPECT_EQ(device.tensor_peak_time_ns.load(), event.time_ns);
    }
  }
}

TEST_F(TensorRecordsTest, StreamOrderedAllocationsAreNoMemoryOfACache) {
  const JournalView view = Record([] {
    Allocated(Block(0x1000000, 2 * kMiB, AllocationKind::kStreamOrdered));
    Allocated(Block(7, 4 * kMiB, AllocationKind::kVirtual));
  });
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.header().devices[0].live_bytes.load(), 6 * kMiB);
  EXPECT_EQ(view.header().devices[0].framework_held_bytes.load(), 4 * kMiB);
}

TEST_F(TensorRecordsTest, FreesOfUnknownTensorsAreCountedAndFreeNothing) {
  const JournalView view = Record([] {
    Allocated(Block(0x1000000, 2 * kMiB, AllocationKind::kDevice));
    FreeTensor(0x1000000);
  });
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.counter(Counter::kTensorFreesUnknown), 1u);
  EXPECT_EQ(view.counter(Counter::kFreesUnknown), 0u);
  EXPECT_EQ(view.live.size(), 1u);
  EXPECT_EQ(view.header().devices[0].tensor_live_bytes.load(), 0u);
}

TEST_F(TensorRecordsTest, TensorsOutliveAContextAndSegmentsDoNot) {
  const JournalView view = Record([] {
    Allocated(Block(0x1000000, 2 * kMiB, AllocationKind::kDevice));
    Allocated(Block(0x1000000, 512, AllocationKind::kTensor));
    ContextDestroyed(0xC0);
  });
  ASSERT_EQ(view.problem(), "");
  ASSERT_EQ(view.live.size(), 1u);
  EXPECT_EQ(view.live[0].kind, AllocationKind::kTensor);
  EXPECT_EQ(view.header().devices[0].framework_held_bytes.load(), 0u);
  EXPECT_EQ(view.header().devices[0].framework_held_peak_bytes.load(), 2 * kMiB);
}

TEST_F(TensorRecordsTest, ThePeakOfManyThreadsIsExact) {
  // Each thread holds one tensor at a time, so at most four are live; a barrier makes all four live at once.
  const JournalView view = Record([] {
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (std::uint64_t t = 1; t <= 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) {
          Allocated(Block(t << 32, 512, AllocationKind::kTensor));
          if (i == 100) {
            ready.fetch_add(1);
            while (ready.load() < 4) std::this_thread::yield();
          }
          if (i == 100) {
            ready.fetch_add(10);
            while (ready.load() < 44) std::this_thread::yield();
          }
          FreeTensor(t << 32);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.header().devices[0].tensor_peak_bytes.load(), 4 * 512u);
  EXPECT_EQ(view.header().devices[0].tensor_live_bytes.load(), 0u);
  EXPECT_EQ(view.counter(Counter::kTensorAllocations), 800u);
}

TEST_F(TensorRecordsTest, TotalsThatAreNotOursAreCountedAndNotedOnce) {
  const JournalView view = Record([] {
    Allocated(Block(0x1000000, 2 * kMiB, AllocationKind::kDevice));
    Allocated(Block(0x1000000, 512, AllocationKind::kTensor));
    CompareTotals(0, {512, 2 * kMiB});
    CompareTotals(0, {1024, 2 * kMiB});
    CompareTotals(0, {1536, 2 * kMiB});
    CompareTotals(0, {512, 4 * kMiB});
  });
  ASSERT_EQ(view.problem(), "");
  EXPECT_EQ(view.counter(Counter::kTensorTotalsDiffer), 2u);
  EXPECT_EQ(view.counter(Counter::kFrameworkReservedDiffer), 1u);
  ASSERT_EQ(view.notes.size(), 2u);
  EXPECT_EQ(view.notes[0].code, journal::NoteCode::kTensorReports);
  EXPECT_EQ(view.notes[0].a, 1024u);
  EXPECT_EQ(view.notes[0].b, 512u);
  EXPECT_EQ(view.notes[1].a, 4 * kMiB);
}

TEST_F(TensorRecordsTest, AFrameworksOutOfMemoryCarriesItsNumbers) {
  const JournalView view = Record([] { FrameworkOutOfMemory(1, 100, {200, 300}, 0); });
  ASSERT_EQ(view.problem(), "");
  ASSERT_EQ(view.events.size(), 1u);
  EXPECT_EQ(view.events[0].type, EventType::kFrameworkOutOfMemory);
  EXPECT_EQ(view.events[0].bytes, 100u);
  EXPECT_EQ(view.events[0].address, 200u);
  EXPECT_EQ(view.events[0].stream, 300u);
  EXPECT_EQ(view.events[0].device, 1);
  EXPECT_EQ(view.counter(Counter::kFrameworkOutOfMemory), 1u);
}

TEST_F(TensorRecordsTest, MappingsAreKeptInTheSlotAndInEvents) {
  const JournalView view = Record([] {
    Allocated(Block(7, 2 * kMiB, AllocationKind::kVirtual));
    Allocated(Block(8, 2 * kMiB, AllocationKind::kVirtual));
    Mapped(7, AllocationKind::kVirtual, 0x40000000, 2 * kMiB);
    Mapped(8, AllocationKind::kVirtual, 0x40200000, 2 * kMiB);
    Mapped(9, AllocationKind::kVirtual, 0x40400000, 2 * kMiB);  // not known: nothing happens
    Unmapping(8, AllocationKind::kVirtual, 0x40200000, 2 * kMiB);
  });
  ASSERT_EQ(view.problem(), "");
  ASSERT_EQ(view.live.size(), 2u);
  for (const auto& block : view.live) EXPECT_EQ(block.mapped_address, block.address == 7 ? 0x40000000u : 0u);
  std::vector<EventType> types;
  for (const auto& event : view.events) types.push_back(event.type);
  EXPECT_THAT(types, ElementsAre(EventType::kAllocate, EventType::kAllocate, EventType::kMap, EventType::kMap,
                                 EventType::kUnmap));
  EXPECT_EQ(view.events[2].address, 0x40000000u);
  EXPECT_EQ(view.events[2].stream, 7u);
  EXPECT_EQ(view.events[2].allocation_id, view.events[0].allocation_id);
  EXPECT_EQ(view.events[4].allocation_id, view.events[1].allocation_id);
}

}  // namespace
}  // namespace cuheap::recorder
