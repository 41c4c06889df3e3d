// Leaks behind wrapper functions, judged by caller; and records with losses.
#include <gtest/gtest.h>

#include "analysis/reports/leaks.h"
#include "analysis/reports/report.h"
#include "analysis/reports/report_json.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/leak_fixture.h"

namespace cuheap::analysis {
namespace {

using LeakCallersTest = LeakFixture;

// A buffer's constructor, used for weights with a synchronisation each, and leaked every step of the training.
TEST_F(LeakCallersTest, EveryCallerOfAWrapperIsJudgedByItself) {
  const auto wrapper = program_.Line("buffer.h", 9, "Buffer::Buffer");
  const auto weights = program_.Through(wrapper, program_.Line("model.cc", 3, "SetUp"));
  const auto leak = program_.Through(wrapper, program_.Line("train.cc", 75, "Train"));
  for (int i = 0; i < 24; ++i) {
    program_.Malloc(weights, 16 * kMiB);
    program_.Synchronize(step_end_);
  }
  for (int step = 1; step <= 200; ++step) {
    program_.Malloc(leak, 4096);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  ASSERT_EQ(report.findings.size(), 2u);
  const LeakFinding &growing = report.findings[0], &still = report.findings[1];
  EXPECT_EQ(growing.leak_class, LeakClass::kLeak);
  EXPECT_EQ(LineOf(report, growing), "buffer.h:9");
  EXPECT_EQ(Describe(report.lines.line(growing.caller)), "train.cc:75");
  EXPECT_EQ(growing.blocks, 200u);
  EXPECT_EQ(growing.bytes, 200u * 4096);
  EXPECT_DOUBLE_EQ(growing.bytes_per_step, 4096.0);
  EXPECT_EQ(growing.line_allocations, 200u);
  EXPECT_EQ(still.leak_class, LeakClass::kHeld);
  EXPECT_EQ(Describe(report.lines.line(still.caller)), "model.cc:3");
  EXPECT_EQ(still.bytes, 24 * 16 * kMiB);
  EXPECT_NE(RenderText(report, {}).find("called by train.cc:75  Train"), std::string::npos);
  EXPECT_NE(RenderSummary(report).find("called by train.cc:75"), std::string::npos);
}

TEST_F(LeakCallersTest, CallersAreToldApartBehindACommonHelper) {
  const auto wrapper = program_.Line("buffer.h", 9, "Buffer::Buffer"), helper = program_.Line("make.cc", 5, "Make");
  const auto of = [&](std::uint32_t line, const char* function) {
    const Snapshot& raw = program_.raw();
    const auto frame = [&](std::uint32_t stack) { return raw.stacks[stack].frames[1]; };
    const auto user = program_.Line("use.cc", line, function);
    return program_.AddStack(
        {raw.stacks[wrapper].frames[0], frame(wrapper), frame(helper), frame(user), raw.stacks[wrapper].frames[2]});
  };
  const auto set_up = of(10, "SetUp"), leak = of(20, "Train"), fair = of(30, "Evaluate");
  for (int i = 0; i < 8; ++i) {
    program_.Malloc(set_up, kMiB);
    program_.Synchronize(step_end_);
  }
  for (int step = 1; step <= 100; ++step) {
    program_.Malloc(leak, 512);
    program_.Free(program_.Malloc(fair, 512));
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  const auto leaks = Of(report, LeakClass::kLeak);
  ASSERT_EQ(leaks.size(), 1u);
  EXPECT_EQ(Describe(report.lines.line(leaks[0]->caller)), "use.cc:20");
  EXPECT_EQ(leaks[0]->bytes, 100u * 512);
  EXPECT_EQ(leaks[0]->line_frees, 0u);
}

TEST_F(LeakCallersTest, CallersThatGrowAlikeStayOneFinding) {
  const auto wrapper = program_.Line("buffer.h", 9, "Buffer::Buffer");
  const auto first = program_.Through(wrapper, program_.Line("train.cc", 75, "Train"));
  const auto second = program_.Through(wrapper, program_.Line("train.cc", 80, "Train"));
  for (int step = 1; step <= 50; ++step) {
    program_.Malloc(first, 4096);
    program_.Malloc(second, 4096);
    program_.Synchronize(step_end_);
  }
  const Report& report = Now();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].caller, 0u);
  EXPECT_EQ(report.findings[0].blocks, 100u);
  EXPECT_NE(RenderText(report, {}).find("called by 2 lines that grow alike"), std::string::npos);
}

// What found no room may be the leak.
TEST_F(LeakCallersTest, AnIncompleteRecordHasNoCleanVerdict) {
  program_.Malloc(program_.Line("model.cc", 1, "Load"), kMiB);
  EXPECT_EQ(Now().verdict, Verdict::kNoLeaks);
  program_.raw().completeness.live_dropped = 3;
  const Report& dropped = Now();
  EXPECT_EQ(dropped.verdict, Verdict::kIncomplete);
  EXPECT_EQ(RenderText(dropped, {}).find("NO LEAKS"), std::string::npos);
  EXPECT_NE(RenderText(dropped, {}).find("INCOMPLETE"), std::string::npos);
  EXPECT_EQ(RenderSummary(dropped).find("no leaks"), std::string::npos);
  EXPECT_NE(RenderJson(dropped).find("\"verdict\": \"incomplete\""), std::string::npos);
  EXPECT_NE(RenderJson(dropped).find("\"complete\": false"), std::string::npos);
  program_.raw().completeness.live_dropped = 0;
  program_.raw().completeness.events_dropped = 1;
  EXPECT_EQ(Now().verdict, Verdict::kIncomplete);
  const auto leak = program_.Line("train.cc", 7, "Train");
  for (int step = 1; step <= 20; ++step) {
    program_.Malloc(leak, 4096);
    program_.Synchronize(step_end_);
  }
  const Report& leaking = Now();
  EXPECT_EQ(leaking.verdict, Verdict::kLeaks);
  EXPECT_NE(RenderText(leaking, {}).find("the record is incomplete"), std::string::npos);
}

}  // namespace
}  // namespace cuheap::analysis
