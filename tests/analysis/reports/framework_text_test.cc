// What a report says of PyTorch's cache, in the terminal and in JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analysis/reports/report.h"
#include "analysis/reports/report_json.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/cached_program.h"

namespace cuheap::analysis {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// 40 MiB held, at most 21 MiB in tensors; at last 1 MiB of tensors in the first segment, none in the second.
CachedProgram Fragmented() {
  CachedProgram program;
  program.Malloc(program.Line("train.cc", 5, "Own"), 3 * kMiB);
  program.Held(kBase, 20 * kMiB);
  program.Held(kBase + 64 * kMiB, 20 * kMiB);
  const std::uint64_t large = program.Tensor(kBase + 64 * kMiB, 20 * kMiB);
  program.KeptTensor(kBase + 8 * kMiB, kMiB);
  program.Free(large);
  program.Tensor(kBase + 64 * kMiB, 512);
  program.raw().devices[0].tensor_peak_bytes = 21 * kMiB;
  return program;
}

std::string Text(const Snapshot& snapshot) {
  TextOptions options;
  options.width = 100;
  return RenderText(MakeReport(snapshot), options);
}

TEST(FrameworkText, TheCacheHasASectionAndTensorsAPeak) {
  const std::string text = Text(Fragmented().Snapshot());
  EXPECT_THAT(text, HasSubstr("PYTORCH'S CACHE  device 0: at most 21.0 MiB in tensors, 40.0 MiB held for them"));
  EXPECT_THAT(text, HasSubstr("3 handed out, 1 taken back"));
  EXPECT_THAT(text, HasSubstr("40.0 MiB in 2 segments: 21.0 MiB in 2 tensors, 19.0 MiB idle (largest 11.0 MiB)"));
  EXPECT_THAT(text, HasSubstr("PEAK  tensors on device 0: 21.0 MiB (22,020,096 B)"));
  EXPECT_THAT(text, HasSubstr("PyTorch's cache, see there"));
  EXPECT_THAT(text, AllOf(HasSubstr("PEAK  device 0: 43.0 MiB"), HasSubstr("train.cc:5")));
  EXPECT_THAT(text, Not(HasSubstr("not the tensors inside")));
  EXPECT_THAT(text, HasSubstr("4.0 MiB never freed")) << "the program's own and the tensors; not the cache around them";
}

TEST(FrameworkText, FragmentationNamesTheLinesThatPin) {
  const std::string text = Text(Fragmented().Snapshot());
  EXPECT_THAT(text, HasSubstr("fragmentation   97.5 % of what is held: 39.0 MiB idle beside tensors"));
  EXPECT_THAT(text, HasSubstr("kept by train.cc:"));
  EXPECT_THAT(text, AllOf(HasSubstr("\n  last tensor "), Not(HasSubstr("at the last"))));
  EXPECT_THAT(text, HasSubstr("train.cc:20"));
}

TEST(FrameworkText, ItsOutOfMemoryIsAVerdictWithItsNumbers) {
  CachedProgram program = Fragmented();
  program.OutOfMemory(30 * kMiB, kMiB + 512, 40 * kMiB);
  const std::string text = Text(program.Snapshot());
  EXPECT_THAT(text, HasSubstr("OUT OF MEMORY"));
  EXPECT_THAT(text, HasSubstr("PyTorch raised OutOfMemoryError on device 0: 30.0 MiB (31,457,280 B) asked for"));
  EXPECT_THAT(text, HasSubstr("it had 1.0 MiB in tensors and 39.0 MiB idle in its cache, of which 39.0 MiB could not"));
  EXPECT_THAT(text, HasSubstr("Fragmentation of PyTorch's cache"));
  EXPECT_THAT(text, AllOf(HasSubstr("live then, by line:"), HasSubstr("         1.0 MiB        1  train.cc:20  Log")));
  EXPECT_THAT(text, HasSubstr("expandable_segments:True"));
  EXPECT_THAT(RenderSummary(MakeReport(program.Snapshot()), {}), HasSubstr("out of memory: 30.0 MiB"));
}

TEST(FrameworkText, NoFragmentationIsClaimedWhereTooLittleIsIdle) {
  CachedProgram program = Fragmented();
  program.OutOfMemory(90 * kMiB, kMiB + 512, 40 * kMiB);
  const std::string text = Text(program.Snapshot());
  EXPECT_THAT(text, HasSubstr("90.0 MiB"));
  EXPECT_THAT(text, Not(HasSubstr("Fragmentation of PyTorch's cache")));
}

TEST(FrameworkText, WithoutReportsItIsSaidThatTensorsAreMissing) {
  CachedProgram program;
  program.Held(kBase, 20 * kMiB);
  EXPECT_THAT(Text(program.Snapshot()), HasSubstr("not the tensors inside"));
  program.raw().notes.push_back({"tensor_reports", "why", 0, 0, 0});
  const std::string text = Text(program.Snapshot());
  EXPECT_THAT(text, HasSubstr("(see tensor_reports)"));
  EXPECT_THAT(text, HasSubstr("tensor_reports: why"));
}

TEST(FrameworkText, JsonTellsTheSameAndEveryBlock) {
  CachedProgram program = Fragmented();
  program.OutOfMemory(30 * kMiB, kMiB + 512, 40 * kMiB);
  const json report = json::parse(RenderJson(MakeReport(program.Snapshot())));
  EXPECT_EQ(report["verdict"], "out_of_memory");
  ASSERT_EQ(report["tensors"].size(), 1u);
  EXPECT_EQ(report["tensors"][0]["scope"], json({{"kind", "tensors"}, {"device", 0}}));
  EXPECT_EQ(report["tensors"][0]["peak"]["bytes"], 21 * kMiB);
  ASSERT_EQ(report["memory"].size(), 1u);
  EXPECT_EQ(report["memory"][0]["peak"]["bytes"], 43 * kMiB);
  EXPECT_EQ(report["memory"][0]["peak"]["framework_cache"], json({{"bytes", 40 * kMiB}, {"blocks", 2}}));
  EXPECT_EQ(report["memory"][0]["peak"]["composed_bytes"], 43 * kMiB);
  EXPECT_EQ(report["memory"][0]["peak"]["by_line"].size(), 1u);
  const json& cache = report["framework_caches"][0];
  EXPECT_EQ(cache["at_peak"]["used_bytes"], 21 * kMiB);
  EXPECT_EQ(cache["at_last"]["idle_pinned_bytes"], 39 * kMiB - 512);
  const json& segment = cache["at_last"]["segments"][0];
  ASSERT_EQ(segment["blocks"].size(), 3u);
  EXPECT_EQ(segment["blocks"][0], json({{"address", kBase}, {"bytes", 8 * kMiB}, {"idle", true}}));
  EXPECT_EQ(segment["blocks"][1]["line"], "train.cc:20");
  EXPECT_EQ(cache["refusals"][0]["request"], 30 * kMiB);
  EXPECT_EQ(cache["refusals"][0]["told_reserved_bytes"], 40 * kMiB);
  EXPECT_EQ(cache["refusals"][0]["by_line"][0]["line"], "train.cc:20");
  EXPECT_EQ(cache["refusals"][0]["by_line"][0]["bytes"], kMiB);
}

}  // namespace
}  // namespace cuheap::analysis
