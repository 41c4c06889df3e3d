#include "allocator/dedicated_cache.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace cuheap {
namespace {

std::unique_ptr<Segment> Dedicated(DeviceAddress base, std::size_t bytes) {
  auto segment = Segment::Create(base, bytes, bytes, false, 0);
  DedicatedCache::Adopt(segment.get());
  return segment;
}

TEST(DedicatedCacheTest, FindsTheSmallestThatFitsWithinAnEighth) {
  auto s800 = Dedicated(1, 800), s900 = Dedicated(2, 900), s901 = Dedicated(3, 901);
  DedicatedCache cache;
  for (Segment* segment : {s901.get(), s800.get(), s900.get()}) cache.Insert(segment);
  EXPECT_EQ(cache.FindFit(800), s800.get());
  EXPECT_EQ(cache.FindFit(801), s900.get());
  EXPECT_EQ(cache.FindFit(901), s901.get());
  EXPECT_EQ(cache.FindFit(902), nullptr);
  EXPECT_EQ(cache.FindFit(712), s800.get()) << "712 + 712 / 8 = 801";
  EXPECT_EQ(cache.FindFit(711), nullptr) << "711 + 711 / 8 = 799";
}

TEST(DedicatedCacheTest, AmongEqualsTheLowestAddress) {
  auto high = Dedicated(9000, 100), low = Dedicated(1000, 100);
  DedicatedCache cache;
  cache.Insert(high.get());
  cache.Insert(low.get());
  EXPECT_EQ(cache.FindFit(100), low.get());
  cache.Remove(low.get());
  EXPECT_EQ(cache.FindFit(100), high.get());
  cache.Insert(low.get());  // the node travels with the segment
  EXPECT_EQ(cache.FindFit(100), low.get());
  EXPECT_TRUE(cache.Contains(high.get()));
}

TEST(DedicatedCacheTest, TheLimitDoesNotOverflow) {
  EXPECT_EQ(DedicatedCache::LargestFit(SIZE_MAX), SIZE_MAX);
  EXPECT_EQ(DedicatedCache::LargestFit(7), 7u);
  EXPECT_EQ(DedicatedCache::LargestFit(8), 9u);
}

}  // namespace
}  // namespace cuheap
