#include "analysis/reports/leaks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/reports/report.h"
#include "tests/analysis/reports/leak_fixture.h"

namespace cuheap::analysis {
namespace {

class LeaksTest : public LeakFixture {
 protected:
  static void ExpectTakenAlong(const Report& report, std::uint64_t gone, std::uint64_t live) {
    EXPECT_EQ(report.leak_count(), 0u);
    const auto taken = Of(report, LeakClass::kContext);
    auto held = Of(report, LeakClass::kHeld);
    for (const LeakFinding* finding : Of(report, LeakClass::kReplaced)) held.push_back(finding);
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_EQ(taken[0]->blocks, gone);
    EXPECT_EQ(taken[0]->freed_with_context, gone);
    ASSERT_EQ(held.size(), 1u);  // see Note [The end]
    EXPECT_EQ(held[0]->blocks, live);
    EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
  }

  std::uint32_t scratch_ = program_.Line("train.cc", 60, "Forward");
};

// cases.md A-01: activations kept by an undetached loss, beside constant weights.
TEST_F(LeaksTest, EveryStepGrowsAndWeightsDoNot) {
  const auto weights = program_.Line("model.cc", 10, "Load"), activation = program_.Line("model.cc", 20, "Forward"),
             loss = program_.Line("model.cc", 30, "Loss");
  for (int i = 0; i < 3; ++i) program_.Malloc(weights, 256 * kMiB);
  for (int step = 1; step <= 100; ++step) {
    program_.Malloc(activation, 64 * kMiB);
    program_.Malloc(loss, 4096);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  const auto leaks = Of(report, LeakClass::kLeak);
  ASSERT_EQ(leaks.size(), 2u);
  EXPECT_EQ(LineOf(report, *leaks[0]), "model.cc:20");
  EXPECT_EQ(leaks[0]->shape, GrowthShape::kEveryStep);
  EXPECT_EQ(leaks[0]->confidence, Confidence::kHigh);
  EXPECT_EQ(leaks[0]->blocks, 100u);
  EXPECT_EQ(leaks[0]->bytes, 6400 * kMiB);
  EXPECT_DOUBLE_EQ(leaks[0]->bytes_per_step, 64.0 * kMiB);
  EXPECT_NEAR(leaks[0]->slope_bytes_per_step, 64.0 * kMiB, 1e-3);
  EXPECT_NEAR(leaks[0]->slope_r2, 1, 1e-9);
  EXPECT_EQ(leaks[0]->first_step, 1u);
  EXPECT_EQ(leaks[0]->last_step, 100u);
  EXPECT_EQ(LineOf(report, *leaks[1]), "model.cc:30");
  EXPECT_EQ(leaks[1]->blocks, leaks[0]->blocks);
  const auto held = Of(report, LeakClass::kHeld);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(LineOf(report, *held[0]), "model.cc:10");
  EXPECT_EQ(held[0]->shape, GrowthShape::kOnce);
  EXPECT_EQ(report.verdict, Verdict::kLeaks);
}

TEST_F(LeaksTest, BalancedRunHasNoLeak) {
  const auto activation = program_.Line("model.cc", 20, "Forward");
  for (int step = 1; step <= 1000; ++step) {
    const auto block = program_.Malloc(activation, 64 * kMiB);
    program_.Free(block);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
}

// cases.md A-02: every tenth call returns early and loses its six buffers.
TEST_F(LeaksTest, EarlyReturnLeaksEveryTenthCallFromSixLinesOfOneFunction) {
  const std::uint64_t sizes[] = {32'000, 33'000, 96'000, 1'000, 64'000, 1'000};
  std::vector<std::uint32_t> lines;
  for (std::uint32_t i = 0; i < 6; ++i) lines.push_back(program_.Line("sign.cc", 40 + i, "SignBatch"));
  for (int call = 1; call <= 100; ++call) {
    std::vector<std::uint64_t> blocks;
    for (int i = 0; i < 6; ++i) blocks.push_back(program_.Malloc(lines[i], sizes[i]));
    if (call % 10 != 0) {
      for (const auto block : blocks) program_.Free(block);
    }
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  const auto leaks = Of(report, LeakClass::kLeak);
  ASSERT_EQ(leaks.size(), 6u);
  std::uint64_t bytes = 0, blocks = 0, reserved = 0;
  for (const LeakFinding* leak : leaks) {
    EXPECT_EQ(leak->shape, GrowthShape::kEveryFewSteps);
    EXPECT_EQ(leak->period, 10u);
    EXPECT_EQ(leak->blocks, 10u);
    EXPECT_EQ(leak->companions.size(), 5u);
    EXPECT_EQ(leak->line_allocations, 100u);
    EXPECT_EQ(leak->line_frees, 90u);
    bytes += leak->bytes;
    reserved += leak->reserved_bytes;
    blocks += leak->blocks;
  }
  EXPECT_EQ(bytes, 2'270'000u);
  EXPECT_EQ(blocks, 60u);
  EXPECT_EQ(reserved, 10u * (32'256 + 33'280 + 96'256 + 1'024 + 64'000 + 1'024));
  EXPECT_EQ(LineOf(report, *leaks[0]), "sign.cc:42");  // 96,000 bytes: most bytes first
  EXPECT_EQ(leaks[0]->bytes_per_occurrence, 96'000u);
  EXPECT_DOUBLE_EQ(leaks[0]->bytes_per_step, 9'600.0);
}

// cases.md A-03a: a cache of one model.
TEST_F(LeaksTest, HeldUntilReplacedIsNoLeak) {
  const auto load = program_.Line("cache.cc", 7, "LoadModel");
  std::vector<std::uint64_t> previous;
  for (int round = 0; round < 5; ++round) {
    std::vector<std::uint64_t> blocks;
    for (int i = 0; i < 40; ++i) blocks.push_back(program_.Malloc(load, 77 * kMiB / 40));
    for (const auto block : previous) program_.Free(block);
    previous = blocks;
  }
  const Report& report = Now();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].leak_class, LeakClass::kReplaced);
  EXPECT_EQ(report.findings[0].shape, GrowthShape::kReplaced);
  EXPECT_EQ(report.findings[0].blocks, 40u);
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
}

TEST_F(LeaksTest, HeldUntilReplacedIsNoLeakWithSteps) {
  const auto load = program_.Line("cache.cc", 7, "LoadModel");
  std::uint64_t previous = 0;
  for (int step = 1; step <= 20; ++step) {
    const auto block = program_.Malloc(load, kMiB);
    if (previous != 0) program_.Free(previous);
    previous = block;
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].shape, GrowthShape::kReplaced);
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
}

// cases.md A-03b: every instance stays.
TEST_F(LeaksTest, InstancesThatStayAreALeakWithoutSteps) {
  const auto load = program_.Line("cache.cc", 7, "LoadModel");
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 40; ++i) program_.Malloc(load, 2 * kMiB);
    program_.Free(program_.Malloc(scratch_, kMiB));
  }
  const Report& report = Now();
  const auto leaks = Of(report, LeakClass::kLeak);
  ASSERT_EQ(leaks.size(), 1u);
  EXPECT_EQ(leaks[0]->shape, report.steps.count() == 0 ? GrowthShape::kOverTime : leaks[0]->shape);
  EXPECT_EQ(leaks[0]->blocks, 200u);
  EXPECT_EQ(leaks[0]->bytes, 400 * kMiB);
}

// cases.md A-05: 57 MiB a cycle in blocks of many sizes.
TEST_F(LeaksTest, SlopeOfMixedSizesComesFromLiveBytes) {
  const auto compile = program_.Line("compile.cc", 12, "Compile");
  for (int cycle = 1; cycle <= 12; ++cycle) {
    std::uint64_t rest = 57 * kMiB;
    for (std::uint64_t size = 8 * kMiB; rest != 0; size = size > 512 ? size / 2 : 512) {
      const std::uint64_t bytes = std::min(size == 512 ? rest : size, rest);
      program_.Malloc(compile, bytes);
      rest -= bytes;
    }
    program_.Mark();
  }
  const Report& report = Now();
  EXPECT_EQ(report.steps.source, StepSource::kMarks);
  const auto leaks = Of(report, LeakClass::kLeak);
  ASSERT_EQ(leaks.size(), 1u);
  EXPECT_DOUBLE_EQ(leaks[0]->bytes_per_step, 57.0 * kMiB);
  EXPECT_EQ(leaks[0]->bytes, 12 * 57 * kMiB);
}

class WorkspaceTest : public LeaksTest {
 protected:
  static constexpr std::uint64_t kWorkspace = 8'519'680;
  // cudaMalloc <- cuBLAS <- line of the program.
  std::uint32_t Workspace(std::uint32_t line) {
    const auto cublas = program_.AddModule("/usr/local/cuda/lib64/libcublasLt.so.13");
    const auto& frames = program_.raw().stacks[program_.Line("model.cc", line, "Linear")].frames;
    return program_.AddStack({frames[0], program_.AddFrame("", 0, "", cublas), frames[1], frames[2]});
  }
  void BalancedStep() {
    program_.Free(program_.Malloc(scratch_, kMiB));
    program_.Synchronize(step_end_);
  }
};

// cases.md A-06 a
TEST_F(WorkspaceTest, OneTimeWorkspaceIsHeldByTheLibrary) {
  program_.Malloc(Workspace(5), kWorkspace);
  for (int step = 0; step < 1000; ++step) BalancedStep();
  const Report& report = Now();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].leak_class, LeakClass::kLibrary);
  EXPECT_EQ(report.findings[0].library, "libcublasLt.so.13");
  EXPECT_EQ(report.findings[0].bytes, kWorkspace);
  EXPECT_EQ(LineOf(report, report.findings[0]), "model.cc:5");
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
}

// cases.md A-06 b
TEST_F(WorkspaceTest, WorkspacesOfFourStreamsAreBounded) {
  const auto workspace = Workspace(5);
  for (int step = 1; step <= 200; ++step) {
    if (step <= 4) program_.Malloc(workspace, kWorkspace);
    BalancedStep();
  }
  const Report& report = Now();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].shape, GrowthShape::kStopped);
  EXPECT_EQ(report.findings[0].bytes, 34'078'720u);
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
}

// cases.md A-06 c
TEST_F(WorkspaceTest, AWorkspaceForEveryCaptureIsGrowth) {
  const auto workspace = Workspace(5);
  for (int step = 1; step <= 50; ++step) {
    program_.Malloc(workspace, kWorkspace);
    BalancedStep();
  }
  const Report& report = Now();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].leak_class, LeakClass::kLeak);
  EXPECT_DOUBLE_EQ(report.findings[0].bytes_per_step, 8'519'680.0);
}

TEST_F(LeaksTest, AWrapperIsSplitIntoSetUpAndLeak) {
  const auto wrapper = program_.Line("buffer.h", 9, "Buffer::Buffer");
  const auto weights = program_.Through(wrapper, program_.Line("model.cc", 3, "Load"));
  const auto leak = program_.Through(wrapper, program_.Line("model.cc", 8, "Log"));
  for (int i = 0; i < 5; ++i) program_.Malloc(weights, 100 * kMiB);
  for (int step = 1; step <= 30; ++step) {
    program_.Malloc(leak, kMiB);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  ASSERT_EQ(report.findings.size(), 2u);
  EXPECT_EQ(report.findings[0].leak_class, LeakClass::kLeak);
  EXPECT_EQ(report.findings[0].blocks, 30u);
  EXPECT_DOUBLE_EQ(report.findings[0].bytes_per_step, 1.0 * kMiB);
  EXPECT_EQ(report.findings[1].leak_class, LeakClass::kHeld);
  EXPECT_EQ(report.findings[1].bytes, 500 * kMiB);
}

TEST_F(LeaksTest, FreedOnlyAfterTheLastStepIsToldApart) {
  const auto history = program_.Line("plot.cc", 4, "Keep");
  std::vector<std::uint64_t> kept;
  for (int step = 1; step <= 30; ++step) {
    kept.push_back(program_.Malloc(history, kMiB));
    program_.Synchronize(step_end_);
  }
  for (const auto block : kept) program_.Free(block);
  const Report& report = Now();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].leak_class, LeakClass::kFreedAtEnd);
  EXPECT_EQ(report.findings[0].freed_at_exit, 30u);
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
}

TEST_F(LeaksTest, WhatOnlyTheContextReleasedIsALeak) {
  const auto leak = program_.Line("train.cc", 33, "Log");
  std::vector<std::uint64_t> blocks;
  for (int step = 1; step <= 10; ++step) {
    blocks.push_back(program_.Malloc(leak, kMiB));
    program_.Synchronize(step_end_);
  }
  for (const auto block : blocks) program_.Free(block, 1u << 4);  // kFreedWithContext
  {
    // Nothing follows: the end of the run.
    const Report& report = Now();
    ASSERT_EQ(report.leak_count(), 1u);
    EXPECT_EQ(report.findings[0].freed_with_context, 0u);
    EXPECT_EQ(report.totals[0].live_bytes, 10 * kMiB);
  }
  program_.Free(program_.Malloc(scratch_, kMiB));
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.findings[0].freed_with_context, 10u);
  EXPECT_EQ(report.totals[0].live_bytes, 0u);
}

// cudaDeviceReset as the way to free: what the contexts held was never live together.
TEST_F(LeaksTest, WhatEveryContextTakesAlongDoesNotPileUp) {
  const auto line = program_.Line("train.cc", 33, "Run");
  for (const int blocks : {1, 10}) {  // without steps
    SyntheticProgram fresh;
    std::swap(program_, fresh);
    const auto load = program_.Line("train.cc", 33, "Run");
    for (int reset = 0; reset < 40; ++reset) {
      std::vector<std::uint64_t> ids;
      for (int i = 0; i < blocks; ++i) ids.push_back(program_.Malloc(load, kMiB));
      for (const auto id : ids) program_.Free(id, 1u << 4);
      program_.Bare(EventType::kContextDestroyed, 0);
    }
    ExpectTakenAlong(Now(), 39 * blocks, blocks);
    std::swap(program_, fresh);
  }
  for (int reset = 0; reset < 40; ++reset) {
    const auto id = program_.Malloc(line, kMiB);
    program_.Synchronize(step_end_);
    program_.Free(id, 1u << 4);
    program_.Bare(EventType::kContextDestroyed, 0);
  }
  ExpectTakenAlong(Now(), 39, 1);
}

TEST_F(LeaksTest, WhatGrowsWithinTheLastContextIsALeak) {
  const auto line = program_.Line("train.cc", 33, "Run");
  for (int reset = 0; reset < 3; ++reset) {
    std::vector<std::uint64_t> ids;
    for (int step = 0; step < 20; ++step) {
      ids.push_back(program_.Malloc(line, kMiB));
      program_.Synchronize(step_end_);
    }
    if (reset == 2) break;
    for (const auto id : ids) program_.Free(id, 1u << 4);
    program_.Bare(EventType::kContextDestroyed, 0);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.leaked_bytes(), 20 * kMiB);
  EXPECT_EQ(report.bytes_of(LeakClass::kContext), 40 * kMiB);
}

TEST_F(LeaksTest, AFailedFreeIsNoFree) {
  const auto leak = program_.Line("train.cc", 33, "Log");
  for (int step = 1; step <= 10; ++step) {
    program_.FreeFails(program_.Malloc(leak, kMiB));
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  EXPECT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.leaked_bytes(), 10 * kMiB);
}

TEST_F(LeaksTest, IrregularLeakStillGoingIsFound) {
  const auto leak = program_.Line("train.cc", 33, "Log");
  for (int step = 1; step <= 100; ++step) {
    if (step == 7 || step == 19 || step == 30 || step == 55 || step == 61 || step == 90) program_.Malloc(leak, kMiB);
    program_.Free(program_.Malloc(scratch_, kMiB));
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.findings[0].shape, GrowthShape::kIrregular);
  EXPECT_EQ(report.findings[0].occurrences, 6u);
  EXPECT_EQ(report.findings[0].steps, (std::vector<std::uint32_t>{7, 19, 30, 55, 61, 90}));
}

TEST_F(LeaksTest, HostAndDeviceMemoryAndTwoDevicesStayApart) {
  const auto line = program_.Line("train.cc", 33, "Log");
  for (int step = 1; step <= 10; ++step) {
    program_.UseDevice(0);
    program_.Malloc(line, 3 * kMiB);
    program_.Malloc(line, 2 * kMiB, AllocationKind::kHostPinned);
    program_.UseDevice(1);
    program_.Malloc(line, kMiB);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  ASSERT_EQ(report.findings.size(), 3u);
  EXPECT_EQ(report.findings[0].scope, (Scope{false, 0}));
  EXPECT_EQ(report.findings[1].scope, (Scope{true, 0}));
  EXPECT_EQ(report.findings[2].scope, (Scope{false, 1}));
  ASSERT_EQ(report.totals.size(), 3u);
  EXPECT_EQ(report.totals[0].peak_bytes, 30 * kMiB);
  EXPECT_EQ(report.totals[1].peak_bytes, 10 * kMiB);
  EXPECT_TRUE(report.totals[2].scope.host);
  EXPECT_EQ(report.totals[2].peak_bytes, 20 * kMiB);
}

TEST_F(LeaksTest, PyTorchSegmentsAreItsCache) {
  const auto line = program_.Line("train.cc", 33, "Log");
  for (int step = 1; step <= 10; ++step) {
    if (step < 4) program_.Malloc(line, 20 * kMiB, AllocationKind::kDevice, 2);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].leak_class, LeakClass::kCache);
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
}

TEST_F(LeaksTest, SetUpOnTheLeakingLineDoesNotChangeTheRate) {
  const auto leak = program_.Line("train.cc", 33, "Log");
  program_.Malloc(leak, 1'232'100);
  for (int step = 1; step <= 100; ++step) {
    program_.Malloc(leak, 1'200'000);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_DOUBLE_EQ(report.findings[0].bytes_per_step, 1'200'000.0);
  EXPECT_EQ(report.findings[0].bytes_per_occurrence, 1'200'000u);
  EXPECT_NEAR(report.findings[0].slope_bytes_per_step, 1'200'000.0, 1);
}

TEST_F(LeaksTest, TheLastStepCountsAlthoughNothingEndsIt) {
  const auto leak = program_.Line("train.cc", 33, "Log");
  program_.Malloc(leak, 32'100);
  for (int step = 1; step <= 100; ++step) {
    const auto block = program_.Malloc(scratch_, kMiB);
    program_.Malloc(leak, 1'200'000);
    program_.Free(block);
  }
  const Report& report = Now();
  EXPECT_EQ(report.steps.source, StepSource::kAllocation);
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.findings[0].step_count, 100u);
  EXPECT_EQ(report.findings[0].last_step, 100u);
  EXPECT_EQ(report.findings[0].occurrences, 100u);
  EXPECT_DOUBLE_EQ(report.findings[0].bytes_per_step, 1'200'000.0);
}

TEST_F(LeaksTest, WithoutStepsThePaceIsTold) {
  const auto leak = program_.Line("train.cc", 33, "Log");
  program_.Malloc(leak, 32'100);
  for (int i = 1; i <= 20; ++i) {
    program_.Sleep(9'000'000);
    program_.Malloc(leak, 4096);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.findings[0].shape, GrowthShape::kOverTime);
  EXPECT_EQ(report.findings[0].interval_ns, 10'000'000);
  EXPECT_EQ(report.findings[0].bytes_per_occurrence, 4096u);
  EXPECT_EQ(report.last_allocation_ns, program_.now_ns());
}

TEST_F(LeaksTest, ABlockOfTheLastStepIsNoGrowthWithoutSteps) {
  constexpr std::uint32_t kNoStack = 0;  // it cannot tell steps
  for (int i = 1; i <= 60; ++i) {
    const auto first = program_.Malloc(kNoStack, kMiB), kept = program_.Malloc(kNoStack, kMiB);
    program_.Free(first);
    if (i < 58) program_.Free(kept);
  }
  program_.Free(program_.Malloc(kNoStack, kMiB));
  const Report& report = Now();
  EXPECT_EQ(report.steps.count(), 0u);
  EXPECT_EQ(report.leak_count(), 0u);
}

TEST_F(LeaksTest, RatesOfAlternatingSizesAreTheirMean) {
  const auto leak = program_.Line("train.cc", 33, "Log");
  for (int step = 1; step <= 100; ++step) {
    program_.Malloc(leak, step % 2 == 0 ? 1000 : 3000);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_DOUBLE_EQ(report.findings[0].bytes_per_step, 2000.0);
}

TEST_F(LeaksTest, LeaksAreExactWhenEventsWereOverwritten) {
  const auto leak = program_.Line("train.cc", 33, "Log");
  for (int step = 1; step <= 60; ++step) {
    program_.Malloc(leak, kMiB);
    program_.Synchronize(step_end_);
    if (step == 20) program_.ForgetEvents();
  }
  const Report& report = Now();
  ASSERT_EQ(report.leak_count(), 1u);
  EXPECT_EQ(report.findings[0].blocks, 60u);
  EXPECT_EQ(report.findings[0].bytes, 60 * kMiB);
}

TEST_F(LeaksTest, NothingSeenIsNotNoLeak) { EXPECT_EQ(Now().verdict, Verdict::kNothingSeen); }

}  // namespace
}  // namespace cuheap::analysis
