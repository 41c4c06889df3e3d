#include "analysis/reports/steps.h"

#include <gtest/gtest.h>

#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

class StepsTest : public testing::Test {
 protected:
  Steps Main() {
    const Snapshot snapshot = program_.Snapshot();
    return FindSteps(snapshot, JoinBlocks(snapshot), FrameworkStacks(snapshot)).main;
  }
  void Temporary(std::uint32_t stack) { program_.Free(program_.Malloc(stack, 4096)); }

  SyntheticProgram program_;
  std::uint32_t a_ = program_.Line("a.cc", 1, "A"), b_ = program_.Line("a.cc", 2, "B"),
                c_ = program_.Line("a.cc", 3, "C");
  std::uint32_t end_ = program_.Line("a.cc", 9, "End");
};

TEST_F(StepsTest, NoneInAnEmptyRun) { EXPECT_EQ(Main().source, StepSource::kNone); }

TEST_F(StepsTest, MarksWinOverSynchronizations) {
  for (int step = 0; step < 5; ++step) {
    program_.Mark();
    for (int i = 0; i < 3; ++i) {
      Temporary(a_);
      program_.Synchronize(end_);
    }
  }
  const Steps steps = Main();
  EXPECT_EQ(steps.source, StepSource::kMarks);
  EXPECT_EQ(steps.count(), 5u);
}

TEST_F(StepsTest, SetUpBelongsToStepOneAndTheRestToTheStepAfterTheLast) {
  Temporary(b_);
  const std::int64_t set_up = program_.now_ns();
  for (int step = 0; step < 4; ++step) {
    Temporary(a_);
    program_.Synchronize(end_);
  }
  const std::int64_t last = program_.now_ns();
  const Steps steps = Main();
  EXPECT_EQ(steps.source, StepSource::kSynchronization);
  EXPECT_EQ(steps.count(), 4u);
  EXPECT_EQ(steps.StepOf(set_up), 1u);
  EXPECT_EQ(steps.StepOf(last), 4u);
  EXPECT_EQ(steps.StepOf(last + 1), 5u);
}

TEST_F(StepsTest, TheLoopsSynchronizationIsChosenAmongOthers) {
  const auto log = program_.Line("a.cc", 8, "Log");
  for (int step = 1; step <= 40; ++step) {
    Temporary(a_);
    Temporary(b_);
    program_.Synchronize(end_);
    if (step % 10 == 0) program_.Synchronize(log);
  }
  const Steps steps = Main();
  EXPECT_EQ(steps.count(), 40u);
  EXPECT_EQ(steps.stack, end_);
}

TEST_F(StepsTest, SeveralSynchronizationsAStepWithoutStacksAreOneStep) {
  for (int step = 1; step <= 20; ++step) {
    for (const std::uint32_t stack : {a_, b_, c_}) {
      Temporary(stack);
      program_.Synchronize(0);
    }
  }
  EXPECT_EQ(Main().count(), 20u);
}

TEST_F(StepsTest, WhatHappensEverySecondStepDoesNotHalveTheSteps) {
  for (int step = 1; step <= 20; ++step) {
    Temporary(a_);
    if (step % 2 == 0) Temporary(b_);
    program_.Synchronize(0);
  }
  EXPECT_EQ(Main().count(), 20u);
}

TEST_F(StepsTest, ARecurringAllocationServesWithoutSynchronizations) {
  for (int i = 0; i < 50; ++i) program_.Malloc(c_, 4096);  // set-up: recurs, but is never freed
  for (int step = 1; step <= 30; ++step) {
    Temporary(a_);
    Temporary(b_);
  }
  const Steps steps = Main();
  EXPECT_EQ(steps.source, StepSource::kAllocation);
  EXPECT_EQ(steps.stack, a_);
  EXPECT_EQ(steps.count(), 30u);  // each begins where the one before ends; the last one ends with its last allocation
}

TEST_F(StepsTest, AnInnerLoopIsNotTheStep) {
  const auto layer = program_.Line("a.cc", 4, "Layer");
  for (int step = 1; step <= 20; ++step) {
    Temporary(a_);
    for (int i = 0; i < 6; ++i) Temporary(layer);
    Temporary(b_);
    Temporary(c_);
  }
  const Steps steps = Main();
  EXPECT_EQ(steps.count(), 20u);
  EXPECT_EQ(steps.stack, a_);
}

TEST_F(StepsTest, WhatStaysTellsTheStepsAroundAnInnerLoop) {
  for (int step = 1; step <= 20; ++step) {
    program_.Malloc(a_, 4096);
    program_.Malloc(b_, 4096);
    program_.Malloc(c_, 4096);
    for (int i = 0; i < 4; ++i) Temporary(end_);
  }
  EXPECT_EQ(Main().count(), 20u);
}

TEST_F(StepsTest, MarksAndSynchronizationsAtTheBeginningOfStepsCountThemAll) {
  Temporary(c_);
  for (int step = 1; step <= 20; ++step) {
    program_.Synchronize(end_);
    Temporary(a_);
    Temporary(b_);
  }
  const std::int64_t last = program_.now_ns();
  const Steps steps = Main();
  EXPECT_EQ(steps.source, StepSource::kSynchronization);
  EXPECT_EQ(steps.count(), 20u);
  EXPECT_EQ(steps.StepOf(last - 1'000'000), 20u);
}

TEST_F(StepsTest, ALoopThatIsShortBesideImportsIsStillTheRuns) {
  program_.Malloc(c_, 4096);
  program_.Sleep(5'000'000'000);
  for (int step = 1; step <= 20; ++step) {
    Temporary(a_);
    Temporary(b_);
  }
  EXPECT_EQ(Main().count(), 20u);
}

TEST_F(StepsTest, BlocksThatAreNeverFreedAreNoClock) {
  for (int i = 0; i < 50; ++i) program_.Malloc(a_, 4096);
  EXPECT_EQ(Main().source, StepSource::kNone);
}

TEST_F(StepsTest, ThreadsHaveStepsOfTheirOwn) {
  Snapshot& raw = program_.raw();
  for (int step = 0; step < 40; ++step) {
    Temporary(a_);
    program_.Synchronize(0);
  }
  const std::size_t second = raw.events.size();
  for (int step = 0; step < 10; ++step) {
    Temporary(b_);
    program_.Synchronize(0);
  }
  for (std::size_t i = second; i < raw.events.size(); ++i) raw.events.thread.Set(i, 2);
  const Snapshot snapshot = program_.Snapshot();
  const StepClocks clocks = FindSteps(snapshot, JoinBlocks(snapshot), FrameworkStacks(snapshot));
  EXPECT_EQ(clocks.main.count(), 40u);
  EXPECT_EQ(clocks.Of(1).count(), 40u);
  EXPECT_EQ(clocks.Of(2).count(), 10u);
  EXPECT_EQ(clocks.Of(3).count(), 40u);
}

}  // namespace
}  // namespace cuheap::analysis
