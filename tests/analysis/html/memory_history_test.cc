#include "analysis/html/memory_history.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "tests/analysis/reports/cached_program.h"

namespace cuheap::analysis {
namespace {

std::uint64_t BytesAt(const std::vector<GroupChange>& changes, std::uint32_t instant) {
  std::uint64_t bytes = 0;
  for (const GroupChange& change : changes) {
    if (change.instant > instant) break;
    bytes = change.bytes;
  }
  return bytes;
}

std::uint64_t SumAt(const MemoryHistory& history, std::uint32_t instant) {
  std::uint64_t sum = 0;
  for (const auto& changes : history.changes) sum += BytesAt(changes, instant);
  return sum;
}

const NamedInstant* Find(const MemoryHistory& history, const std::string& name) {
  for (const NamedInstant& named : history.named) {
    if (named.name == name) return &named;
  }
  return nullptr;
}

class MemoryHistoryTest : public testing::Test {
 protected:
  std::vector<MemoryHistory> Tell(const HistoryLimits& limits = {}) {
    snapshot_ = program_.Snapshot();
    report_.emplace(MakeReport(snapshot_));
    blocks_ = JoinBlocks(snapshot_);
    // Two categories, so that stacks have blocks of both.
    category_.clear();
    for (const Block& block : blocks_.program) category_.push_back(static_cast<std::uint8_t>(block.id % 2));
    return TellMemoryHistory(*report_, blocks_, category_, limits);
  }
  // Allocates and frees at random from many lines.
  void Churn(int events, int lines, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::uint32_t> stacks;
    for (int i = 0; i < lines; ++i)
      stacks.push_back(program_.Line("a.cc", static_cast<std::uint32_t>(10 + i), "F" + std::to_string(i)));
    std::vector<std::uint64_t> live;
    for (int i = 0; i < events; ++i) {
      if (live.empty() || random() % 5 < 3) {
        live.push_back(program_.Malloc(stacks[random() % stacks.size()], 512 * (1 + random() % 1000)));
      } else {
        const std::size_t which = random() % live.size();
        program_.Free(live[which]);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      }
      if (random() % 50 == 0) program_.Sleep(static_cast<std::int64_t>(random() % 1'000'000'000));
    }
  }
  // What blocks.h says of every instant, group by group.
  void ExpectExact(const MemoryHistory& history) {
    for (std::uint32_t instant = 0; instant < history.time_ns.size(); ++instant) {
      std::map<MemoryGroup, std::uint64_t> held;
      for (std::size_t i = 0; i < blocks_.program.size(); ++i) {
        const Block& block = blocks_.program[i];
        if (HeldAfter(block, history.position[instant]))
          held[{GroupPart::kStack, block.stack, category_[i]}] += block.bytes;
      }
      for (std::size_t group = 0; group < history.groups.size(); ++group) {
        ASSERT_EQ(BytesAt(history.changes[group], instant), held[history.groups[group]])
            << "instant " << instant << ", group " << group;
      }
    }
  }

  CachedProgram program_;
  Snapshot snapshot_;
  std::optional<Report> report_;
  Blocks blocks_;
  std::vector<std::uint8_t> category_;
};

TEST_F(MemoryHistoryTest, EveryInstantOfASmallRunIsExact) {
  Churn(300, 5, 1);
  const auto histories = Tell();
  ASSERT_EQ(histories.size(), 1u);
  EXPECT_GT(histories[0].time_ns.size(), 290u);
  ExpectExact(histories[0]);
}

TEST_F(MemoryHistoryTest, ThinnedOutInstantsAreExactAndHaveThePeak) {
  Churn(8000, 20, 2);
  HistoryLimits limits;
  limits.instants = 60;
  const auto histories = Tell(limits);
  ASSERT_EQ(histories.size(), 1u);
  const MemoryHistory& history = histories[0];
  EXPECT_LE(history.time_ns.size(), 64u);
  EXPECT_GE(history.time_ns.size(), 30u);
  ExpectExact(history);
  const NamedInstant* peak = Find(history, "peak");
  ASSERT_NE(peak, nullptr);
  EXPECT_EQ(SumAt(history, peak->instant), report_->totals[0].peak_bytes);
  EXPECT_EQ(history.time_ns[peak->instant], report_->totals[0].peak_ns);
  for (std::uint32_t instant = 0; instant < history.time_ns.size(); ++instant)
    EXPECT_LE(SumAt(history, instant), report_->totals[0].peak_bytes);
}

TEST_F(MemoryHistoryTest, SmallStacksAreTakenTogetherAndSumsStay) {
  Churn(500, 30, 3);
  HistoryLimits limits;
  limits.groups = 4;
  const auto histories = Tell(limits);
  const MemoryHistory& history = histories[0];
  EXPECT_EQ(history.groups.size(), 6u);  // four, and the rest of either category
  EXPECT_EQ(std::count_if(history.groups.begin(), history.groups.end(),
                          [](const MemoryGroup& group) { return group.part == GroupPart::kOtherStacks; }),
            2);
  for (std::uint32_t instant = 0; instant < history.time_ns.size(); ++instant) {
    std::uint64_t held = 0;
    for (const Block& block : blocks_.program) held += HeldAfter(block, history.position[instant]) ? block.bytes : 0;
    ASSERT_EQ(SumAt(history, instant), held) << instant;
  }
}

TEST_F(MemoryHistoryTest, TooManyChangesMeanFewerInstants) {
  Churn(6000, 10, 4);
  HistoryLimits limits;
  limits.instants = 2000;
  limits.changes = 3000;
  const auto histories = Tell(limits);
  std::size_t changes = 0;
  for (const auto& of_group : histories[0].changes) changes += of_group.size();
  EXPECT_LE(changes, limits.changes);
  EXPECT_GE(histories[0].time_ns.size(), 60u);
  ExpectExact(histories[0]);
}

TEST_F(MemoryHistoryTest, WhatACacheHoldsBeyondItsTensorsIsIdle) {
  program_.Held(kBase, 20 * kMiB);
  const auto first = program_.Tensor(kBase, 8 * kMiB);
  program_.Tensor(kBase + 8 * kMiB, 4 * kMiB);
  program_.Free(first);
  const auto histories = Tell();
  ASSERT_EQ(histories.size(), 1u);
  const MemoryHistory& history = histories[0];
  EXPECT_TRUE(history.tensors);
  ASSERT_EQ(history.groups.back().part, GroupPart::kIdleCache);
  const auto idle_at = [&](const std::string& name) {
    return BytesAt(history.changes.back(), Find(history, name)->instant);
  };
  EXPECT_EQ(idle_at("peak"), 8 * kMiB);
  EXPECT_EQ(idle_at("end"), 16 * kMiB);
  EXPECT_EQ(SumAt(history, Find(history, "end")->instant), 20 * kMiB);
}

TEST_F(MemoryHistoryTest, ARefusalIsAnInstantOfItsOwn) {
  program_.Malloc(program_.Line("a.cc", 1, "A"), 4 * kMiB);
  const auto second = program_.Malloc(program_.Line("a.cc", 2, "B"), 16 * kMiB);
  program_.Free(second);
  program_.Fails(program_.Line("a.cc", 3, "C"), std::uint64_t{90} << 30);
  program_.Malloc(program_.Line("a.cc", 4, "D"), 8 * kMiB);
  const auto histories = Tell();
  const NamedInstant* refused = Find(histories[0], "refused");
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(SumAt(histories[0], refused->instant), 4 * kMiB);
  EXPECT_EQ(SumAt(histories[0], Find(histories[0], "peak")->instant), 20 * kMiB);
}

TEST_F(MemoryHistoryTest, DevicesAndPinnedMemoryAreApart) {
  const std::uint32_t line = program_.Line("a.cc", 1, "A");
  program_.Malloc(line, 4 * kMiB);
  program_.Malloc(line, kMiB, AllocationKind::kHostPinned);
  program_.UseDevice(1);
  program_.Malloc(line, 2 * kMiB);
  const auto histories = Tell();
  ASSERT_EQ(histories.size(), 3u);
  EXPECT_EQ(histories[0].device, 0u);
  EXPECT_EQ(histories[1].device, 1u);
  EXPECT_TRUE(histories[2].host);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(SumAt(histories[i], Find(histories[i], "end")->instant), (i == 0 ? 4 : i == 1 ? 2 : 1) * kMiB);
}

TEST_F(MemoryHistoryTest, BlocksFromBeforeTheKeptEventsAreHeldFromTheBeginning) {
  program_.Malloc(program_.Line("a.cc", 1, "A"), 4 * kMiB);
  program_.ForgetEvents();
  program_.Malloc(program_.Line("a.cc", 2, "B"), kMiB);
  const auto histories = Tell();
  EXPECT_EQ(SumAt(histories[0], 0), 4 * kMiB);
  ExpectExact(histories[0]);
}

TEST_F(MemoryHistoryTest, NothingIsTheHistoryOfNothing) {
  program_.Mark();
  EXPECT_TRUE(Tell().empty());
}

}  // namespace
}  // namespace cuheap::analysis
