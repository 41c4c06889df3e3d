// Conditions of `cuheap diff --fail-on`: what can be written, and when they are met.
#include "analysis/reports/fail_on.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

using testing::HasSubstr;

FailCondition One(const std::string& text) {
  std::string problem;
  const auto conditions = ParseFailOn(text, &problem);
  EXPECT_TRUE(conditions && conditions->size() == 1) << text << ": " << problem;
  return conditions ? conditions->front() : FailCondition{};
}

TEST(FailOnTest, EveryFormIsUnderstood) {
  const FailCondition percent = One(" peak > + 5.5 % ");
  EXPECT_EQ(percent.figure, Figure::kPeak);
  EXPECT_EQ(percent.bound, BoundKind::kGrowthPercent);
  EXPECT_DOUBLE_EQ(percent.amount, 5.5);
  EXPECT_EQ(percent.text, "peak>+5.5%");
  const FailCondition value = One("leak-bytes>=1.5MiB");
  EXPECT_EQ(value.figure, Figure::kLeakBytes);
  EXPECT_EQ(value.bound, BoundKind::kValue);
  EXPECT_TRUE(value.or_equal);
  EXPECT_EQ(value.amount, 1.5 * (1 << 20));
  const FailCondition growth = One("allocations>+20");
  EXPECT_EQ(growth.bound, BoundKind::kGrowth);
  EXPECT_EQ(growth.amount, 20);
  for (const char* figure : {"peak", "live", "tensor-peak", "tensor-live", "host-peak", "host-live", "reserved",
                             "allocations", "leaks", "leak-bytes"}) {
    EXPECT_EQ(FigureName(One(std::string(figure) + ">0").figure), figure);
  }
  std::string problem;
  const auto several = ParseFailOn("peak>+5%, leaks>0 ,live>1GiB", &problem);
  ASSERT_TRUE(several);
  EXPECT_EQ(several->size(), 3u);
}

TEST(FailOnTest, WhatIsWrongGetsTheGrammarInOneLine) {
  for (const char* text : {"",
                           " ",
                           "peak",
                           "peak>",
                           "peak>+",
                           "peak>5%",
                           "peak<5",
                           "peaks>5",
                           "peak>5kb",
                           "peak>-5%",
                           "leaks>1MiB",
                           "allocations>+5B",
                           "peak>+5%,",
                           ",peak>1",
                           "peak>5.",
                           "peak>.5",
                           "peak>5.1234567%",
                           "peak>>5",
                           "peak=>5",
                           "peak>+5%%",
                           "peak>1e9",
                           "peak>0x10",
                           "peak>1234567890123456",
                           "peak>5\nleaks>0",
                           "PEAK>5"}) {
    std::string problem;
    EXPECT_FALSE(ParseFailOn(text, &problem).has_value()) << text;
    EXPECT_THAT(problem, HasSubstr("is no condition: write FIGURE>BOUND")) << text;
  }
}

// One device: a peak of this many bytes, of which some stay; a line that leaks, if asked.
Snapshot RunOf(std::uint64_t peak, std::uint64_t live, int leaking_steps = 0) {
  SyntheticProgram program;
  const auto line = program.Line("a.cc", 1, "F()"), leak = program.Line("a.cc", 2, "Leak()");
  const auto end = program.Line("a.cc", 9, "Step()");
  for (int step = 0; step < leaking_steps; ++step) {
    program.Malloc(leak, 1000);
    program.Synchronize(end);
  }
  if (live != 0) program.Malloc(line, live);
  if (peak > live) program.Free(program.Malloc(line, peak - live));
  return program.Snapshot();
}

Judgement Judged(const Snapshot& before, const Snapshot& after, const std::string& condition) {
  const Report first = MakeReport(before), second = MakeReport(after);
  return JudgeConditions(CompareReports(first, second), {One(condition)}).front();
}

TEST(FailOnTest, GrowthIsExactAtTheBound) {
  const Snapshot before = RunOf(1000, 0), same = RunOf(1050, 0), more = RunOf(1051, 0);
  EXPECT_FALSE(Judged(before, same, "peak>+5%").met);
  EXPECT_TRUE(Judged(before, same, "peak>=+5%").met);
  EXPECT_TRUE(Judged(before, more, "peak>+5%").met);
  EXPECT_FALSE(Judged(before, more, "peak>+51").met);
  EXPECT_TRUE(Judged(before, more, "peak>+50B").met);
  EXPECT_FALSE(Judged(before, more, "peak>1051").met);
  EXPECT_TRUE(Judged(before, more, "peak>=1051").met);
  EXPECT_FALSE(Judged(more, before, "peak>+0").met);
}

TEST(FailOnTest, TheSentenceSaysWhereAndByHowMuch) {
  const std::uint64_t mib = 1 << 20;
  EXPECT_EQ(Judged(RunOf(45 * mib, 0), RunOf(60 * mib, 0), "peak>+5%").text,
            "peak>+5%: device 0 from 45.0 MiB (47,185,920 B) to 60.0 MiB (62,914,560 B), +15.0 MiB (+33.3 %)");
  EXPECT_EQ(Judged(RunOf(45, 0), RunOf(45, 0), "live>0").text, "live>0: device 0 from 0 B to 0 B, no change");
  EXPECT_EQ(Judged(RunOf(0, 0), RunOf(0, 0, 20), "leaks>0").text, "leaks>0: from 0 to 1, +1");
}

TEST(FailOnTest, FromNothingAnyGrowthExceedsAPercentage) {
  EXPECT_TRUE(Judged(RunOf(10, 0), RunOf(10, 1), "live>+500%").met);
  EXPECT_FALSE(Judged(RunOf(10, 0), RunOf(10, 0), "live>+5%").met);
}

TEST(FailOnTest, LeaksAreCountedAndWeighed) {
  const Snapshot clean = RunOf(10, 0), leaking = RunOf(10, 0, 20);
  EXPECT_FALSE(Judged(clean, clean, "leaks>0").met);
  EXPECT_TRUE(Judged(clean, leaking, "leaks>0").met);
  EXPECT_TRUE(Judged(leaking, leaking, "leaks>0").met);
  EXPECT_FALSE(Judged(leaking, leaking, "leaks>+0").met);
  EXPECT_TRUE(Judged(clean, leaking, "leak-bytes>19999").met);
  EXPECT_FALSE(Judged(clean, leaking, "leak-bytes>20000").met);
}

TEST(FailOnTest, AnyDeviceMayMeetIt) {
  SyntheticProgram before, after;
  for (SyntheticProgram* program : {&before, &after}) {
    program->Malloc(program->Line("a.cc", 1, "F()"), 1000);
    program->UseDevice(1);
    program->Malloc(program->Line("a.cc", 1, "F()"), program == &before ? 100 : 200);
  }
  const Judgement judgement = Judged(before.Snapshot(), after.Snapshot(), "peak>+50%");
  EXPECT_TRUE(judgement.met);
  EXPECT_EQ(judgement.where, "device 1");
}

TEST(FailOnTest, AllocationsAreNotKnownIfEventsAreMissing) {
  SyntheticProgram lost;
  lost.Malloc(lost.Line("a.cc", 1, "F()"), 1000);
  lost.ForgetEvents();
  lost.Malloc(lost.Line("a.cc", 1, "F()"), 1000);
  const Judgement judgement = Judged(RunOf(10, 0), lost.Snapshot(), "allocations>0");
  EXPECT_FALSE(judgement.known);
  EXPECT_FALSE(judgement.met);
  EXPECT_THAT(judgement.text, HasSubstr("not known"));
  EXPECT_TRUE(Judged(RunOf(10, 0), lost.Snapshot(), "live>1999").met);
}

TEST(ThresholdTest, SizePercentageBothOrNothing) {
  const auto parsed = [](const std::string& text) {
    Threshold threshold;
    std::string problem;
    EXPECT_TRUE(ParseThreshold(text, &threshold, &problem)) << text << problem;
    return threshold;
  };
  EXPECT_EQ(parsed("1MiB").bytes, 1u << 20);
  EXPECT_DOUBLE_EQ(parsed("1MiB").share, 0.01);
  EXPECT_DOUBLE_EQ(parsed("2.5%").share, 0.025);
  EXPECT_EQ(parsed("0%").bytes, 64u << 10);
  EXPECT_EQ(parsed("8KiB, 3%").bytes, 8u << 10);
  EXPECT_DOUBLE_EQ(parsed("8KiB, 3%").share, 0.03);
  EXPECT_EQ(parsed("0").bytes + parsed("0").count, 0u);
  EXPECT_EQ(parsed("0").share, 0);
  for (const char* text : {"", "5", "101%", "x", "1MiB,", "-1%", "1MB", "123456789012345GiB"}) {
    Threshold threshold;
    std::string problem;
    EXPECT_FALSE(ParseThreshold(text, &threshold, &problem)) << text;
    EXPECT_THAT(problem, HasSubstr("use a size (64KiB)"));
    EXPECT_EQ(threshold.bytes, 64u << 10) << "unchanged";
  }
}

}  // namespace
}  // namespace cuheap::analysis
