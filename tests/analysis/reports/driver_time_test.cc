// Time in calls of the driver: sums of all, lines of slow ones, and words that fit.
#include "analysis/reports/driver_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analysis/reports/report.h"
#include "analysis/reports/report_json.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// 100 ms, of which 20 in frees that wait, 10 in allocations.
Snapshot Timed(std::int64_t duration_ms = 100) {
  SyntheticProgram program;
  const auto a = program.Line("a.cc", 1, "A"), b = program.Line("a.cc", 2, "B");
  program.Free(program.Malloc(a, 1 << 20));
  const auto slow = [&](std::uint32_t stack, DriverCall call, std::uint64_t ns) {
    program.Bare(EventType::kDriverCall, stack);
    program.raw().events.address.SetBack(static_cast<std::uint64_t>(call));
    program.raw().events.bytes.SetBack(ns);
  };
  slow(a, DriverCall::kFreeWait, 5'000'000);
  slow(b, DriverCall::kFreeWait, 8'000'000);
  slow(b, DriverCall::kFreeWait, 1'000'000);
  slow(a, DriverCall::kAllocate, 200'000);
  program.raw().driver_time = {{"allocate", 400, 10'000'000, 200'000},
                               {"free", 0, 0, 0},
                               {"free_wait", 30, 20'000'000, 8'000'000},
                               {"a_word_of_later", 1, 1, 1}};
  Snapshot snapshot = program.Snapshot();
  snapshot.process.duration_ns = duration_ms * 1'000'000;
  return snapshot;
}

TEST(DriverTimeTest, SumsOfAllCallsAndLinesOfSlowOnes) {
  const Snapshot snapshot = Timed();
  const Report report = MakeReport(snapshot);
  const DriverUse& use = report.driver_use;
  EXPECT_TRUE(use.known);
  EXPECT_EQ(use.total_ns, 30'000'000u);
  EXPECT_DOUBLE_EQ(use.share, 0.3);
  ASSERT_EQ(use.calls.size(), 2u) << "none of which there was no call, none that this version does not know";
  EXPECT_EQ(use.calls[0].call, DriverCall::kFreeWait);
  EXPECT_EQ(use.calls[0].count, 30u);
  ASSERT_EQ(use.calls[0].lines.size(), 2u);
  EXPECT_EQ(Describe(report.lines.line(use.calls[0].lines[0].line)), "a.cc:2");
  EXPECT_EQ(use.calls[0].lines[0].calls, 2u);
  EXPECT_EQ(use.calls[0].lines[0].total_ns, 9'000'000u);
  EXPECT_EQ(use.calls[0].lines[0].longest_ns, 8'000'000u);
}

TEST(DriverTimeTest, SaidInWords) {
  Snapshot snapshot = Timed();
  std::string text = RenderText(MakeReport(snapshot));
  EXPECT_THAT(text, AllOf(HasSubstr("DRIVER TIME  30.0 ms in the driver's calls for memory, 30.0 % of the run\n"),
                          HasSubstr("waiting for the device in a free, as the driver does"),
                          HasSubstr("most at a.cc:2  B: 9.0 ms in 2 slow calls"), HasSubstr("cudaFreeAsync")));
  snapshot.simulated = true;
  text = RenderText(MakeReport(snapshot));
  EXPECT_THAT(text, HasSubstr("This is the simulated driver's time, not a GPU's."));
  EXPECT_TRUE(nlohmann::json::parse(RenderJson(MakeReport(snapshot)))["driver_time"]["simulated"]);
}

TEST(DriverTimeTest, LittleTimeIsInJsonOnly) {
  const Snapshot snapshot = Timed(60'000);
  EXPECT_THAT(RenderText(MakeReport(snapshot)), Not(HasSubstr("DRIVER TIME")));
  const auto json = nlohmann::json::parse(RenderJson(MakeReport(snapshot)));
  EXPECT_EQ(json["driver_time"]["total_ns"], 30'000'000);
  EXPECT_EQ(json["driver_time"]["calls"][1]["slow_by_line"][0]["line"], "a.cc:1");
}

TEST(DriverTimeTest, ARecorderThatTookNoTime) {
  Snapshot snapshot = Timed();
  snapshot.driver_time.clear();
  const Report report = MakeReport(snapshot);
  EXPECT_FALSE(report.driver_use.known);
  EXPECT_TRUE(nlohmann::json::parse(RenderJson(report))["driver_time"].is_null());
}

// What the pool does when a context is destroyed at the end takes time too: the blocks are held to the end all the
// same.
TEST(DriverTimeTest, SlowCallsOfTheTeardownAreNoEvents) {
  SyntheticProgram program;
  const auto line = program.Line("a.cc", 1, "A");
  const auto block = program.Malloc(line, 1 << 20);
  program.Free(block, 16);  // with its context
  program.Bare(EventType::kDriverCall, line);
  program.Bare(EventType::kContextDestroyed, 0);
  program.Bare(EventType::kDriverCall, line);
  const Snapshot snapshot = program.Snapshot();
  const Blocks blocks = JoinBlocks(snapshot);
  ASSERT_EQ(blocks.program.size(), 1u);
  EXPECT_TRUE(blocks.program[0].live);
}

}  // namespace
}  // namespace cuheap::analysis
