#include "allocator/slab_bins.h"

#include <gtest/gtest.h>

namespace cuheap {
namespace {

std::unique_ptr<Segment> SlabWith(std::uint32_t used, std::uint32_t capacity = 30) {
  auto slab = Segment::Create(DeviceAddress{1} << 40, capacity * 512, 512, true, 0);
  for (std::uint32_t i = 0; i < used; ++i) slab->Take(1, 1);
  return slab;
}

TEST(SlabBinsTest, EmptyHasABinOfItsOwnAndFullHasNone) {
  for (const std::uint32_t capacity : {1u, 2u, 3u, 30u, 4096u}) {
    EXPECT_EQ(SlabBins::BinOf(*SlabWith(0, capacity)), 0);
    EXPECT_EQ(SlabBins::BinOf(*SlabWith(capacity, capacity)), -1);
    if (capacity > 1) {
      EXPECT_GE(SlabBins::BinOf(*SlabWith(1, capacity)), 1);
      EXPECT_LT(SlabBins::BinOf(*SlabWith(capacity - 1, capacity)), SlabBins::kBins);
    }
  }
}

TEST(SlabBinsTest, BinsGrowWithOccupancy) {
  int last = 0;
  for (std::uint32_t used = 1; used < 30; ++used) {
    const int bin = SlabBins::BinOf(*SlabWith(used));
    EXPECT_GE(bin, last);
    last = bin;
  }
  EXPECT_EQ(last, SlabBins::kBins - 1);
}

TEST(SlabBinsTest, TheFullestIsFoundAndFollowsChanges) {
  SlabBins bins;
  auto low = SlabWith(3), high = SlabWith(20), empty = SlabWith(0);
  for (Segment* slab : {low.get(), high.get(), empty.get()}) bins.Update(slab);
  EXPECT_EQ(bins.Fullest(), high.get());
  while (high->ready() > 0) high->Take(1, 1);
  bins.Update(high.get());
  EXPECT_EQ(bins.Fullest(), low.get()) << "a full slab can't serve";
  bins.Remove(low.get());
  EXPECT_EQ(bins.Fullest(), empty.get());
  bins.Remove(empty.get());
  EXPECT_EQ(bins.Fullest(), nullptr);
  bins.Remove(empty.get());  // in none: nothing happens
}

TEST(SlabBinsTest, QuarantinedBlocksCountAsUsed) {
  auto slab = SlabWith(1);
  slab->Quarantine(0);
  EXPECT_EQ(SlabBins::BinOf(*slab), 1);
  slab->MakeReady(0);
  EXPECT_EQ(SlabBins::BinOf(*slab), 0);
}

TEST(SlabBinsTest, ListsExactlyTheEmptySlabs) {
  SlabBins bins;
  auto a = SlabWith(0), b = SlabWith(1), c = SlabWith(0);
  for (Segment* slab : {a.get(), b.get(), c.get()}) bins.Update(slab);
  std::set<Segment*> listed;
  for (Segment* s = bins.FirstEmpty(); s != nullptr; s = SlabBins::Next(s)) listed.insert(s);
  EXPECT_EQ(listed, (std::set<Segment*>{a.get(), c.get()}));
}

}  // namespace
}  // namespace cuheap
