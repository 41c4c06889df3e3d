#include "analysis/reports/totals.h"

#include <gtest/gtest.h>

#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class TotalsTest : public testing::Test {
 protected:
  std::vector<ScopeTotals> Measure() {
    snapshot_ = program_.Snapshot();
    lines_.emplace(snapshot_, LineRule{});
    return MeasureTotals(snapshot_, JoinBlocks(snapshot_), *lines_);
  }
  std::string Name(const LineBytes& share) { return Describe(lines_->line(share.line)); }

  SyntheticProgram program_;
  std::uint32_t a_ = program_.Line("a.cc", 1, "A"), b_ = program_.Line("a.cc", 2, "B"),
                c_ = program_.Line("a.cc", 3, "C");
  Snapshot snapshot_;
  std::optional<LineTable> lines_;
};

TEST_F(TotalsTest, PeakIsComposedByLine) {
  program_.Malloc(a_, 5 * kMiB);
  const auto b1 = program_.Malloc(b_, 20 * kMiB);
  program_.Malloc(b_, 10 * kMiB);
  const std::int64_t peak_ns = program_.now_ns();
  program_.Free(b1);
  program_.Malloc(c_, 7 * kMiB);
  const auto totals = Measure();
  ASSERT_EQ(totals.size(), 1u);
  const ScopeTotals& device = totals[0];
  EXPECT_EQ(device.basis, PeakBasis::kExact);
  EXPECT_EQ(device.peak_bytes, 35 * kMiB);
  EXPECT_EQ(device.composed_bytes, 35 * kMiB);
  EXPECT_EQ(device.peak_ns, peak_ns);
  EXPECT_EQ(device.peak_blocks, 3u);
  ASSERT_EQ(device.peak_by_line.size(), 2u);
  EXPECT_EQ(Name(device.peak_by_line[0]), "a.cc:2");
  EXPECT_EQ(device.peak_by_line[0].bytes, 30 * kMiB);
  EXPECT_EQ(device.peak_by_line[0].blocks, 2u);
  EXPECT_EQ(device.live_bytes, 22 * kMiB);
  ASSERT_EQ(device.live_by_line.size(), 3u);
  EXPECT_EQ(Name(device.live_by_line[0]), "a.cc:2");
  EXPECT_EQ(device.allocations, 4u);
  EXPECT_EQ(device.frees, 1u);
  EXPECT_EQ(device.allocated_bytes, 42 * kMiB);
}

TEST_F(TotalsTest, TiesAreOrderedByName) {
  for (const std::uint32_t stack : {c_, a_, b_}) program_.Malloc(stack, kMiB);
  const auto totals = Measure();
  EXPECT_EQ(Name(totals[0].peak_by_line[0]), "a.cc:1");
  EXPECT_EQ(Name(totals[0].peak_by_line[1]), "a.cc:2");
  EXPECT_EQ(Name(totals[0].peak_by_line[2]), "a.cc:3");
}

TEST_F(TotalsTest, AWrappersCallersAreTold) {
  program_.Malloc(program_.Through(a_, b_), 3 * kMiB);
  program_.Malloc(program_.Through(a_, c_), 4 * kMiB);
  const auto totals = Measure();
  ASSERT_EQ(totals[0].peak_by_line.size(), 1u);
  ASSERT_EQ(totals[0].peak_by_line[0].callers.size(), 2u);
  EXPECT_EQ(Name(totals[0].peak_by_line[0].callers[0]), "a.cc:3");
  EXPECT_EQ(totals[0].peak_by_line[0].callers[0].bytes, 4 * kMiB);
}

TEST_F(TotalsTest, FailedFreesDoNotLowerThePeak) {
  program_.FreeFails(program_.Malloc(a_, kMiB));
  program_.Malloc(a_, kMiB);
  const auto totals = Measure();
  EXPECT_EQ(totals[0].peak_bytes, 2 * kMiB);
  EXPECT_EQ(totals[0].live_bytes, 2 * kMiB);
}

TEST_F(TotalsTest, PeakBeforeTheKeptEventsIsSaidToBeSo) {
  const auto big = program_.Malloc(a_, 100 * kMiB);
  const std::int64_t peak_ns = program_.now_ns();
  program_.Free(big);
  program_.ForgetEvents();
  program_.Malloc(b_, kMiB);
  const auto totals = Measure();
  EXPECT_EQ(totals[0].basis, PeakBasis::kOutsideWindow);
  EXPECT_EQ(totals[0].peak_bytes, 100 * kMiB);
  EXPECT_EQ(totals[0].peak_ns, peak_ns);
  EXPECT_TRUE(totals[0].peak_by_line.empty());
}

TEST_F(TotalsTest, APeakThatLastedIntoTheKeptEventsHasItsOwnTime) {
  const auto first = program_.Malloc(a_, 10 * kMiB);
  const auto second = program_.Malloc(b_, 5 * kMiB);
  const std::int64_t peak_ns = program_.now_ns();
  program_.ForgetEvents();
  program_.Free(second);
  program_.Free(first);
  const auto totals = Measure();
  EXPECT_EQ(totals[0].peak_bytes, 15 * kMiB);
  EXPECT_EQ(totals[0].peak_ns, peak_ns);
}

TEST_F(TotalsTest, PeakInTheWindowIsExactAlthoughEventsWereOverwritten) {
  program_.Malloc(a_, 10 * kMiB);
  const auto old = program_.Malloc(b_, 5 * kMiB);
  program_.ForgetEvents();
  const auto top = program_.Malloc(c_, 20 * kMiB);
  program_.Free(top);
  program_.Free(old);
  const auto totals = Measure();
  EXPECT_EQ(totals[0].basis, PeakBasis::kExact);
  EXPECT_EQ(totals[0].peak_bytes, 35 * kMiB);
  EXPECT_EQ(totals[0].composed_bytes, 35 * kMiB);
}

TEST_F(TotalsTest, WhatIsMissingFromThePeakIsANumber) {
  program_.Malloc(a_, 10 * kMiB);
  program_.raw().devices[0].peak_bytes = 12 * kMiB;  // 2 MiB whose events were dropped
  program_.raw().devices[0].peak_ns = program_.now_ns();
  program_.raw().completeness.events_dropped = 2;
  const auto totals = Measure();
  EXPECT_EQ(totals[0].basis, PeakBasis::kPartial);
  EXPECT_EQ(totals[0].peak_bytes, 12 * kMiB);
  EXPECT_EQ(totals[0].composed_bytes, 10 * kMiB);
}

TEST_F(TotalsTest, ThePeakIsNotExactWhenBlocksFoundNoRoom) {
  program_.Malloc(a_, 10 * kMiB);
  EXPECT_EQ(Measure()[0].basis, PeakBasis::kExact);
  program_.raw().completeness.live_dropped = 1;
  EXPECT_EQ(Measure()[0].basis, PeakBasis::kPartial);
}

// cases.md A-07: pinned host bytes apart from device bytes.
TEST_F(TotalsTest, PinnedHostMemoryIsNotDeviceMemory) {
  program_.Malloc(a_, 17'179'869'184, AllocationKind::kHostPinned);
  program_.Malloc(b_, 34'359'738'368, AllocationKind::kHostPinned);
  const auto totals = Measure();
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].peak_bytes, 0u);
  EXPECT_TRUE(totals[1].scope.host);
  EXPECT_EQ(totals[1].peak_bytes, std::uint64_t{48} << 30);
}

TEST_F(TotalsTest, ImportedMemoryIsSomebodyElses) {
  program_.Malloc(a_, kMiB, AllocationKind::kImported);
  EXPECT_EQ(Measure()[0].peak_bytes, 0u);
}

TEST_F(TotalsTest, CurveHoldsTheGreatestValueOfEachSlot) {
  for (int i = 0; i < 1000; ++i) program_.Free(program_.Malloc(a_, i == 500 ? 9 * kMiB : kMiB));
  const auto totals = Measure();
  ASSERT_LE(totals[0].curve.size(), kCurvePoints);
  std::uint64_t most = 0;
  for (const CurvePoint& point : totals[0].curve) most = std::max(most, point.bytes);
  EXPECT_EQ(most, 9 * kMiB);
}

TEST_F(TotalsTest, CurvesLeaveOutStartUpAndTheWayOut) {
  program_.Sleep(5'000'000'000);
  program_.Malloc(a_, kMiB);
  program_.Sleep(1'000'000'000);
  program_.Malloc(a_, kMiB);
  program_.Sleep(5'000'000'000);
  const auto totals = Measure();
  const std::vector<CurvePoint>& curve = totals[0].curve;
  ASSERT_GT(curve.size(), 2u);
  EXPECT_GE(curve.front().time_ns, 5'000'000'000);
  EXPECT_EQ(curve.front().bytes, kMiB);
  EXPECT_EQ(curve.back().bytes, 2 * kMiB);
  EXPECT_LE(curve.back().time_ns, 6'100'000'000);
}

TEST(JoinBlocksTest, WhatTheEndOfContextsTookIsLive) {
  SyntheticProgram program;
  const auto line = program.Line("a.cc", 1, "A");
  program.Segment(0x1000000, 2 * kMiB);
  const auto kept = program.Malloc(line, kMiB);
  program.Free(program.Malloc(line, kMiB));
  program.Free(kept, 1u << 4 | 1u << 3);
  Snapshot snapshot = program.Snapshot();
  const Blocks blocks = JoinBlocks(snapshot);
  ASSERT_EQ(blocks.program.size(), 2u);
  EXPECT_TRUE(blocks.program[0].live);
  EXPECT_FALSE(blocks.program[1].live);
  ASSERT_EQ(blocks.segments.size(), 1u);
  EXPECT_TRUE(blocks.segments[0].live);
}

TEST(JoinBlocksTest, DamagedIdsAreIgnored) {
  SyntheticProgram program;
  const auto line = program.Line("a.cc", 1, "A");
  program.Free(program.Malloc(line, kMiB));
  program.raw().events.id.Set(1, 999);  // a free of something unknown; the allocation's end is lost
  const Snapshot snapshot = program.Snapshot();
  const Blocks blocks = JoinBlocks(snapshot);
  ASSERT_EQ(blocks.program.size(), 1u);
  EXPECT_EQ(blocks.program[0].id, 999u);
  EXPECT_EQ(blocks.program[0].allocated_ns, kBeforeWindow);
}

}  // namespace
}  // namespace cuheap::analysis
