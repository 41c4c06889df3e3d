#include "analysis/ranks/rank_rendering.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "analysis/ranks/rank_names.h"
#include "tests/analysis/ranks/rank_fixture.h"

namespace cuheap::analysis {
namespace {

using testing::HasSubstr;
using testing::Not;

class RankRendering : public RankFixture {
 protected:
  // Rank 2 leaks, rank 3 has a larger batch, rank 4 is missing, one file is broken.
  RankReport Mixed() {
    AddAlike(0, 1);
    Add({.rank = 2, .world = 5, .leak = kMiB});
    Add({.rank = 3, .batch = 20 * kMiB});
    merge_.AddUnread({"d/4.json", "d/4.json: is cut off; run the program again", 4});
    return merge_.Finish();
  }
};

TEST_F(RankRendering, TheTextSaysWhoDiffersAndHow) {
  const std::string text = RenderRanksText(Mixed(), {});
  EXPECT_THAT(
      text, HasSubstr("LEAK  rank 2 leaks: 1 line, 12.0 MiB (12,582,912 B) held to the end and growing; 1 file could"));
  EXPECT_THAT(text, HasSubstr("ranks           4 of 5, on node1\n"));
  EXPECT_THAT(text, HasSubstr("missing         rank 4: "));
  EXPECT_THAT(text, HasSubstr("only on rank 2: 12.0 MiB (12,582,912 B) in 12 blocks; +1.0 MiB a step"));
  EXPECT_THAT(
      text,
      HasSubstr("peak            12.0 MiB to 28.0 MiB, median 12.0 MiB; the most is 1.47 times the mean, on rank 3"));
  EXPECT_THAT(text, HasSubstr("stands out: rank 3 with 28.0 MiB, +133.3 %"));
  EXPECT_THAT(text, HasSubstr("+16.0 MiB   20.0 MiB    4.0 MiB  train.cc:20  Batch"));
  EXPECT_THAT(text, HasSubstr("- rank 4: d/4.json: is cut off; run the program again"));
}

TEST_F(RankRendering, TheJsonHasTheSameFacts) {
  const nlohmann::json json = nlohmann::json::parse(RenderRanksJson(Mixed()));
  EXPECT_EQ(json["cuheap_ranks"], kRankReportVersion);
  EXPECT_EQ(json["verdict"], "leaks");
  EXPECT_EQ(json["missing"], nlohmann::json::parse("[[4,4]]"));
  EXPECT_EQ(json["leaks"][0]["ranks"], nlohmann::json::parse("[2]"));
  EXPECT_EQ(json["leaks"][0]["line"]["text"], "/src/train.cc:30");
  EXPECT_EQ(json["imbalance"]["largest"], 3);
  EXPECT_EQ(json["imbalance"]["lines"][0]["largest_bytes"], 20 << 20);
  EXPECT_EQ(json["unread"][0]["rank"], 4);
  ASSERT_EQ(json["ranks"].size(), 4u);
  const nlohmann::json& rank = json["ranks"][3];
  EXPECT_EQ(rank["rank"], 3);
  EXPECT_EQ(rank["devices"][0]["peak_bytes"], 28 << 20);
  EXPECT_EQ(rank["devices"][0]["curve"]["time_ns"].size(), rank["devices"][0]["curve"]["bytes"].size());
  const std::size_t first = rank["peak_by_line"]["line"][0];
  EXPECT_EQ(json["lines"][first]["line"], 20);
  EXPECT_EQ(rank["peak_by_line"]["bytes"][0], 20 << 20);
}

TEST_F(RankRendering, TheOrderOfFilesChangesNothing) {
  const auto render = [&](std::initializer_list<std::uint32_t> order) {
    merge_ = RankMerge();
    for (const std::uint32_t rank : order) Add({.rank = rank, .leak = rank * kMiB});
    const RankReport report = merge_.Finish();
    return RenderRanksText(report) + RenderRanksJson(report);
  };
  EXPECT_EQ(render({0, 1, 2, 3}), render({3, 1, 0, 2}));
}

TEST_F(RankRendering, OfManyRanksThoseThatStandOutAreShown) {
  for (std::uint32_t rank = 0; rank < 64; ++rank)
    Add({.rank = rank, .world = 64, .batch = rank == 37 ? 20 * kMiB : 4 * kMiB, .leak = rank == 50 ? kMiB : 0});
  const std::string text = RenderRanksText(merge_.Finish(), {.top = 3});
  const std::string table = text.substr(text.find("\nRANKS"));
  EXPECT_THAT(table, HasSubstr("the 3 that stand out most, of 64"));
  EXPECT_THAT(table, HasSubstr("\n    37  node1"));
  EXPECT_THAT(table, HasSubstr("\n    50  node1"));
  EXPECT_THAT(table, HasSubstr("and 61 others, with peaks of 12.0 MiB"));
}

TEST_F(RankRendering, TimelinesStandOnOneClockAndScale) {
  Add({.rank = 0, .steps = 50});
  Add({.rank = 1, .steps = 50, .started_after = 76'000'000});  // half of the first one's 153 ms
  const RankReport report = merge_.Finish();
  const std::string first = RankTimeline(report, report.ranks[0], 9, 12 * kMiB);
  const std::string second = RankTimeline(report, report.ranks[1], 9, 12 * kMiB);
  EXPECT_EQ(first, "██████▆  ");
  EXPECT_EQ(second, "   ██████");
  EXPECT_EQ(RankTimeline(report, report.ranks[0], 3, 24 * kMiB), "▅▅▃") << "half as high beside one of 24 MiB";
}

TEST_F(RankRendering, NamesFromOutsideAreMadeSafe) {
  Add({.rank = 0, .host = "node\033[2J"}, "d/\033[31mrank0.json");
  Add({.host = "node\033[2J", .launcher = "", .pid = 5}, "d/\033[31m.json");
  merge_.AddUnread({"d/\033]0;x\007.json", "d/\033]0;x\007.json: is damaged", {}});
  const std::string text = RenderRanksText(merge_.Finish(), {});
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(text, Not(HasSubstr("\007")));
}

TEST(JoinRanges, NumbersAndRanges) {
  EXPECT_EQ(JoinRanges({{0, 3}, {7, 7}, {9, 10}}), "0-3, 7, 9-10");
  EXPECT_EQ(JoinRanges({}), "");
}

}  // namespace
}  // namespace cuheap::analysis
