#include "allocator/block_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace cuheap {
namespace {

TEST(BlockTable, KnowsNothingAtFirst) {
  BlockTable<int> table;
  EXPECT_EQ(table.Find(512), nullptr);
  EXPECT_EQ(table.Erase(512), nullptr);
}

TEST(BlockTable, AgreesWithAMap) {
  BlockTable<int> table;
  std::map<DeviceAddress, int*> map;
  int values[64];
  std::mt19937_64 random(2);
  for (int i = 0; i < 200'000; ++i) {
    // Neighbours in address, as blocks are: they must not end up in one long run.
    const DeviceAddress address = (DeviceAddress{0x7} << 44) + random() % 6000 * 512;
    if (random() % 2 == 0 && !map.contains(address)) {
      int* value = &values[random() % 64];
      table.Reserve();
      table.Insert(address, value);
      map[address] = value;
    } else {
      const auto found = map.find(address);
      ASSERT_EQ(table.Find(address), found == map.end() ? nullptr : found->second);
      ASSERT_EQ(table.Erase(address), found == map.end() ? nullptr : found->second);
      if (found != map.end()) map.erase(found);
    }
    ASSERT_EQ(table.size(), map.size());
  }
  for (const auto& [address, value] : map) ASSERT_EQ(table.Find(address), value);
}

}  // namespace
}  // namespace cuheap
