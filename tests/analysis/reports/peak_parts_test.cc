// What was live at the peak by library and by lifetime.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "analysis/reports/owners.h"
#include "tests/analysis/reports/leak_fixture.h"

namespace cuheap::analysis {
namespace {

using Sums = std::map<std::string, std::pair<std::uint64_t, std::uint64_t>>;  // bytes, blocks

Sums ByKind(const std::vector<PartBytes>& parts) {
  Sums sums;
  for (const PartBytes& part : parts) sums[std::string(part.kind)] = {part.bytes, part.blocks};
  return sums;
}

class PeakPartsTest : public LeakFixture {};

TEST_F(PeakPartsTest, Lifetimes) {
  const auto weights = program_.Line("train.cc", 10, "Weights"), state = program_.Line("train.cc", 20, "State"),
             batch = program_.Line("train.cc", 30, "Batch"), leak = program_.Line("train.cc", 40, "Leak"),
             scratch = program_.Line("train.cc", 50, "Scratch"), small = program_.Line("train.cc", 60, "Small");
  program_.Malloc(weights, 100 * kMiB);
  std::uint64_t carried = 0;
  for (int step = 1; step <= 20; ++step) {
    const std::uint64_t inputs = program_.Malloc(batch, 7 * kMiB);
    for (int i = 0; i < 10; ++i) program_.Free(program_.Malloc(small, 1));
    const std::uint64_t next = program_.Malloc(state, 5 * kMiB);
    if (step > 1) program_.Free(carried);
    carried = next;
    program_.Malloc(leak, kMiB);
    program_.Free(program_.Malloc(scratch, 50 * kMiB));  // the peak, in the last step
    program_.Free(inputs);
    program_.Synchronize(step_end_);
  }
  program_.Free(carried);
  const Report& report = Now();
  ASSERT_EQ(report.steps.count(), 20u);
  const ScopeTotals& device = report.totals[0];
  EXPECT_EQ(device.peak_bytes, (100 + 7 + 5 + 20 + 50) * kMiB);
  const Sums sums = ByKind(device.peak_by_lifetime);
  EXPECT_EQ(sums.at("whole_run"), std::pair(101 * kMiB, std::uint64_t{2}));  // the first step's leak lies in the set-up
  EXPECT_EQ(sums.at("to_the_end"), std::pair((19 + 5) * kMiB, std::uint64_t{20}));
  EXPECT_EQ(sums.at("within_step"), std::pair(7 * kMiB, std::uint64_t{1}));
  EXPECT_EQ(sums.at("short_lived"), std::pair(50 * kMiB, std::uint64_t{1}));
  EXPECT_FALSE(sums.contains("freed"));
  std::uint64_t whole = 0;
  for (const auto& [kind, sum] : sums) whole += sum.first;
  EXPECT_EQ(whole, device.peak_bytes);
}

TEST_F(PeakPartsTest, AcrossSteps) {
  const auto batch = program_.Line("train.cc", 30, "Batch"), other = program_.Line("train.cc", 31, "Other");
  std::uint64_t before = 0;
  for (int step = 1; step <= 20; ++step) {
    if (step > 1) program_.Free(before);
    program_.Malloc(other, 1);
    before = program_.Malloc(batch, step == 10 ? 9 * kMiB : kMiB);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  const Sums sums = ByKind(report.totals[0].peak_by_lifetime);
  EXPECT_EQ(sums.at("across_steps"), std::pair(9 * kMiB, std::uint64_t{1}));
}

TEST_F(PeakPartsTest, WithoutSteps) {
  const auto weights = program_.Line("run.cc", 10, "Weights");
  program_.Malloc(weights, 64 * kMiB);
  const std::uint64_t job = program_.Malloc(program_.Line("run.cc", 11, "Job"), 32 * kMiB);
  for (std::uint32_t i = 0; i < 30; ++i)
    program_.Free(program_.Malloc(program_.Line("run.cc", 20 + i, "One"), 16 * kMiB));
  program_.Free(job);
  const Sums sums = ByKind(Now().totals[0].peak_by_lifetime);
  EXPECT_EQ(sums.at("whole_run").first, 64 * kMiB);
  EXPECT_EQ(sums.at("freed").first, 32 * kMiB);
  EXPECT_EQ(sums.at("short_lived").first, 16 * kMiB);
}

TEST_F(PeakPartsTest, Libraries) {
  const auto module = [&](const std::string& path, const std::string& function) {
    return program_.AddFrame("", 0, function, program_.AddModule(path));
  };
  const std::uint32_t runtime = program_.raw().stacks[step_end_].frames[0],
                      main = program_.raw().stacks[step_end_].frames[2];
  const auto cublas = program_.AddStack({runtime, module("/opt/cuda/lib64/libcublas.so.13", "cublasCreate_v2"), main});
  const auto plugin = program_.AddStack(
      {runtime, program_.AddFrame("plugin.cc", 8, "Fill", program_.AddModule("/opt/me/lib/libplugin.so")), main});
  const auto package =
      program_.AddStack({runtime, program_.AddPythonFrame(
                                      "/v/lib/python3.11/site-packages/transformers/models/llama.py", 70, "forward")});
  const auto script = program_.AddStack({runtime, program_.AddPythonFrame("/opt/me/train.py", 7, "main")});
  program_.Malloc(cublas, 8 * kMiB);
  program_.Malloc(plugin, 16 * kMiB);
  program_.Malloc(package, 32 * kMiB);
  program_.Malloc(script, 64 * kMiB);
  program_.Malloc(0, kMiB);
  program_.Malloc(program_.Line("train.cc", 1, "Own"), 2 * kMiB);
  const Report& report = Now();
  std::vector<std::string> rows;
  for (const PartBytes& part : report.totals[0].peak_by_library)
    rows.push_back(std::string(part.kind) + " " + part.name + " " + std::to_string(part.bytes / kMiB));
  EXPECT_EQ(rows,
            (std::vector<std::string>{"program Python code 64", "package transformers 32", "program libplugin.so 16",
                                      "cuda_library libcublas.so.13 8", "program train 2", "unknown (no stack) 1"}));
}

TEST_F(PeakPartsTest, PinnedPowersOfTwo) {
  const auto pin = program_.Line("load.cc", 5, "Pin");
  program_.Malloc(pin, std::uint64_t{1} << 30, AllocationKind::kHostPinned);
  program_.Malloc(pin, (std::uint64_t{1} << 30) + 1, AllocationKind::kHostPinned);
  program_.Malloc(pin, 1 << 20, AllocationKind::kHostPinned);
  program_.Malloc(pin, std::uint64_t{1} << 30);
  const Report& report = Now();
  ASSERT_EQ(report.totals.size(), 2u);
  EXPECT_EQ(report.totals[0].powers_of_two.blocks, 0u);
  EXPECT_EQ(report.totals[1].powers_of_two.blocks, 1u);
  EXPECT_EQ(report.totals[1].powers_of_two.bytes, std::uint64_t{1} << 30);
}

}  // namespace
}  // namespace cuheap::analysis
