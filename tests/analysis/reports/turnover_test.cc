// What comes and goes: churn, and blocks that a step leaves behind for the next one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analysis/reports/report.h"
#include "analysis/reports/report_json.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/synthetic.h"
#include "tests/analysis/reports/synthetic_pytorch.h"

namespace cuheap::analysis {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint16_t kServed = 1;

std::string Text(const Snapshot& snapshot) { return RenderText(MakeReport(snapshot)); }

TEST(ChurnTest, TheSameBlockStepAfterStep) {
  SyntheticProgram program;
  const auto scratch = program.Line("a.cc", 7, "Scratch"), weights = program.Line("a.cc", 1, "Load");
  const auto end = program.Line("a.cc", 9, "Step");
  program.Malloc(weights, 64 * kMiB);
  for (int step = 0; step < 30; ++step) {
    const auto first = program.Malloc(scratch, 4 * kMiB), second = program.Malloc(scratch, 4 * kMiB);
    program.Free(first);
    program.Free(second);
    program.Free(program.Malloc(scratch, 4 * kMiB));
    program.Synchronize(end);
  }
  const Snapshot snapshot = program.Snapshot();
  const Report report = MakeReport(snapshot);
  ASSERT_EQ(report.churn.size(), 1u);
  const Churn& churn = report.churn[0];
  EXPECT_EQ(Describe(report.lines.line(churn.line)), "a.cc:7");
  EXPECT_EQ(churn.pairs, 90u);
  EXPECT_EQ(churn.bytes, 4 * kMiB);
  EXPECT_EQ(churn.at_once, 2u);
  EXPECT_EQ(churn.steps, 30u);
  EXPECT_DOUBLE_EQ(churn.pairs_per_step, 3);
  EXPECT_EQ(churn.saved_calls(), 88u);
  EXPECT_THAT(
      RenderText(report),
      AllOf(HasSubstr("CHURN  88 allocations of 1 line could be saved: freed and asked for again, in the same size\n"),
            HasSubstr("2 buffers of 4.0 MiB each, made before the loop and kept, would do: 88 of 90 allocations and"),
            HasSubstr("Each was a call of the driver")));
}

TEST(ChurnTest, WhatThePoolServedIsSaid) {
  SyntheticProgram program;
  const auto scratch = program.Line("a.cc", 7, "Scratch"), end = program.Line("a.cc", 9, "Step");
  for (int step = 0; step < 30; ++step) {
    program.Free(program.Malloc(scratch, kMiB, AllocationKind::kDevice, kServed));
    program.Synchronize(end);
  }
  EXPECT_THAT(Text(program.Snapshot()), HasSubstr("cuheap's pool served all of them"));
}

TEST(ChurnTest, OtherSizesRareOnesLeaksAndTensorsAreNone) {
  SyntheticProgram program;
  const auto sizes = program.Line("a.cc", 1, "Sizes"), rare = program.Line("a.cc", 2, "Rare");
  const auto leak = program.Line("a.cc", 3, "Leak"), end = program.Line("a.cc", 9, "Step");
  const auto tensor = program.Line("a.cc", 4, "Tensor");
  for (std::uint64_t step = 0; step < 60; ++step) {
    program.Free(program.Malloc(sizes, kMiB + 4096 * step));
    if (step % 20 == 0) program.Free(program.Malloc(rare, kMiB));
    program.Malloc(leak, 4096);
    program.Free(program.Malloc(tensor, kMiB, AllocationKind::kStreamOrdered, 2));  // of PyTorch, its cache off
    program.Synchronize(end);
  }
  const Snapshot snapshot = program.Snapshot();
  EXPECT_TRUE(MakeReport(snapshot).churn.empty());
  EXPECT_THAT(Text(snapshot), Not(HasSubstr("CHURN")));
}

TEST(ChurnTest, StepsToldByTheAllocationItself) {
  SyntheticProgram program;
  const auto scratch = program.Line("a.cc", 7, "Scratch");
  for (int step = 0; step < 40; ++step) program.Free(program.Malloc(scratch, kMiB));
  const Snapshot snapshot = program.Snapshot();
  ASSERT_EQ(MakeReport(snapshot).churn.size(), 1u);
}

TEST(ChurnTest, PinnedMemoryEachStep) {
  SyntheticProgram program;
  const auto pin = program.Line("a.cc", 7, "Stage"), end = program.Line("a.cc", 9, "Step");
  for (int step = 0; step < 30; ++step) {
    program.Free(program.Malloc(pin, kMiB, AllocationKind::kHostPinned));
    program.Synchronize(end);
  }
  EXPECT_THAT(Text(program.Snapshot()), AllOf(HasSubstr("(pinned host memory)"), HasSubstr("Pinning costs time")));
}

// What goes once its successor is there is told as held until replaced, and here not again.
TEST(LateFreeTest, HeldUntilReplacedIsAnotherMatter) {
  SyntheticProgram program;
  const auto load = program.Line("train.cc", 10, "Load"), work = program.Line("train.cc", 20, "Work");
  std::uint64_t batch = 0;
  for (int step = 0; step < 20; ++step) {
    const std::uint64_t next = program.Malloc(load, 50 * kMiB);
    if (batch != 0) program.Free(batch);
    batch = next;
    program.Free(program.Malloc(work, kMiB));
    program.Mark();
  }
  program.Free(batch);
  const Snapshot snapshot = program.Snapshot();
  EXPECT_TRUE(MakeReport(snapshot).late_frees.empty());
}

// Layers: each is made from the one before, and replaces it. That is what they take.
TEST(LateFreeTest, AChainOfLayersIsNotLate) {
  SyntheticProgram program;
  const auto layer = program.Line("net.cc", 3, "Layer");
  for (int step = 0; step < 20; ++step) {
    std::uint64_t before = program.Malloc(layer, 8 * kMiB);
    for (int i = 0; i < 12; ++i) {
      const std::uint64_t next = program.Malloc(layer, 8 * kMiB);
      program.Free(before);
      before = next;
    }
    program.Free(before);
    program.Mark();
  }
  const Snapshot snapshot = program.Snapshot();
  EXPECT_TRUE(MakeReport(snapshot).late_frees.empty());
}

// Gradients that are let go before the backward pass, not before the forward pass, lie beside all activations.
TEST(LateFreeTest, GradientsThatOutliveTheNextForwardPass) {
  for (const bool early : {false, true}) {
    SyntheticProgram program;
    const auto forward = program.Line("train.cc", 10, "Forward"), gradient = program.Line("train.cc", 20, "Backward");
    std::uint64_t gradients = 0;
    for (int step = 0; step < 20; ++step) {
      if (early && gradients != 0) program.Free(gradients);
      const std::uint64_t activations = program.Malloc(forward, 60 * kMiB);
      if (!early && gradients != 0) program.Free(gradients);
      program.Free(activations);
      gradients = program.Malloc(gradient, 30 * kMiB);
      program.Mark();
    }
    program.Free(gradients);
    const Snapshot snapshot = program.Snapshot();
    const Report report = MakeReport(snapshot);
    if (early) {
      EXPECT_TRUE(report.late_frees.empty());
      continue;
    }
    ASSERT_EQ(report.late_frees.size(), 1u);
    EXPECT_EQ(Describe(report.lines.line(report.late_frees[0].line)), "train.cc:20");
    EXPECT_EQ(report.late_frees[0].peak_blocks, 1u);
    EXPECT_EQ(report.late_frees[0].bytes, 30 * kMiB);
    EXPECT_EQ(report.late_frees[0].peak_bytes, 30 * kMiB);
    EXPECT_THAT(RenderText(report), AllOf(HasSubstr("LATE FREES  30.0 MiB at the peak were left behind by an earlier step"),
                                          HasSubstr("freed only in the next step, in "), HasSubstr("zero_grad() before")));
    const auto json = nlohmann::json::parse(RenderJson(report));
    EXPECT_EQ(json["late_frees"][0]["peak_bytes"], 30 * kMiB);
  }
}

// A clock that ticks in the middle of a step: what is made before and freed after it is not left behind.
TEST(LateFreeTest, ASynchronisationInTheMiddleOfAStepIsNoEnd) {
  SyntheticProgram program;
  const auto forward = program.Line("train.cc", 10, "Forward"), middle = program.Line("train.cc", 20, "Loss");
  const auto backward = program.Line("train.cc", 30, "Backward");
  for (int step = 0; step < 20; ++step) {
    const std::uint64_t activations = program.Malloc(forward, 60 * kMiB);
    program.Synchronize(middle);
    const std::uint64_t gradient = program.Malloc(backward, 8 * kMiB);
    program.Free(activations);
    program.Free(gradient);
  }
  const Snapshot snapshot = program.Snapshot();
  EXPECT_TRUE(MakeReport(snapshot).late_frees.empty());
}

// A plain training: nothing of a finished step is live at the peak but what must be.
TEST(LateFreeTest, AnOrdinaryTrainingHasNone) {
  SyntheticProgram program;
  SyntheticTraining training(program);
  training.SetUp();
  for (int step = 0; step < 20; ++step) {
    training.ZeroGrad();
    training.BackwardPass(training.ForwardPass(60));
    training.OptimizerStep(62);
  }
  training.End();
  const Snapshot snapshot = program.Snapshot();
  EXPECT_THAT(Text(snapshot), AllOf(Not(HasSubstr("LATE FREES")), Not(HasSubstr("CHURN"))));
}

}  // namespace
}  // namespace cuheap::analysis
