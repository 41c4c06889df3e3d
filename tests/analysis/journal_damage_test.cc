// Damaged journals: whatever the bytes are, the reader ends, keeps what is whole, says what was lost, and its result is
// consistent. Run under the sanitizers, this is also the proof that it reads nothing outside of the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "analysis/journal_reader.h"
#include "analysis/snapshot_check.h"
#include "analysis/snapshot_loader.h"
#include "analysis/snapshot_writer.h"
#include "tests/analysis/journal_builder.h"

namespace cuheap::analysis {
namespace {

using journal::ExtentKind;
using testing::Contains;
using testing::HasSubstr;

// Reads, and checks what must hold of every result.
absl::StatusOr<Snapshot> ReadAny(std::span<const std::byte> bytes, const std::string& what) {
  absl::StatusOr<Snapshot> snapshot = ReadJournalFromMemory(bytes, "damaged.journal");
  if (!snapshot.ok()) {
    EXPECT_THAT(std::string(snapshot.status().message()), HasSubstr("damaged.journal: ")) << what;
    return snapshot;
  }
  const auto wrong = FindInconsistency(*snapshot);
  EXPECT_FALSE(wrong) << what << ": " << wrong->place << ": " << wrong->problem;
  const auto again = LoadSnapshotFromMemory(SnapshotToJson(*snapshot), "again");
  EXPECT_TRUE(again.ok()) << what << ": " << again.status().message();
  return snapshot;
}

std::vector<std::string> Damage(const Snapshot& snapshot) {
  std::vector<std::string> texts;
  for (const Note& note : snapshot.notes) {
    if (note.code == "journal_damaged") texts.push_back(note.text);
  }
  return texts;
}

std::size_t IndexOf(JournalBuilder& builder, ExtentKind kind) {
  for (std::size_t i = 0; i < builder.header().extent_count; ++i) {
    if (builder.header().extents[i].kind == static_cast<std::uint32_t>(kind)) return i;
  }
  ADD_FAILURE() << "no such extent";
  return 0;
}

TEST(JournalDamageTest, EveryFlippedByteIsSurvived) {
  JournalBuilder builder = DistinctJournal();
  const std::span<std::byte> bytes = builder.mutable_bytes();
  std::mt19937_64 random(1);
  const auto try_at = [&](std::size_t at, std::byte flip) {
    bytes[at] ^= flip;
    (void)ReadAny(bytes, "byte " + std::to_string(at));
    bytes[at] ^= flip;
  };
  // The scalars at the beginning of the header, the directory's first entries, and all records.
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < 128; ++at) places.push_back(at);
  const std::size_t directory = reinterpret_cast<std::byte*>(builder.header().extents) - bytes.data();
  for (std::size_t at = 0; at < 8 * sizeof(journal::Extent); ++at) places.push_back(directory + at);
  for (std::size_t at = journal::kHeaderBytes; at < bytes.size(); at += 1 + random() % 64) places.push_back(at);
  for (const std::size_t at : places) {
    try_at(at, std::byte{0x80});
    try_at(at, static_cast<std::byte>(1 + random() % 255));
  }
}

TEST(JournalDamageTest, ManyRandomWordsAreSurvived) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    JournalBuilder builder = DistinctJournal();
    const std::span<std::byte> bytes = builder.mutable_bytes();
    for (int change = 0; change < 40; ++change) {
      const std::size_t at = 128 + random() % (bytes.size() - 136);
      const std::uint64_t value = random() >> (random() % 64);
      std::memcpy(&bytes[at], &value, sizeof(value));
    }
    (void)ReadAny(bytes, "round " + std::to_string(round));
  }
}

TEST(JournalDamageTest, EveryTruncationKeepsWhatIsThere) {
  const JournalBuilder builder = DistinctJournal();
  const std::size_t whole = builder.bytes().size();
  for (std::size_t size = 0; size < whole; size += size < journal::kHeaderBytes ? 3001 : 509) {
    const auto snapshot = ReadAny(builder.bytes().first(size), "size " + std::to_string(size));
    EXPECT_EQ(snapshot.ok(), size >= sizeof(journal::FileHeader)) << size;
    if (snapshot.ok()) {
      EXPECT_THAT(Damage(*snapshot), testing::Not(testing::IsEmpty())) << size;
    }
  }
}

TEST(JournalDamageTest, BytesBehindTheEndChangeNothing) {
  const JournalBuilder builder = DistinctJournal();
  std::vector<std::byte> longer(builder.bytes().begin(), builder.bytes().end());
  longer.resize(longer.size() + 100'000, std::byte{0xFF});
  const auto snapshot = ReadAny(longer, "extended");
  ASSERT_TRUE(snapshot.ok());
  EXPECT_THAT(Damage(*snapshot), testing::IsEmpty());
  EXPECT_EQ(snapshot->events.size(), 4u);
}

TEST(JournalDamageTest, OneLostExtentLeavesTheOthers) {
  for (const ExtentKind kind : {ExtentKind::kEvents, ExtentKind::kLive, ExtentKind::kStacks, ExtentKind::kModules,
                                ExtentKind::kThreads, ExtentKind::kNotes}) {
    JournalBuilder builder = DistinctJournal();
    journal::Extent& extent = builder.header().extents[IndexOf(builder, kind)];
    extent.offset = std::uint64_t{1} << 60;
    const auto snapshot = ReadAny(builder.bytes(), "kind " + std::to_string(static_cast<int>(kind)));
    ASSERT_TRUE(snapshot.ok());
    EXPECT_THAT(Damage(*snapshot), Contains(HasSubstr("behind the end of the file")));
    EXPECT_EQ(snapshot->events.size(), kind == ExtentKind::kEvents ? 2u : 4u);
    EXPECT_EQ(snapshot->live.size(), kind == ExtentKind::kLive ? 0u : 2u);
    EXPECT_EQ(snapshot->modules.size(), kind == ExtentKind::kModules ? 0u : 2u);
    EXPECT_EQ(snapshot->threads.size(), kind == ExtentKind::kThreads ? 0u : 2u);
  }
}

TEST(JournalDamageTest, AnExtentThatClaimsTheRestOfTheFileHidesNoOther) {
  JournalBuilder builder = DistinctJournal();
  journal::Extent& extent = builder.header().extents[IndexOf(builder, ExtentKind::kStacks)];
  extent.bytes = UINT64_MAX;
  const auto snapshot = ReadAny(builder.bytes(), "huge");
  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(snapshot->events.size(), 4u);
  EXPECT_EQ(snapshot->live.size(), 2u);
  EXPECT_EQ(snapshot->modules.size(), 2u);
  EXPECT_THAT(Damage(*snapshot), Contains(HasSubstr("shares bytes")));
}

TEST(JournalDamageTest, ADirectoryThatNamesOneExtentThousandsOfTimesIsReadOnce) {
  JournalBuilder builder = DistinctJournal();
  const journal::Extent events = builder.header().extents[IndexOf(builder, ExtentKind::kEvents)];
  for (std::uint32_t i = builder.header().extent_count; i < journal::kMaxExtents; ++i)
    builder.header().extents[i] = events;
  builder.header().extent_count = UINT32_MAX;
  const auto snapshot = ReadAny(builder.bytes(), "repeated");
  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(snapshot->events.size(), 4u);
  EXPECT_LE(Damage(*snapshot).size(), 64u) << "the damage itself is told in bounded space";
}

TEST(JournalDamageTest, AStackThatCannotBeReadSaysSo) {
  JournalBuilder builder = DistinctJournal();
  const journal::Extent& stacks = builder.header().extents[IndexOf(builder, ExtentKind::kStacks)];
  builder.At<journal::StackHeader>(stacks.offset + 8)->commit = 0;
  const auto snapshot = ReadAny(builder.bytes(), "stack");
  ASSERT_TRUE(snapshot.ok());
  const Stack& lost = snapshot->stacks.at(snapshot->events.stack.at(0));
  ASSERT_EQ(lost.frames.size(), 1u);
  EXPECT_THAT(snapshot->strings.at(snapshot->frames.at(lost.frames[0]).reason), HasSubstr("could not be read"));
  EXPECT_THAT(Damage(*snapshot), Contains(HasSubstr("stacks: 1 could not be read")));
  EXPECT_EQ(snapshot->stacks.at(snapshot->events.stack.at(1)).frames.size(), 2u) << "the other stack is whole";
}

TEST(JournalDamageTest, AStackDeeperThanItsExtentIsNotRead) {
  JournalBuilder builder = DistinctJournal();
  const journal::Extent& stacks = builder.header().extents[IndexOf(builder, ExtentKind::kStacks)];
  builder.At<journal::StackHeader>(stacks.offset + 8)->depth = 0xFFFF;
  const auto snapshot = ReadAny(builder.bytes(), "deep stack");
  ASSERT_TRUE(snapshot.ok());
  EXPECT_THAT(Damage(*snapshot), Contains(HasSubstr("stacks: 1 could not be read")));
}

TEST(JournalDamageTest, ThreadsThatAreNotThereBecomeUnknown) {
  JournalBuilder builder = DistinctJournal();
  const journal::Extent& threads = builder.header().extents[IndexOf(builder, ExtentKind::kThreads)];
  (builder.At<journal::ThreadRecord>(threads.offset) + 1)->commit = 0xFFFFFFFF;
  const auto snapshot = ReadAny(builder.bytes(), "thread");
  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(snapshot->threads.size(), 1u);
  EXPECT_THAT(snapshot->events.thread, testing::ElementsAre(1u, 0u, 0u, 1u));
}

}  // namespace
}  // namespace cuheap::analysis
