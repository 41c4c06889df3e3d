#include "allocator/sync_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "allocator/fake_device_memory.h"

namespace cuheap {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr ContextId kContext = 0xC1;
constexpr ContextId kOther = 0xC2;
using Operation = FakeDeviceMemory::Operation;

class SyncPoolTest : public ::testing::Test {
 protected:
  void Make(FakeDeviceMemory::Options memory = {}, SyncPoolOptions options = {}) {
    memory_ = std::make_unique<FakeDeviceMemory>(memory);
    pool_ = std::make_unique<SyncPool>(*memory_, nullptr, options);
  }
  void SetUp() override { Make(); }

  PoolBlock Take(std::size_t bytes, ContextId context = kContext, int device = 0) {
    const AllocateOutcome outcome = pool_->Allocate(context, device, bytes);
    EXPECT_TRUE(outcome.result.ok()) << outcome.result.code;
    return outcome.block;
  }
  void Give(const PoolBlock& block) { EXPECT_EQ(pool_->Free(block.address).status, FreeStatus::kFreed); }
  void Synchronize(ContextId context = kContext) {
    pool_->EndSynchronize(context, pool_->BeginSynchronize(context), true);
  }
  void ExpectSumsHold() {
    const SyncPoolStats s = pool_->Stats();
    EXPECT_EQ(s.reserved, s.active + s.quarantined + s.ready + s.pinned + s.tail);
  }

  std::unique_ptr<FakeDeviceMemory> memory_;
  std::unique_ptr<SyncPool> pool_;
};

TEST_F(SyncPoolTest, ZeroBytesAreAnInvalidValueWithoutADriverCall) {
  EXPECT_EQ(pool_->Allocate(kContext, 0, 0).result, kDriverInvalidValue);
  EXPECT_EQ(memory_->calls(), 0u);
}

TEST_F(SyncPoolTest, BigRequestsAreOneDriverAllocationOfExactlyTheirSize) {
  const PoolBlock block = Take(3 * kMiB + 17);
  EXPECT_FALSE(block.packed);
  EXPECT_EQ(block.address, block.segment);
  EXPECT_EQ(block.bytes, 3 * kMiB + 17);
  EXPECT_EQ(block.segment_bytes, 3 * kMiB + 17);
  EXPECT_THAT(memory_->Live(), ElementsAre(std::pair{block.address, 3 * kMiB + 17}));
}

TEST_F(SyncPoolTest, RequestsOfWhichNoTwoFitASlabAreDedicated) {
  EXPECT_TRUE(Take(kMiB).packed);
  EXPECT_FALSE(Take(kMiB + 1).packed);
}

TEST_F(SyncPoolTest, SmallRequestsShareASlab) {
  const PoolBlock a = Take(1000), b = Take(900);
  EXPECT_TRUE(a.packed && b.packed);
  EXPECT_EQ(a.segment, b.segment);
  EXPECT_EQ(b.address, a.address + 1024);
  EXPECT_EQ(a.block_bytes, 1024u);
  EXPECT_NE(a.incarnation, b.incarnation);
  EXPECT_EQ(memory_->calls(Operation::kAllocate), 1u);
  ExpectSumsHold();
}

TEST_F(SyncPoolTest, WithPackingOffEveryRequestIsDedicated) {
  Make({}, {.pack = false});
  const PoolBlock a = Take(100), b = Take(100);
  EXPECT_FALSE(a.packed || b.packed);
  EXPECT_EQ(a.segment_bytes, 100u);
  EXPECT_NE(a.segment, b.segment);
}

TEST_F(SyncPoolTest, FreedBlocksWaitForASynchronisationBegunAfterTheFree) {
  for (const std::size_t bytes : {1000 * kKiB, 4 * kMiB}) {
    SCOPED_TRACE(bytes);
    Make({}, {.slab_bytes = 2 * kMiB});
    const PoolBlock first = Take(bytes);
    const SyncTicket early = pool_->BeginSynchronize(kContext);
    Give(first);
    pool_->EndSynchronize(kContext, early, true);
    EXPECT_NE(Take(bytes).address, first.address) << "a synchronisation begun before the free proves nothing";
    EXPECT_EQ(pool_->Stats().quarantined, first.block_bytes);
    Synchronize();
    EXPECT_EQ(pool_->Stats().quarantined, 0u);
    const AllocateOutcome again = pool_->Allocate(kContext, 0, bytes);
    EXPECT_EQ(again.block.address, first.address);
    EXPECT_EQ(again.source, AllocationSource::kReady);
    EXPECT_NE(again.block.incarnation, first.incarnation);
    ExpectSumsHold();
  }
}

TEST_F(SyncPoolTest, WithQuarantineOffABlockIsReusedAtOnce) {
  Make({}, {.quarantine = false});
  for (const std::size_t bytes : {std::size_t{512}, 4 * kMiB}) {
    const PoolBlock first = Take(bytes);
    Give(first);
    EXPECT_EQ(Take(bytes).address, first.address);
  }
}

TEST_F(SyncPoolTest, AFailedSynchronisationProvesNothing) {
  const PoolBlock block = Take(4 * kMiB);
  Give(block);
  pool_->EndSynchronize(kContext, pool_->BeginSynchronize(kContext), false);
  EXPECT_NE(Take(4 * kMiB).address, block.address);
}

TEST_F(SyncPoolTest, AnotherContextsSynchronisationProvesNothing) {
  const PoolBlock block = Take(4 * kMiB);
  Give(block);
  Synchronize(kOther);
  EXPECT_NE(Take(4 * kMiB).address, block.address);
  Synchronize(kContext);
  EXPECT_EQ(Take(4 * kMiB).address, block.address);
}

TEST_F(SyncPoolTest, WithPeersEveryKnownContextMustSynchronise) {
  pool_->ContextSeen(kOther);
  pool_->PeersEnabled();
  const PoolBlock block = Take(4 * kMiB);
  Give(block);
  Synchronize(kContext);
  EXPECT_NE(Take(4 * kMiB).address, block.address);
  Synchronize(kOther);
  EXPECT_EQ(Take(4 * kMiB).address, block.address);
}

TEST_F(SyncPoolTest, WithPeersAContextsEndIsAsGoodAsItsSynchronisation) {
  pool_->ContextSeen(kOther);
  pool_->PeersEnabled();
  const PoolBlock block = Take(4 * kMiB);
  Give(block);
  Synchronize(kContext);
  pool_->ContextDestroyed(kOther);
  EXPECT_EQ(Take(4 * kMiB).address, block.address);
}

TEST_F(SyncPoolTest, ContextsDoNotShareMemory) {
  const PoolBlock block = Take(4 * kMiB);
  Give(block);
  Synchronize();
  EXPECT_NE(Take(4 * kMiB, kOther).segment, block.segment);
  EXPECT_NE(Take(100, kContext).segment, Take(100, kOther).segment);
}

TEST_F(SyncPoolTest, DedicatedSegmentsAreReusedWithinAnEighth) {
  const PoolBlock block = Take(9 * kMiB);
  Give(block);
  Synchronize();
  EXPECT_NE(Take(8 * kMiB - 8).address, block.address);
  const PoolBlock again = Take(8 * kMiB);
  EXPECT_EQ(again.address, block.address);
  EXPECT_EQ(again.bytes, 8 * kMiB);
  EXPECT_EQ(again.block_bytes, 9 * kMiB);
}

TEST_F(SyncPoolTest, DoubleInteriorAndForeignFreesAreToldApart) {
  for (const std::size_t bytes : {std::size_t{1000}, 4 * kMiB}) {
    const PoolBlock block = Take(bytes);
    EXPECT_EQ(pool_->Free(block.address + 8).status, FreeStatus::kInvalid);
    Give(block);
    EXPECT_EQ(pool_->Free(block.address).status, FreeStatus::kInvalid);
    Synchronize();
    EXPECT_EQ(pool_->Free(block.address).status, FreeStatus::kInvalid);
    EXPECT_EQ(pool_->Free(block.segment + block.segment_bytes - 1).status, FreeStatus::kInvalid);
  }
  EXPECT_EQ(pool_->Free(0x1000).status, FreeStatus::kNotOurs);
  EXPECT_EQ(pool_->Free(0).status, FreeStatus::kNotOurs);
}

TEST_F(SyncPoolTest, FindKnowsExactlyTheRequestedRangeOfLiveBlocks) {
  for (const std::size_t bytes : {std::size_t{1000}, 4 * kMiB}) {
    const PoolBlock block = Take(bytes);
    EXPECT_EQ(pool_->Find(block.address).value_or(PoolBlock{}).incarnation, block.incarnation);
    EXPECT_EQ(pool_->Find(block.address + bytes - 1).value_or(PoolBlock{}).address, block.address);
    EXPECT_FALSE(pool_->Find(block.address + bytes).has_value());
    Give(block);
    EXPECT_FALSE(pool_->Find(block.address).has_value());
    EXPECT_TRUE(pool_->Owns(block.address));
  }
  EXPECT_FALSE(pool_->Owns(0x1000));
}

TEST_F(SyncPoolTest, FullestSlabIsServedFirstSoThatOthersDrain) {
  std::vector<PoolBlock> blocks;
  blocks.reserve(8);
  for (int i = 0; i < 8; ++i) blocks.push_back(Take(512 * kKiB));  // two slabs of four
  ASSERT_NE(blocks[0].segment, blocks[4].segment);
  for (const int i : {0, 1, 2, 4}) Give(blocks[i]);  // one block left in the first slab, three in the second
  Synchronize();
  EXPECT_EQ(Take(512 * kKiB).segment, blocks[4].segment);
}

TEST_F(SyncPoolTest, ReleaseIdleGivesDedicatedBackAtOnceAndSlabsOnceProven) {
  const PoolBlock small = Take(100), big = Take(4 * kMiB), live = Take(5 * kMiB);
  Give(small);
  Give(big);
  EXPECT_EQ(pool_->IdleBytes(0), 4 * kMiB);
  EXPECT_EQ(pool_->ReleaseIdle(), 4 * kMiB);
  Synchronize();
  EXPECT_EQ(pool_->IdleBytes(0), 2 * kMiB);
  EXPECT_EQ(pool_->ReleaseIdle(), 2 * kMiB);
  EXPECT_THAT(memory_->Live(), ElementsAre(std::pair{live.address, 5 * kMiB}));
  EXPECT_EQ(pool_->Free(big.address).status, FreeStatus::kNotOurs);
  EXPECT_EQ(memory_->invalid_frees(), 0u);
  ExpectSumsHold();
}

TEST_F(SyncPoolTest, IdleMemoryCountsAsTheDriverChargesIt) {
  const PoolBlock odd = Take(2 * kMiB + 1);
  Give(odd);
  EXPECT_EQ(pool_->IdleBytes(0), 4 * kMiB) << "whole pages of 2 MiB";
  EXPECT_EQ(pool_->ReleaseIdle(), 2 * kMiB + 1);
  EXPECT_EQ(pool_->IdleBytes(0), 0u);
}

TEST_F(SyncPoolTest, ARefusedFreeKeepsTheSegment) {
  const PoolBlock quarantined = Take(4 * kMiB), ready = Take(6 * kMiB), small = Take(100);
  Give(ready);
  Give(small);
  Synchronize();
  Give(quarantined);
  memory_->FailAll(Operation::kFree, DriverResult{700});
  EXPECT_EQ(pool_->ReleaseIdle(), 0u);
  EXPECT_EQ(pool_->Stats().segments, 3u);
  EXPECT_EQ(pool_->IdleBytes(0), 12 * kMiB);
  EXPECT_EQ(Take(6 * kMiB).address, ready.address);
  EXPECT_EQ(Take(100).address, small.address);
  EXPECT_NE(Take(4 * kMiB).address, quarantined.address) << "still in quarantine";
  Synchronize();
  EXPECT_EQ(Take(4 * kMiB).address, quarantined.address);
  ExpectSumsHold();
}

TEST_F(SyncPoolTest, ASegmentThatTheDriverDoesNotKnowIsDropped) {
  const PoolBlock block = Take(4 * kMiB);
  Give(block);
  ASSERT_TRUE(memory_->Free(block.address).ok());  // behind the pool's back
  EXPECT_EQ(pool_->ReleaseIdle(), 0u);
  EXPECT_FALSE(pool_->Owns(block.address));
  EXPECT_EQ(pool_->Stats().lost_segments, 1u);
  EXPECT_EQ(pool_->Stats().reserved, 0u);
}

TEST_F(SyncPoolTest, AnAddressTheDriverHandsOutAgainReplacesTheStaleSegment) {
  const PoolBlock slab_block = Take(100);
  Give(slab_block);
  memory_->DestroyContext(0);  // the pool is not told
  const PoolBlock fresh = Take(2 * kMiB);
  ASSERT_EQ(fresh.address, slab_block.segment);
  EXPECT_EQ(pool_->Stats().lost_segments, 1u);
  Synchronize();  // must not touch what has gone
  EXPECT_EQ(pool_->Find(fresh.address).value_or(PoolBlock{}).incarnation, fresh.incarnation);
  ExpectSumsHold();
}

TEST_F(SyncPoolTest, OutOfMemorySynchronisesOnceAndReuses) {
  Make({.capacity = 8 * kMiB});
  const PoolBlock a = Take(4 * kMiB), b = Take(4 * kMiB);
  Give(a);
  const AllocateOutcome outcome = pool_->Allocate(kContext, 0, 4 * kMiB);
  EXPECT_EQ(outcome.block.address, a.address);
  EXPECT_EQ(outcome.source, AllocationSource::kAfterSynchronization);
  EXPECT_EQ(memory_->calls(Operation::kSynchronize), 1u);
  EXPECT_EQ(pool_->Allocate(kContext, 0, 4 * kMiB).result, kDriverOutOfMemory);
  EXPECT_EQ(memory_->calls(Operation::kSynchronize), 1u) << "nothing in quarantine, nothing to wait for";
  Give(b);
}

TEST_F(SyncPoolTest, OutOfMemoryGivesBackOnlyWhatIsNeededIfThatSuffices) {
  Make({.capacity = 16 * kMiB});
  const PoolBlock a = Take(4 * kMiB), b = Take(6 * kMiB), c = Take(6 * kMiB);
  Give(a), Give(b), Give(c);
  Synchronize();
  Take(5 * kMiB);
  EXPECT_EQ(memory_->calls(Operation::kFree), 1u);
  EXPECT_TRUE(pool_->Owns(a.address));
}

TEST_F(SyncPoolTest, OutOfMemoryGivesEverythingIdleBackIfLessDoesNotSuffice) {
  Make({.capacity = 16 * kMiB});
  const PoolBlock a = Take(8 * kMiB), b = Take(4 * kMiB), c = Take(4 * kMiB);
  Give(a), Give(b), Give(c);
  Synchronize();
  // allocate (refused: full), free, allocate (refused: as if memory were in pieces), free, free, allocate
  memory_->FailCall(memory_->calls() + 2, kDriverOutOfMemory);
  Take(6 * kMiB);
  EXPECT_EQ(memory_->calls(Operation::kFree), 3u);
}

TEST_F(SyncPoolTest, OutOfMemorySynchronisesNeighboursThatHoldSlabs) {
  Make({.capacity = 4 * kMiB});
  Give(Take(100, kOther));
  Take(2 * kMiB);
  EXPECT_TRUE(pool_->Allocate(kContext, 0, 2 * kMiB).result.ok());
  EXPECT_EQ(memory_->calls(Operation::kSynchronize), 1u);
}

TEST_F(SyncPoolTest, WithPeersOutOfMemorySynchronisesEveryKnownContext) {
  Make({.capacity = 4 * kMiB});
  pool_->ContextSeen(0xC3);
  pool_->PeersEnabled();
  const PoolBlock a = Take(4 * kMiB);
  Give(a);
  EXPECT_EQ(pool_->Allocate(kContext, 0, 4 * kMiB).source, AllocationSource::kAfterSynchronization);
  EXPECT_EQ(memory_->calls(Operation::kSynchronize), 2u);
}

TEST_F(SyncPoolTest, OutOfMemoryOfOneDeviceLeavesTheOthersAlone) {
  Make({.capacity = 16 * kMiB});
  const PoolBlock elsewhere = Take(8 * kMiB, kOther, 1), here = Take(8 * kMiB);
  Give(elsewhere), Give(here);
  EXPECT_FALSE(pool_->Allocate(kContext, 0, 20 * kMiB).result.ok());
  EXPECT_TRUE(pool_->Owns(elsewhere.address));
  EXPECT_FALSE(pool_->Owns(here.address));
}

TEST_F(SyncPoolTest, WhenASynchronisationFailsDedicatedMemoryStillGoesBack) {
  Make({.capacity = 8 * kMiB});
  const PoolBlock a = Take(8 * kMiB);
  Give(a);
  memory_->FailAll(Operation::kSynchronize, DriverResult{600});
  const AllocateOutcome outcome = pool_->Allocate(kContext, 0, 2 * kMiB);
  EXPECT_TRUE(outcome.result.ok());
  EXPECT_EQ(outcome.source, AllocationSource::kDriver);
}

TEST_F(SyncPoolTest, WhenNoSlabCanBeHadTheExactSizeIsAskedFor) {
  Make({.capacity = 3 * kMiB, .granule = 512});
  Take(2 * kMiB);
  const PoolBlock block = Take(1000);
  EXPECT_FALSE(block.packed);
  EXPECT_EQ(block.segment_bytes, 1000u);
  Give(block);
  Synchronize();
  EXPECT_EQ(Take(1000).address, block.address);
  ExpectSumsHold();
}

TEST_F(SyncPoolTest, ErrorsOtherThanOutOfMemoryEndTheLadderUnchanged) {
  Give(Take(4 * kMiB));
  memory_->FailAll(Operation::kAllocate, DriverResult{201});
  EXPECT_EQ(pool_->Allocate(kContext, 0, 8 * kMiB).result, DriverResult{201});
  EXPECT_EQ(pool_->Allocate(kContext, 0, 100).result, DriverResult{201});
  EXPECT_EQ(memory_->calls(Operation::kSynchronize) + memory_->calls(Operation::kFree), 0u);
}

TEST_F(SyncPoolTest, AFullQuarantineAsksForABarrier) {
  Make({}, {.quarantine_limit_bytes = 6 * kMiB});
  const PoolBlock a = Take(4 * kMiB), b = Take(2 * kMiB), c = Take(100);
  EXPECT_FALSE(pool_->Free(a.address).wants_barrier);
  EXPECT_FALSE(pool_->Free(b.address).wants_barrier);
  EXPECT_TRUE(pool_->Free(c.address).wants_barrier);
}

TEST_F(SyncPoolTest, PinnedBlocksAreNeitherReusedNorGivenBack) {
  for (const std::size_t bytes : {1000 * kKiB, 4 * kMiB}) {
    Make();
    const PoolBlock block = Take(bytes);
    EXPECT_TRUE(pool_->Pin(block.address + 1));
    Give(block);
    EXPECT_FALSE(pool_->Pin(block.address));
    Synchronize();
    EXPECT_NE(Take(bytes).address, block.address);
    EXPECT_EQ(pool_->Stats().pinned, block.block_bytes);
    EXPECT_EQ(pool_->ReleaseIdle(), 0u);
    EXPECT_EQ(pool_->Free(block.address).status, FreeStatus::kInvalid);
    ExpectSumsHold();
    pool_->ContextDestroyed(kContext);
    EXPECT_EQ(pool_->Stats().pinned, 0u);
  }
}

TEST_F(SyncPoolTest, WhatWasPinnedForNowWaitsAsIfItWereFreedAtTheEnd) {
  for (const std::size_t bytes : {1000 * kKiB, 4 * kMiB}) {
    Make();
    const PoolBlock block = Take(bytes);
    EXPECT_EQ(pool_->PinForNow(block.address + 1), 0u);
    const std::uint64_t pinned = pool_->PinForNow(block.address);
    EXPECT_EQ(pinned, block.incarnation);
    EXPECT_EQ(pool_->PinForNow(block.address), 0u) << "by somebody already";
    Give(block);
    Synchronize();
    EXPECT_EQ(pool_->Stats().pinned, block.block_bytes);
    EXPECT_FALSE(pool_->Unpin(block.address, pinned + 1));
    EXPECT_TRUE(pool_->Unpin(block.address, pinned));
    EXPECT_FALSE(pool_->Unpin(block.address, pinned)) << "only once";
    EXPECT_EQ(pool_->Stats().quarantined, block.block_bytes);
    ExpectSumsHold();
    Synchronize();
    EXPECT_EQ(Take(bytes).address, block.address);
  }
}

TEST_F(SyncPoolTest, ADisownedBlockIsTheCallers) {
  const PoolBlock big = Take(4 * kMiB), small = Take(100);
  EXPECT_FALSE(pool_->Disown(small.address).has_value());
  EXPECT_FALSE(pool_->Disown(big.address + 1).has_value());
  EXPECT_EQ(pool_->Disown(big.address).value_or(PoolBlock{}).incarnation, big.incarnation);
  EXPECT_EQ(pool_->Free(big.address).status, FreeStatus::kNotOurs);
  EXPECT_TRUE(memory_->Free(big.address).ok());
  EXPECT_EQ(pool_->Stats().reserved, 2 * kMiB);
}

TEST_F(SyncPoolTest, ADestroyedContextTakesItsSegmentsWithoutADriverCall) {
  const PoolBlock live = Take(4 * kMiB), freed = Take(4 * kMiB), small = Take(100), small_freed = Take(200 * kKiB);
  Give(freed), Give(small_freed);
  const PoolBlock other = Take(4 * kMiB, kOther);
  const std::uint64_t calls = memory_->calls();
  pool_->ContextDestroyed(kContext);
  EXPECT_EQ(memory_->calls(), calls);
  for (const PoolBlock& block : {live, freed, small, small_freed}) EXPECT_FALSE(pool_->Owns(block.address));
  EXPECT_EQ(pool_->Stats().reserved, 4 * kMiB);
  EXPECT_EQ(pool_->Stats().segments, 1u);
  EXPECT_TRUE(pool_->Owns(other.address));
  ExpectSumsHold();
}

TEST_F(SyncPoolTest, TicketsOfADestroyedContextProveNothingAboutItsSuccessor) {
  Take(4 * kMiB);
  const SyncTicket old = pool_->BeginSynchronize(kContext);
  pool_->ContextDestroyed(kContext);
  memory_->DestroyContext(0);
  const PoolBlock block = Take(4 * kMiB);  // the same handle, another context
  Give(block);
  pool_->EndSynchronize(kContext, old, true);
  EXPECT_NE(Take(4 * kMiB).address, block.address);
}

TEST_F(SyncPoolTest, BlocksBeyondTheIndexAreTheDriversOwn) {
  Make({.first_address = DeviceAddress{1} << 60});
  const AllocateOutcome outcome = pool_->Allocate(kContext, 0, 4 * kMiB);
  EXPECT_TRUE(outcome.result.ok());
  EXPECT_EQ(outcome.source, AllocationSource::kUnpooled);
  EXPECT_EQ(pool_->Free(outcome.block.address).status, FreeStatus::kNotOurs);
  EXPECT_EQ(pool_->Stats().reserved, 0u);
}

TEST_F(SyncPoolTest, AfterDisableInChildNothingIsCalledOrAnswered) {
  const PoolBlock block = Take(4 * kMiB);
  const std::uint64_t calls = memory_->calls();
  pool_->DisableInChild();
  EXPECT_EQ(pool_->Allocate(kContext, 0, 100).result, kDriverInvalidValue);
  EXPECT_EQ(pool_->Free(block.address).status, FreeStatus::kNotOurs);
  EXPECT_FALSE(pool_->Owns(block.address));
  EXPECT_EQ(pool_->ReleaseIdle(), 0u);
  pool_->ContextDestroyed(kContext);
  pool_.reset();
  EXPECT_EQ(memory_->calls(), calls);
}

TEST_F(SyncPoolTest, StatsKeepDevicesApartAndPeaks) {
  Take(4 * kMiB);
  const PoolBlock other = Take(6 * kMiB, kOther, 1);
  Give(other);
  pool_->ReleaseIdle();
  EXPECT_EQ(pool_->Stats(0).active, 4 * kMiB);
  EXPECT_EQ(pool_->Stats(1).reserved, 0u);
  EXPECT_EQ(pool_->Stats(1).reserved_peak, 6 * kMiB);
  EXPECT_EQ(pool_->Stats().reserved_peak, 10 * kMiB);
  EXPECT_EQ(pool_->Stats().active_peak, 10 * kMiB);
  EXPECT_EQ(pool_->Stats().misses, 2u);
  EXPECT_EQ(pool_->Stats(7).segments, 0u);
}

// A lock held over a driver call or an observer's would dead-lock here, and the index must already, or still, be true.
TEST_F(SyncPoolTest, DriverCallsAreMadeWithoutTheLockAndOutsideTheIndex) {
  DeviceAddress expected = 0;
  bool saw_free = false;
  memory_->set_watcher([&](const FakeDeviceMemory::Call& call, bool, DriverResult) {
    (void)pool_->Stats();
    if (call.operation == Operation::kFree) {
      saw_free = true;
      EXPECT_EQ(call.address, expected);
      EXPECT_FALSE(pool_->Owns(call.address));
    }
    if (call.operation == Operation::kSynchronize) Synchronize();
  });
  const PoolBlock block = Take(4 * kMiB);
  expected = block.address;
  Give(block);
  EXPECT_EQ(pool_->ReleaseIdle(), 4 * kMiB);
  EXPECT_TRUE(saw_free);
}

TEST_F(SyncPoolTest, ATicketDrawnDuringOurOwnSynchronisationIsHonoured) {
  Make({.capacity = 8 * kMiB});
  const PoolBlock a = Take(4 * kMiB), b = Take(4 * kMiB);
  Give(a);
  // Freed while ours is under way: ours must not release it.
  memory_->set_watcher([&](const FakeDeviceMemory::Call& call, bool after, DriverResult) {
    if (call.operation == Operation::kSynchronize && !after) Give(b);
  });
  EXPECT_EQ(Take(4 * kMiB).address, a.address);
  EXPECT_EQ(pool_->Stats().quarantined, 4 * kMiB);
}

// The context dies while the driver frees one of its segments, and refuses.
TEST_F(SyncPoolTest, ARefusedFreeOfADeadContextsSegmentStaysDropped) {
  const PoolBlock block = Take(4 * kMiB);
  Give(block);
  memory_->FailAll(Operation::kFree, DriverResult{709});
  memory_->set_watcher([&](const FakeDeviceMemory::Call& call, bool after, DriverResult) {
    if (call.operation != Operation::kFree || after) return;
    pool_->ContextDestroyed(kContext);
    memory_->DestroyContext(0);
  });
  EXPECT_EQ(pool_->ReleaseIdle(), 0u);
  EXPECT_FALSE(pool_->Owns(block.address));
  EXPECT_EQ(pool_->Stats().segments, 0u);
}

TEST_F(SyncPoolTest, AContextThatIsBeingDestroyedIsLeftAlone) {
  Make({.capacity = 8 * kMiB});
  const PoolBlock big = Take(4 * kMiB), small = Take(100);
  Give(big), Give(small);
  pool_->ContextDestroying(kContext);
  EXPECT_EQ(pool_->ReleaseIdle(), 0u);
  EXPECT_FALSE(pool_->Allocate(kOther, 0, 4 * kMiB).result.ok());
  EXPECT_EQ(memory_->calls(Operation::kFree) + memory_->calls(Operation::kSynchronize), 0u);
  const PoolBlock still = Take(200);
  EXPECT_EQ(still.segment, small.segment) << "other users of a primary context go on";
  Give(still);
  pool_->ContextKept(kContext);
  EXPECT_TRUE(pool_->Allocate(kOther, 0, 4 * kMiB).result.ok());
}

TEST_F(SyncPoolTest, DestroyingWaitsForTheDriverCallUnderWay) {
  const PoolBlock block = Take(4 * kMiB);
  Give(block);
  std::thread destroyer;
  std::atomic<bool> freed{false}, seen_freed{false};
  memory_->set_watcher([&](const FakeDeviceMemory::Call& call, bool after, DriverResult) {
    if (call.operation != Operation::kFree) return;
    if (after) {
      freed = true;
      return;
    }
    destroyer = std::thread([&] {
      pool_->ContextDestroying(kContext);
      seen_freed = freed.load();
      pool_->ContextDestroyed(kContext);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time to go wrong in
  });
  EXPECT_EQ(pool_->ReleaseIdle(), 4 * kMiB);
  destroyer.join();
  EXPECT_TRUE(seen_freed);
}

struct RecordingObserver : SyncPoolObserver {
  void SegmentAllocated(ContextId, int, DeviceAddress address, std::size_t) override {
    EXPECT_TRUE(held.insert(address).second);
  }
  void SegmentFreeing(ContextId, int, DeviceAddress address, std::size_t) override {
    EXPECT_EQ(held.erase(address), 1u);
  }
  std::set<DeviceAddress> held;
};

TEST_F(SyncPoolTest, TheObserverHearsOfEverySegmentOnce) {
  RecordingObserver observer;
  SyncPool pool(*memory_, &observer, {});
  const DeviceAddress a = pool.Allocate(kContext, 0, 4 * kMiB).block.address;
  const DeviceAddress b = pool.Allocate(kContext, 0, 100).block.address;
  const DeviceAddress c = pool.Allocate(kOther, 0, 5 * kMiB).block.address;
  EXPECT_EQ(observer.held.size(), 3u);
  pool.Free(a);
  memory_->FailCall(memory_->calls(), DriverResult{700});
  EXPECT_EQ(pool.ReleaseIdle(), 0u);
  EXPECT_TRUE(observer.held.contains(a)) << "refused: held again";
  pool.ReleaseIdle();
  EXPECT_FALSE(observer.held.contains(a));
  pool.Disown(c);
  EXPECT_FALSE(observer.held.contains(c));
  pool.Free(b);
  pool.ContextDestroyed(kContext);
  EXPECT_THAT(observer.held, IsEmpty());
}

}  // namespace
}  // namespace cuheap
