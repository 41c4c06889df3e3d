// PyTorch's cache as a whole: does it grow to the end?
#include <gtest/gtest.h>

#include <deque>

#include "analysis/reports/report.h"
#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint16_t kPyTorch = 2;

class CachesTest : public testing::Test {
 protected:
  // The report of what the program did so far.
  const Report& Now() {
    snapshots_.push_back(program_.Snapshot());
    reports_.push_back(MakeReport(snapshots_.back()));
    return reports_.back();
  }

  SyntheticProgram program_;
  std::uint32_t step_end_ = program_.Line("train.py", 90, "Step");
  std::deque<Snapshot> snapshots_;
  std::deque<Report> reports_;
};

TEST_F(CachesTest, APyTorchCacheThatGrowsToTheEndIsNotNoLeaks) {
  const auto load = program_.Line("model.py", 3, "load"), step_line = program_.Line("train.py", 33, "step");
  for (int i = 0; i < 10; ++i) program_.Malloc(load, 20 * kMiB, AllocationKind::kDevice, kPyTorch);
  for (int step = 1; step <= 40; ++step) {
    if (step <= 3 || step % 4 == 0) program_.Malloc(step_line, 2 * kMiB, AllocationKind::kDevice, kPyTorch);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  EXPECT_EQ(report.verdict, Verdict::kGrowing);
  ASSERT_NE(report.growing_cache(), nullptr);
  EXPECT_EQ(report.growing_cache()->segments.period, 4u);
  EXPECT_DOUBLE_EQ(report.growing_cache()->segments.bytes_per_step, 0.5 * kMiB);
}

TEST_F(CachesTest, APyTorchCacheThatGrowsIrregularlyToTheEndIsNotNoLeaksEither) {
  const auto line = program_.Line("train.py", 33, "step");
  for (int step = 1; step <= 60; ++step) {
    if (step < 3 || step == 20 || step == 33 || step == 37 || step == 48 || step == 56)
      program_.Malloc(line, 2 * kMiB, AllocationKind::kDevice, kPyTorch);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  EXPECT_EQ(report.verdict, Verdict::kGrowing);
  EXPECT_EQ(report.growing_cache()->segments.shape, GrowthShape::kIrregular);
}

TEST_F(CachesTest, APyTorchCacheThatFilledUpDoesNotGrow) {
  const auto line = program_.Line("train.py", 33, "step");
  for (int step = 1; step <= 100; ++step) {
    if (step <= 4 || step == 60) program_.Malloc(line, 20 * kMiB, AllocationKind::kDevice, kPyTorch);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  EXPECT_EQ(report.growing_cache(), nullptr);
  EXPECT_TRUE(report.unobserved_tensors());
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
}

TEST_F(CachesTest, APyTorchCacheThatGrowsSteadilyIsSeenWithoutSteps) {
  const auto load = program_.Line("model.py", 3, "load"), step_line = program_.Line("train.py", 33, "step");
  for (int i = 0; i < 10; ++i) program_.Malloc(load, 20 * kMiB, AllocationKind::kDevice, kPyTorch);
  {
    const Report& set_up = Now();
    EXPECT_EQ(set_up.verdict, Verdict::kNoLeaks);
  }
  for (int step = 1; step <= 20; ++step) {
    program_.Sleep(40'000'000);
    program_.Malloc(step_line, 2 * kMiB, AllocationKind::kDevice, kPyTorch);
  }
  EXPECT_EQ(Now().verdict, Verdict::kGrowing);
}

TEST_F(CachesTest, WithoutPyTorchsCachingEveryTensorIsABlockOfItsOwn) {
  const auto line = program_.Line("train.py", 33, "step");
  for (int step = 1; step <= 20; ++step) {
    program_.Malloc(line, 4096, AllocationKind::kDevice, kPyTorch);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  EXPECT_EQ(report.verdict, Verdict::kLeaks);
  EXPECT_TRUE(report.framework_segments.empty());
  EXPECT_FALSE(report.unobserved_tensors());
}

// PyTorch caches pinned memory, and asks for a little more as long as events have not come.
TEST_F(CachesTest, PyTorchsCacheOfPinnedMemoryIsNoLeakOfTheLine) {
  const auto library = program_.AddModule("/v/site-packages/torch/lib/libtorch_cuda.so");
  const auto line = program_.AddStack(
      {program_.AddFrame("", 0, "at::CachingHostAllocatorImpl<c10::cuda::CUDAStream>::allocate(unsigned long)",
                         library),
       program_.AddPythonFrame("/opt/me/train.py", 43, "main")});
  for (int step = 1; step <= 24; ++step) {
    if (step % 4 == 0) program_.Malloc(line, 64, AllocationKind::kHostPinned);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].leak_class, LeakClass::kCache);
  EXPECT_FALSE(report.unobserved_tensors());
}

}  // namespace
}  // namespace cuheap::analysis
