#include "analysis/reports/block_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace cuheap::analysis {
namespace {

using testing::ElementsAre;

Block MadeAt(std::uint32_t allocated_at, std::uint64_t freed_at) {
  Block block;
  block.id = allocated_at;
  block.allocated_at = allocated_at;
  block.freed_at = freed_at & 0xFFFFFFFF;
  block.allocated_ns = allocated_at;
  block.freed_ns = freed_at == kNoPosition ? kNotFreed : static_cast<std::int64_t>(freed_at);
  return block;
}

constexpr auto kAll = [](const Block&) { return true; };

// Allocations as their ids, frees as minus their ids.
template <typename Range, typename Counts>
std::vector<std::int64_t> Changes(const Range& blocks, Counts counts) {
  std::vector<std::int64_t> changes;
  ForEachChange(blocks, counts, [&](const Block& block, bool allocation) {
    const auto id = static_cast<std::int64_t>(block.id);
    changes.push_back(allocation ? id : -id);
  });
  return changes;
}

TEST(BlockChangesTest, ChangesComeInTheOrderInWhichTheyHappened) {
  const std::vector<Block> blocks = {MadeAt(1, 6), MadeAt(2, 3), MadeAt(4, kNoPosition), MadeAt(5, 7)};
  EXPECT_THAT(Changes(blocks, kAll), ElementsAre(1, 2, -2, 4, 5, -1, -5));
}

TEST(BlockChangesTest, BlocksThatDoNotCountAreLeftOut) {
  const std::vector<Block> blocks = {MadeAt(1, 6), MadeAt(2, 3), MadeAt(4, 8)};
  EXPECT_THAT(Changes(blocks, [](const Block& block) { return block.id != 2; }), ElementsAre(1, 4, -1, -4));
}

TEST(BlockChangesTest, SomeOfTheBlocksByTheirAddresses) {
  const std::vector<Block> blocks = {MadeAt(1, 6), MadeAt(2, 3), MadeAt(4, 5)};
  const std::vector<const Block*> some = {&blocks[0], &blocks[2]};
  EXPECT_THAT(Changes(some, kAll), ElementsAre(1, 4, -4, -1));
}

// Few blocks of a long record: no place for each of its events.
TEST(BlockChangesTest, FreesThatLieFarApart) {
  const std::vector<Block> blocks = {MadeAt(1, 4'000'000'000), MadeAt(2, 3'000'000'000), MadeAt(3, 3'500'000'000)};
  EXPECT_THAT(Changes(blocks, kAll), ElementsAre(1, 2, 3, -2, -3, -1));
}

TEST(BlockChangesTest, SeveralFreesAtOnePositionKeepTheOrderOfTheirBlocks) {
  const std::vector<Block> blocks = {MadeAt(1, 5), MadeAt(2, 4), MadeAt(3, 5), MadeAt(4, 5)};
  EXPECT_THAT(FreesInOrder(blocks, kAll), ElementsAre(1, 0, 2, 3));
}

TEST(BlockChangesTest, NothingToFree) {
  EXPECT_THAT(FreesInOrder(std::vector<Block>{}, kAll), ElementsAre());
  EXPECT_THAT(FreesInOrder(std::vector<Block>{MadeAt(1, kNoPosition)}, kAll), ElementsAre());
}

}  // namespace
}  // namespace cuheap::analysis
