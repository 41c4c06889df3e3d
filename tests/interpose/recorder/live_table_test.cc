#include "interpose/recorder/live_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace cuheap::recorder {
namespace {

using journal::AllocationKind;

TEST(AddressIndexTest, AgreesWithAMapUnderRandomInsertsAndErases) {
  // Few distinct addresses, so that probes collide, wrap around the end and shift back.
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<journal::LiveSlot> slots(600);
    std::map<std::pair<std::uint64_t, int>, journal::LiveSlot*> model;
    AddressIndex index;
    for (int step = 0; step < 20000; ++step) {
      const std::uint64_t address = (1 + random() % 150) << (seed % 12);
      const auto space = static_cast<AddressSpace>(random() % 5);
      const std::pair key{address, static_cast<int>(space)};
      if (const auto found = model.find(key); found != model.end()) {
        ASSERT_EQ(index.Find(address, space), found->second);
        if (random() % 2 == 0) {
          index.Erase(address, space);
          model.erase(found);
        }
      } else {
        ASSERT_EQ(index.Find(address, space), nullptr);
        journal::LiveSlot* slot = &slots[random() % slots.size()];
        ASSERT_TRUE(index.Insert(address, space, slot));
        model[key] = slot;
      }
      ASSERT_EQ(index.size(), model.size());
    }
    std::size_t visited = 0;
    index.ForEach([&](journal::LiveSlot*) { ++visited; });
    EXPECT_EQ(visited, model.size());
    for (const auto& [key, slot] : model) EXPECT_EQ(index.Find(key.first, static_cast<AddressSpace>(key.second)), slot);
  }
}

TEST(AddressIndexTest, ErasingWhatIsNotThereChangesNothing) {
  AddressIndex index;
  index.Erase(5, AddressSpace::kMemory);
  journal::LiveSlot slot;
  ASSERT_TRUE(index.Insert(5, AddressSpace::kMemory, &slot));
  index.Erase(6, AddressSpace::kMemory);
  index.Erase(5, AddressSpace::kSegment);
  EXPECT_EQ(index.Find(5, AddressSpace::kMemory), &slot);
}

TEST(SpaceOfTest, ASegmentAndItsFirstBlockDontMeet) {
  EXPECT_NE(SpaceOf(AllocationKind::kPoolSegment), SpaceOf(AllocationKind::kDevice));
  EXPECT_EQ(SpaceOf(AllocationKind::kManaged), SpaceOf(AllocationKind::kHostPinned));
  EXPECT_NE(SpaceOf(AllocationKind::kHostRegistered), SpaceOf(AllocationKind::kDevice));
}

}  // namespace
}  // namespace cuheap::recorder
