// What the page lists and maps: blocks, lines, segments, sentences.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/html/segment_map.h"
#include "analysis/html/block_categories.h"
#include "analysis/html/line_rows.h"
#include "analysis/html/listed_blocks.h"
#include "analysis/html/section_canvas.h"
#include "analysis/reports/report_text.h"
#include "tests/analysis/reports/cached_program.h"

namespace cuheap::analysis {
namespace {

class PagePartsTest : public testing::Test {
 protected:
  void Look() {
    snapshot_ = program_.Snapshot();
    report_.emplace(MakeReport(snapshot_));
    blocks_ = JoinBlocks(snapshot_);
    histories_ = TellMemoryHistory(*report_, blocks_, CategoriesOf(*report_).of_block);
  }
  // A line that leaks every step beside one that frees.
  void LeakySteps(int steps) {
    const std::uint32_t leak = program_.Line("a.cc", 57, "Log"), work = program_.Line("a.cc", 40, "Work"),
                        wait = program_.Line("a.cc", 90, "Step");
    for (int i = 0; i < steps; ++i) {
      program_.Malloc(leak, kMiB);
      const auto temporary = program_.Malloc(work, 16 * kMiB);
      program_.Free(temporary);
      program_.Synchronize(wait);
    }
  }
  SegmentMap MapAt(const std::string& moment) {
    for (SegmentMap& map : DrawSegmentMaps(*report_, blocks_, histories_)) {
      if (map.moment == moment) return std::move(map);
    }
    ADD_FAILURE() << "no map of " << moment;
    return {};
  }

  CachedProgram program_;
  Snapshot snapshot_;
  std::optional<Report> report_;
  Blocks blocks_;
  std::vector<MemoryHistory> histories_;
};

TEST_F(PagePartsTest, BlocksOfALeakCarryTheirFinding) {
  LeakySteps(20);
  Look();
  ASSERT_EQ(report_->leak_count(), 1u);
  const BlockList list = ChooseBlocks(*report_, blocks_, histories_);
  EXPECT_EQ(list.blocks.size(), 40u);
  EXPECT_EQ(std::count_if(list.blocks.begin(), list.blocks.end(),
                          [](const ListedBlock& listed) { return listed.finding == 0; }),
            20);
}

TEST_F(PagePartsTest, OfTooManyBlocksThoseOfLeaksComeFirst) {
  LeakySteps(20);
  Look();
  const BlockList list = ChooseBlocks(*report_, blocks_, histories_, 25);
  EXPECT_EQ(list.all, 40u);
  ASSERT_EQ(list.blocks.size(), 25u);
  EXPECT_EQ(std::count_if(list.blocks.begin(), list.blocks.end(),
                          [](const ListedBlock& listed) { return listed.finding == 0; }),
            20);
  // The temporary block of the peak is among the others.
  EXPECT_TRUE(std::any_of(list.blocks.begin(), list.blocks.end(), [&](const ListedBlock& listed) {
    return HeldAfter(blocks_.program[listed.block], histories_[0].position[histories_[0].named[0].instant]) &&
           listed.finding == kNoFinding;
  }));
  EXPECT_TRUE(std::is_sorted(list.blocks.begin(), list.blocks.end(),
                             [](const ListedBlock& a, const ListedBlock& b) { return a.block < b.block; }));
}

TEST_F(PagePartsTest, LinesTellTheRun) {
  LeakySteps(20);
  Look();
  const LineRows table = CountLines(*report_, blocks_, histories_);
  ASSERT_EQ(table.rows.size(), 2u);
  const LineRow& leak = table.rows[0];
  EXPECT_EQ(report_->lines.line(leak.line).line, 57u);
  EXPECT_EQ(leak.peak_bytes, 20 * kMiB);
  EXPECT_EQ(leak.peak_blocks, 20u);
  EXPECT_EQ(leak.leaked_bytes, 20 * kMiB);
  EXPECT_EQ(leak.end_bytes, 20 * kMiB);
  EXPECT_EQ(leak.frees, 0u);
  const LineRow& work = table.rows[1];
  EXPECT_EQ(work.peak_bytes, 16 * kMiB);
  EXPECT_EQ(work.allocations, 20u);
  EXPECT_EQ(work.frees, 20u);
  EXPECT_EQ(work.end_bytes, 0u);
  EXPECT_EQ(CountLines(*report_, blocks_, histories_, 1).left_out, 1u);
}

TEST_F(PagePartsTest, SegmentsOfACacheHaveTensorsAndHoles) {
  program_.Held(kBase, 20 * kMiB);
  program_.Held(kBase + 64 * kMiB, 2 * kMiB);
  const auto first = program_.Tensor(kBase, 8 * kMiB);
  program_.Tensor(kBase + 8 * kMiB, 4 * kMiB);
  program_.Free(first);
  Look();
  const SegmentMap map = MapAt("end");
  ASSERT_EQ(map.segments.size(), 2u);
  const MappedSegment& segment = map.segments[0];
  EXPECT_EQ(segment.owner, SegmentOwner::kPyTorch);
  EXPECT_EQ(segment.used, 4 * kMiB);
  ASSERT_EQ(segment.parts.size(), 3u);
  EXPECT_EQ(segment.parts[0].block, MappedPart::kIdle);
  EXPECT_EQ(segment.parts[0].bytes, 8 * kMiB);
  EXPECT_EQ(blocks_.program[segment.parts[1].block].bytes, 4 * kMiB);
  EXPECT_EQ(segment.parts[1].offset, 8 * kMiB);
  EXPECT_EQ(segment.parts[2].bytes, 8 * kMiB);
  EXPECT_EQ(map.segments[1].used, 0u);
  EXPECT_EQ(MapAt("peak").segments[0].used, 12 * kMiB);
}

TEST_F(PagePartsTest, PoolSegmentsHaveServedBlocksAndDriverBlocksStandAlone) {
  const std::uint32_t line = program_.Line("a.cc", 1, "A");
  program_.Segment(kBase, 4 * kMiB);
  const auto served = program_.Malloc(line, kMiB, AllocationKind::kDevice, 1);
  program_.Place(served, kBase + kMiB);
  program_.Malloc(line, 32 * kMiB);
  Look();
  const SegmentMap map = MapAt("end");
  ASSERT_EQ(map.segments.size(), 2u);
  EXPECT_EQ(map.segments[0].owner, SegmentOwner::kPool);
  EXPECT_EQ(map.segments[0].used, kMiB);
  ASSERT_EQ(map.segments[0].parts.size(), 3u);
  EXPECT_EQ(map.segments[0].parts[1].offset, kMiB);
  EXPECT_EQ(map.segments[1].owner, SegmentOwner::kDriver);
  EXPECT_EQ(map.segments[1].bytes, 32 * kMiB);
}

TEST_F(PagePartsTest, VeryManySmallBlocksBecomePartsThatSaySo) {
  constexpr std::uint64_t kBlocks = 20'480;  // of 512 bytes: 10 MiB
  program_.Held(kBase, kBlocks * 512);
  for (std::uint64_t i = 0; i < kBlocks; ++i) program_.Tensor(kBase + i * 512, 512);
  Look();
  const SegmentMap map = MapAt("end");
  ASSERT_EQ(map.segments.size(), 1u);
  EXPECT_LE(map.segments[0].parts.size(), 6'000u);
  EXPECT_EQ(map.segments[0].used, kBlocks * 512);
  std::uint64_t blocks = 0, bytes = 0;
  for (const MappedPart& part : map.segments[0].parts) {
    blocks += part.blocks;
    bytes += part.bytes;
  }
  EXPECT_EQ(blocks, kBlocks);
  EXPECT_EQ(bytes, kBlocks * 512);
}

TEST_F(PagePartsTest, SentencesAreThoseOfTheTerminal) {
  LeakySteps(20);
  Look();
  TextOptions options;
  options.width = 160;
  const std::string text = RenderText(*report_, options);
  SectionCanvas canvas(options);
  WriteText(*report_, canvas);
  ASSERT_GE(canvas.sections().size(), 4u);
  EXPECT_EQ(canvas.sections()[0].title, "");
  EXPECT_EQ(canvas.sections().back().title, "NOT OBSERVED");
  bool advice = false;
  for (const ReportSection& section : canvas.sections()) {
    EXPECT_NE(text.find(section.title), std::string::npos);
    for (const SectionEntry& entry : section.entries) {
      advice = advice || entry.style == EntryStyle::kAdvice;
      EXPECT_FALSE(entry.text.starts_with("-> "));
      // Long ones are wrapped on the terminal: their first words are there.
      EXPECT_NE(text.find(entry.text.substr(0, 60)), std::string::npos) << entry.text;
    }
  }
  EXPECT_TRUE(advice);
}

}  // namespace
}  // namespace cuheap::analysis
