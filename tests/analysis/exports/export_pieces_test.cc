// Pieces of the exports, and what no file of a test can hold: names that are not UTF-8, blocks that overlap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "analysis/exports/exporter.h"
#include "analysis/exports/held.h"
#include "analysis/exports/json_text.h"
#include "analysis/exports/pickle_writer.h"
#include "analysis/exports/torch_layout.h"
#include "analysis/pickle_reader.h"
#include "analysis/printable.h"
#include "analysis/snapshot_loader.h"
#include "tests/analysis/exports/export_programs.h"
#include "tests/analysis/test_snapshot.h"

namespace cuheap::analysis {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string Export(const Snapshot& snapshot, const char* format, const Moment& at = {}) {
  std::string text;
  std::vector<std::string> notes;
  ExportRequest request;
  request.at = at;
  const auto sink = TextToString(text);
  const absl::Status status =
      FindExportFormat(format)->make()->Write(snapshot, JoinBlocks(snapshot), request, *sink, notes);
  EXPECT_TRUE(status.ok()) << status;
  return text;
}

TEST(MomentTest, WordsAndTimes) {
  EXPECT_EQ(ParseMoment("peak")->kind, MomentKind::kPeak);
  EXPECT_EQ(ParseMoment("device-peak")->kind, MomentKind::kDevicePeak);
  EXPECT_EQ(ParseMoment("end")->kind, MomentKind::kEnd);
  EXPECT_EQ(ParseMoment("leaked")->kind, MomentKind::kLeaked);
  const std::pair<const char*, std::int64_t> times[] = {
      {"0", 0}, {"1.5s", 1'500'000'000}, {"2", 2'000'000'000}, {"250ms", 250'000'000}, {"80us", 80'000}, {"7ns", 7}};
  for (const auto& [text, ns] : times) {
    ASSERT_TRUE(ParseMoment(text).has_value()) << text;
    EXPECT_EQ(ParseMoment(text)->kind, MomentKind::kTime);
    EXPECT_EQ(ParseMoment(text)->time_ns, ns) << text;
  }
  for (const char* text : {"", "s", "ms", "-1", "1h", "1 s", "inf", "nan", "1e3", "9300000000", "peak ", "0x1"})
    EXPECT_FALSE(ParseMoment(text).has_value()) << text;
}

TEST(MomentTest, IsDescribed) {
  EXPECT_EQ(Describe(Moment{MomentKind::kTime, 1'500'000'007}), "1.500000007 s after the start");
  EXPECT_EQ(Describe(Moment{MomentKind::kTime, 5'000'000'000}), "5 s after the start");
  EXPECT_EQ(Describe(Moment{MomentKind::kTime, 20'300'000}), "0.0203 s after the start");
}

TEST(JsonTextTest, EscapesWhatJsonForbids) {
  EXPECT_EQ(JsonString("a\"\\\n\x7f\xff\xc3\xa9"), "\"a\\\"\\\\\\u000a\\u007f\xEF\xBF\xBD\xc3\xa9\"");
  EXPECT_EQ(JsonString(std::string(1, '\0')), "\"\\u0000\"");
}

class KeepAll final : public PickleVisitor {
 public:
  std::optional<std::int64_t> Filled(const PickleData&, const PickleValue&) override { return std::nullopt; }
};

TEST(PickleWriterTest, NumbersOfEveryLength) {
  std::vector<std::uint64_t> numbers = {0, std::numeric_limits<std::uint64_t>::max()};
  for (int bit = 0; bit < 64; ++bit) {
    for (const int step : {-1, 0, 1}) numbers.push_back((std::uint64_t{1} << bit) + static_cast<std::uint64_t>(step));
  }
  std::string text;
  const auto sink = TextToString(text);
  PickleWriter writer(*sink);
  writer.Begin();
  PickleWriter::List list = writer.BeginList();
  EXPECT_TRUE(list.empty());
  for (int i = 0; i < 20; ++i) {  // more than one batch
    for (const std::uint64_t number : numbers) {
      list.Element(writer);
      writer.Unsigned(number);
    }
  }
  list.Element(writer);
  writer.Signed(std::numeric_limits<std::int64_t>::min());
  writer.EndList(list);
  writer.End();

  KeepAll visitor;
  PickleData data;
  PickleValue root;
  const auto source = TextInMemory(text);
  ASSERT_THAT(ReadPickle(*source, visitor, data, root).text, IsEmpty());
  const PickleData::Elements& read = data.Of(root);
  ASSERT_EQ(read.size(), 20 * numbers.size() + 1);
  for (std::size_t i = 0; i + 1 < read.size(); ++i)
    EXPECT_EQ(PickleData::Unsigned(read[i]), numbers[i % numbers.size()]);
  EXPECT_EQ(PickleData::Signed(read.back()), std::numeric_limits<std::int64_t>::min());
}

TEST(PickleWriterTest, StringsAreWrittenOnceAndAreUtf8) {
  std::string text;
  const auto sink = TextToString(text);
  PickleWriter writer(*sink);
  const std::string longer(300, 'x');
  writer.Begin();
  PickleWriter::List list = writer.BeginList();
  for (int i = 0; i < 3; ++i) {
    for (const std::string& string : {std::string("a\xff"), longer}) {
      list.Element(writer);
      writer.String(string);
    }
  }
  writer.EndList(list);
  writer.End();
  EXPECT_LT(text.size(), 2 * longer.size());

  KeepAll visitor;
  PickleData data;
  PickleValue root;
  const auto source = TextInMemory(text);
  ASSERT_THAT(ReadPickle(*source, visitor, data, root).text, IsEmpty());
  ASSERT_EQ(data.Of(root).size(), 6u);
  EXPECT_EQ(data.Text(data.Of(root)[4]), "a\xEF\xBF\xBD");
  EXPECT_EQ(data.Text(data.Of(root)[5]), longer);
}

TEST(ExportsTest, NamesThatAreNotUtf8GiveFilesThatAre) {
  SyntheticProgram program;
  program.Malloc(program.Line("/src/\xff\xfe.cc", 3, "Step\xc3(\x80;\n"), 100);
  const Snapshot snapshot = program.Snapshot();
  for (const char* format : {"folded", "speedscope", "chrome", "csv", "ndjson"}) {
    const std::string text = Export(snapshot, format);
    EXPECT_EQ(ValidUtf8(text), text) << format;
    EXPECT_THAT(text, HasSubstr("100")) << format;
  }
  const absl::StatusOr<Snapshot> again = LoadSnapshotFromMemory(Export(snapshot, "torch-snapshot"), "again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(again->strings, testing::Contains("Step\xEF\xBF\xBD(\xEF\xBF\xBD;\n"));
}

TEST(ExportsTest, EveryFormatHasItsWords) {
  for (const ExportFormat& format : ExportFormats()) {
    EXPECT_EQ(FindExportFormat(format.name), &format);
    EXPECT_TRUE(format.extension.starts_with(".")) << format.name;
    EXPECT_THAT(std::string(format.opened_by), testing::Not(IsEmpty()));
  }
  EXPECT_EQ(FindExportFormat("papyrus"), nullptr);
}

// The snapshot of the second has a value of its own in every field: devices far apart, times and addresses that
// overflow.
TEST(ExportsTest, AnyCheckedSnapshotCanBeExported) {
  for (const Snapshot& snapshot : {LeakyProgram(), DistinctSnapshot()}) {
    for (const ExportFormat& format : ExportFormats()) {
      for (const Moment& moment : {Moment{}, Moment{MomentKind::kEnd, 0}, Moment{MomentKind::kTime, 5}}) {
        const std::string text = Export(snapshot, format.name.data(), moment);
        EXPECT_EQ(Export(snapshot, format.name.data(), moment), text) << format.name;
      }
    }
  }
}

TEST(ExportsTest, NothingIsFoundInNothing) {
  for (const ExportFormat& format : ExportFormats()) {
    for (const MomentKind kind :
         {MomentKind::kPeak, MomentKind::kDevicePeak, MomentKind::kEnd, MomentKind::kLeaked, MomentKind::kTime})
      Export(Snapshot{}, format.name.data(), {kind, 5});
  }
  EXPECT_EQ(Export(Snapshot{}, "folded"), "");
}

const Held& Of(const std::vector<Held>& places, std::uint32_t device) {
  const auto found =
      std::find_if(places.begin(), places.end(), [&](const Held& held) { return !held.host && held.device == device; });
  EXPECT_NE(found, places.end());
  return *found;
}

TEST(HeldTest, PeakBeforeTheRecordIsOneEntry) {
  SyntheticProgram program;
  const auto line = program.Line("a.cc", 1, "A");
  const auto early = program.Malloc(line, 9000);
  program.Free(early);
  program.ForgetEvents();
  program.Malloc(line, 100);
  const Snapshot snapshot = program.Snapshot();
  const std::vector<Held> places = HeldAt(snapshot, JoinBlocks(snapshot), {});
  EXPECT_EQ(Of(places, 0).bytes, 9000u);
  ASSERT_EQ(Of(places, 0).stacks.back().part, HeldPart::kLost);
  EXPECT_EQ(Of(places, 0).stacks.back().bytes, 9000u);
}

TEST(HeldTest, TensorsAndTheRestOfTheirCache) {
  SyntheticProgram program;
  const auto line = program.AddStack({program.AddPythonFrame("train.py", 7, "step")});
  program.Malloc(line, 4 << 20, AllocationKind::kDevice, journal::kCallerIsPyTorch);
  program.Malloc(line, 1000, AllocationKind::kTensor, journal::kCallerIsPyTorch);
  program.Malloc(program.Line("b.cc", 2, "B"), 77);
  const Snapshot snapshot = program.Snapshot();
  for (const MomentKind kind : {MomentKind::kPeak, MomentKind::kDevicePeak, MomentKind::kEnd, MomentKind::kTime}) {
    // The peak of the tensors is before the last allocation.
    const std::uint64_t own = kind == MomentKind::kPeak ? 0 : 77;
    const std::vector<Held> places = HeldAt(snapshot, JoinBlocks(snapshot), {kind, program.now_ns()});
    const Held& held = Of(places, 0);
    EXPECT_TRUE(held.tensors);
    EXPECT_EQ(held.bytes, (4u << 20) + own);
    ASSERT_EQ(held.stacks.back().part, HeldPart::kIdleCache);
    EXPECT_EQ(held.stacks.back().bytes, (4u << 20) - 1000);
  }
}

TEST(TorchLayoutTest, OverlappingBlocksKeepTheirBytes) {
  SyntheticProgram program;
  const auto line = program.Line("a.cc", 1, "A");
  program.Segment(0x1000000, 1 << 20);
  const auto place = [&](std::uint64_t address, std::uint64_t bytes) {
    program.Place(program.Malloc(line, bytes, AllocationKind::kDevice, journal::kServedFromPool), address);
  };
  place(0x1000000, 5000);
  place(0x1000100, 600);                  // inside the first
  place(0x1000000 + (1 << 20) - 10, 50);  // beyond the end
  place(0x9000000, 70);                   // nowhere
  const Snapshot snapshot = program.Snapshot();
  const Blocks blocks = JoinBlocks(snapshot);
  std::uint64_t requested = 0;
  for (const LaidSegment& segment : TorchLayout(snapshot, blocks).Segments()) {
    std::uint64_t at = segment.address;
    for (const LaidBlock& block : segment.blocks) {
      EXPECT_EQ(block.address, at);
      at += block.bytes;
      requested += block.requested;
    }
    EXPECT_EQ(at, segment.address + segment.bytes);
  }
  EXPECT_EQ(requested, 5000u + 600 + 50 + 70);
}

}  // namespace
}  // namespace cuheap::analysis
