#include "allocator/stream_pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "allocator/fake_stream_memory.h"

namespace cuheap {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr ContextId kContext = 0xC1;
using Operation = FakeStreamMemory::Operation;

class StreamPoolTest : public testing::Test {
 protected:
  explicit StreamPoolTest(std::size_t capacity = 256 * kMiB) : memory_({.capacity = capacity}) {
    for (const StreamRef& stream : {a_, b_, legacy_}) memory_.AddStream(stream.id, kContext);
  }
  DeviceAddress Get(const StreamRef& stream, std::size_t bytes) {
    const StreamAllocateOutcome outcome = pool_.Allocate(id_, stream, bytes);
    EXPECT_TRUE(outcome.result.ok()) << outcome.result.code;
    source_ = outcome.source;
    return outcome.block.address;
  }
  void Put(const StreamRef& stream, DeviceAddress address) {
    EXPECT_EQ(pool_.Free(address, &stream).status, StreamFreeStatus::kFreed);
  }
  void Finish(const StreamRef& stream) { memory_.Complete(stream.id, memory_.Submitted(stream.id)); }
  void SynchronizeByProgram(const StreamRef& stream) {
    const std::uint64_t point = pool_.BeginSynchronize();
    Finish(stream);
    if (pool_.StreamCompleted(stream.id, point)) pool_.TrimAfterSynchronization();
  }

  FakeStreamMemory memory_;
  const StreamRef a_{1, 0x11, kContext, StreamKind::kOrdinary, /*behind_legacy=*/false};
  const StreamRef b_{2, 0x12, kContext, StreamKind::kOrdinary, /*behind_legacy=*/false};
  const StreamRef legacy_{3, 0, kContext, StreamKind::kLegacy};
  StreamPool pool_{memory_, nullptr, {}};
  const StreamPoolId id_ = pool_.AddPool(0, 0);
  StreamSource source_ = StreamSource::kReady;
};

TEST_F(StreamPoolTest, TheSameStreamReusesAtOnce) {
  const DeviceAddress first = Get(a_, 5 * kMiB);
  memory_.Submit(a_.id);
  Put(a_, first);
  const std::uint64_t calls = memory_.calls();
  EXPECT_EQ(Get(a_, 5 * kMiB), first);
  EXPECT_EQ(memory_.calls(), calls) << "a hit asked the driver";
}

TEST_F(StreamPoolTest, AnotherStreamWaitsUntilTheFreeIsReached) {
  const DeviceAddress first = Get(a_, 5 * kMiB);
  memory_.Submit(a_.id);
  Put(a_, first);
  EXPECT_NE(Get(b_, 5 * kMiB), first);
  Finish(a_);
  EXPECT_EQ(Get(b_, 5 * kMiB), first);
  EXPECT_EQ(source_, StreamSource::kProven) << "the event of the miss before told";
}

TEST_F(StreamPoolTest, ASynchronisationOfTheProgramProvesWithoutAnyCall) {
  const DeviceAddress first = Get(a_, 5 * kMiB);
  memory_.Submit(a_.id);
  Put(a_, first);
  SynchronizeByProgram(a_);
  const std::uint64_t calls = memory_.calls();
  EXPECT_EQ(Get(b_, 5 * kMiB), first);
  EXPECT_EQ(memory_.calls(), calls);
}

// cuMemsetAsync in the legacy stream, cuMemFreeAsync in one that follows it: nothing is in the second, yet the free
// comes after the memset.
TEST_F(StreamPoolTest, AnEmptyStreamThatFollowsTheLegacyOneProvesNothingWhileThatIsBusy) {
  const StreamRef follower{7, 0x17, kContext, StreamKind::kOrdinary, /*behind_legacy=*/true};
  constexpr StreamId kLegacyOfContext = 0;  // how the pool asks for it
  pool_.SetReleaseThreshold(id_, 0);
  const DeviceAddress first = Get(follower, 5 * kMiB);
  memory_.Submit(kLegacyOfContext);
  Put(follower, first);
  SynchronizeByProgram(follower);
  EXPECT_EQ(memory_.calls(Operation::kQueryStream), 1u);
  EXPECT_NE(pool_.Stats(id_).reserved, 0u) << "the memset may still write there";
  memory_.Complete(kLegacyOfContext, memory_.Submitted(kLegacyOfContext));
  SynchronizeByProgram(follower);
  EXPECT_EQ(pool_.Stats(id_).reserved, 0u);
}

TEST_F(StreamPoolTest, ASynchronisationBegunBeforeTheFreeProvesNothing) {
  const DeviceAddress first = Get(a_, 5 * kMiB);
  const std::uint64_t point = pool_.BeginSynchronize();
  memory_.Submit(a_.id);
  Put(a_, first);
  pool_.StreamCompleted(a_.id, point);
  EXPECT_NE(Get(b_, 5 * kMiB), first);
}

// An event there would make every blocking stream wait.
TEST_F(StreamPoolTest, NothingIsRecordedInALegacyStream) {
  const DeviceAddress first = Get(legacy_, 5 * kMiB);
  memory_.Submit(legacy_.id);
  Put(legacy_, first);
  EXPECT_NE(Get(a_, 5 * kMiB), first);
  EXPECT_EQ(memory_.calls(Operation::kRecordEvent), 0u);
  EXPECT_EQ(memory_.calls(Operation::kQueryStream), 1u);
  Finish(legacy_);
  EXPECT_EQ(Get(a_, 5 * kMiB), first);
}

TEST_F(StreamPoolTest, CleanMemoryBesideAFreedBlockServesOtherStreams) {
  const DeviceAddress big = Get(a_, 60 * kMiB);
  Put(a_, big);
  SynchronizeByProgram(a_);  // 60 MiB, clean
  const DeviceAddress small = Get(a_, 2 * kMiB);
  memory_.Submit(a_.id);
  Put(a_, small);  // all but 2 MiB is clean still
  const std::size_t held = memory_.held(0);
  Get(b_, 50 * kMiB);
  EXPECT_EQ(memory_.held(0), held) << "58 clean MiB were there";
}

TEST_F(StreamPoolTest, ASynchronousFreeIsAsDirtyAsTheMemoryWas) {
  const DeviceAddress first = Get(a_, 5 * kMiB);
  memory_.Submit(a_.id);
  Put(a_, first);
  ASSERT_EQ(Get(a_, 5 * kMiB), first);  // stream a may still use it for the first block
  EXPECT_EQ(pool_.Free(first, nullptr).status, StreamFreeStatus::kFreed);
  EXPECT_NE(Get(b_, 5 * kMiB), first);
  const DeviceAddress fresh = Get(a_, 7 * kMiB);
  pool_.Free(fresh, nullptr);
  EXPECT_EQ(Get(b_, 7 * kMiB), fresh) << "never used by another: the caller says it is done";
}

TEST_F(StreamPoolTest, GrowsByWhatIsMissingBesideAFreeEnd) {
  const DeviceAddress first = Get(a_, 10 * kMiB);
  Put(a_, first);
  EXPECT_EQ(Get(a_, 16 * kMiB), first);
  EXPECT_EQ(memory_.held(0), 16 * kMiB);
}

TEST_F(StreamPoolTest, FreedNeighboursOfDifferentAgeMakeRoomForABigOne) {
  std::vector<DeviceAddress> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(Get(a_, 16 * kMiB));
  for (const DeviceAddress block : blocks) Put(a_, block);
  const std::size_t held = memory_.held(0);
  for (int i = 0; i < 4; ++i) Get(a_, 32 * kMiB);
  EXPECT_EQ(memory_.held(0), held) << "8 x 16 MiB freed serve 4 x 32 MiB";
}

TEST_F(StreamPoolTest, ReleaseThresholdIsKeptWhenTheProgramSynchronises) {
  pool_.SetReleaseThreshold(id_, 4 * kMiB);
  std::vector<DeviceAddress> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(Get(a_, 4 * kMiB));
  for (const DeviceAddress block : blocks) Put(a_, block);
  EXPECT_EQ(memory_.held(0), 16 * kMiB) << "not before";
  SynchronizeByProgram(a_);
  EXPECT_LE(memory_.held(0), 4 * kMiB);
  pool_.SetReleaseThreshold(id_, SIZE_MAX);
  Put(a_, Get(a_, 32 * kMiB));
  SynchronizeByProgram(a_);
  EXPECT_GE(memory_.held(0), 32 * kMiB);
}

TEST_F(StreamPoolTest, WithoutAThresholdMemoryStaysAndCountsAsIdle) {
  Put(a_, Get(a_, 32 * kMiB));
  EXPECT_EQ(pool_.IdleBytes(0), 0u) << "stream a may be using it";
  SynchronizeByProgram(a_);
  EXPECT_EQ(pool_.IdleBytes(0), 32 * kMiB);
  EXPECT_EQ(pool_.ReleaseIdle(), 32 * kMiB);
  EXPECT_EQ(memory_.held(0), 0u);
}

TEST_F(StreamPoolTest, TrimKeepsWhatIsAskedFor) {
  std::vector<DeviceAddress> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(Get(a_, 4 * kMiB));
  for (const DeviceAddress block : blocks) Put(a_, block);
  EXPECT_EQ(pool_.TrimTo(id_, 0), 0u) << "the frees have not been seen to be reached";
  SynchronizeByProgram(a_);
  EXPECT_EQ(pool_.TrimTo(id_, 12 * kMiB), 20 * kMiB);
  EXPECT_EQ(pool_.Stats(id_).reserved, 12 * kMiB);
}

TEST_F(StreamPoolTest, PeaksCanBeReset) {
  const DeviceAddress big = Get(a_, 64 * kMiB);
  Put(a_, big);
  Get(a_, 1 * kMiB);
  EXPECT_EQ(pool_.Stats(id_).used_high, 64 * kMiB);
  pool_.ResetUsedHigh(id_);
  EXPECT_EQ(pool_.Stats(id_).used_high, 1 * kMiB);
  SynchronizeByProgram(a_);
  pool_.ReleaseIdle();
  pool_.ResetReservedHigh(id_);
  EXPECT_EQ(pool_.Stats(id_).reserved_high, pool_.Stats(id_).reserved);
}

TEST_F(StreamPoolTest, ALimitedPoolStopsAtItsLimit) {
  const StreamPoolId limited = pool_.AddPool(0, 16 * kMiB);
  EXPECT_TRUE(pool_.Allocate(limited, a_, 12 * kMiB).result.ok());
  EXPECT_EQ(pool_.Allocate(limited, a_, 12 * kMiB).result, kDriverOutOfMemory);
  EXPECT_TRUE(pool_.Allocate(limited, a_, 4 * kMiB).result.ok());
  EXPECT_EQ(memory_.held(0), 16 * kMiB);
}

TEST_F(StreamPoolTest, AccessCoversMemoryOfBeforeAndAfter) {
  const DeviceAddress before = Get(a_, 4 * kMiB);
  EXPECT_FALSE(memory_.Usable(before, 4 * kMiB, 1));
  const AccessGrant peer{1, 3};
  EXPECT_TRUE(pool_.SetAccess(id_, &peer, 1).ok());
  EXPECT_TRUE(memory_.Usable(before, 4 * kMiB, 1));
  EXPECT_TRUE(memory_.Usable(Get(a_, 40 * kMiB), 40 * kMiB, 1));
}

TEST_F(StreamPoolTest, ADestroyedPoolGivesItsMemoryBackWithTheLastBlock) {
  const DeviceAddress block = Get(a_, 4 * kMiB);
  pool_.DestroyPool(id_);
  EXPECT_EQ(pool_.Allocate(id_, a_, 512).result, kDriverInvalidValue);
  EXPECT_EQ(memory_.held(0), 4 * kMiB);
  EXPECT_TRUE(pool_.Find(block).has_value());
  Put(a_, block);
  SynchronizeByProgram(a_);
  EXPECT_EQ(memory_.held(0), 0u);
  EXPECT_EQ(memory_.reserved(), 0u) << "its address space too";
}

TEST_F(StreamPoolTest, WhatADestroyedStreamFreedNeedsProof) {
  const DeviceAddress first = Get(a_, 5 * kMiB);
  memory_.Submit(a_.id);
  Put(a_, first);
  pool_.StreamDestroying(a_.id);
  memory_.DestroyStream(a_.id);
  pool_.StreamDestroyed(a_.id);
  EXPECT_NE(Get(b_, 5 * kMiB), first);
  Finish(a_);
  EXPECT_EQ(Get(b_, 5 * kMiB), first);
  Put(b_, first);
  Get(legacy_, 9 * kMiB);
  EXPECT_EQ(memory_.misuses(), 0u);
}

// Two threads destroy one stream, or one destroys its context: what the other is about must not go from under it.
TEST_F(StreamPoolTest, AStreamThatIsForgottenWhileItsLastEventIsRecorded) {
  const DeviceAddress first = Get(a_, 5 * kMiB);
  Put(a_, first);
  memory_.set_on_record([&](const StreamRef& stream) {
    pool_.StreamCompleted(stream.id, pool_.BeginSynchronize());
    pool_.StreamDestroyed(stream.id);
  });
  pool_.StreamDestroying(a_.id);
  pool_.StreamDestroyed(a_.id);
  EXPECT_EQ(memory_.calls(Operation::kRecordEvent), 1u);
  EXPECT_EQ(memory_.events(), 0u) << "the event outlives the stream";
  EXPECT_EQ(memory_.misuses(), 0u);
}

TEST_F(StreamPoolTest, AContextThatGoesTakesTheEventThatIsBeingRecorded) {
  Put(a_, Get(a_, 5 * kMiB));
  memory_.set_on_record([&](const StreamRef&) { pool_.ContextDestroyed(kContext); });
  pool_.StreamDestroying(a_.id);
  pool_.StreamDestroyed(a_.id);
  EXPECT_EQ(memory_.events(), 1u) << "destroyed by us, after the context has done so";
}

TEST_F(StreamPoolTest, OfTwoThreadsThatDestroyAStreamOneRecords) {
  Put(a_, Get(a_, 5 * kMiB));
  pool_.StreamDestroying(a_.id);
  pool_.StreamDestroying(a_.id);
  EXPECT_EQ(memory_.calls(Operation::kRecordEvent), 1u);
}

TEST_F(StreamPoolTest, AContextThatGoesEndsItsStreams) {
  const DeviceAddress first = Get(a_, 5 * kMiB);
  memory_.Submit(a_.id);
  Put(a_, first);
  pool_.ContextDestroying(kContext);
  pool_.ContextDestroyed(kContext);
  const StreamRef other{9, 0x19, 0xC2, StreamKind::kOrdinary};
  EXPECT_EQ(Get(other, 5 * kMiB), first);
}

TEST_F(StreamPoolTest, PinnedMemoryIsNeverUsedAgain) {
  const DeviceAddress first = Get(a_, 5 * kMiB);
  EXPECT_TRUE(pool_.Pin(first + 100));
  Put(a_, first);
  EXPECT_NE(Get(a_, 5 * kMiB), first);
  EXPECT_EQ(pool_.Stats(id_).pinned, 5 * kMiB);
  EXPECT_FALSE(pool_.Pin(first)) << "no live block";
}

TEST_F(StreamPoolTest, WhatWasPinnedForNowWaitsForItsContextAfterwards) {
  constexpr std::size_t kBytes = 5 * kMiB;
  const DeviceAddress first = Get(a_, kBytes);
  const std::uint64_t pinned = pool_.PinForNow(first);
  EXPECT_NE(pinned, 0u);
  EXPECT_EQ(pool_.PinForNow(first), 0u) << "by somebody already";
  Put(a_, first);
  const std::uint64_t before = pool_.BeginSynchronize();
  EXPECT_NE(Get(a_, kBytes), first);
  EXPECT_FALSE(pool_.Unpin(first, pinned + 1, kContext));
  EXPECT_TRUE(pool_.Unpin(first, pinned, kContext));
  EXPECT_FALSE(pool_.Unpin(first, pinned, kContext)) << "only once";
  EXPECT_EQ(pool_.Stats(id_).pinned, 0u);
  pool_.ContextCompleted(kContext, before);  // began before
  EXPECT_NE(Get(a_, kBytes), first) << "not even the stream in which it was freed: graphs run anywhere";
  pool_.ContextCompleted(kContext, pool_.BeginSynchronize());
  EXPECT_EQ(Get(a_, kBytes), first);
  EXPECT_EQ(pool_.CheckInvariants(), nullptr);
}

TEST_F(StreamPoolTest, WhatIsUnpinnedAfterItsContextIsFreeAtOnce) {
  const DeviceAddress first = Get(a_, 5 * kMiB);
  const std::uint64_t pinned = pool_.PinForNow(first);
  Put(a_, first);
  EXPECT_TRUE(pool_.Unpin(first, pinned, 0));
  EXPECT_EQ(Get(b_, 5 * kMiB), first);
}

TEST_F(StreamPoolTest, BadFreesAreToldApart) {
  const DeviceAddress block = Get(a_, 4000);
  EXPECT_EQ(pool_.Free(block + 512, &a_).status, StreamFreeStatus::kInvalid);
  EXPECT_EQ(pool_.Free(0x1000, &a_).status, StreamFreeStatus::kNotOurs);
  Put(a_, block);
  EXPECT_EQ(pool_.Free(block, &a_).status, StreamFreeStatus::kInvalid) << "double free";
  EXPECT_EQ(pool_.Allocate(id_, a_, 0).result, kDriverInvalidValue);
  EXPECT_EQ(pool_.Allocate(99, a_, 512).result, kDriverInvalidValue);
  EXPECT_EQ(pool_.Allocate(id_, a_, SIZE_MAX).result, kDriverOutOfMemory);
}

TEST_F(StreamPoolTest, FindSeesTheBlockAsRequested) {
  const DeviceAddress block = Get(a_, 1000);
  EXPECT_EQ(pool_.Find(block + 999)->address, block);
  EXPECT_EQ(pool_.Find(block + 999)->bytes, 1000u);
  EXPECT_FALSE(pool_.Find(block + 1000).has_value());
  EXPECT_TRUE(pool_.Owns(block + 1000));
  EXPECT_FALSE(pool_.Owns(12345));
}

TEST_F(StreamPoolTest, InAForkedChildItIsInert) {
  const DeviceAddress block = Get(a_, 1000);
  const std::uint64_t calls = memory_.calls();
  pool_.DisableInChild();
  EXPECT_EQ(pool_.Allocate(id_, a_, 1000).result, kDriverInvalidValue);
  EXPECT_EQ(pool_.Free(block, &a_).status, StreamFreeStatus::kNotOurs);
  EXPECT_FALSE(pool_.Owns(block));
  EXPECT_EQ(pool_.ReleaseIdle(), 0u);
  EXPECT_EQ(memory_.calls(), calls);
}

class NearlyFull : public StreamPoolTest {
 protected:
  NearlyFull() : StreamPoolTest(16 * kMiB) {}
};

TEST_F(NearlyFull, IdlePagesOfAnotherPoolGoBackFirst) {
  const StreamPoolId other = pool_.AddPool(0, 0);
  pool_.Free(pool_.Allocate(other, a_, 12 * kMiB).block.address, nullptr);
  Get(b_, 10 * kMiB);
  EXPECT_EQ(memory_.calls(Operation::kSynchronize), 0u) << "no wait was needed";
}

TEST_F(NearlyFull, WaitsForOtherStreamsBeforeItGivesUp) {
  const DeviceAddress first = Get(a_, 12 * kMiB);
  memory_.Submit(a_.id);
  Put(a_, first);
  EXPECT_EQ(Get(b_, 12 * kMiB), first);
  EXPECT_EQ(source_, StreamSource::kAfterWait);
}

// What a wait of ours proves is trimmed as after one of the program: by whoever is told first, before we look.
TEST_F(NearlyFull, MemoryThatAThresholdGaveBackDuringTheWaitIsTakenAgain) {
  pool_.SetReleaseThreshold(id_, 0);
  memory_.set_on_synchronized([&](ContextId context) {
    if (pool_.ContextCompleted(context, pool_.BeginSynchronize())) pool_.TrimAfterSynchronization();
  });
  memory_.Submit(a_.id);
  Put(a_, Get(a_, 10 * kMiB));
  Get(b_, 12 * kMiB);
  EXPECT_EQ(memory_.calls(Operation::kSynchronize), 1u);
}

TEST_F(NearlyFull, AWaitThatIsNotAllowedEndsInTheDriversError) {
  memory_.set_may_synchronize(false);
  const DeviceAddress first = Get(a_, 12 * kMiB);
  memory_.Submit(a_.id);
  Put(a_, first);
  EXPECT_EQ(pool_.Allocate(id_, b_, 12 * kMiB).result, kDriverOutOfMemory);
  EXPECT_EQ(Get(a_, 12 * kMiB), first);
}

TEST_F(NearlyFull, SmallRequestsLieAmongLargeOnesWhenNothingElseIsLeft) {
  const DeviceAddress first = Get(a_, 8 * kMiB);
  Get(a_, 4 * kMiB);
  const DeviceAddress rest = Get(a_, 4 * kMiB);
  Put(a_, first);
  Get(a_, 7 * kMiB);  // the pages are held; 1 MiB of them is free
  EXPECT_EQ(memory_.held(0), 16 * kMiB);
  Get(a_, 5000);
  Put(a_, rest);
}

TEST_F(NearlyFull, FailureLeavesNothingBehind) {
  memory_.FailAll(Operation::kSetAccess, DriverResult{999});
  EXPECT_EQ(pool_.Allocate(id_, a_, 4 * kMiB).result.code, 999);
  EXPECT_EQ(memory_.held(0), 0u);
  memory_.FailAll(Operation::kSetAccess, kDriverSuccess);
  Get(a_, 16 * kMiB);
}

TEST_F(NearlyFull, PagesThatTheDriverKeepsStayInTheBooks) {
  Put(a_, Get(a_, 8 * kMiB));
  SynchronizeByProgram(a_);
  memory_.FailAll(Operation::kUnmap, DriverResult{999});
  EXPECT_EQ(pool_.ReleaseIdle(), 0u);
  EXPECT_EQ(pool_.Stats(id_).free, 8 * kMiB);
  EXPECT_EQ(pool_.CheckInvariants(), nullptr);
}

// Address space for two regions of large blocks and two of small ones.
class NarrowSpace : public testing::Test {
 protected:
  DriverResult GetAndPut(StreamPoolId id, std::size_t bytes) {
    const StreamAllocateOutcome outcome = pool_.Allocate(id, stream_, bytes);
    if (outcome.result.ok()) pool_.Free(outcome.block.address, &stream_);
    return outcome.result;
  }

  FakeStreamMemory memory_{{.capacity = 512 * kMiB, .address_space = 272 * kMiB}};
  const StreamRef stream_{1, 0x11, kContext, StreamKind::kOrdinary};
  StreamPool pool_{memory_, nullptr, {.first_region_bytes = 128 * kMiB, .region_bytes = 128 * kMiB}};
};

TEST_F(NarrowSpace, ManyPoolsOneAfterAnotherShareIt) {
  memory_.AddStream(stream_.id, kContext);
  for (int i = 0; i < 50; ++i) {
    const StreamPoolId id = pool_.AddPool(0, 0);
    memory_.Submit(stream_.id);
    EXPECT_TRUE(GetAndPut(id, 40 * kMiB).ok()) << "pool " << i;
    EXPECT_TRUE(GetAndPut(id, 4096).ok()) << "pool " << i;
    pool_.DestroyPool(id);  // with memory that nothing has proven to be done with
  }
  EXPECT_EQ(memory_.misuses(), 0u);
}

TEST_F(NarrowSpace, RegionsThatHoldNothingGoBackBeforeARequestFails) {
  for (int i = 0; i < 2; ++i) {
    const StreamPoolId id = pool_.AddPool(0, 0);
    ASSERT_TRUE(GetAndPut(id, 100 * kMiB).ok());
    pool_.ContextCompleted(kContext, pool_.BeginSynchronize());
    pool_.TrimTo(id, 0);
  }
  EXPECT_GT(memory_.reserved(), 200 * kMiB);
  EXPECT_TRUE(GetAndPut(pool_.AddPool(0, 0), 250 * kMiB).ok());
  EXPECT_EQ(pool_.CheckInvariants(), nullptr);
  EXPECT_EQ(memory_.misuses(), 0u);
}

TEST_F(NarrowSpace, AddressSpaceWithoutMemoryCanGoBack) {
  const StreamPoolId id = pool_.AddPool(0, 0);
  ASSERT_TRUE(GetAndPut(id, 100 * kMiB).ok());
  EXPECT_FALSE(pool_.FreeAddressSpace()) << "there are pages in it";
  pool_.ContextCompleted(kContext, pool_.BeginSynchronize());
  pool_.ReleaseIdle();
  EXPECT_TRUE(pool_.FreeAddressSpace());
  EXPECT_EQ(memory_.reserved(), 0u);
  EXPECT_TRUE(GetAndPut(id, 100 * kMiB).ok());
}

TEST_F(NarrowSpace, AFailureForWantOfAddressesIsToldFromOneForWantOfMemory) {
  const StreamPoolId id = pool_.AddPool(0, 0);
  ASSERT_TRUE(pool_.Allocate(id, stream_, 200 * kMiB).result.ok());
  const StreamAllocateOutcome narrow = pool_.Allocate(id, stream_, 200 * kMiB);
  EXPECT_EQ(narrow.result, kDriverOutOfMemory);
  EXPECT_TRUE(narrow.no_address_space);
  memory_.FailAll(Operation::kCreate, kDriverOutOfMemory);
  const StreamAllocateOutcome full = pool_.Allocate(id, stream_, 40 * kMiB);
  EXPECT_EQ(full.result, kDriverOutOfMemory);
  EXPECT_FALSE(full.no_address_space);
}

}  // namespace
}  // namespace cuheap
