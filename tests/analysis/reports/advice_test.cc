#include "analysis/reports/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t kMiB = 1 << 20;

class AdviceTest : public testing::Test {
 protected:
  // For the first finding of what the program did so far.
  std::string First() {
    snapshot_ = program_.Snapshot();
    const Report report = MakeReport(snapshot_);
    return report.findings.empty() ? "(no finding)" : AdviceFor(report, report.findings.front());
  }
  void End() { program_.Synchronize(end_); }

  SyntheticProgram program_;
  std::uint32_t line_ = program_.Line("train.cc", 57, "Log"), end_ = program_.Line("train.cc", 90, "Step");
  Snapshot snapshot_;
};

TEST_F(AdviceTest, NeverFreedNamesTheCallThatFreesIt) {
  for (int step = 0; step < 10; ++step, End()) program_.Malloc(line_, kMiB, AllocationKind::kStreamOrdered);
  EXPECT_THAT(First(), StartsWith("No block of this line is ever freed: cudaFreeAsync it when the step ends"));
}

TEST_F(AdviceTest, AContainerThatKeepsItIsNamedWithItsLine) {
  const Snapshot& raw = program_.raw();
  const auto program = raw.frames[raw.stacks[line_].frames[1]].module;
  const auto push = program_.AddFrame("/usr/include/c++/12/bits/vector.tcc", 100,
                                      "std::vector<Buffer, std::allocator<Buffer> >::push_back(Buffer&&)", program);
  const auto caller = program_.AddFrame("/opt/me/train.cc", 61, "Keep()", program);
  const auto stack = program_.AddStack({raw.stacks[line_].frames[0], raw.stacks[line_].frames[1], push, caller});
  for (int step = 0; step < 10; ++step, End()) program_.Malloc(stack, kMiB);
  EXPECT_EQ(First(), "Kept by push_back into a container at train.cc:61? Empty it when the step ends.");
}

TEST_F(AdviceTest, AContainerIsSeenByAnInstantiatedCallAndBySlowHalves) {
  for (const char* call : {"std::vector<Buffer, std::allocator<Buffer> >::emplace_back<int>(int&&)",
                           "void std::vector<Buffer>::_M_realloc_insert<int>(Buffer*, int&&)"}) {
    SyntheticProgram program;
    const auto line = program.Line("train.cc", 57, "Buffer"), end = program.Line("train.cc", 90, "Step");
    auto frames = program.raw().stacks[line].frames;
    frames.insert(frames.begin() + 2, program.AddFrame("", 0, call, program.raw().frames[frames[1]].module));
    const auto stack = program.AddStack(frames);
    for (int step = 0; step < 10; ++step) {
      program.Malloc(stack, kMiB);
      program.Synchronize(end);
    }
    snapshot_ = program.Snapshot();
    const Report report = MakeReport(snapshot_);
    EXPECT_THAT(AdviceFor(report, report.findings.at(0)),
                testing::ContainsRegex("^Kept by [a-z]+_back into .* at train"));
  }
}

TEST_F(AdviceTest, AnEarlyReturnIsSuspectedWhereOtherStepsFree) {
  for (int step = 1; step <= 40; ++step, End()) {
    const auto block = program_.Malloc(line_, kMiB);
    if (step % 10 != 0) program_.Free(block);
  }
  EXPECT_THAT(First(),
              StartsWith("Freed in other cases (36 of 40 blocks): what is different every 10 steps? Look for an "
                         "early return"));
}

TEST_F(AdviceTest, WhatHappensRarelyAndIsNeverFreed) {
  for (int step = 1; step <= 40; ++step, End()) {
    if (step % 10 == 0) program_.Malloc(line_, kMiB);
  }
  EXPECT_THAT(First(), StartsWith("What runs every 10 steps"));
}

TEST_F(AdviceTest, OneOfSeveralBlocksAStep) {
  for (int step = 1; step <= 40; ++step, End()) {
    program_.Malloc(line_, kMiB);
    program_.Free(program_.Malloc(line_, kMiB));
  }
  EXPECT_THAT(First(), StartsWith("The line frees 40 of its 80 blocks"));
}

TEST_F(AdviceTest, WhatPilesUpCanBeFreedBetweenPhases) {
  std::vector<std::uint64_t> blocks;
  for (int step = 0; step < 10; ++step, End()) blocks.push_back(program_.Malloc(line_, kMiB));
  for (const auto block : blocks) program_.Free(block);
  EXPECT_EQ(First(), "Free or reuse between phases: 10.0 MiB in 10 blocks wait for the end.");
}

TEST_F(AdviceTest, WeightsNeedNoAdvice) {
  program_.Malloc(line_, kMiB);
  for (int step = 0; step < 10; ++step) End();
  EXPECT_EQ(First(), "");
}

TEST_F(AdviceTest, TensorsThatAreKept) {
  for (int step = 1; step <= 40; ++step, End()) {
    if (step % 4 == 0) program_.Malloc(line_, 2 * kMiB, AllocationKind::kDevice, 2);
  }
  snapshot_ = program_.Snapshot();
  const Report report = MakeReport(snapshot_);
  ASSERT_EQ(report.caches.size(), 1u);
  EXPECT_THAT(AdviceFor(report, report.caches[0]), HasSubstr("loss.item()"));
}

TEST_F(AdviceTest, OutOfMemoryByWhatWouldHaveMadeRoom) {
  program_.raw().devices[0].driver_free_at_start = 7900 * kMiB;
  for (int step = 0; step < 10; ++step, End()) program_.Malloc(line_, 100 * kMiB);
  program_.Fails(end_, 7000 * kMiB);
  snapshot_ = program_.Snapshot();
  {
    const Report report = MakeReport(snapshot_);
    EXPECT_EQ(
        AdviceFor(report, report.failures.at(0)),
        "100.0 MiB were missing for this one request, and the leaks hold 1000.0 MiB by the end: free that first.");
  }
  snapshot_.events.bytes.SetBack(7905 * kMiB);
  {
    const Report report = MakeReport(snapshot_);
    EXPECT_THAT(AdviceFor(report, report.failures.at(0)), HasSubstr("most at the peak is held by train.cc:57"));
  }
  snapshot_.events.bytes.SetBack(9000 * kMiB);
  const Report report = MakeReport(snapshot_);
  EXPECT_THAT(AdviceFor(report, report.failures.at(0)), StartsWith("The request alone is larger than the device"));
}

TEST_F(AdviceTest, FragmentationOnlyWhereItMatters) {
  program_.Segment(0x100000000, 64 * kMiB);
  program_.Place(program_.Malloc(line_, 2 * kMiB, AllocationKind::kDevice, 1), 0x100000000);
  snapshot_ = program_.Snapshot();
  EXPECT_THAT(AdviceFor(MakeReport(snapshot_).pools.at(0)), StartsWith("1 segment is kept by live blocks"));
  for (std::uint64_t i = 1; i < 20; ++i) program_.Segment(0x100000000 + i * 128 * kMiB, 64 * kMiB);
  snapshot_ = program_.Snapshot();
  EXPECT_EQ(AdviceFor(MakeReport(snapshot_).pools.at(0)), "");
}

}  // namespace
}  // namespace cuheap::analysis
