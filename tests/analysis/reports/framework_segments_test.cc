#include "analysis/reports/framework_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuheap::analysis {
namespace {

Block Segment(std::uint64_t address, std::uint64_t bytes, Allocator allocator = Allocator::kPyTorch) {
  Block block;
  block.address = address;
  block.bytes = bytes;
  block.allocator = allocator;
  block.kind = AllocationKind::kDevice;
  return block;
}

TEST(FrameworkSegments, HeldOnesByAddressAndFreedOnesCounted) {
  Blocks blocks;
  blocks.program = {Segment(0x3000, 30), Segment(0x1000, 10), Segment(0x2000, 20)};
  blocks.program[2].freed_ns = 5;
  const std::vector<FrameworkSegments> list = ListFrameworkSegments(blocks);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].allocations, 3u);
  EXPECT_EQ(list[0].frees, 1u);
  EXPECT_EQ(list[0].bytes, 40u);
  ASSERT_EQ(list[0].held.size(), 2u);
  EXPECT_EQ(list[0].held[0].address, 0x1000u);
  EXPECT_EQ(list[0].held[1].bytes, 30u);
}

TEST(FrameworkSegments, WhatWentWithItsContextIsHeld) {
  Blocks blocks;
  blocks.program = {Segment(0x1000, 10)};
  blocks.program[0].freed_ns = 5;
  blocks.program[0].freed_with_context = true;
  EXPECT_EQ(ListFrameworkSegments(blocks)[0].held.size(), 1u);
}

TEST(FrameworkSegments, OnlyDeviceMemoryOfFrameworksApartByDevice) {
  Blocks blocks;
  blocks.program = {Segment(0x1000, 10), Segment(0x2000, 20), Segment(0x3000, 30, Allocator::kProgram),
                    Segment(0x4000, 40)};
  blocks.program[1].device = 1;
  blocks.program[3].kind = AllocationKind::kHostPinned;
  const std::vector<FrameworkSegments> list = ListFrameworkSegments(blocks);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].bytes, 10u);
  EXPECT_EQ(list[1].device, 1u);
  EXPECT_EQ(list[1].bytes, 20u);
  EXPECT_TRUE(ListFrameworkSegments({}).empty());
}

}  // namespace
}  // namespace cuheap::analysis
