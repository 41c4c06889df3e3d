#include "allocator/page_map.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <memory>
#include <vector>

namespace cuheap {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr DeviceAddress kBase = 0x7f00'0000'0000;

std::unique_ptr<Segment> At(DeviceAddress base, std::size_t bytes) {
  return Segment::Create(base, bytes, bytes, false, 0);
}

TEST(PageMapTest, FindsTheSegmentOfEveryByteAndNoOther) {
  PageMap map;
  auto segment = At(kBase + 512, 5 * kMiB);
  ASSERT_TRUE(map.Insert(segment.get()));
  for (const std::size_t offset : {std::size_t{0}, kMiB, 3 * kMiB, 5 * kMiB - 1}) {
    EXPECT_EQ(map.Find(segment->base() + offset), segment.get()) << offset;
  }
  EXPECT_EQ(map.Find(segment->base() - 1), nullptr);
  EXPECT_EQ(map.Find(segment->end()), nullptr);
  map.Erase(segment.get());
  EXPECT_EQ(map.Find(segment->base()), nullptr);
}

TEST(PageMapTest, SmallSegmentsShareAGranule) {
  PageMap map;
  std::vector<std::unique_ptr<Segment>> segments;
  for (int i = 0; i < 100; ++i) {
    segments.push_back(At(kBase + (i * 37 % 100) * 1024, 512));  // not in order
    ASSERT_TRUE(map.Insert(segments.back().get()));
  }
  for (const auto& segment : segments) {
    EXPECT_EQ(map.Find(segment->base() + 511), segment.get());
    EXPECT_EQ(map.Find(segment->base() + 512), nullptr);
  }
  for (const auto& segment : segments) {
    map.Erase(segment.get());
    EXPECT_EQ(map.Find(segment->base()), nullptr);
  }
}

TEST(PageMapTest, RefusesWhatReachesBeyondTheLimit) {
  PageMap map;
  auto last = At(PageMap::kAddressLimit - 2 * kMiB, 2 * kMiB);
  auto over = At(PageMap::kAddressLimit - 2 * kMiB, 2 * kMiB + 1);
  auto beyond = At(PageMap::kAddressLimit, 512);
  auto top = At(~DeviceAddress{0} - 1023, 512);
  EXPECT_FALSE(map.Insert(over.get()));
  EXPECT_EQ(map.Find(over->base()), nullptr);
  EXPECT_FALSE(map.Insert(beyond.get()));
  EXPECT_FALSE(map.Insert(top.get()));
  EXPECT_EQ(map.Find(beyond->base()), nullptr);
  EXPECT_EQ(map.Find(top->base()), nullptr);
  EXPECT_TRUE(map.Insert(last.get()));
  EXPECT_EQ(map.Find(PageMap::kAddressLimit - 1), last.get());
}

// Against an ordered map.
RC_GTEST_PROP(PageMapTest, AgreesWithAnOrderedMap, (std::vector<std::tuple<std::uint16_t, std::uint16_t>> steps)) {
  PageMap map;
  std::map<DeviceAddress, std::unique_ptr<Segment>> oracle;
  for (const auto& [place, size] : steps) {
    const DeviceAddress base = kBase + std::uint64_t{place} * 512;
    const std::size_t bytes = (size % 5 == 0 ? std::size_t{size} * 512 : size % 2048) + 1;
    Segment* expected = nullptr;
    for (const auto& [b, segment] : oracle) {
      if (b < base + bytes && base < segment->end()) {
        expected = segment.get();
        break;
      }
    }
    Segment* overlap = map.FindOverlap(base, bytes);
    RC_ASSERT((overlap == nullptr) == (expected == nullptr));
    if (overlap != nullptr) {
      RC_ASSERT(overlap->base() < base + bytes && base < overlap->end());
      map.Erase(overlap);
      oracle.erase(overlap->base());
    } else {
      auto segment = At(base, bytes);
      RC_ASSERT(map.Insert(segment.get()));
      oracle[base] = std::move(segment);
    }
    for (const auto& [b, segment] : oracle) {
      RC_ASSERT(map.Find(b) == segment.get());
      RC_ASSERT(map.Find(segment->end() - 1) == segment.get());
    }
    const auto after = oracle.upper_bound(base);
    const bool inside = after != oracle.begin() && std::prev(after)->second->Contains(base);
    RC_ASSERT(map.Find(base) == (inside ? std::prev(after)->second.get() : nullptr));
  }
}

}  // namespace
}  // namespace cuheap
