// Leaks that steps do not cover, caches without a trend, and events that were overwritten.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "analysis/reports/leaks.h"
#include "analysis/reports/report.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class LeakWindowTest : public testing::Test {
 protected:
  const Report& Now() { return Of(program_.Snapshot()); }
  const Report& Of(Snapshot snapshot) {
    snapshots_.push_back(std::move(snapshot));
    reports_.push_back(MakeReport(snapshots_.back()));
    return reports_.back();
  }
  const LeakFinding* At(const Report& report, std::uint32_t stack) {
    for (const LeakFinding& finding : report.findings) {
      if (finding.line == report.lines.OfStack(stack)) return &finding;
    }
    return nullptr;
  }
  void Temporary() { program_.Free(program_.Malloc(scratch_, kMiB)); }

  SyntheticProgram program_;
  std::uint32_t step_end_ = program_.Line("train.cc", 90, "Step");
  std::uint32_t scratch_ = program_.Line("train.cc", 60, "Forward");
  std::uint32_t leak_ = program_.Line("train.cc", 33, "Log");
  std::mt19937 random_{20250101};
  std::deque<Snapshot> snapshots_;
  std::deque<Report> reports_;
};

TEST_F(LeakWindowTest, ALeakAfterAWarmUpThatSynchronisesIsFound) {
  for (int step = 0; step < 5; ++step) {
    Temporary();
    program_.Synchronize(step_end_);
  }
  for (int i = 0; i < 1000; ++i) program_.Malloc(leak_, 70'000);
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.verdict, Verdict::kLeaks);
  EXPECT_EQ(report.findings[0].blocks, 1000u);
  EXPECT_EQ(report.findings[0].bytes, 70'000'000u);
  EXPECT_EQ(report.findings[0].shape, GrowthShape::kOverTime);
  EXPECT_TRUE(report.findings[0].outside_steps);
  EXPECT_NE(RenderText(report).find("steps do not cover"), std::string::npos);
}

// What follows the warm-up allocates where its steps do: a thousand times.
TEST_F(LeakWindowTest, TheLoopAfterAWarmUpIsNotItsLastStep) {
  for (int i = 0; i < 1005; ++i) {
    program_.Malloc(leak_, 70'000);
    if (i < 5) program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.findings[0].blocks, 1005u);
  EXPECT_TRUE(report.findings[0].outside_steps);
  EXPECT_EQ(report.steps.count(), 5u);
}

TEST_F(LeakWindowTest, AfterAWarmUpARecurringAllocationServesAsTheClock) {
  for (int step = 0; step < 20; ++step) program_.Synchronize(step_end_);
  for (int step = 0; step < 500; ++step) {
    Temporary();
    program_.Malloc(leak_, 70'000);
  }
  const Report& report = Now();
  EXPECT_EQ(report.steps.source, StepSource::kAllocation);
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.findings[0].shape, GrowthShape::kEveryStep);
  EXPECT_NEAR(report.findings[0].bytes_per_step, 70'000.0, 1);
}

TEST_F(LeakWindowTest, WorkersThatLeakAfterTheMainThreadsLoopAreFound) {
  for (int step = 0; step < 200; ++step) {
    Temporary();
    program_.Synchronize(step_end_);
  }
  const std::size_t workers = program_.raw().events.size();
  for (int i = 0; i < 100; ++i) program_.Malloc(leak_, 70'000);
  for (std::size_t i = workers; i < program_.raw().events.size(); ++i) program_.raw().events.thread.Set(i, 2);
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.findings[0].blocks, 100u);
}

// The same line in the loop and after it: "stopped" it has not.
TEST_F(LeakWindowTest, ALineThatLeaksInAFewStepsAndThenGoesOnIsALeak) {
  for (int step = 0; step < 200; ++step) {
    if (step < 20) program_.Malloc(leak_, 70'000);
    Temporary();
    program_.Synchronize(step_end_);
  }
  for (int i = 0; i < 100; ++i) program_.Malloc(leak_, 70'000);
  EXPECT_EQ(Now().leak_count(), 1u);
}

TEST_F(LeakWindowTest, ALeakBeforeTheFirstSynchronisationIsFound) {
  for (int i = 0; i < 1000; ++i) program_.Malloc(leak_, 70'000);
  for (int step = 0; step < 5; ++step) program_.Synchronize(step_end_);
  EXPECT_EQ(Now().leak_count(), 1u);
}

TEST_F(LeakWindowTest, WeightsBeforeAFewStepsAreNoLeak) {
  const auto weights = program_.Line("model.cc", 10, "Load");
  for (int i = 0; i < 200; ++i) program_.Malloc(weights, kMiB * (1 + i % 7));
  for (int step = 0; step < 5; ++step) {
    Temporary();
    program_.Synchronize(step_end_);
  }
  EXPECT_EQ(Now().verdict, Verdict::kNoLeaks);
}

TEST_F(LeakWindowTest, AResultKeptAfterTheLoopIsNoLeak) {
  for (int step = 0; step < 200; ++step) {
    Temporary();
    program_.Synchronize(step_end_);
  }
  for (int i = 0; i < 100; ++i) Temporary();  // an evaluation that does not synchronise
  for (int i = 0; i < 10; ++i) program_.Malloc(leak_, kMiB);
  EXPECT_EQ(Now().verdict, Verdict::kNoLeaks);
}

class CacheTest : public LeakWindowTest {
 protected:
  // A map of at most `keys` entries; a step inserts one and throws out another at random.
  void Insert(std::uint32_t stack, std::size_t keys, std::uint64_t bytes) {
    cache_.push_back(program_.Malloc(stack, bytes));
    if (cache_.size() <= keys) return;
    const std::size_t victim = random_() % cache_.size();
    program_.Free(cache_[victim]);
    cache_.erase(cache_.begin() + static_cast<std::ptrdiff_t>(victim));
  }
  std::vector<std::uint64_t> cache_;
  std::uint32_t insert_ = program_.Line("cache.cc", 12, "Insert");
};

TEST_F(CacheTest, ABoundedCacheWithRandomReplacementIsNoLeak) {
  for (int seed = 0; seed < 20; ++seed) {
    program_ = SyntheticProgram();
    random_.seed(static_cast<unsigned>(seed));
    cache_.clear();
    insert_ = program_.Line("cache.cc", 12, "Insert");
    step_end_ = program_.Line("train.cc", 90, "Step");
    for (int step = 0; step < 1000; ++step) {
      Insert(insert_, 30, seed % 2 == 0 ? kMiB : 4096 * (1 + random_() % 100));
      program_.Synchronize(step_end_);
    }
    const Report& report = Now();
    ASSERT_EQ(report.verdict, Verdict::kNoLeaks) << seed;
    EXPECT_EQ(report.findings[0].shape, GrowthShape::kBounded);
    EXPECT_EQ(report.findings[0].blocks, 30u);
    EXPECT_EQ(report.findings[0].bytes_per_step, 0);
  }
}

TEST_F(CacheTest, NorIsOneWhoseEntriesExpireAtRandomTimes) {
  std::multimap<int, std::uint64_t> expiring;
  for (int step = 0; step < 2000; ++step) {
    while (!expiring.empty() && expiring.begin()->first <= step) {
      program_.Free(expiring.begin()->second);
      expiring.erase(expiring.begin());
    }
    expiring.emplace(step + 1 + static_cast<int>(random_() % 80), program_.Malloc(insert_, kMiB));
    program_.Synchronize(step_end_);
  }
  EXPECT_EQ(Now().verdict, Verdict::kNoLeaks);
}

TEST_F(CacheTest, WithoutStepsItIsNoLeakEither) {
  for (int i = 0; i < 1000; ++i) Insert(insert_, 30, kMiB);
  EXPECT_EQ(Now().verdict, Verdict::kNoLeaks);
}

TEST_F(CacheTest, ALineThatFreesNineOfTenStillLeaks) {
  for (int step = 0; step < 300; ++step) {
    for (int i = 0; i < 10; ++i) {
      const auto block = program_.Malloc(leak_, kMiB);
      if (i != 7) program_.Free(block);
    }
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.findings[0].shape, GrowthShape::kEveryStep);
  EXPECT_EQ(report.findings[0].line_frees, 2700u);
}

TEST_F(CacheTest, ARareLeakOfALineThatFreesNearlyAllIsFound) {
  for (int step = 1; step <= 400; ++step) {
    const bool lost = step == 31 || step == 90 || step == 170 || step == 210 || step == 300 || step == 385;
    const auto block = program_.Malloc(leak_, kMiB);
    if (!lost) program_.Free(block);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.findings[0].shape, GrowthShape::kIrregular);
}

TEST_F(CacheTest, FourBlocksOfALineThatFreesTheOthersAreALeak) {
  for (int step = 1; step <= 40; ++step) {
    const auto block = program_.Malloc(leak_, kMiB);
    if (step % 10 != 0) program_.Free(block);
    program_.Synchronize(step_end_);
  }
  EXPECT_EQ(Now().leak_count(), 1u);
}

// Every tenth block is kept until five newer ones are.
TEST_F(CacheTest, TheLastFewCheckpointsAreNoLeak) {
  for (int step = 1; step <= 1000; ++step) {
    const auto block = program_.Malloc(leak_, kMiB);
    if (step % 10 == 0)
      cache_.push_back(block);
    else
      program_.Free(block);
    if (cache_.size() > 5) {
      program_.Free(cache_.front());
      cache_.erase(cache_.begin());
    }
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
  EXPECT_EQ(report.findings[0].blocks, 5u);
}

TEST_F(CacheTest, ALeakBesideABoundedCacheOnOneWrappersLineIsFound) {
  const auto wrapper = program_.Line("buffer.h", 9, "Buffer::Buffer");
  const auto insert = program_.Through(wrapper, insert_), leak = program_.Through(wrapper, leak_);
  for (int step = 0; step < 1000; ++step) {
    Insert(insert, 30, kMiB);
    if (step % 10 == 0) program_.Malloc(leak, 4096);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.findings[0].blocks, 100u);
  EXPECT_EQ(report.findings[0].period, 10u);
  ASSERT_EQ(report.findings.size(), 2u);
  EXPECT_EQ(report.findings[1].shape, GrowthShape::kBounded);
}

class OverwrittenTest : public LeakWindowTest {};

TEST_F(OverwrittenTest, RatesComeFromTheKeptEventsAndCountsFromAllBlocks) {
  for (int step = 1; step <= 10'000; ++step) {
    if (step % 100 == 0) program_.Malloc(leak_, 70'000);
    program_.Synchronize(step_end_);
    if (step == 6'550) program_.ForgetEvents();
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  const LeakFinding& leak = report.findings[0];
  EXPECT_EQ(leak.shape, GrowthShape::kEveryFewSteps);
  EXPECT_EQ(leak.period, 100u);
  EXPECT_EQ(leak.bytes_per_occurrence, 70'000u);
  EXPECT_NEAR(leak.bytes_per_step, 700, 1);
  EXPECT_EQ(leak.blocks, 100u);
  EXPECT_EQ(leak.bytes, 7'000'000u);
  EXPECT_EQ(leak.before_window, 65u);
  const std::string text = RenderText(report);
  EXPECT_NE(text.find("+68.4 KiB every 100 steps"), std::string::npos) << text;
  EXPECT_NE(text.find("65 of the blocks are older than the events that were kept"), std::string::npos) << text;
}

TEST_F(OverwrittenTest, WeightsFromBeforeAreNoLeak) {
  const auto weights = program_.Line("model.cc", 10, "Load");
  for (int i = 0; i < 100; ++i) program_.Malloc(weights, kMiB);
  for (int step = 1; step <= 2000; ++step) {
    Temporary();
    if (step % 2 == 0) program_.Synchronize(step_end_);
    if (step == 1000) program_.ForgetEvents();
  }
  EXPECT_EQ(Now().verdict, Verdict::kNoLeaks);
  // The same without steps.
  program_.raw().events.type.Transform([](std::size_t, EventType) { return EventType::kNone; });
  const Report& report = Now();
  ASSERT_NE(At(report, weights), nullptr);
  EXPECT_FALSE(Grows(At(report, weights)->shape));
  // Of those blocks cuheap knows when they were made. PyTorch's snapshot does not.
  const std::string unknown = "was there before the record began: how it grew is not known";
  EXPECT_EQ(RenderText(report).find(unknown), std::string::npos);
  program_.raw().recorder = "pytorch";
  EXPECT_NE(RenderText(Now(), {.width = 160}).find(unknown), std::string::npos) << RenderText(Now());
}

TEST_F(OverwrittenTest, ALeakRarerThanTheWindowIsSeenFromTheTimesOfItsBlocks) {
  for (int step = 1; step <= 10'000; ++step) {
    if (step % 1000 == 990) program_.Malloc(leak_, 70'000);
    Temporary();
    program_.Synchronize(step_end_);
    if (step == 9'500) program_.ForgetEvents();
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.findings[0].shape, GrowthShape::kOverTime);
  EXPECT_EQ(report.findings[0].before_window, 9u);
}

}  // namespace
}  // namespace cuheap::analysis
