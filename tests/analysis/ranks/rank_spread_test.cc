#include "analysis/ranks/rank_spread.h"

#include <gtest/gtest.h>

#include <vector>

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

Spread Of(const std::vector<std::uint64_t>& values, std::uint64_t floor = kMiB) {
  std::vector<RankValue> ranks;
  for (std::size_t i = 0; i < values.size(); ++i) ranks.push_back({i, values[i]});
  return MeasureSpread(std::move(ranks), floor);
}

std::vector<std::size_t> Outliers(const Spread& spread) {
  std::vector<std::size_t> ranks;
  for (const RankValue& value : spread.outliers) ranks.push_back(value.rank);
  return ranks;
}

TEST(Spread, NothingOfNothing) {
  const Spread spread = Of({});
  EXPECT_EQ(spread.count, 0u);
  EXPECT_EQ(spread.imbalance(), 1);
}

TEST(Spread, MedianAndDeviationAreValuesOfRanks) {
  const Spread spread = Of({40 * kMiB, 10 * kMiB, 30 * kMiB, 20 * kMiB});
  EXPECT_EQ(spread.median, 20 * kMiB);
  EXPECT_EQ(spread.median_rank, 3u);
  EXPECT_EQ(spread.deviation, 10 * kMiB);  // of 0, 10, 10, 20
  EXPECT_EQ(spread.most_rank, 0u);
  EXPECT_DOUBLE_EQ(spread.imbalance(), 1.6);
  EXPECT_TRUE(spread.outliers.empty());
}

TEST(Spread, RanksThatAreAlikeMakeEveryRealDifferenceStandOut) {
  EXPECT_EQ(Outliers(Of({100 * kMiB, 100 * kMiB, 160 * kMiB, 100 * kMiB, 20 * kMiB})),
            (std::vector<std::size_t>{4, 2}));
  // Less than 5 %, or less than the floor: noise.
  EXPECT_TRUE(Of({100 * kMiB, 100 * kMiB, 104 * kMiB, 100 * kMiB}).outliers.empty());
  EXPECT_TRUE(Of({2 * kMiB, 2 * kMiB, 3 * kMiB, 2 * kMiB}).outliers.empty());
}

TEST(Spread, AnOutlierIsMeasuredByTheOthersSpread) {
  // Alternating layers of a pipeline: 80 to 45. None is far from the others.
  EXPECT_TRUE(
      Of({80 * kMiB, 75 * kMiB, 70 * kMiB, 65 * kMiB, 60 * kMiB, 55 * kMiB, 50 * kMiB, 45 * kMiB}).outliers.empty());
  // The same with one that is: 3.5 * 1.4826 * 10 MiB beyond 60 MiB is 112 MiB.
  EXPECT_EQ(Outliers(Of({113 * kMiB, 75 * kMiB, 70 * kMiB, 65 * kMiB, 60 * kMiB, 55 * kMiB, 50 * kMiB, 45 * kMiB})),
            (std::vector<std::size_t>{0}));
  EXPECT_TRUE(
      Of({111 * kMiB, 75 * kMiB, 70 * kMiB, 65 * kMiB, 60 * kMiB, 55 * kMiB, 50 * kMiB, 45 * kMiB}).outliers.empty());
}

TEST(Spread, OfTwoNobodyStandsOut) { EXPECT_TRUE(Of({10 * kMiB, 100 * kMiB}).outliers.empty()); }

TEST(Spread, AFloorOfNothingStillAsksForFivePercent) {
  EXPECT_EQ(Outliers(Of({60, 60, 60, 40}, 0)), (std::vector<std::size_t>{3}));
  EXPECT_TRUE(Of({60, 60, 60, 59}, 0).outliers.empty());
}

TEST(Spread, TheFirstOfEqualRanksIsNamed) {
  const Spread spread = Of({5 * kMiB, 9 * kMiB, 9 * kMiB, 5 * kMiB});
  EXPECT_EQ(spread.most_rank, 1u);
  EXPECT_EQ(spread.median_rank, 0u);
}

}  // namespace
}  // namespace cuheap::analysis
