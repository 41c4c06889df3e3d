// What reports say of snapshots that others published: idle cache is told from fragmentation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "analysis/reports/report.h"
#include "analysis/reports/report_text.h"
#include "analysis/snapshot_loader.h"

namespace cuheap::analysis {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class TorchWordsTest : public testing::Test {
 protected:
  void Load(const std::string& name) {
    absl::StatusOr<Snapshot> snapshot =
        LoadSnapshot(std::string(CUHEAP_SOURCE) + "/tests/data/pytorch/" + name + ".pickle.zst");
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    snapshot_ = *std::move(snapshot);
    report_.emplace(MakeReport(snapshot_));
    for (const char c : RenderText(*report_)) {  // whatever was wrapped where
      const bool space = c == ' ' || c == '\n';
      if (!space || !text_.ends_with(' ')) text_ += space ? ' ' : c;
    }
  }
  // The causes add up to what is held and not asked for, at every moment.
  void ExpectSums(std::uint64_t reserved, std::uint64_t requested) {
    ASSERT_EQ(report_->fragmentation.size(), 1u);
    for (const FragmentationState& state : report_->fragmentation[0].states) {
      std::uint64_t sum = state.requested;
      for (const CauseShare& share : state.causes) sum += share.bytes;
      EXPECT_EQ(sum, state.reserved);
    }
    EXPECT_EQ(report_->fragmentation[0].main().reserved, reserved);
    EXPECT_EQ(report_->fragmentation[0].main().requested, requested);
  }
  Snapshot snapshot_;
  std::optional<Report> report_;
  std::string text_;
};

// cases.md D-01
TEST_F(TorchWordsTest, AnInferencesIdleSegmentsCanBeHandedBack) {
  Load("torch-cs336-medium-ctx1024-inference");
  ExpectSums(3204448256, 1701711872);
  EXPECT_EQ(report_->fragmentation[0].main().of(IdleCause::kWholeSegments).bytes, 1486880768u);
  EXPECT_EQ(report_->fragmentation[0].main().of(IdleCause::kRounding).bytes, 1703677952u - 1701711872u);
  EXPECT_THAT(text_, AllOf(HasSubstr("not fragmentation: 1.4 GiB (1,486,880,768 B) can be handed back"),
                           HasSubstr("NO LEAKS")));
}

// D-03
TEST_F(TorchWordsTest, IdleCacheAfterALargeTemporaryPeak) {
  Load("torch-cs336-small-idle-cache");
  ExpectSums(3781165056, 31719428);
  EXPECT_EQ(report_->fragmentation[0].main().of(IdleCause::kWholeSegments).bytes, 3221225472u);
  EXPECT_THAT(text_, HasSubstr("Idle cache after a peak of 3.0 GiB in tensors, not fragmentation: 3.0 GiB "
                               "(3,221,225,472 B) can be handed back."));
}

// D-06
TEST_F(TorchWordsTest, MostOfFourteenGigabytesIsIdleCache) {
  Load("torch-cs336-windows-paths");
  ExpectSums(14180941824, 1373919236);
  EXPECT_THAT(text_, AllOf(HasSubstr("Idle cache after a peak of"),
                           HasSubstr("not fragmentation: 11.0 GiB (11,773,411,328 B) can be handed back.")));
}

// D-05: what its headers say is not what its blocks say, so that nobody knows what is idle.
TEST_F(TorchWordsTest, NoFragmentationFromHeadersThatContradict) {
  Load("torch-mosaic-alloc-free-only");
  EXPECT_TRUE(report_->fragmentation.empty());
  EXPECT_THAT(text_, AllOf(Not(HasSubstr("ragmentation")), HasSubstr("totals that their blocks do not add up to")));
}

}  // namespace
}  // namespace cuheap::analysis
