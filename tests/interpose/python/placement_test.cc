#include "interpose/python/placement.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace cuheap::python {
namespace {

constexpr std::uint64_t kLoopBegin = 0x1000, kLoopEnd = 0x2000;

struct Stacks {
  std::vector<std::uint64_t> addresses, stack_pointers;  // native
  std::vector<std::uint64_t> anchors;
  bool native_complete = true, python_complete = true;
};

// What Place says; empty: unplaced.
std::vector<std::uint16_t> PlaceAll(const Stacks& stacks) {
  std::vector<std::uint16_t> after(stacks.anchors.size(), 0xFFFF);
  const NativeFrames native{stacks.addresses.data(), stacks.stack_pointers.data(),
                            static_cast<unsigned>(stacks.addresses.size()), stacks.native_complete};
  const PythonFrames python{stacks.anchors.data(), static_cast<unsigned>(stacks.anchors.size()),
                            stacks.python_complete};
  if (Place(native, python, kLoopBegin, kLoopEnd, after.data())) return after;
  EXPECT_EQ(after, std::vector<std::uint16_t>(after.size(), static_cast<std::uint16_t>(native.depth)));
  return {};
}

using Places = std::vector<std::uint16_t>;

TEST(PlacementTest, AnchorsNameTheFrameThatTheyLieIn) {
  // Three native frames from 0x100, 0x200 and 0x300 upwards.
  EXPECT_EQ(PlaceAll({{1, 2, 3}, {0x100, 0x200, 0x300}, {0x1F8, 0x1F8, 0x200}}), (Places{1, 1, 2}));
  EXPECT_EQ(PlaceAll({{1, 2, 3}, {0x100, 0x200, 0x300}, {0x100}}), (Places{1}));
}

TEST(PlacementTest, WhatLiesBeyondTheLastNativeFrameComesLast) {
  EXPECT_EQ(PlaceAll({{1, 2}, {0x100, 0x200}, {0x150, 0x5000, 0x9000}, false}), (Places{1, 2, 2}));
}

TEST(PlacementTest, AnotherStackIsNoPlace) {
  EXPECT_EQ(PlaceAll({{1, 2}, {0x100, 0x200}, {0x80}}), Places{});
  EXPECT_EQ(PlaceAll({{1, 2}, {0x100, 0x200}, {0x250, 0x150}}), Places{});
  EXPECT_EQ(PlaceAll({{}, {}, {0x150}}), Places{});
}

TEST(PlacementTest, WithoutAnchorsEachFrameHasOneOfTheLoop) {
  EXPECT_EQ(PlaceAll({{5, 0x1010, 6, 0x1020, 7}, {1, 2, 3, 4, 5}, {0, 0}}), (Places{2, 4}));
  // A return address at the end of the loop belongs to it, one at its beginning to what lies before.
  EXPECT_EQ(PlaceAll({{kLoopBegin, kLoopEnd}, {1, 2}, {0}}), (Places{2}));
}

TEST(PlacementTest, UnequalNumbersAreNotGuessedAt) {
  EXPECT_EQ(PlaceAll({{5, 0x1010, 6}, {1, 2, 3}, {0, 0}}), Places{});
  EXPECT_EQ(PlaceAll({{0x1010, 0x1020}, {1, 2}, {0}}), Places{});
}

TEST(PlacementTest, CutStacksArePlacedAsFarAsTheyGo) {
  EXPECT_EQ(PlaceAll({{5, 0x1010, 6}, {1, 2, 3}, {0, 0, 0}, false}), (Places{2, 3, 3}));
  EXPECT_EQ(PlaceAll({{0x1010, 0x1020}, {1, 2}, {0}, true, false}), (Places{1}));
}

}  // namespace
}  // namespace cuheap::python
