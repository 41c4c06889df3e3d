// Snapshots that others published, against figures that were reckoned from the pickles by another loader
// (tests/data/pytorch/README.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/reports/report.h"
#include "analysis/snapshot_check.h"
#include "analysis/snapshot_loader.h"
#include "analysis/snapshot_writer.h"

namespace cuheap::analysis {
namespace {

using testing::HasSubstr;

struct Expected {
  const char* file;
  std::uint64_t segments, reserved, allocated, requested, largest_idle, whole_idle_segments, whole_idle;
  std::uint64_t allocations, frees, outstanding, outstanding_bytes;  // outstanding bytes as requested
  bool exact;  // blocks add up to their segments
};
void PrintTo(const Expected& expected, std::ostream* out) { *out << expected.file; }

const Expected kFiles[] = {
    {"torch-cs336-medium-ctx1024-inference", 108, 3204448256, 1703677952, 1701711872, 268435456, 14, 1486880768, 1280,
     1280, 0, 0, true},
    {"torch-cs336-medium-ctx128-training", 377, 7235174400, 6816891392, 6808535044, 41943040, 14, 343932928, 6526, 6305,
     659, 5098680324, true},
    {"torch-cs336-small-forward-fp32", 29, 610271232, 525286400, 523811840, 20971520, 1, 20971520, 681, 681, 0, 0, true},
    {"torch-cs336-small-idle-cache", 9, 3781165056, 31719936, 31719428, 536870912, 6, 3221225472, 36, 26, 10, 31719428,
     true},
    {"torch-cs336-windows-paths", 216, 14180941824, 1377753600, 1373919236, 329252864, 170, 11773411328, 1721, 1721, 2,
     327680004, true},
    {"torch-flexgen-1.3b-oldformat-a", 257, 7608467456, 5683450880, 5683449864, 207618048, 57, 1501560832, 0, 1, 0, 0,
     true},
    {"torch-flexgen-1.3b-oldformat-b", 112, 1851785216, 809461760, 807625200, 207618048, 42, 987758592, 0, 1, 0, 0, true},
    {"torch-mosaic-alloc-free-only", 5, 262144000, 8704, 466, 0, 0, 0, 520, 520, 0, 0, false},
};

Snapshot Load(const std::string& name) {
  absl::StatusOr<Snapshot> snapshot =
      LoadSnapshot(std::string(CUHEAP_SOURCE) + "/tests/data/pytorch/" + name + ".pickle.zst");
  EXPECT_TRUE(snapshot.ok()) << snapshot.status();
  return snapshot.ok() ? *std::move(snapshot) : Snapshot{};
}

bool HasNote(const Snapshot& snapshot, const std::string& code) {
  return std::any_of(snapshot.notes.begin(), snapshot.notes.end(), [&](const Note& note) { return note.code == code; });
}

class TorchSnapshotTest : public testing::TestWithParam<Expected> {};

TEST_P(TorchSnapshotTest, BlocksAndSegments) {
  const Expected& expected = GetParam();
  const Snapshot snapshot = Load(expected.file);
  EXPECT_FALSE(FindInconsistency(snapshot).has_value());
  ASSERT_EQ(snapshot.devices.size(), 1u);
  EXPECT_EQ(snapshot.devices[0].framework_held_bytes, expected.reserved);
  EXPECT_EQ(snapshot.devices[0].tensor_live_bytes, expected.allocated);
  EXPECT_EQ(snapshot.counters.at("torch_requested_bytes"), expected.requested);
  EXPECT_EQ(HasNote(snapshot, "torch_headers"), !expected.exact);
  const Report report = MakeReport(snapshot);
  ASSERT_EQ(report.framework_caches.size(), 1u);
  const CacheState& end = report.framework_caches[0].at_end;
  EXPECT_EQ(end.reserved, expected.reserved);
  EXPECT_EQ(end.used, expected.allocated);
  if (!expected.exact) return;  // what no block covers counts as idle
  EXPECT_EQ(end.segments.size(), expected.segments);
  EXPECT_EQ(end.largest_idle, expected.largest_idle);
  EXPECT_EQ(end.idle_whole_segments, expected.whole_idle_segments);
  EXPECT_EQ(end.idle_whole, expected.whole_idle);
}

TEST_P(TorchSnapshotTest, Events) {
  const Expected& expected = GetParam();
  const Snapshot snapshot = Load(expected.file);
  std::uint64_t allocations = 0, frees = 0;
  for (std::size_t i = 0; i < snapshot.events.size(); ++i) {
    if (snapshot.events.kind[i] != AllocationKind::kTensor) continue;
    allocations += snapshot.events.type[i] == EventType::kAllocate ? 1 : 0;
    frees += snapshot.events.type[i] == EventType::kFree ? 1 : 0;
  }
  EXPECT_EQ(allocations, expected.allocations);
  EXPECT_EQ(frees, expected.frees);
  // Live blocks whose allocation is in the window.
  std::uint64_t outstanding = 0, bytes = 0;
  for (const LiveAllocation& live : snapshot.live) {
    if (live.kind != AllocationKind::kTensor || live.time_ns == kTimeUnknown) continue;
    ++outstanding;
    bytes += live.bytes;
  }
  EXPECT_EQ(outstanding, expected.outstanding);
  EXPECT_GE(bytes, expected.outstanding_bytes);
  EXPECT_LE(bytes, expected.outstanding_bytes + expected.outstanding_bytes / 100);
}

TEST_P(TorchSnapshotTest, NoneOfThemLeaks) {
  const Snapshot snapshot = Load(GetParam().file);
  const Report report = MakeReport(snapshot);
  EXPECT_EQ(report.verdict, Verdict::kNoLeaks) << report.leak_count() << " leaks";
}

TEST_P(TorchSnapshotTest, BecomesASnapshotOfOurs) {
  const Snapshot snapshot = Load(GetParam().file);
  const std::string json = SnapshotToJson(snapshot);
  const absl::StatusOr<Snapshot> again = LoadSnapshotFromMemory(json, "again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->recorder, "pytorch");
  EXPECT_EQ(SnapshotToJson(*again), json);
}

INSTANTIATE_TEST_SUITE_P(Files, TorchSnapshotTest, testing::ValuesIn(kFiles), [](const auto& file) {
  std::string name = file.param.file;
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
});

TEST(TorchSnapshotFileTest, PeaksAreThoseOfTheRecording) {
  EXPECT_EQ(Load("torch-cs336-medium-ctx1024-inference").devices[0].tensor_peak_bytes, 2879401984u);
  EXPECT_EQ(Load("torch-cs336-medium-ctx128-training").devices[0].tensor_peak_bytes, 7021691392u);
  // Sizes of events are requests: the true peak is less than 1 % away.
  EXPECT_NEAR(static_cast<double>(Load("torch-cs336-windows-paths").devices[0].tensor_peak_bytes), 13927832064., 1.4e8);
}

TEST(TorchSnapshotFileTest, BackslashesStay) {
  const Snapshot snapshot = Load("torch-cs336-windows-paths");
  EXPECT_TRUE(std::any_of(snapshot.strings.begin(), snapshot.strings.end(), [](const std::string& text) {
    return text == "D:\\Dev\\assignment2-systems\\cs336-basics\\cs336_basics\\model.py";
  }));
}

TEST(TorchSnapshotFileTest, OtherPicklesAreNamed) {
  for (const std::string& text : {std::string("\x80\x04N."), std::string("\x80\x04}."), std::string("\x80\x04]K\x01\x61.")}) {
    const absl::StatusOr<Snapshot> snapshot = LoadSnapshotFromMemory(text, "file.pickle");
    ASSERT_FALSE(snapshot.ok());
    EXPECT_THAT(std::string(snapshot.status().message()), HasSubstr("file.pickle"));
    EXPECT_THAT(std::string(snapshot.status().message()), HasSubstr("no memory snapshot of PyTorch"));
  }
}

}  // namespace
}  // namespace cuheap::analysis
