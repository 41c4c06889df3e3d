#include "allocator/boundary_map.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <set>

namespace cuheap {
namespace {

TEST(BoundaryMap, IsEmptyAtFirst) {
  const BoundaryMap map(1 << 20);
  EXPECT_FALSE(map.AtOrBelow((1 << 20) - 1).has_value());
  EXPECT_FALSE(map.Has(0));
}

TEST(BoundaryMap, OnePlace) {
  BoundaryMap map(1);
  map.Set(0);
  EXPECT_EQ(map.AtOrBelow(0), 0u);
  map.Clear(0);
  EXPECT_FALSE(map.AtOrBelow(0).has_value());
}

TEST(BoundaryMap, AgreesWithASet) {
  std::mt19937_64 random(1);
  for (const std::size_t places : {64u, 65u, 5000u, 300'000u, 20'000'000u}) {
    BoundaryMap map(places);
    std::set<std::size_t> set;
    for (int i = 0; i < 20'000; ++i) {
      // Near the ends and near one another, as well as anywhere.
      std::size_t place = random() % places;
      if (i % 3 == 0) place = places - 1 - random() % std::min<std::size_t>(places, 200);
      if (i % 3 == 1) place = random() % std::min<std::size_t>(places, 200);
      if (random() % 2 == 0) {
        map.Set(place);
        set.insert(place);
      } else {
        map.Clear(place);
        set.erase(place);
      }
      const std::size_t asked = random() % places;
      const auto after = set.upper_bound(asked);
      ASSERT_EQ(map.Has(asked), set.contains(asked));
      if (after == set.begin()) {
        ASSERT_FALSE(map.AtOrBelow(asked).has_value());
      } else {
        ASSERT_EQ(map.AtOrBelow(asked), *std::prev(after)) << places << ' ' << asked;
      }
    }
  }
}

}  // namespace
}  // namespace cuheap
