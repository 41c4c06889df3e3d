#include "analysis/reports/replacers.h"

#include <gtest/gtest.h>

#include <deque>

namespace cuheap::analysis {
namespace {

class ReplacersTest : public testing::Test {
 protected:
  // Made in the record, and kept.
  const Block* Kept(std::uint64_t bytes, AllocationKind kind = AllocationKind::kTensor) {
    Block& block = Add(bytes, kind);
    block.allocated_at = ++now_;
    kept_.push_back(&block);
    return &block;
  }
  // Made before the record, and freed in it.
  void Freed(std::uint64_t bytes, AllocationKind kind = AllocationKind::kTensor) {
    Block& block = Add(bytes, kind);
    block.freed_at = ++now_;
    unknown_.push_back(&block);
  }
  std::unordered_map<const Block*, std::uint64_t> Find() const { return FindReplacers(unknown_, kept_); }

  std::deque<Block> blocks_;
  std::vector<const Block*> unknown_;
  std::vector<const Block*> kept_;

 private:
  Block& Add(std::uint64_t bytes, AllocationKind kind) {
    Block& block = blocks_.emplace_back();
    block.bytes = bytes;
    block.kind = kind;
    return block;
  }

  std::uint64_t now_ = 0;
};

TEST_F(ReplacersTest, AnOptimizerThatMakesItsStateAnew) {
  // Gradients of the same sizes were made before, by the backward pass; they replace nothing.
  const Block* gradient = Kept(4096);
  std::vector<const Block*> state;
  for (int i = 0; i < 3; ++i) {
    state.push_back(Kept(4096));
    Freed(4096);
  }
  const auto found = Find();
  EXPECT_EQ(found.size(), 3u);
  EXPECT_FALSE(found.contains(gradient));
  for (const Block* block : state) EXPECT_EQ(found.at(block), 4096u);
}

TEST_F(ReplacersTest, ABlockReplacesOne) {
  Kept(4096);
  Freed(4096);
  Freed(4096);
  EXPECT_EQ(Find().size(), 1u);
}

TEST_F(ReplacersTest, WhatIsFreedBeforeIsNoPredecessor) {
  Freed(4096);
  Kept(4096);
  EXPECT_TRUE(Find().empty());
}

TEST_F(ReplacersTest, TensorsMayBeLargerThanWasAskedFor) {
  const Block* rounded = Kept(3 << 20);
  Freed((2 << 20) + 512);
  EXPECT_EQ(Find().at(rounded), static_cast<std::uint64_t>((2 << 20) + 512));
}

TEST_F(ReplacersTest, ButNotByMoreThanPyTorchRounds) {
  Kept((3 << 20) + 512);
  Freed(2 << 20);
  Kept(512);  // smaller
  Freed(1024);
  EXPECT_TRUE(Find().empty());
}

TEST_F(ReplacersTest, OtherMemoryHasItsExactSize) {
  Kept(4096, AllocationKind::kDevice);
  Freed(4095, AllocationKind::kDevice);
  Freed(4096, AllocationKind::kManaged);
  EXPECT_TRUE(Find().empty());
  Freed(4096, AllocationKind::kDevice);
  EXPECT_EQ(Find().size(), 1u);
}

}  // namespace
}  // namespace cuheap::analysis
