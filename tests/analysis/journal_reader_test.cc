#include "analysis/journal_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "analysis/snapshot_check.h"
#include "tests/analysis/journal_builder.h"

namespace cuheap::analysis {
namespace {

namespace fs = std::filesystem;
using journal::EventType;
using journal::ExtentKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Snapshot Read(const JournalBuilder& builder, const ReadJournalOptions& options = {}) {
  absl::StatusOr<Snapshot> snapshot = ReadJournalFromMemory(builder.bytes(), "test.journal", options);
  EXPECT_TRUE(snapshot.ok()) << snapshot.status().message();
  if (!snapshot.ok()) return {};
  const auto wrong = FindInconsistency(*snapshot);
  EXPECT_FALSE(wrong) << wrong->place << ": " << wrong->problem;
  return *std::move(snapshot);
}

absl::Status Error(const JournalBuilder& builder) {
  return ReadJournalFromMemory(builder.bytes(), "test.journal").status();
}

std::vector<std::string> NoteCodes(const Snapshot& snapshot) {
  std::vector<std::string> codes;
  for (const Note& note : snapshot.notes) codes.push_back(note.code);
  return codes;
}

TEST(JournalReaderTest, ReadsTheProcessFacts) {
  const Snapshot snapshot = Read(DistinctJournal());
  EXPECT_THAT(snapshot.cuheap_version, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(snapshot.process.pid, 0x7FFFFFFFu);
  EXPECT_EQ(snapshot.process.parent_pid, 4710u);
  EXPECT_EQ(snapshot.process.host, "host-a");
  EXPECT_EQ(snapshot.process.executable, "/opt/train");
  EXPECT_EQ(snapshot.process.working_directory, "/srv");
  EXPECT_THAT(snapshot.process.command_line, ElementsAre("train", "--name", "", "last"));
  EXPECT_TRUE(snapshot.process.command_line_cut);
  EXPECT_EQ(snapshot.process.start_realtime_ns, 1'700'000'000'000'000'001);
  EXPECT_EQ(snapshot.process.duration_ns, 900'000);
  EXPECT_THAT(snapshot.process.launcher, ElementsAre(Pair("RANK", "7"), Pair("WORLD_SIZE", "8")));
  EXPECT_THAT(snapshot.configuration, ElementsAre(Pair("driver", "simulated"), Pair("empty", ""), Pair("path", "a=b")));
  EXPECT_TRUE(snapshot.simulated);
  EXPECT_EQ(snapshot.completeness.end, "exited");
}

TEST(JournalReaderTest, EveryCounterHasItsName) {
  const Snapshot snapshot = Read(DistinctJournal());
  EXPECT_EQ(snapshot.counters.size(), 28u);
  EXPECT_EQ(snapshot.counters.at("allocations"), 1000u);
  EXPECT_EQ(snapshot.counters.at("events_overwritten"), 1003u);
  EXPECT_EQ(snapshot.counters.at("reentries"), 1017u);
  EXPECT_EQ(snapshot.completeness.events_overwritten, 1003u);
  EXPECT_EQ(snapshot.completeness.events_dropped, 1004u);
  EXPECT_EQ(snapshot.completeness.live_dropped, 1005u);
  EXPECT_EQ(snapshot.completeness.stacks_failed, 1007u);
}

TEST(JournalReaderTest, ReadsDevicesByOrdinal) {
  const Snapshot snapshot = Read(DistinctJournal());
  ASSERT_EQ(snapshot.devices.size(), 1u);
  const Device& device = snapshot.devices[0];
  EXPECT_EQ(device.ordinal, 3u);
  EXPECT_EQ(device.name, std::string(64, 'N'));
  EXPECT_EQ(device.uuid, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
  EXPECT_EQ(device.compute_capability, 90u);
  EXPECT_EQ(device.total_bytes, 101u);
  EXPECT_EQ(device.live_bytes, 102u);
  EXPECT_EQ(device.live_count, 103u);
  EXPECT_EQ(device.peak_bytes, 104u);
  EXPECT_EQ(device.peak_ns, 105);
  EXPECT_EQ(device.reserved_bytes, 106u);
  EXPECT_EQ(device.reserved_peak_bytes, 107u);
  EXPECT_EQ(device.quarantined_bytes, 108u);
  EXPECT_EQ(device.driver_free_at_start, 109u);
}

TEST(JournalReaderTest, ReadsModulesThreadsAndNotes) {
  const Snapshot snapshot = Read(DistinctJournal());
  ASSERT_EQ(snapshot.modules.size(), 2u);
  EXPECT_EQ(snapshot.modules[0].path, "/opt/train");
  EXPECT_FALSE(snapshot.modules[0].path_cut);
  EXPECT_EQ(snapshot.modules[0].build_id, "0f10");
  EXPECT_EQ(snapshot.modules[1].path, "/usr/lib/libx.so");
  EXPECT_TRUE(snapshot.modules[1].path_cut);
  EXPECT_EQ(snapshot.modules[1].build_id, "1f2021");
  EXPECT_EQ(snapshot.modules[1].load_bias, 0x1101u);
  EXPECT_EQ(snapshot.modules[1].begin, 0x2201u);
  EXPECT_EQ(snapshot.modules[1].end, 0x3301u);
  ASSERT_EQ(snapshot.threads.size(), 2u);
  EXPECT_EQ(snapshot.threads[0].tid, 501u);
  EXPECT_EQ(snapshot.threads[0].last_ns, 0);
  EXPECT_EQ(snapshot.threads[1].name, "fifteen letters");
  EXPECT_EQ(snapshot.threads[1].first_ns, 11);
  EXPECT_EQ(snapshot.threads[1].last_ns, 999);
  ASSERT_THAT(NoteCodes(snapshot), ElementsAre("forked", "code_999"));
  EXPECT_EQ(snapshot.notes[0].text, "tex");
  EXPECT_EQ(snapshot.notes[0].time_ns, 20);
  EXPECT_EQ(snapshot.notes[0].a, 31u);
  EXPECT_EQ(snapshot.notes[0].b, 41u);
}

TEST(JournalReaderTest, LiveBlocksComeByAddressAndSegmentsApart) {
  const Snapshot snapshot = Read(DistinctJournal());
  ASSERT_EQ(snapshot.live.size(), 2u);
  ASSERT_EQ(snapshot.segments.size(), 1u);
  const LiveAllocation& low = snapshot.live[0];
  EXPECT_EQ(low.id, journal::MakeAllocationId(1, 2));
  EXPECT_EQ(low.address, 0x9E00u);
  EXPECT_EQ(low.bytes, 0xB02u);
  EXPECT_EQ(low.reserved_bytes, 0xC02u);
  EXPECT_EQ(low.time_ns, 2);
  EXPECT_EQ(low.stream, 0xD02u);
  EXPECT_EQ(low.context, 0xE02u);
  EXPECT_EQ(low.thread, 2u);
  EXPECT_EQ(low.device, 2u);
  EXPECT_EQ(low.kind, AllocationKind::kHostPinned);
  EXPECT_EQ(low.allocator, Allocator::kProgram);
  EXPECT_TRUE(low.served);
  EXPECT_EQ(snapshot.live[1].allocator, Allocator::kPyTorch);
  EXPECT_FALSE(snapshot.live[1].served);
  EXPECT_EQ(snapshot.segments[0].kind, AllocationKind::kPoolSegment);
  EXPECT_EQ(snapshot.segments[0].allocator, Allocator::kCuheap);
}

TEST(JournalReaderTest, EventsOfAllChainsComeInOrderOfTimeThenChain) {
  const Events events = Read(DistinctJournal()).events;
  EXPECT_THAT(events.time_ns, ElementsAre(100, 200, 300, 300));
  EXPECT_THAT(events.type, ElementsAre(analysis::EventType::kAllocate, analysis::EventType::kAllocateFailed,
                                       analysis::EventType::kFree, analysis::EventType::kStepMark));
  EXPECT_THAT(events.bytes, ElementsAre(0xB1u, 0xB2u, 0xB3u, 0xB4u));
  EXPECT_THAT(events.address, ElementsAre(0xA1u, 0u, 0xA3u, 0u));
  EXPECT_THAT(events.id, ElementsAre(0xC1u, 0u, 0xC3u, 0u));
  EXPECT_THAT(events.stream, ElementsAre(0xD1u, 0xD2u, 0xD3u, 0u));
  EXPECT_THAT(events.thread, ElementsAre(1u, 2u, 2u, 1u));
  EXPECT_THAT(events.device, ElementsAre(3u, 1u, kUnknownDevice, 0u));
  EXPECT_THAT(events.kind, ElementsAre(AllocationKind::kPitched, AllocationKind::kManaged, AllocationKind::kVirtual,
                                       AllocationKind::kNone));
  EXPECT_THAT(events.flags, ElementsAre(journal::kDuringCapture, 0, journal::kFreedAtShutdown, 0));
  EXPECT_THAT(events.result, ElementsAre(0, 2, 0, 0));
}

TEST(JournalReaderTest, TimeInTheDriverArrives) {
  JournalBuilder builder;
  builder.AddEvents(1, 1, {{journal::EventType::kDriverCall, 1'000'001, 3, 250'000, 0, 0, 0, 0, journal::AllocationKind::kNone, 0xFFFF, 0, 0}});
  builder.header().driver_time[1].count = 4;
  builder.header().driver_time[1].total_ns = 1000;
  builder.header().driver_time[1].longest_ns = 700;
  const Snapshot snapshot = Read(builder);
  EXPECT_THAT(snapshot.events.type, ElementsAre(analysis::EventType::kDriverCall));
  EXPECT_THAT(snapshot.events.address, ElementsAre(3u));
  EXPECT_THAT(snapshot.events.bytes, ElementsAre(250'000u));
  ASSERT_EQ(snapshot.driver_time.size(), kDriverCalls);
  EXPECT_EQ(snapshot.driver_time[1].call, "free");
  EXPECT_EQ(snapshot.driver_time[1].count, 4u);
  EXPECT_EQ(snapshot.driver_time[1].total_ns, 1000u);
  EXPECT_EQ(snapshot.driver_time[1].longest_ns, 700u);
  EXPECT_EQ(snapshot.driver_time[0].count, 0u);
}

// A recorder of before left zeros there: that is no time, not none.
TEST(JournalReaderTest, JournalsWithoutTimesHaveNone) {
  JournalBuilder builder;
  EXPECT_TRUE(Read(builder).driver_time.empty());
}

TEST(JournalReaderTest, TensorsMappingsAndFrameworksRefusalsArrive) {
  JournalBuilder builder;
  using Type = journal::EventType;
  builder.AddEvents(
      1, 1,
      {{Type::kAllocate, 1'000'001, 0x9000, 512, 0xC1, 0, 0, 0, journal::AllocationKind::kTensor, 0,
        journal::kCallerIsPyTorch, 0},
       {Type::kMap, 1'000'002, 0x40000, 0x200000, 0xC2, 7, 0, 0, journal::AllocationKind::kVirtual, 0, 0, 0},
       {Type::kUnmap, 1'000'003, 0x40000, 0x200000, 0xC2, 7, 0, 0, journal::AllocationKind::kVirtual, 0, 0, 0},
       {Type::kFrameworkOutOfMemory, 1'000'004, 111, 222, 0, 333, 0, 0, journal::AllocationKind::kTensor, 0, 0, 0}});
  const std::uint64_t slots = builder.AddExtent(journal::ExtentKind::kLive, 4096);
  auto* slot = builder.At<journal::LiveSlot>(slots);
  slot->state = 1;
  slot->allocation_id = 0xC2;
  slot->address = 7;
  slot->kind = static_cast<std::uint8_t>(journal::AllocationKind::kVirtual);
  slot->mapped_address = 0x77000;
  journal::DeviceRecord& device = builder.header().devices[0];
  device.present = 1;
  device.tensor_live_bytes = 1;
  device.tensor_live_count = 2;
  device.tensor_peak_bytes = 3;
  device.tensor_peak_time_ns = builder.header().start_monotonic_ns + 4;
  device.framework_held_bytes = 5;
  device.framework_held_peak_bytes = 6;
  const Snapshot snapshot = Read(builder);
  const Events& events = snapshot.events;
  EXPECT_THAT(events.type, ElementsAre(analysis::EventType::kAllocate, analysis::EventType::kMap,
                                       analysis::EventType::kUnmap, analysis::EventType::kFrameworkOutOfMemory));
  EXPECT_EQ(events.kind[0], AllocationKind::kTensor);
  EXPECT_FALSE(IsDeviceMemory(events.kind[0]));
  EXPECT_THAT(events.address, ElementsAre(0x9000u, 0x40000u, 0x40000u, 111u));
  EXPECT_THAT(events.stream, ElementsAre(0u, 7u, 7u, 333u));
  ASSERT_EQ(snapshot.live.size(), 1u);
  EXPECT_EQ(snapshot.live[0].mapped_address, 0x77000u);
  ASSERT_EQ(snapshot.devices.size(), 1u);
  EXPECT_EQ(snapshot.devices[0].tensor_live_bytes, 1u);
  EXPECT_EQ(snapshot.devices[0].tensor_live_count, 2u);
  EXPECT_EQ(snapshot.devices[0].tensor_peak_bytes, 3u);
  EXPECT_EQ(snapshot.devices[0].tensor_peak_ns, 4);
  EXPECT_EQ(snapshot.devices[0].framework_held_bytes, 5u);
  EXPECT_EQ(snapshot.devices[0].framework_held_peak_bytes, 6u);
}

TEST(JournalReaderTest, StacksAreRawFramesWithTheirReason) {
  const Snapshot snapshot = Read(DistinctJournal());
  ASSERT_THAT(snapshot.events.stack, ElementsAre(1u, 2u, 0u, 0u));
  EXPECT_EQ(snapshot.live[1].stack, 2u);
  const Stack& first = snapshot.stacks[1];
  const Stack& second = snapshot.stacks[2];
  ASSERT_EQ(first.frames.size(), 2u);
  EXPECT_FALSE(first.truncated);
  EXPECT_TRUE(second.truncated);
  const Frame& inner = snapshot.frames[first.frames[0]];
  EXPECT_EQ(inner.kind, FrameKind::kNative);
  EXPECT_EQ(inner.module, 1u);
  EXPECT_EQ(inner.offset, 0x10u);
  EXPECT_EQ(snapshot.strings[inner.reason], "not symbolised");
  const Frame& generated = snapshot.frames[second.frames[0]];
  EXPECT_EQ(generated.module, 0u);
  EXPECT_EQ(generated.offset, 0x7F0000001234u);
  EXPECT_THAT(snapshot.strings[generated.reason], HasSubstr("generated code"));
  EXPECT_EQ(first.frames[1], second.frames[1]) << "equal frames are interned";
}

TEST(JournalReaderTest, EventsCanBeLeftOut) {
  const Snapshot snapshot = Read(DistinctJournal(), {.keep_events = false});
  EXPECT_EQ(snapshot.events.size(), 0u);
  EXPECT_EQ(snapshot.live.size(), 2u);
  EXPECT_EQ(snapshot.stacks.size(), 2u) << "only the stack of the live block";
}

TEST(JournalReaderTest, TheDriversFileTellsWhetherItIsSimulated) {
  JournalBuilder builder;
  EXPECT_TRUE(Read(builder).simulated);
  const auto configure = [&](const char* text) {
    std::fill_n(builder.header().configuration, sizeof(builder.header().configuration), '\0');
    std::copy_n(text, std::string(text).size(), builder.header().configuration);
  };
  configure("driver=/usr/lib/simcuda/libcuda.so.1\nCUHEAP_DIR=/tmp\n");
  EXPECT_TRUE(Read(builder).simulated);
  configure("driver=/usr/lib/libcuda.so.1\n");
  EXPECT_FALSE(Read(builder).simulated);
  configure("");
  EXPECT_FALSE(Read(builder).simulated);
  const std::uint64_t modules = builder.AddExtent(ExtentKind::kModules, 4096);
  auto* module = builder.At<journal::ModuleRecord>(modules);
  const std::string path = "/usr/lib/simcuda/libcuda.so.1";
  std::copy(path.begin(), path.end(), module->path);
  module->path_bytes = static_cast<std::uint32_t>(path.size());
  module->commit = 1;
  EXPECT_TRUE(Read(builder).simulated);
}

TEST(JournalReaderTest, AChainGoesOnOverExtentsAndLostEventsAreCounted) {
  JournalBuilder builder;
  builder.header().counters[static_cast<int>(journal::Counter::kEventsOverwritten)] = 0;
  builder.header().counters[static_cast<int>(journal::Counter::kEventsDropped)] = 0;
  builder.AddEvents(1, 101, {{EventType::kAllocate, 1'000'003}, {EventType::kFree, 1'000'004}});
  builder.AddEvents(1, 99, {{EventType::kAllocate, 1'000'001}, {EventType::kFree, 1'000'002}});
  Snapshot snapshot = Read(builder);
  EXPECT_THAT(snapshot.events.time_ns, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(snapshot.completeness.events_overwritten, 98u);
  EXPECT_FALSE(snapshot.completeness.events_complete());
}

TEST(JournalReaderTest, EventsThatWereNotCommittedDoNotExist) {
  JournalBuilder builder;
  const std::uint64_t extent = builder.AddEvents(
      1, 1, {{EventType::kAllocate, 1'000'001}, {EventType::kFree, 1'000'002}, {EventType::kFree, 1'000'003}});
  auto* events = builder.At<journal::Event>(extent + sizeof(journal::EventExtentHeader));
  events[1].commit = 0;    // being written
  events[2].commit = 777;  // left over from another use of the extent
  EXPECT_EQ(Read(builder).events.size(), 1u);
  builder.At<journal::EventExtentHeader>(extent)->first_sequence = 0;  // being recycled
  EXPECT_EQ(Read(builder).events.size(), 0u);
}

TEST(JournalReaderTest, ASlotInMotionIsNotedAndNotCounted) {
  JournalBuilder builder = DistinctJournal();
  for (std::uint32_t i = 0; i < builder.header().extent_count; ++i) {
    const journal::Extent& extent = builder.header().extents[i];
    if (extent.kind != static_cast<std::uint32_t>(ExtentKind::kLive)) continue;
    builder.At<journal::LiveSlot>(extent.offset)->sequence = 3;
  }
  const Snapshot snapshot = Read(builder);
  EXPECT_EQ(snapshot.live.size(), 1u);
  EXPECT_THAT(NoteCodes(snapshot), testing::Contains("journal_in_motion"));
}

TEST(JournalReaderTest, TheEndIsKilledWhenTheProcessIsGone) {
  JournalBuilder builder = DistinctJournal();
  builder.header().state = static_cast<std::uint32_t>(journal::ProcessState::kRecording);
  builder.header().end_monotonic_ns = 0;
  const Snapshot snapshot = Read(builder);
  EXPECT_EQ(snapshot.completeness.end, "killed");
  EXPECT_EQ(snapshot.process.duration_ns, 999) << "the last thing that is known to have happened";
  builder.header().state = static_cast<std::uint32_t>(journal::ProcessState::kExecuted);
  EXPECT_EQ(Read(builder).completeness.end, "executed");
}

// An exec that the recorder does not see (a raw system call) looks like a kill, but for the next image's journal.
TEST(JournalReaderTest, TheEndIsExecutedWhenTheNextImageLeftAJournal) {
  JournalBuilder builder = DistinctJournal();
  builder.header().state = static_cast<std::uint32_t>(journal::ProcessState::kRecording);
  builder.header().end_monotonic_ns = 0;
  char host[sizeof(builder.header().host)] = {};
  gethostname(host, sizeof(host) - 1);
  std::memcpy(builder.header().host, host, sizeof(host));  // of another one it is not known what still runs
  const std::string stem = testing::TempDir() + "reader-" + std::to_string(getpid()) + "-77";
  const std::string first = stem + ".journal", second = stem + ".1.journal", third = stem + ".2.journal";
  const auto end_of = [](const std::string& path) { return ReadJournal(path)->completeness.end; };
  builder.Write(first);
  EXPECT_EQ(end_of(first), "killed");
  builder.Write(second);
  EXPECT_EQ(end_of(first), "executed");
  EXPECT_EQ(end_of(second), "killed");
  builder.Write(third);
  EXPECT_EQ(end_of(second), "executed");
  for (const std::string& path : {first, second, third}) unlink(path.c_str());
}

TEST(JournalReaderTest, SameJournalSameSnapshot) {
  const Snapshot a = Read(DistinctJournal()), b = Read(DistinctJournal());
  EXPECT_EQ(a.strings, b.strings);
  EXPECT_EQ(a.frames, b.frames);
  EXPECT_EQ(a.events.id, b.events.id);
}

TEST(JournalReaderTest, WhatIsNoJournalIsOneClearError) {
  const std::byte none{};
  EXPECT_THAT(std::string(ReadJournalFromMemory({&none, 0}, "x").status().message()), HasSubstr("empty"));
  JournalBuilder builder;
  builder.header().magic = 0;
  EXPECT_THAT(std::string(Error(builder).message()), HasSubstr("test.journal: byte 0: not a journal"));
  builder.header().magic = 0x1234;
  EXPECT_EQ(Error(builder).code(), absl::StatusCode::kInvalidArgument);
  builder.header().magic = journal::kMagic;
  builder.header().version = journal::kVersion + 1;
  EXPECT_EQ(Error(builder).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Error(builder).message()), HasSubstr("newer cuheap: update"));
  builder.header().version = journal::kVersion;
  builder.header().header_bytes += 1;
  EXPECT_THAT(std::string(Error(builder).message()), HasSubstr("header is damaged"));
  builder.header().header_bytes -= 1;
  builder.header().state = static_cast<std::uint32_t>(journal::ProcessState::kStarting);
  EXPECT_THAT(std::string(Error(builder).message()), HasSubstr("before it had begun to record"));
  builder.header().state = static_cast<std::uint32_t>(journal::ProcessState::kRecording);
  EXPECT_TRUE(Error(builder).ok());
  EXPECT_THAT(std::string(ReadJournalFromMemory(builder.bytes().first(5000), "x").status().message()),
              HasSubstr("cut off"));
}

TEST(JournalReaderTest, FilesThatCannotBeReadAreErrorsWithTheirName) {
  std::string pattern = (fs::temp_directory_path() / "journal XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const fs::path folder = pattern;
  EXPECT_EQ(ReadJournal((folder / "none").string()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadJournal(folder.string()).status().message()), HasSubstr("directory"));
  const std::string path = (folder / "a.journal").string();
  DistinctJournal().Write(path);
  const auto snapshot = ReadJournal(path);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  EXPECT_EQ(snapshot->events.size(), 4u);
  if (geteuid() != 0) {
    fs::permissions(path, fs::perms::none);
    EXPECT_EQ(ReadJournal(path).status().code(), absl::StatusCode::kPermissionDenied);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace cuheap::analysis
