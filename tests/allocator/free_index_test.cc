#include "allocator/free_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace cuheap {
namespace {

struct Item {
  ListLink<Item> link;
  std::size_t key = 0;
};
using Index = FreeIndex<Item, &Item::link, &Item::key>;

TEST(FreeIndex, IsEmptyAtFirst) {
  const auto index = std::make_unique<Index>();
  EXPECT_TRUE(index->empty());
  EXPECT_EQ(index->Find(512), nullptr);
  EXPECT_EQ(index->Find(std::size_t{1} << 46), nullptr);
}

TEST(FreeIndex, GivesNothingTooSmall) {
  const auto index = std::make_unique<Index>();
  Item item;
  for (std::size_t bytes = 512; bytes <= 200'000; bytes += 512) {
    index->Insert(&item, bytes);
    EXPECT_EQ(index->Find(bytes), &item);
    EXPECT_EQ(index->Find(bytes + 512), nullptr) << bytes;
    EXPECT_EQ(index->Find(bytes - 511), &item);
    index->Remove(&item);
  }
  EXPECT_TRUE(index->empty());
}

TEST(FreeIndex, RemovingWhatIsNotThereDoesNothing) {
  const auto index = std::make_unique<Index>();
  Item item;
  index->Remove(&item);
  EXPECT_TRUE(index->empty());
}

// Not the best fit always, but never worse than the next of 32 steps a doubling.
TEST(FreeIndex, FitsWithinOneThirtySecondOfTheBest) {
  const auto index = std::make_unique<Index>();
  std::mt19937_64 random(3);
  std::vector<Item> items(2000);
  std::vector<std::size_t> sizes;
  for (Item& item : items) {
    sizes.push_back((random() % (std::size_t{1} << (10 + random() % 26)) / 512 + 1) * 512);
    index->Insert(&item, sizes.back());
  }
  std::sort(sizes.begin(), sizes.end());
  for (int i = 0; i < 5000; ++i) {
    const std::size_t wanted = (random() % (std::size_t{1} << (10 + random() % 26)) / 512 + 1) * 512;
    const auto best = std::lower_bound(sizes.begin(), sizes.end(), wanted);
    const Item* found = index->Find(wanted);
    if (best == sizes.end()) {
      EXPECT_EQ(found, nullptr);
      continue;
    }
    ASSERT_NE(found, nullptr);
    EXPECT_GE(found->key, wanted);
    EXPECT_LE(found->key, *best + *best / 16 + 512);
  }
  for (Item& item : items) index->Remove(&item);
  EXPECT_TRUE(index->empty());
}

}  // namespace
}  // namespace cuheap
