// What reached the driver without us: a sentence for each, first among what was not observed, and no green verdict.
#include "analysis/reports/unseen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analysis/reports/report_text.h"
#include "interpose/journal/format.h"
#include "tests/analysis/reports/leak_fixture.h"

namespace cuheap::analysis {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kDirect = static_cast<std::uint64_t>(journal::UnseenWay::kDirect);
constexpr auto kOwnLookups = static_cast<std::uint64_t>(journal::UnseenWay::kOwnLookups);
constexpr auto kOtherDriver = static_cast<std::uint64_t>(journal::UnseenWay::kOtherDriver);

Note MakeNote(const std::string& code, const std::string& text, std::uint64_t a = 0, std::uint64_t b = 0) {
  return {code, text, 0, a, b};
}

TEST(DescribeUnseenTest, SaysWhatFollowsAndWhatToDo) {
  EXPECT_THAT(DescribeUnseen(MakeNote("unseen_library", "/opt/x/libfoo.so", kDirect, 1)),
              AllOf(HasSubstr("Allocations of libfoo.so (/opt/x/libfoo.so) were not observed"),
                    HasSubstr("(1 address of"), HasSubstr("RTLD_DEEPBIND")));
  EXPECT_THAT(DescribeUnseen(MakeNote("unseen_library", "/opt/x/libfoo.so", kDirect, 7)), HasSubstr("(7 addresses of"));
  EXPECT_THAT(DescribeUnseen(MakeNote("unseen_library", "/opt/x/libfoo.so", kOwnLookups, 1)),
              HasSubstr("may not have been observed"));
  EXPECT_THAT(DescribeUnseen(MakeNote("unseen_library", "/opt/x/libfoo.so", kOtherDriver, 3)), HasSubstr("dlmopen"));
  EXPECT_THAT(DescribeUnseen(MakeNote("unseen_driver", "/usr/lib/libcuda.so.1")),
              HasSubstr("Another copy of the driver is loaded, libcuda.so.1 (/usr/lib/libcuda.so.1)"));
  EXPECT_THAT(DescribeUnseen(MakeNote("unseen_process", "/usr/lib/libcuda.so.1")), HasSubstr("not one call came"));
  EXPECT_THAT(DescribeUnseen(MakeNote("unknown_address", "cuMemAlloc_v2")),
              HasSubstr("Calls of cuMemAlloc_v2 may not"));
}

TEST(DescribeUnseenTest, APathThatWasCutShowsIt) {
  EXPECT_THAT(DescribeUnseen(MakeNote("unseen_driver", "rt/lib/libcuda.so.1")), HasSubstr("(...rt/lib/libcuda.so.1)"));
  EXPECT_THAT(DescribeUnseen(MakeNote("unseen_driver", "libcuda.so.1")), HasSubstr("loaded, libcuda.so.1:"));
}

TEST(DescribeUnseenTest, OtherNotesAreNotItsBusiness) {
  EXPECT_EQ(DescribeUnseen(MakeNote("self_check", "text", 1, 2)), "");
  EXPECT_EQ(DescribeUnseen(MakeNote("capture", "text")), "");
}

class UnseenTest : public LeakFixture {
 protected:
  const Report& WithNotes(const std::vector<Note>& notes) {
    snapshots_.push_back(program_.Snapshot());
    for (const Note& note : notes) snapshots_.back().notes.push_back(note);
    reports_.push_back(MakeReport(snapshots_.back()));
    return reports_.back();
  }
};

TEST_F(UnseenTest, NoLeaksIsSaidOfWhatWasObservedOnly) {
  program_.Malloc(program_.Line("train.cc", 5, "SetUp"), kMiB, AllocationKind::kDevice);
  for (int step = 0; step < 10; ++step) program_.Synchronize(step_end_);
  EXPECT_THAT(RenderText(WithNotes({}), {}), AllOf(HasSubstr("NO LEAKS"), Not(HasSubstr("past cuheap"))));
  EXPECT_THAT(RenderSummary(WithNotes({})), Not(HasSubstr("not observed")));
  const Report& report =
      WithNotes({MakeNote("capture", "seen"), MakeNote("unseen_library", "/opt/libfoo.so", kDirect, 2),
                 MakeNote("unseen_library", "/opt/libbar.so", kDirect, 2)});
  EXPECT_TRUE(report.unseen());
  EXPECT_THAT(RenderText(report, {}),
              AllOf(HasSubstr("in what was observed"), HasSubstr("some calls went past cuheap")));
  EXPECT_THAT(RenderSummary(report),
              AllOf(HasSubstr("not observed: Allocations of libfoo.so"), HasSubstr("(and more: see the report)")));
  ASSERT_GE(report.not_observed.size(), 3U);
  EXPECT_EQ(report.not_observed[0].code, "unseen_library") << "before the other notes";
  EXPECT_EQ(report.not_observed[1].code, "unseen_library");
}

}  // namespace
}  // namespace cuheap::analysis
