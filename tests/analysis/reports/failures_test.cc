#include "analysis/reports/failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/reports/report.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr double kMiB = 1 << 20, kGiB = 1 << 30;

OomFigures Figures(double request, double total, double free, double live, double idle) {
  const auto bytes = [](double value) { return static_cast<std::uint64_t>(value); };
  return {bytes(request), bytes(total), bytes(free), bytes(live), bytes(idle)};
}

// cases.md B-03: five messages and what they say.
TEST(JudgeOomTest, ReadsFiveRealMessages) {
  EXPECT_EQ(JudgeOom(Figures(546 * kMiB, 15.77 * kGiB, 514.19 * kMiB, 13.73 * kGiB, 736.86 * kMiB)),
            OomVerdict::kIdleInPool);
  EXPECT_EQ(JudgeOom(Figures(22.78 * kGiB, 31.47 * kGiB, 12.73 * kGiB, 9.08 * kGiB, 9.35 * kGiB)),
            OomVerdict::kCapacity);
  EXPECT_EQ(JudgeOom(Figures(20 * kMiB, 4 * kGiB, 2.35 * kGiB, 825.15 * kMiB, 24.85 * kMiB)), OomVerdict::kUnexplained);
  EXPECT_EQ(JudgeOom(Figures(52 * kMiB, 79.20 * kGiB, 27.25 * kMiB, 752.52 * kMiB, 133.48 * kMiB)),
            OomVerdict::kOtherOwner);
  EXPECT_EQ(JudgeOom(Figures(1.86 * kGiB, 31.72 * kGiB, 1.28 * kGiB, 24.58 * kGiB, 5.08 * kGiB)),
            OomVerdict::kIdleInPool);
}

// The same five as states of a device whose pool holds them, and the words of the report.
std::string ReportOf(double request, double total, double outside, double live, double idle) {
  const auto bytes = [](double value) { return static_cast<std::uint64_t>(value); };
  SyntheticProgram program;
  program.raw().devices[0].total_bytes = bytes(total);
  program.raw().devices[0].driver_free_at_start = bytes(total) - bytes(outside);
  program.Segment(0x100000000, bytes(live) + bytes(idle));
  const auto block = program.Malloc(program.Line("a.cc", 1, "A"), bytes(live), AllocationKind::kDevice, 1);
  program.Place(block, 0x100000000);
  program.raw().events.address.SetBack(0x100000000);
  program.Fails(program.Line("a.cc", 2, "B"), bytes(request));
  const Snapshot snapshot = program.Snapshot();
  return RenderText(MakeReport(snapshot));
}

TEST(JudgeOomTest, SaysItInWords) {
  EXPECT_THAT(ReportOf(546 * kMiB, 15.77 * kGiB, 0.82 * kGiB, 13.73 * kGiB, 736.86 * kMiB),
              HasSubstr("Idle memory of the pool could have served it: fragmentation, or memory not given back"));
  EXPECT_THAT(ReportOf(22.78 * kGiB, 31.47 * kGiB, 0.31 * kGiB, 9.08 * kGiB, 9.35 * kGiB),
              AllOf(HasSubstr("Capacity: even with all idle memory it would not have fitted"),
                    HasSubstr("were missing"), Not(HasSubstr("Idle memory of the pool could"))));
  EXPECT_THAT(ReportOf(20 * kMiB, 4.00 * kGiB, 0.82 * kGiB, 825.15 * kMiB, 24.85 * kMiB),
              AllOf(HasSubstr("Not enough evidence: by this estimate 2."), HasSubstr("A cap"),
                    HasSubstr("a refusal of the"), Not(HasSubstr("Capacity"))));
  EXPECT_THAT(ReportOf(52 * kMiB, 79.20 * kGiB, 78.31 * kGiB, 752.52 * kMiB, 133.48 * kMiB),
              HasSubstr("Another owner, probably: 78.3 GiB were taken before"));
  EXPECT_THAT(ReportOf(1.86 * kGiB, 31.72 * kGiB, 0.78 * kGiB, 24.58 * kGiB, 5.08 * kGiB),
              HasSubstr("Idle memory of the pool could have served it: fragmentation"));
}

// cases.md B-04: a pool that doubles asks for more than is there, with 16,255 MiB free. That is neither.
TEST(JudgeOomTest, AGrowthThatAsksForTooMuchIsNotCapacity) {
  const OomFigures figures = Figures(8 * kGiB, 32510 * kMiB, 16255 * kMiB, 8 * kGiB, 16255 * kMiB - 8 * kGiB);
  EXPECT_EQ(JudgeOom(figures), OomVerdict::kUnexplained);
  EXPECT_EQ(figures.outside(), 0u);
}

TEST(JudgeOomTest, NobodyElseIsToBlameForARequestThatNeverFits) {
  EXPECT_EQ(JudgeOom(Figures(9 * kGiB, 8 * kGiB, 4 * kGiB, 1 * kGiB, 0)), OomVerdict::kCapacity);
  EXPECT_EQ(JudgeOom(Figures(6 * kGiB, 8 * kGiB, 4 * kGiB, 1 * kGiB, 0)), OomVerdict::kOtherOwner);
}

TEST(JudgeOomTest, OutsideNeverWrapsAround) { EXPECT_EQ(Figures(1, 10, 8, 8, 8).outside(), 0u); }

TEST(FindFailuresTest, FiguresAreThoseOfTheMoment) {
  SyntheticProgram program;
  const auto a = program.Line("a.cc", 1, "A"), b = program.Line("a.cc", 2, "B");
  program.raw().devices[0].driver_free_at_start = std::uint64_t{7} << 30;
  program.Malloc(a, std::uint64_t{5} << 30);
  program.Fails(b, std::uint64_t{3} << 30);
  program.Fails(b, std::uint64_t{4} << 30);
  program.Malloc(a, std::uint64_t{1} << 30);
  const Snapshot snapshot = program.Snapshot();
  const Report report = MakeReport(snapshot);
  EXPECT_EQ(report.verdict, Verdict::kOutOfMemory);
  ASSERT_EQ(report.failures.size(), 1u);
  const Failure& failure = report.failures[0];
  EXPECT_EQ(Describe(report.lines.line(failure.line)), "a.cc:2");
  EXPECT_EQ(failure.count, 2u);
  EXPECT_EQ(failure.largest_request, std::uint64_t{4} << 30);
  EXPECT_EQ(failure.figures.request, std::uint64_t{3} << 30);
  EXPECT_EQ(failure.figures.live, std::uint64_t{5} << 30);
  EXPECT_EQ(failure.figures.free, std::uint64_t{2} << 30);
  EXPECT_EQ(failure.figures.outside(), std::uint64_t{1} << 30);
  EXPECT_EQ(failure.verdict, OomVerdict::kCapacity);
}

// What the pool holds beside what was asked for is not free either.
TEST(FindFailuresTest, RoundingInSegmentsIsNotFree) {
  SyntheticProgram program;
  const auto a = program.Line("a.cc", 1, "A");
  program.raw().devices[0].driver_free_at_start = std::uint64_t{7} << 30;
  program.Segment(0x100000000, std::uint64_t{2} << 30);
  program.Place(program.Malloc(a, (std::uint64_t{2} << 30) - 511, AllocationKind::kDevice, 1), 0x100000000);
  program.Fails(a, std::uint64_t{6} << 30);
  const Snapshot snapshot = program.Snapshot();
  EXPECT_EQ(MakeReport(snapshot).failures.at(0).figures.free, std::uint64_t{5} << 30);
}

// Blocks of one byte over 2 MiB take two pages each: the device is full at half its size.
TEST(FindFailuresTest, TheDriverChargesWholePages) {
  SyntheticProgram program;
  const auto line = program.Line("a.cc", 1, "A");
  program.raw().devices[0].total_bytes = program.raw().devices[0].driver_free_at_start = 512u << 20;
  for (int i = 0; i < 128; ++i) program.Malloc(line, (2u << 20) + 1);
  program.Fails(line, (2u << 20) + 1);
  const Snapshot snapshot = program.Snapshot();
  const Failure failure = MakeReport(snapshot).failures.at(0);
  EXPECT_EQ(failure.figures.free, 0u);
  EXPECT_EQ(failure.figures.live, 128u * ((2u << 20) + 1));
  EXPECT_EQ(failure.figures.rounding, 128u * ((2u << 20) - 1));
  EXPECT_EQ(failure.figures.outside(), 0u);
  EXPECT_EQ(failure.verdict, OomVerdict::kCapacity);
}

// 700,000 B blocks in the pool's slots of 704 KiB: what lies between them is no idle memory, also if they are freed
// later, so that the size of their slots is not known. A slot between them that was freed is.
TEST(FindFailuresTest, RoundingInsideLiveBlocksIsNotIdle) {
  SyntheticProgram program;
  const auto line = program.Line("a.cc", 1, "A");
  program.raw().devices[0].total_bytes = program.raw().devices[0].driver_free_at_start = 20u << 20;
  constexpr std::uint64_t kBase = 0x700000000000, kSlot = 704u << 10;
  program.Segment(kBase, 20u << 20);
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < 29; ++i) {
    ids.push_back(program.Malloc(line, 700'000, AllocationKind::kDevice, 1));
    program.Place(ids.back(), kBase + i * kSlot);
    program.raw().events.address.SetBack(kBase + i * kSlot);
  }
  program.Fails(line, 700'000);
  program.Free(ids[3]);
  program.Fails(program.Line("a.cc", 2, "B"), 700'000);
  for (const auto id : ids) {
    if (id != ids[3]) program.Free(id);
  }
  const Snapshot snapshot = program.Snapshot();
  const Report report = MakeReport(snapshot);
  ASSERT_EQ(report.failures.size(), 2u);
  EXPECT_EQ(report.failures[0].figures.idle, 0u);
  EXPECT_EQ(report.failures[0].verdict, OomVerdict::kCapacity);
  EXPECT_EQ(report.failures[1].figures.idle, 2 * kSlot - 700'000);
  EXPECT_EQ(report.failures[1].verdict, OomVerdict::kIdleInPool);
}

TEST(FindFailuresTest, OtherErrorsAreNoOutOfMemory) {
  SyntheticProgram program;
  program.Fails(program.Line("a.cc", 1, "A"), 1, 1);
  program.Malloc(program.Line("a.cc", 2, "B"), 1);
  const Snapshot snapshot = program.Snapshot();
  const Report report = MakeReport(snapshot);
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures[0].verdict, OomVerdict::kNotMemory);
  EXPECT_NE(report.verdict, Verdict::kOutOfMemory);
}

}  // namespace
}  // namespace cuheap::analysis
