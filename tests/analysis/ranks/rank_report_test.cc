#include "analysis/ranks/rank_report.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/analysis/ranks/rank_fixture.h"

namespace cuheap::analysis {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const Spread& SpreadOf(const RankReport& report, RankFigure wanted) {
  return std::find_if(report.figures.begin(), report.figures.end(),
                      [&](const FigureSpread& figure) { return figure.figure == wanted; })
      ->spread;
}

std::vector<std::size_t> Outliers(const RankReport& report, RankFigure figure) {
  std::vector<std::size_t> ranks;
  for (const RankValue& value : SpreadOf(report, figure).outliers) ranks.push_back(value.rank);
  return ranks;
}

class RankReportTest : public RankFixture {};

TEST_F(RankReportTest, RanksThatAreAlikeDifferInNothing) {
  AddAlike(0, 3);
  const RankReport report = merge_.Finish();
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
  EXPECT_THAT(report.ranks, SizeIs(4));
  EXPECT_THAT(report.mains, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(report.missing, IsEmpty());
  EXPECT_THAT(report.differences, IsEmpty());
  EXPECT_THAT(report.imbalance.lines, IsEmpty());
  EXPECT_THAT(Outliers(report, RankFigure::kPeak), IsEmpty());
  EXPECT_DOUBLE_EQ(report.imbalance.spread.imbalance(), 1);
}

TEST_F(RankReportTest, ALeakOfOneRankIsThatRanks) {
  AddAlike(0, 1);
  Add({.rank = 2, .leak = kMiB});
  Add({.rank = 3});
  const RankReport report = merge_.Finish();
  EXPECT_EQ(report.verdict, Verdict::kLeaks);
  ASSERT_THAT(report.leaks, SizeIs(1));
  EXPECT_THAT(report.leaks[0].ranks, ElementsAre(2));
  EXPECT_EQ(report.leaks[0].bytes, 12 * kMiB);
  EXPECT_EQ(report.lines.line(report.leaks[0].line).line, 30u);
  EXPECT_EQ(report.leaks[0].most_per_step, static_cast<double>(kMiB));
  EXPECT_THAT(Outliers(report, RankFigure::kPeak), ElementsAre(2));
}

TEST_F(RankReportTest, ALeakOfAllRanksIsOneLine) {
  for (std::uint32_t rank = 0; rank < 4; ++rank) Add({.rank = rank, .leak = (rank + 1) * kMiB});
  const RankReport report = merge_.Finish();
  ASSERT_THAT(report.leaks, SizeIs(1));
  EXPECT_THAT(report.leaks[0].ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(report.leaks[0].bytes, 12 * (1 + 2 + 3 + 4) * kMiB);
  EXPECT_EQ(report.leaks[0].most_rank, 3u);
  EXPECT_EQ(report.leaks[0].least_per_step, static_cast<double>(kMiB));
  EXPECT_EQ(report.leaks[0].most_per_step, 4.0 * kMiB);
}

TEST_F(RankReportTest, ALargerBatchIsTheImbalanceByLine) {
  AddAlike(0, 2);
  Add({.rank = 3, .batch = 20 * kMiB});
  const RankReport report = merge_.Finish();
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
  EXPECT_EQ(report.imbalance.spread.most_rank, 3u);
  EXPECT_DOUBLE_EQ(report.imbalance.spread.imbalance(), 28 / ((3 * 12 + 28) / 4.0));
  ASSERT_THAT(report.imbalance.lines, SizeIs(1)) << "weights are alike";
  EXPECT_EQ(report.lines.line(report.imbalance.lines[0].line).line, 20u);
  EXPECT_EQ(report.imbalance.lines[0].largest, 20 * kMiB);
  EXPECT_EQ(report.imbalance.lines[0].median, 4 * kMiB);
}

TEST_F(RankReportTest, MissingRanksAreFoundByTheSizeOfTheWorld) {
  for (const std::uint32_t rank : {1u, 2u, 5u}) Add({.rank = rank, .world = 8});
  const RankReport report = merge_.Finish();
  EXPECT_EQ(report.world_size, 8u);
  ASSERT_THAT(report.missing, SizeIs(3));
  EXPECT_EQ(std::pair(report.missing[0].first, report.missing[0].last), std::pair(0u, 0u));
  EXPECT_EQ(std::pair(report.missing[1].first, report.missing[1].last), std::pair(3u, 4u));
  EXPECT_EQ(std::pair(report.missing[2].first, report.missing[2].last), std::pair(6u, 7u));
}

TEST_F(RankReportTest, OfSeveralProcessesOfARankTheLargestIsCompared) {
  AddAlike(0, 2);
  Add({.rank = 3, .batch = kMiB, .pid = 77}, "d/helper.json");
  Add({.rank = 3, .pid = 78}, "d/main.json");
  const RankReport report = merge_.Finish();
  EXPECT_THAT(report.ranks, SizeIs(5));
  ASSERT_THAT(report.mains, SizeIs(4));
  EXPECT_EQ(report.ranks[report.mains[3]].pid, 78u);
  EXPECT_THAT(report.repeated, ElementsAre(ElementsAre(3, 4)));
  EXPECT_THAT(Outliers(report, RankFigure::kPeak), IsEmpty());
}

TEST_F(RankReportTest, WhoRanOutFirstIsToldByTheClockOnTheWall) {
  Add({.rank = 0, .refused = 64 * kMiB, .started_after = 5'000'000'000});
  Add({.rank = 1, .refused = 32 * kMiB, .started_after = 1'000'000'000});
  Add({.rank = 2});
  const RankReport report = merge_.Finish();
  EXPECT_EQ(report.verdict, Verdict::kOutOfMemory);
  EXPECT_THAT(report.refused, ElementsAre(1, 0));
  EXPECT_EQ(report.ranks[1].refusal->request, 32 * kMiB);
  EXPECT_EQ(report.lines.line(report.ranks[1].refusal->line).function, "Batch");
}

TEST_F(RankReportTest, ProcessesOnOneDeviceAreAddedUpAtEveryMoment) {
  // Each call takes 1 ms. From 7 to 8 ms the first holds its weights only (8 MiB); the second has its first batch, too
  // (8 + 16 MiB), from 7.3 ms on.
  Add({.rank = 0, .uuid = "GPU-same", .steps = 2});
  Add({.rank = 1, .uuid = "GPU-same", .batch = 16 * kMiB, .steps = 2, .started_after = 5'300'000});
  Add({.rank = 2, .uuid = "GPU-other"});
  const RankReport report = merge_.Finish();
  ASSERT_THAT(report.devices, SizeIs(1));
  EXPECT_EQ(report.devices[0].uuid, "GPU-same");
  ASSERT_THAT(report.devices[0].users, SizeIs(2));
  EXPECT_EQ(report.devices[0].together_bytes, 32 * kMiB);
  EXPECT_EQ(report.devices[0].users[0].bytes, 8 * kMiB);
  EXPECT_EQ(report.devices[0].users[1].bytes, 24 * kMiB);
}

TEST_F(RankReportTest, SimulatedDevicesOfTwoHostsAreTwo) {
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    Snapshot snapshot = Run({.rank = rank, .host = "node" + std::to_string(rank), .uuid = "GPU-same"});
    snapshot.simulated = true;
    merge_.Add(SummariseRank(MakeReport(snapshot), std::to_string(rank)));
  }
  EXPECT_THAT(merge_.Finish().devices, IsEmpty());
}

TEST_F(RankReportTest, WhoHeldMemoryOfTheDeviceOnWhichARankRanOut) {
  Add({.rank = 0, .uuid = "GPU-same", .steps = 40});
  Add({.rank = 1, .uuid = "GPU-same", .steps = 2, .refused = 64 * kMiB, .started_after = 10'000'000});
  const RankReport report = merge_.Finish();
  const std::vector<DeviceUser> holders = HoldersBeside(report.ranks, 1);
  ASSERT_THAT(holders, SizeIs(1));
  EXPECT_EQ(holders[0].rank, 0u);
  EXPECT_EQ(holders[0].bytes, 12 * kMiB) << "as its curve has it: weights and batch";
  EXPECT_THAT(HoldersBeside(report.ranks, 0), IsEmpty()) << "was refused nothing";
}

TEST_F(RankReportTest, OtherDevicesAndEndsAreToldButNotTheRanksOwnArguments) {
  AddAlike(0, 1);
  Snapshot other = Run({.rank = 2});
  other.devices[0].name = "Older GPU";
  other.completeness.end = "killed";
  other.completeness.exit_signal = 9;
  merge_.Add(SummariseRank(MakeReport(other), "d/2.json"));
  const RankReport report = merge_.Finish();
  ASSERT_THAT(report.differences, SizeIs(2));
  EXPECT_EQ(report.differences[0].trait, RankTrait::kDevice);
  EXPECT_EQ(report.differences[0].values[1].value, "Older GPU, 8.0 GiB");
  EXPECT_THAT(report.differences[0].values[1].ranks, ElementsAre(2));
  EXPECT_EQ(report.differences[1].trait, RankTrait::kEnd);
  EXPECT_EQ(report.differences[1].values[1].value, "killed by signal 9");
}

TEST_F(RankReportTest, ARankThatEndedEarlyStandsOutByItsSteps) {
  for (std::uint32_t rank = 0; rank < 4; ++rank) Add({.rank = rank, .steps = rank == 1 ? 20 : 40});
  EXPECT_THAT(Outliers(merge_.Finish(), RankFigure::kSteps), ElementsAre(1));
}

TEST_F(RankReportTest, CopiesOfTheSourceInOtherFoldersAreTheSameLines) {
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    SyntheticProgram program;
    const std::string folder = "/local/node" + std::to_string(rank);
    program.raw().process.working_directory = folder;
    program.raw().process.launcher = {{"RANK", std::to_string(rank)}};
    const std::uint32_t leak = program.Line(folder + "/src/train.cc", 57, "LogLoss");
    for (int step = 0; step < 10; ++step) {
      program.Malloc(leak, kMiB);
      program.Synchronize(program.Line(folder + "/src/train.cc", 90, "Step"));
    }
    const Snapshot snapshot = program.Snapshot();
    merge_.Add(SummariseRank(MakeReport(snapshot), std::to_string(rank)));
  }
  const RankReport report = merge_.Finish();
  ASSERT_THAT(report.leaks, SizeIs(1));
  EXPECT_THAT(report.leaks[0].ranks, ElementsAre(0, 1));
  EXPECT_EQ(report.lines.file(report.leaks[0].line), "src/train.cc");
}

TEST_F(RankReportTest, WithoutRanksEveryProcessCounts) {
  for (std::uint64_t pid = 1; pid <= 3; ++pid)
    Add({.launcher = "", .pid = pid}, "d/x." + std::to_string(pid) + ".json");
  const RankReport report = merge_.Finish();
  EXPECT_FALSE(report.ranks_known);
  EXPECT_THAT(report.mains, SizeIs(3));
  EXPECT_THAT(report.missing, IsEmpty());
}

TEST_F(RankReportTest, ASummaryIsSmallWhateverTheSnapshotsSize) {
  SyntheticProgram program;
  for (std::uint32_t line = 1; line <= 1000; ++line) program.Malloc(program.Line("wide.cc", line, "f"), line * 512);
  for (int i = 0; i < 20000; ++i) program.Free(program.Malloc(program.Line("wide.cc", 2000, "g"), 512));
  const Snapshot snapshot = program.Snapshot();
  const RankSummary summary = SummariseRank(MakeReport(snapshot), "x");
  EXPECT_EQ(summary.peak_lines.size(), kRankLines);
  EXPECT_EQ(summary.peak_lines_bytes, summary.peak_bytes()) << "of all lines, those left out too";
  EXPECT_LE(summary.device().curve.size(), kRankCurvePoints);
  std::uint64_t most = 0;
  for (const CurvePoint& point : summary.device().curve) most = std::max(most, point.bytes);
  EXPECT_EQ(most, summary.peak_bytes()) << "a thinned curve keeps its peak";
}

}  // namespace
}  // namespace cuheap::analysis
