#include "allocator/segment.h"

#include <gtest/gtest.h>

#include <set>

namespace cuheap {
namespace {

constexpr DeviceAddress kBase = 0x7000'0000'0000;

std::unique_ptr<Segment> MakeSlab(std::size_t bytes = 4096, std::size_t block_bytes = 1024) {
  return Segment::Create(kBase, bytes, block_bytes, true, 1);
}

TEST(SegmentTest, TakesEveryBlockOnceAndThenIsFull) {
  auto slab = MakeSlab();
  std::set<std::uint32_t> taken;
  for (int i = 0; i < 4; ++i) taken.insert(slab->Take(1000, 7));
  EXPECT_EQ(taken, (std::set<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(slab->ready(), 0u);
  EXPECT_EQ(slab->Usage().active, 4096u);
  EXPECT_EQ(slab->Usage().requested, 4000u);
}

TEST(SegmentTest, AQuarantinedBlockIsNotTakenUntilReady) {
  auto slab = MakeSlab();
  for (int i = 0; i < 4; ++i) slab->Take(1, 1);
  slab->Quarantine(2);
  EXPECT_EQ(slab->ready(), 0u);
  EXPECT_EQ(slab->quarantined(), 1u);
  slab->MakeReady(2);
  EXPECT_EQ(slab->Take(5, 9), 2u);
  EXPECT_EQ(slab->block(2).incarnation, 9u);
  EXPECT_EQ(slab->block(2).requested, 5u);
}

TEST(SegmentTest, TakesTheBlockFreedLastFirst) {
  auto slab = MakeSlab();
  for (int i = 0; i < 3; ++i) slab->Take(1, 1);
  slab->MakeReady(0);
  slab->MakeReady(1);
  EXPECT_EQ(slab->Take(1, 1), 1u);
  EXPECT_EQ(slab->Take(1, 1), 0u);
  EXPECT_EQ(slab->Take(1, 1), 3u);
}

TEST(SegmentTest, ASlabIsIdleOnlyWithNothingInQuarantineADedicatedOneAtOnce) {
  auto slab = MakeSlab();
  auto dedicated = Segment::Create(kBase, 4096, 4096, false, 0);
  for (Segment* segment : {slab.get(), dedicated.get()}) {
    EXPECT_TRUE(segment->idle());
    segment->Take(1, 1);
    EXPECT_FALSE(segment->idle());
    EXPECT_EQ(segment->Usage().idle, 0u);
    segment->Quarantine(0);
  }
  EXPECT_FALSE(slab->idle());
  EXPECT_TRUE(dedicated->idle());
  EXPECT_EQ(dedicated->Usage().idle, 4096u);
  slab->MakeReady(0);
  EXPECT_TRUE(slab->idle());
}

TEST(SegmentTest, APinnedBlockNeverComesBack) {
  auto slab = MakeSlab();
  slab->Take(1, 1);
  slab->Pin(0);
  EXPECT_TRUE(slab->block(0).pinned);
  slab->MakePinned(0);
  EXPECT_FALSE(slab->idle());
  EXPECT_EQ(slab->ready(), 3u);
  EXPECT_EQ(slab->Usage().pinned, 1024u);
  EXPECT_EQ(slab->Usage().requested, 0u);
}

TEST(SegmentTest, ABlockTakenAgainIsNoLongerPinned) {
  auto slab = MakeSlab(1024, 1024);
  slab->Take(1, 1);
  slab->Pin(0);
  slab->MakeReady(0);
  slab->Take(1, 2);
  EXPECT_FALSE(slab->block(0).pinned);
}

TEST(SegmentTest, TheTailIsNoBlock) {
  auto slab = MakeSlab(4096 + 512, 1024);
  EXPECT_EQ(slab->capacity(), 4u);
  EXPECT_EQ(slab->Usage().tail, 512u);
  EXPECT_EQ(slab->IndexOf(kBase + 1023), 0u);
  EXPECT_EQ(slab->IndexOf(kBase + 4095), 3u);
  EXPECT_EQ(slab->IndexOf(kBase + 4096), slab->capacity());
  EXPECT_TRUE(slab->Contains(kBase + 4096 + 511));
  EXPECT_FALSE(slab->Contains(kBase + 4096 + 512));
  EXPECT_FALSE(slab->Contains(kBase - 1));
}

TEST(SegmentTest, UsageAlwaysAddsUp) {
  auto slab = MakeSlab(4096 + 512, 1024);
  const auto adds_up = [&] {
    const SegmentUsage u = slab->Usage();
    return u.reserved == u.active + u.quarantined + u.ready + u.pinned + u.tail;
  };
  EXPECT_TRUE(adds_up());
  for (int i = 0; i < 4; ++i) slab->Take(100, 1);
  EXPECT_TRUE(adds_up());
  slab->Quarantine(0);
  slab->MakePinned(1);
  slab->MakeReady(2);
  EXPECT_TRUE(adds_up());
  EXPECT_EQ(slab->Usage().active, 1024u);
}

}  // namespace
}  // namespace cuheap
