#include "analysis/ranks/rank_diff.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/analysis/ranks/rank_fixture.h"

namespace cuheap::analysis {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class RankDiffTest : public RankFixture {
 protected:
  RankReport Finish() {
    RankReport report = merge_.Finish();
    merge_ = RankMerge();
    return report;
  }
  RankReport Alike(std::uint32_t ranks) {
    AddAlike(0, ranks - 1);
    return Finish();
  }
  // One rank whose leak is at this line.
  RankReport WithLeakAt(std::uint32_t line) {
    SyntheticProgram program;
    program.raw().process.working_directory = "/src";
    program.raw().process.launcher = {{"RANK", "0"}};
    const std::uint32_t leak = program.Line("/src/train.cc", line, "LogLoss");
    for (int step = 0; step < 10; ++step) {
      program.Malloc(leak, kMiB);
      program.Synchronize(program.Line("/src/train.cc", 90, "Step"));
    }
    const Snapshot snapshot = program.Snapshot();
    merge_.Add(SummariseRank(MakeReport(snapshot), "0"));
    return Finish();
  }
};

TEST_F(RankDiffTest, TheSameRunsAreAlike) {
  const RankReport before = Alike(4), after = Alike(4);
  const RankDiff diff = CompareRanks(before, after);
  EXPECT_FALSE(diff.different());
  EXPECT_THAT(diff.lines, IsEmpty());
  EXPECT_THAT(RenderRankDiffText(diff), HasSubstr("ALIKE  nothing differs"));
}

TEST_F(RankDiffTest, ALargerBatchOfOneRankIsInSumAndWorstRank) {
  const RankReport before = Alike(4);
  AddAlike(0, 2);
  Add({.rank = 3, .batch = 20 * kMiB});
  const RankReport after = Finish();
  const RankDiff diff = CompareRanks(before, after);
  EXPECT_TRUE(diff.different());
  ASSERT_THAT(diff.lines, SizeIs(1));
  EXPECT_EQ(after.lines.line(diff.lines[0].line.after).function, "Batch");
  EXPECT_EQ(diff.lines[0].sum.before, 16 * kMiB);
  EXPECT_EQ(diff.lines[0].sum.after, 32 * kMiB);
  EXPECT_EQ(diff.lines[0].most.before, 4 * kMiB);
  EXPECT_EQ(diff.lines[0].most.after, 20 * kMiB);
  EXPECT_EQ(diff.figures[0].most.after, 28 * kMiB);
  EXPECT_EQ(diff.figures[0].median.after, 12 * kMiB);
  const std::string text = RenderRankDiffText(diff);
  EXPECT_THAT(text, HasSubstr("DIFFERENT  the largest peak +16.0 MiB, +133.3 %; 1 line differs"));
  EXPECT_THAT(text, HasSubstr("+16.0 MiB   16.0 MiB   32.0 MiB    4.0 MiB   20.0 MiB  train.cc:20  Batch"));
}

TEST_F(RankDiffTest, LeaksAreNewGoneOrGrew) {
  Add({.rank = 0, .leak = kMiB});
  Add({.rank = 1});
  const RankReport leaks = Finish();
  const RankReport none = Alike(2);
  Add({.rank = 0, .leak = 2 * kMiB});
  Add({.rank = 1, .leak = kMiB});
  const RankReport more = Finish();
  EXPECT_EQ(CompareRanks(none, leaks).leaks.at(0).change, LeakChange::kNew);
  EXPECT_EQ(CompareRanks(leaks, none).leaks.at(0).change, LeakChange::kGone);
  EXPECT_EQ(CompareRanks(leaks, leaks).leaks.at(0).change, LeakChange::kAlike);
  const RankDiff diff = CompareRanks(leaks, more);
  ASSERT_THAT(diff.leaks, SizeIs(1));
  EXPECT_EQ(diff.leaks[0].change, LeakChange::kGrew);
  EXPECT_EQ(diff.leaks[0].ranks.after, 2u);
  EXPECT_EQ(diff.leaks[0].bytes.after, 36 * kMiB);
  EXPECT_THAT(RenderRankDiffText(diff), HasSubstr("12.0 MiB on 1 rank, +1.0 MiB a step before; 36.0 MiB on 2 ranks"));
}

TEST_F(RankDiffTest, ALineThatAnEditMovedIsTheSame) {
  const RankReport before = WithLeakAt(57), after = WithLeakAt(61);
  const RankDiff diff = CompareRanks(before, after);
  ASSERT_THAT(diff.leaks, SizeIs(1));
  EXPECT_EQ(diff.leaks[0].change, LeakChange::kAlike);
  EXPECT_EQ(before.lines.line(diff.leaks[0].line.before).line, 57u);
  EXPECT_EQ(after.lines.line(diff.leaks[0].line.after).line, 61u);
}

TEST_F(RankDiffTest, AnotherNumberOfRanksAndRefusalsAreDifferences) {
  const RankReport before = Alike(2), after = Alike(3);
  EXPECT_TRUE(CompareRanks(before, after).different());
  Add({.rank = 0, .refused = 64 * kMiB});
  Add({.rank = 1});
  const RankReport refused = Finish();
  EXPECT_THAT(RenderRankDiffText(CompareRanks(before, refused)), HasSubstr("out of memory on 0 before, on 1 after"));
}

TEST_F(RankDiffTest, TheJsonHasTheSameFacts) {
  const RankReport before = Alike(2);
  Add({.rank = 0, .leak = kMiB});
  Add({.rank = 1});
  const RankReport after = Finish();
  const nlohmann::json json = nlohmann::json::parse(RenderRankDiffJson(CompareRanks(before, after)));
  EXPECT_EQ(json["cuheap_ranks_diff"], kRankDiffVersion);
  EXPECT_EQ(json["leaks"][0]["change"], "new");
  EXPECT_TRUE(json["leaks"][0]["line"]["before"].is_null());
  EXPECT_EQ(json["leaks"][0]["line"]["after"]["line"], 30);
  EXPECT_EQ(json["leaks"][0]["bytes"]["after"], 12 << 20);
  EXPECT_EQ(json["figures"][0]["figure"], "peak_bytes");
  EXPECT_EQ(json["lines"][0]["sum_bytes"]["after"], 12 << 20);
}

}  // namespace
}  // namespace cuheap::analysis
