#include "analysis/reports/optimizer_steps.h"

#include <gtest/gtest.h>

#include "analysis/reports/steps.h"
#include "tests/analysis/reports/synthetic_pytorch.h"

namespace cuheap::analysis {
namespace {

class OptimizerStepsTest : public testing::Test {
 protected:
  Steps Main() {
    const Snapshot snapshot = program_.Snapshot();
    return FindSteps(snapshot, JoinBlocks(snapshot), FrameworkStacks(snapshot)).main;
  }
  void ForwardAndBackward() { training_.BackwardPass(training_.ForwardPass(41)); }

  SyntheticProgram program_;
  SyntheticTraining training_{program_};
};

TEST_F(OptimizerStepsTest, AStepEndsWithTheOptimizerHoweverManyPassesItTakes) {
  for (int step = 0; step < 12; ++step) {
    for (int i = 0; i < 1 + step % 4; ++i) ForwardAndBackward();
    training_.OptimizerStep(43);
  }
  const Steps steps = Main();
  EXPECT_EQ(steps.source, StepSource::kOptimizer);
  EXPECT_EQ(steps.count(), 12u);
  EXPECT_EQ(steps.boundaries_ns.back(), program_.now_ns() - 1'000'000);  // its last event is a free
}

TEST_F(OptimizerStepsTest, WhatTheLoopDoesAfterTheOptimizerBelongsToTheStep) {
  std::vector<std::int64_t> ends;
  for (int step = 0; step < 12; ++step) {
    ForwardAndBackward();
    training_.OptimizerStep(43);
    training_.Temporary(training_.Loop("randn", 44), 4096);
    ends.push_back(program_.now_ns());
  }
  training_.Temporary(training_.Loop("randn", 70), 4096);  // after the loop
  const Steps steps = Main();
  ASSERT_EQ(steps.count(), 12u);
  for (std::uint32_t step = 1; step <= 12; ++step) EXPECT_EQ(steps.StepOf(ends[step - 1] - 1'000'000), step);
  EXPECT_EQ(steps.StepOf(program_.now_ns()), 13u);
}

TEST_F(OptimizerStepsTest, AStepThatIsCutShortDoesNotMoveTheOthers) {
  std::vector<std::int64_t> ends;
  for (int step = 0; step < 12; ++step) {
    ForwardAndBackward();
    training_.OptimizerStep(43);
    ends.push_back(program_.now_ns());
  }
  training_.ForwardPass(41);  // out of memory
  const Steps steps = Main();
  ASSERT_EQ(steps.count(), 12u);
  for (std::uint32_t step = 1; step <= 12; ++step) EXPECT_EQ(steps.StepOf(ends[step - 1] - 1'000'000), step);
}

TEST_F(OptimizerStepsTest, OfTwoOptimizersTheOneThatStepsMostOften) {
  for (int step = 0; step < 12; ++step) {
    ForwardAndBackward();
    training_.OptimizerStep(43);
    if (step % 3 != 0) continue;
    ForwardAndBackward();
    training_.OptimizerStep(50);
  }
  EXPECT_EQ(Main().count(), 12u);
}

// SGD without momentum works in place. Three passes add to the gradients of a step.
TEST_F(OptimizerStepsTest, AnOptimizerThatAllocatesNothingLeavesItToTheGradients) {
  std::vector<std::int64_t> middles;
  for (int step = 0; step < 12; ++step) {
    ForwardAndBackward();
    for (int pass = 0; pass < 2; ++pass) {
      training_.Free(training_.ForwardPass(41));
      training_.Temporary(training_.Backward("AddmmBackward0"), 4096);
    }
    middles.push_back(program_.now_ns());
    training_.ZeroGrad();
  }
  training_.Temporary(training_.Loop("randn", 70), 4096);
  const Steps steps = Main();
  EXPECT_EQ(steps.source, StepSource::kGradients);
  ASSERT_EQ(steps.count(), 12u);
  for (std::uint32_t step = 1; step <= 12; ++step) EXPECT_EQ(steps.StepOf(middles[step - 1]), step);
}

// What a loop in forward() does comes more often than steps do.
TEST_F(OptimizerStepsTest, WithoutEitherEachBackwardPassIsAStep) {
  for (int step = 0; step < 12; ++step) {
    for (int layer = 0; layer < 6; ++layer) training_.Free(training_.ForwardPass(41));
    training_.Temporary(training_.Backward("AddmmBackward0"), 4096);
    training_.Temporary(training_.Backward("TBackward0"), 4096);
  }
  const Steps steps = Main();
  EXPECT_EQ(steps.source, StepSource::kBackward);
  EXPECT_EQ(steps.count(), 12u);
}

TEST_F(OptimizerStepsTest, MarksOfTheProgramWin) {
  for (int step = 0; step < 12; ++step) {
    ForwardAndBackward();
    training_.OptimizerStep(43);
    if (step % 2 == 1) program_.Mark();
  }
  EXPECT_EQ(Main().source, StepSource::kMarks);
  EXPECT_EQ(Main().count(), 6u);
}

TEST(OptimizerFramesTest, AreThoseOfStepOnly) {
  EXPECT_TRUE(IsOptimizerStep("AdamW.step", "/v/site-packages/torch/optim/adamw.py"));
  EXPECT_TRUE(IsOptimizerStep("step", "/v/site-packages/torch/optim/sgd.py"));
  EXPECT_TRUE(IsOptimizerStep("Optimizer.profile_hook_step.<locals>.wrapper", "/src/pytorch/torch/optim/optimizer.py"));
  EXPECT_FALSE(IsOptimizerStep("StepLR.step", "/v/site-packages/torch/optim/lr_scheduler.py"));
  EXPECT_FALSE(IsOptimizerStep("Optimizer.zero_grad", "/v/site-packages/torch/optim/optimizer.py"));
  EXPECT_FALSE(IsOptimizerStep("Trainer.step", "/opt/me/optim/trainer.py"));
}

}  // namespace
}  // namespace cuheap::analysis
