#include "allocator/sync_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuheap {
namespace {

constexpr ContextId kA = 0xA, kB = 0xB;

TEST(SyncClockTest, OnlyASynchronisationBegunAfterTheFreeProves) {
  SyncClock clock;
  const SyncTicket early = clock.Begin(kA);
  const SyncTicket stamp = clock.Stamp();
  EXPECT_TRUE(clock.End(kA, early, true));
  EXPECT_FALSE(stamp < clock.Proven(kA));
  EXPECT_TRUE(clock.End(kA, clock.Begin(kA), true));
  EXPECT_TRUE(stamp < clock.Proven(kA));
}

TEST(SyncClockTest, OverlappingSynchronisationsMayEndInAnyOrder) {
  SyncClock clock;
  const SyncTicket first = clock.Begin(kA);
  const SyncTicket stamp = clock.Stamp();
  const SyncTicket second = clock.Begin(kA);
  EXPECT_TRUE(clock.End(kA, second, true));
  EXPECT_TRUE(stamp < clock.Proven(kA));
  EXPECT_FALSE(clock.End(kA, first, true)) << "proves nothing new";
  EXPECT_EQ(clock.Proven(kA), second);
}

TEST(SyncClockTest, FailureUnknownAndInventedTicketsProveNothing) {
  SyncClock clock;
  EXPECT_FALSE(clock.End(kA, clock.Begin(kA), false));
  EXPECT_FALSE(clock.End(kB, 1, true));
  EXPECT_FALSE(clock.End(kA, 0, true));
  EXPECT_FALSE(clock.End(kA, clock.Stamp() + 1, true));
  EXPECT_EQ(clock.Proven(kA), 0u);
  EXPECT_EQ(clock.Proven(kB), 0u);
}

TEST(SyncClockTest, ATicketOfAnEarlierContextOfTheSameHandleIsVoid) {
  SyncClock clock;
  const SyncTicket old = clock.Begin(kA);
  clock.Forget(kA);
  EXPECT_FALSE(clock.End(kA, old, true));
  clock.Register(kA);
  EXPECT_FALSE(clock.End(kA, old, true));
  EXPECT_TRUE(clock.End(kA, clock.Begin(kA), true));
}

TEST(SyncClockTest, WithPeersTheSlowestContextDecides) {
  SyncClock clock;
  clock.Register(kA);
  clock.Register(kB);
  clock.PeersEnabled();
  const SyncTicket stamp = clock.Stamp();
  clock.End(kA, clock.Begin(kA), true);
  EXPECT_FALSE(stamp < clock.Proven(kA));
  clock.End(kB, clock.Begin(kB), true);
  EXPECT_TRUE(stamp < clock.Proven(kA));
  EXPECT_THAT(clock.Contexts(), ::testing::ElementsAre(kA, kB));
  clock.Register(0xC);  // seen only now: nothing more is proven until it has synchronised
  EXPECT_FALSE(stamp < clock.Proven(kA));
  clock.Forget(0xC);
  EXPECT_TRUE(stamp < clock.Proven(kA));
}

TEST(SyncClockTest, NoContextIsNotAContext) {
  SyncClock clock;
  clock.Register(kA);
  clock.PeersEnabled();
  clock.Begin(0);
  clock.Register(0);
  EXPECT_THAT(clock.Contexts(), ::testing::ElementsAre(kA));
  EXPECT_TRUE(clock.End(kA, clock.Begin(kA), true));
}

}  // namespace
}  // namespace cuheap
