#include "analysis/reports/kinds.h"

#include <gtest/gtest.h>

#include <set>

#include "analysis/reports/report.h"
#include "analysis/reports/report_json.h"
#include "analysis/reports/report_text.h"
#include "analysis/snapshot_names.h"
#include "tests/analysis/reports/synthetic.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class KindsTest : public testing::Test {
 protected:
  std::vector<KindUse> Count() {
    snapshot_ = program_.Snapshot();
    return CountKinds(JoinBlocks(snapshot_));
  }
  std::string Text() {
    snapshot_ = program_.Snapshot();
    return RenderText(MakeReport(snapshot_), {});
  }

  SyntheticProgram program_;
  std::uint32_t line_ = program_.Line("a.cc", 1, "A");
  Snapshot snapshot_;
};

TEST_F(KindsTest, EachKindIsCountedApart) {
  program_.Malloc(line_, 3 * kMiB, AllocationKind::kArray);
  program_.Free(program_.Malloc(line_, 5 * kMiB, AllocationKind::kArray));
  program_.Malloc(line_, kMiB, AllocationKind::kHostRegistered);
  program_.Malloc(line_, 0, AllocationKind::kImportedVirtual);
  const auto kinds = Count();
  ASSERT_EQ(kinds.size(), 3u);
  EXPECT_EQ(kinds[0].kind, AllocationKind::kArray);
  EXPECT_EQ(kinds[0].blocks, 2u);
  EXPECT_EQ(kinds[0].live_blocks, 1u);
  EXPECT_EQ(kinds[0].live_bytes, 3 * kMiB);
  EXPECT_EQ(kinds[0].peak_bytes, 8 * kMiB);
  EXPECT_EQ(kinds[1].kind, AllocationKind::kHostRegistered);
  EXPECT_EQ(kinds[1].live_blocks_without_size, 0u);
  EXPECT_EQ(kinds[2].kind, AllocationKind::kImportedVirtual);
  EXPECT_EQ(kinds[2].live_blocks_without_size, 1u);
}

// Every kind that the recorder knows has its own words in the report: a new one must get some.
TEST_F(KindsTest, EveryKindIsNamedInTheReport) {
  std::set<std::string_view> phrases;
  for (std::size_t i = 1; i < Words<AllocationKind>().size(); ++i) {
    const auto kind = static_cast<AllocationKind>(i);
    if (kind == AllocationKind::kPoolSegment || kind == AllocationKind::kTensor) continue;
    EXPECT_NE(KindPhrase(kind), "other memory") << Words<AllocationKind>()[i];
    EXPECT_TRUE(phrases.insert(KindPhrase(kind)).second) << KindPhrase(kind);
    program_.Malloc(line_, kMiB * i, kind);
  }
  const std::string text = Text();
  const std::string json = RenderJson(MakeReport(snapshot_));
  for (const std::string_view phrase : phrases) EXPECT_NE(text.find(phrase), std::string::npos) << phrase;
  for (const KindUse& use : Count()) {
    EXPECT_NE(json.find("\"kind\": \"" + std::string(ToString(use.kind)) + "\""), std::string::npos)
        << ToString(use.kind) << json;
  }
}

TEST_F(KindsTest, UnknownSizesAreToldAsUnknown) {
  program_.Malloc(line_, 0, AllocationKind::kImportedVirtual);
  EXPECT_NE(Text().find("size not known"), std::string::npos);
}

TEST_F(KindsTest, OrdinaryProgramsGetNoTable) {
  program_.Malloc(line_, kMiB);
  program_.Malloc(line_, kMiB, AllocationKind::kHostPinned);
  EXPECT_EQ(Text().find("KINDS"), std::string::npos);
}

// Memory of others is on nobody's books: neither a peak nor a leak of this program.
TEST_F(KindsTest, MemoryOfOthersIsNeitherPeakNorLeak) {
  for (int i = 0; i < 40; ++i) {
    for (const auto kind : {AllocationKind::kExternal, AllocationKind::kExternalArray, AllocationKind::kMulticast,
                            AllocationKind::kImported, AllocationKind::kImportedVirtual}) {
      program_.Malloc(line_, kMiB, kind);
    }
    program_.Synchronize(line_);
  }
  snapshot_ = program_.Snapshot();
  const Report report = MakeReport(snapshot_);
  EXPECT_EQ(report.totals[0].peak_bytes, 0u);
  EXPECT_TRUE(report.findings.empty());
}

}  // namespace
}  // namespace cuheap::analysis
