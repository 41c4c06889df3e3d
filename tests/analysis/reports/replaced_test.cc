#include "analysis/reports/replaced.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "tests/analysis/reports/leak_fixture.h"

namespace cuheap::analysis {
namespace {

class ReplacedTest : public LeakFixture {
 protected:
  // A model of 4 blocks, 40 MiB.
  std::vector<std::uint64_t> Load() {
    std::vector<std::uint64_t> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(program_.Malloc(load_, 10 * kMiB));
    return blocks;
  }
  void Free(const std::vector<std::uint64_t>& blocks) {
    for (const std::uint64_t block : blocks) program_.Free(block);
  }

  std::uint32_t load_ = program_.Line("model.cc", 12, "Load");
  std::uint32_t other_ = program_.Line("train.cc", 30, "Step");
};

TEST_F(ReplacedTest, AModelThatIsLoadedBeforeTheOldOneIsFreed) {
  program_.Malloc(other_, 100 * kMiB);
  std::vector<std::uint64_t> model;
  for (int i = 0; i < 5; ++i) {
    std::vector<std::uint64_t> next = Load();
    Free(model);
    model = next;
  }
  const Report& report = Now();
  ASSERT_EQ(report.replaced.size(), 1u);
  const Replaced& replaced = report.replaced[0];
  EXPECT_EQ(replaced.peak_bytes, 180 * kMiB);
  EXPECT_EQ(replaced.saving_bytes, 40 * kMiB);
  ASSERT_EQ(replaced.lines.size(), 1u);
  EXPECT_EQ(replaced.lines[0].times, 4u);
  EXPECT_EQ(replaced.lines[0].old_bytes, 40 * kMiB);
  EXPECT_EQ(replaced.lines[0].old_blocks, 4u);
  EXPECT_EQ(Describe(report.lines.line(replaced.lines[0].line)), "model.cc:12");
  // The last one is held; it is not called a leak.
  ASSERT_EQ(Of(report, LeakClass::kReplaced).size(), 1u);
  EXPECT_EQ(Of(report, LeakClass::kReplaced)[0]->bytes, 40 * kMiB);
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
}

TEST_F(ReplacedTest, ItCostsTheSameIfTheLastOneIsFreedToo) {
  std::vector<std::uint64_t> model;
  for (int i = 0; i < 4; ++i) {
    std::vector<std::uint64_t> next = Load();
    Free(model);
    model = next;
  }
  Free(model);
  const Report& report = Now();
  ASSERT_EQ(report.replaced.size(), 1u);
  EXPECT_EQ(report.replaced[0].saving_bytes, 40 * kMiB);
}

TEST_F(ReplacedTest, WhatIsFreedFirstCostsNothing) {
  std::vector<std::uint64_t> model;
  for (int i = 0; i < 5; ++i) {
    Free(model);
    model = Load();
  }
  EXPECT_TRUE(Now().replaced.empty());
}

TEST_F(ReplacedTest, NorDoesWhatIsReplacedAwayFromThePeak) {
  std::vector<std::uint64_t> model;
  for (int i = 0; i < 5; ++i) {
    std::vector<std::uint64_t> next = Load();
    Free(model);
    model = next;
    program_.Free(program_.Malloc(other_, 100 * kMiB));  // here is the peak: one model, and this
  }
  EXPECT_TRUE(Now().replaced.empty());
}

TEST_F(ReplacedTest, TheSavingEndsWhereAnotherMomentIsThePeak) {
  std::vector<std::uint64_t> model;
  for (int i = 0; i < 5; ++i) {
    std::vector<std::uint64_t> next = Load();
    Free(model);
    model = next;
    program_.Free(program_.Malloc(other_, 30 * kMiB));  // 70 MiB here, 80 while two models are there
  }
  const Report& report = Now();
  ASSERT_EQ(report.replaced.size(), 1u);
  EXPECT_EQ(report.replaced[0].saving_bytes, 10 * kMiB);
  EXPECT_EQ(report.replaced[0].lines[0].old_bytes, 40 * kMiB);
}

TEST_F(ReplacedTest, SeveralLinesTogetherSaveMore) {
  const std::uint32_t head = program_.Line("model.cc", 20, "Head");
  std::uint64_t old_body = 0, old_head = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t body = program_.Malloc(load_, 30 * kMiB), top = program_.Malloc(head, 10 * kMiB);
    if (i != 0) program_.Free(old_body), program_.Free(old_head);
    old_body = body, old_head = top;
  }
  const Report& report = Now();
  ASSERT_EQ(report.replaced.size(), 1u);
  ASSERT_EQ(report.replaced[0].lines.size(), 2u);
  EXPECT_EQ(report.replaced[0].lines[0].saving_bytes, 30 * kMiB);
  EXPECT_EQ(report.replaced[0].lines[1].saving_bytes, 10 * kMiB);
  EXPECT_EQ(report.replaced[0].saving_bytes, 40 * kMiB);
}

TEST_F(ReplacedTest, AQueueIsNone) {
  std::deque<std::uint64_t> queue;
  for (int i = 0; i < 40; ++i) {
    queue.push_back(program_.Malloc(load_, 10 * kMiB));
    if (queue.size() > 8) program_.Free(queue.front()), queue.pop_front();
  }
  EXPECT_TRUE(Now().replaced.empty());
}

TEST_F(ReplacedTest, NeitherIsAStackOfBlocksNorARegularLoop) {
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t outer = program_.Malloc(load_, 10 * kMiB), inner = program_.Malloc(load_, 10 * kMiB);
    program_.Free(inner);
    program_.Free(outer);
  }
  EXPECT_TRUE(Now().replaced.empty());
}

TEST_F(ReplacedTest, OnceIsNoHabit) {
  const std::vector<std::uint64_t> first = Load();
  Load();
  Free(first);
  EXPECT_TRUE(Now().replaced.empty());
}

}  // namespace
}  // namespace cuheap::analysis
