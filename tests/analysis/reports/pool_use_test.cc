#include "analysis/reports/pool_use.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kSegment = 0x100000000;
constexpr std::uint16_t kServed = 1;

class PoolUseTest : public testing::Test {
 protected:
  std::uint64_t Serve(std::uint64_t bytes, std::uint64_t address) {
    const std::uint64_t id = program_.Malloc(line_, bytes, AllocationKind::kDevice, kServed);
    program_.Place(id, address);
    return id;
  }
  std::vector<PoolUse> Measure() {
    const Snapshot snapshot = program_.Snapshot();
    return MeasurePools(snapshot, JoinBlocks(snapshot));
  }
  SyntheticProgram program_;
  std::uint32_t line_ = program_.Line("a.cc", 1, "A");
};

TEST_F(PoolUseTest, NoPoolWhenNothingIsServed) {
  program_.Malloc(line_, kMiB);
  EXPECT_TRUE(Measure().empty());
}

TEST_F(PoolUseTest, IdleMemoryIsWholeSegmentsOrHolesBesideBlocks) {
  program_.Segment(kSegment, 8 * kMiB);
  program_.Segment(kSegment + 64 * kMiB, 4 * kMiB);
  Serve(kMiB - 100, kSegment + kMiB);
  Serve(2 * kMiB, kSegment + 5 * kMiB);
  const auto pools = Measure();
  ASSERT_EQ(pools.size(), 1u);
  const PoolUse& pool = pools[0];
  EXPECT_EQ(pool.reserved_bytes, 12 * kMiB);
  EXPECT_EQ(pool.used_bytes, 3 * kMiB);
  EXPECT_EQ(pool.requested_bytes, 3 * kMiB - 100);
  EXPECT_EQ(pool.rounding_bytes(), 100u);
  EXPECT_EQ(pool.idle_whole_bytes, 4 * kMiB);
  EXPECT_EQ(pool.idle_pinned_bytes, 5 * kMiB);
  EXPECT_EQ(pool.largest_idle, 4 * kMiB);
  EXPECT_EQ(pool.largest_hole, 3 * kMiB);
  EXPECT_TRUE(pool.idle_exact());
  EXPECT_DOUBLE_EQ(pool.fragmentation(), 5.0 / 12.0);
  ASSERT_EQ(pool.map.size(), 2u);
  EXPECT_EQ(pool.map[0].largest_idle, 3 * kMiB);
  EXPECT_EQ(pool.map[0].blocks, 2u);
}

TEST_F(PoolUseTest, ABlockMayReachOverSegments) {
  program_.Segment(kSegment, 4 * kMiB);
  program_.Segment(kSegment + 4 * kMiB, 2 * kMiB);
  program_.Segment(kSegment + 6 * kMiB, 8 * kMiB);
  Serve(7 * kMiB, kSegment + kMiB);
  Serve(kMiB, kSegment + 10 * kMiB);
  const auto pools = Measure();
  ASSERT_EQ(pools.size(), 1u);
  EXPECT_EQ(pools[0].used_bytes, 8 * kMiB);
  EXPECT_EQ(pools[0].blocks, 2u);
  EXPECT_EQ(pools[0].idle_whole_bytes, 0u);
  EXPECT_EQ(pools[0].idle_pinned_bytes, 6 * kMiB);
  EXPECT_EQ(pools[0].map[1].largest_idle, 0u);
  EXPECT_EQ(pools[0].map[2].largest_idle, 3 * kMiB);
}

// cases.md B-02: a comb of live and idle blocks, and the pyramid beside it.
TEST_F(PoolUseTest, CombIsFragmentedAndPyramidIsNot) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  program_.Segment(kSegment, 20 * kGiB);
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t i = 0; i < 16; ++i) blocks.push_back(Serve(kGiB, kSegment + i * kGiB));
  for (std::uint64_t i = 0; i < 16; i += 2) program_.Free(blocks[i]);
  const PoolUse comb = Measure()[0];
  EXPECT_EQ(comb.idle_bytes(), 12 * kGiB);
  EXPECT_EQ(comb.largest_idle, 4 * kGiB);
  EXPECT_DOUBLE_EQ(comb.fragmentation(), 0.6);
  EXPECT_DOUBLE_EQ(comb.utilisation, 0.8);
  for (std::uint64_t i = 1; i < 16; i += 2) program_.Free(blocks[i]);
  const PoolUse empty = Measure()[0];
  EXPECT_EQ(empty.idle_whole_bytes, 20 * kGiB);
  EXPECT_EQ(empty.fragmentation(), 0);
}

// cases.md B-05: a published table of reserved and allocated memory. Utilisation and waste are those of its first four
// rows; what the fifth prints (63.31 %, 14.88 GB) is not what 25.68 of 50.56 are, but fits 40.56 reserved.
TEST_F(PoolUseTest, UtilisationOfAPublishedTable) {
  struct Row {
    double reserved, allocated, utilisation, waste;  // GB, %
    bool consistent;
  };
  const Row rows[] = {{18.3, 9.28, 50.71, 9.02, true},
                      {17.32, 9.28, 53.58, 8.04, true},
                      {25.45, 9.79, 38.47, 15.66, true},
                      {9.53, 9.03, 94.75, 0.5, true},
                      {50.56, 25.68, 63.31, 14.88, false}};
  for (const Row& row : rows) {
    const auto gb = [](double value) { return static_cast<std::uint64_t>(value * 1e9); };
    SyntheticProgram program;
    program.Segment(kSegment, gb(row.reserved));
    program.Place(program.Malloc(line_, gb(row.allocated), AllocationKind::kDevice, kServed), kSegment);
    const Snapshot snapshot = program.Snapshot();
    const PoolUse pool = MeasurePools(snapshot, JoinBlocks(snapshot)).at(0);
    const double waste = static_cast<double>(pool.peak_reserved_bytes - pool.peak_active_bytes) / 1e9;
    EXPECT_EQ(std::abs(100 * pool.utilisation - row.utilisation) < 0.02, row.consistent) << row.reserved;
    EXPECT_EQ(std::abs(waste - row.waste) < 0.01, row.consistent) << row.reserved;
  }
}

TEST_F(PoolUseTest, QuarantineIsNotIdle) {
  program_.Segment(kSegment, 8 * kMiB);
  program_.raw().devices[0].quarantined_bytes = 3 * kMiB;
  const PoolUse pool = Measure()[0];
  EXPECT_EQ(pool.quarantined_bytes, 3 * kMiB);
  EXPECT_EQ(pool.idle_bytes(), 5 * kMiB);
}

TEST_F(PoolUseTest, WholeIdleSegmentsAreNoFragmentation) {
  for (std::uint64_t i = 0; i < 50; ++i) program_.Segment(kSegment + i * 64 * kMiB, 8 * kMiB);
  Serve(7 * kMiB, kSegment);
  const PoolUse pool = Measure()[0];
  EXPECT_EQ(pool.idle_whole_bytes, 49 * 8 * kMiB);
  EXPECT_DOUBLE_EQ(pool.fragmentation(), 1.0 / 400.0);
}

TEST_F(PoolUseTest, NoRangeIsLargerThanWhatIsIdleForCertain) {
  program_.Segment(kSegment, 8 * kMiB);
  program_.Segment(kSegment + 64 * kMiB, 8 * kMiB);
  Serve(6 * kMiB, kSegment);
  program_.raw().devices[0].quarantined_bytes = 9 * kMiB;
  const PoolUse pool = Measure()[0];
  EXPECT_FALSE(pool.idle_exact());
  EXPECT_EQ(pool.idle_whole_bytes, 0u);
  EXPECT_EQ(pool.idle_pinned_bytes, kMiB);
  EXPECT_EQ(pool.largest_idle, kMiB);
  EXPECT_EQ(pool.largest_hole, kMiB);
}

TEST_F(PoolUseTest, UtilisationIsPeakActiveOverPeakReserved) {
  program_.Segment(kSegment, 8 * kMiB);
  program_.Free(Serve(6 * kMiB, kSegment));
  Serve(kMiB, kSegment);
  const PoolUse pool = Measure()[0];
  EXPECT_EQ(pool.peak_active_bytes, 6 * kMiB);
  EXPECT_DOUBLE_EQ(pool.utilisation, 0.75);
  EXPECT_TRUE(pool.peak_active_exact);
}

}  // namespace
}  // namespace cuheap::analysis
