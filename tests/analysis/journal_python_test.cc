// Python frames of journals that are made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/journal_reader.h"
#include "analysis/journal_stacks.h"
#include "analysis/snapshot_check.h"
#include "tests/analysis/journal_builder.h"

namespace cuheap::analysis {
namespace {

using journal::MakePythonWord;
using journal::NoPython;
using journal::PythonCodeHeader;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kTable311("\xF0\x02\0\0\0\xD8\x04\x0A", 8);  // line +1 for a unit, then +1 for another

struct Code {
  std::string file = "/srv/train.py", name = "Model.forward", table = std::string(kTable311);
  std::uint32_t first_line = 10;
  std::uint16_t version = 0x030B, cut = 0;
};

class PythonJournal {
 public:
  // One extent of code objects, numbered from `number`; offsets of the records.
  std::vector<std::uint64_t> AddCodes(const std::vector<Code>& codes, std::uint32_t number = 1) {
    std::uint64_t at = builder_.AddExtent(journal::ExtentKind::kPythonCode, 4096);
    std::vector<std::uint64_t> offsets;
    for (const Code& code : codes) {
      auto* header = builder_.At<PythonCodeHeader>(at);
      const std::string text = code.file + code.name + code.table;
      header->first_line = code.first_line;
      header->python_version = code.version;
      header->cut = code.cut;
      header->filename_bytes = static_cast<std::uint32_t>(code.file.size());
      header->name_bytes = static_cast<std::uint32_t>(code.name.size());
      header->line_table_bytes = static_cast<std::uint32_t>(code.table.size());
      header->bytes = static_cast<std::uint32_t>((sizeof(PythonCodeHeader) + text.size() + 7) / 8 * 8);
      std::memcpy(builder_.At<char>(at + sizeof(PythonCodeHeader)), text.data(), text.size());
      header->commit = number++;
      offsets.push_back(at);
      at += header->bytes;
    }
    return offsets;
  }
  void Allocate(const std::vector<std::uint64_t>& words, std::uint16_t flags = 0) {
    EventValues event;
    event.id = ++allocations_;
    event.time_ns = allocations_;
    event.stack = builder_.AddStack(words, flags);
    events_.push_back(event);
  }
  Snapshot Read() {
    builder_.AddEvents(1, 1, events_);
    auto snapshot = ReadJournalFromMemory(builder_.bytes(), "test.journal");
    EXPECT_TRUE(snapshot.ok()) << snapshot.status().message();
    EXPECT_FALSE(FindInconsistency(*snapshot).has_value());
    return *std::move(snapshot);
  }
  JournalBuilder& builder() { return builder_; }

 private:
  JournalBuilder builder_;
  std::vector<EventValues> events_;
  std::uint64_t allocations_ = 0;
};

const Stack& StackOf(const Snapshot& snapshot, std::size_t event) {
  return snapshot.stacks.at(snapshot.events.stack.at(event));
}

// "name file:line reason" of the frames, "native" for others.
std::vector<std::string> Frames(const Snapshot& snapshot, std::size_t event) {
  std::vector<std::string> frames;
  for (const std::uint32_t index : StackOf(snapshot, event).frames) {
    const Frame& frame = snapshot.frames.at(index);
    if (frame.kind != FrameKind::kPython) {
      frames.emplace_back("native");
      continue;
    }
    const auto text = [&](std::uint32_t string) { return snapshot.strings.at(string); };
    frames.push_back(text(frame.function) + " " + text(frame.file) + ":" + std::to_string(frame.line) + " " +
                     text(frame.reason));
  }
  return frames;
}

std::vector<std::string> Damage(const Snapshot& snapshot) {
  std::vector<std::string> texts;
  for (const Note& note : snapshot.notes) {
    if (note.code == "journal_damaged") texts.push_back(note.text);
  }
  return texts;
}

TEST(JournalPythonTest, FramesStandInTheOrderOfTheRecord) {
  PythonJournal journal;
  journal.AddCodes({{}, {.file = "/srv/größe.py", .name = "main", .first_line = 50}});
  journal.AddCodes({{.name = "later", .first_line = 90}}, 3);
  journal.Allocate(
      {0x1000, MakePythonWord(1, false, 0), MakePythonWord(2, true, 1), 0x2000, MakePythonWord(3, true, 0)});
  const Snapshot snapshot = journal.Read();
  EXPECT_THAT(Frames(snapshot, 0), ElementsAre("native", "Model.forward /srv/train.py:11 ", "main /srv/größe.py:52 ",
                                               "native", "later /srv/train.py:91 "));
  EXPECT_THAT(Damage(snapshot), IsEmpty());
}

TEST(JournalPythonTest, WhatIsMissingHasAReason) {
  PythonJournal journal;
  journal.AddCodes({{.cut = journal::kPythonFilenameCut},
                    {.table = "", .cut = journal::kPythonLineTableCut},
                    {.name = ""},
                    {.version = 0x0410}});
  journal.Allocate({MakePythonWord(0, false, 0), MakePythonWord(99, false, 0), MakePythonWord(1, false, 0),
                    MakePythonWord(2, false, 0), MakePythonWord(3, false, journal::kNoPythonInstruction),
                    MakePythonWord(4, false, 0), MakePythonWord(3, false, 1000)});
  const std::string no_line = kPythonNoLine, lost = kPythonCodeLost;
  EXPECT_THAT(Frames(journal.Read(), 0),
              ElementsAre(" :0 " + lost, " :0 " + lost, std::string("Model.forward :11 ") + kPythonFileCut,
                          "Model.forward /srv/train.py:0 " + no_line, "<unnamed> /srv/train.py:0 " + no_line,
                          "Model.forward /srv/train.py:0 " + no_line, "<unnamed> /srv/train.py:0 " + no_line));
}

TEST(JournalPythonTest, StacksWithoutPythonSayWhy) {
  PythonJournal journal;
  for (const NoPython why :
       {NoPython::kNotAsked, NoPython::kUnknownThread, NoPython::kNoFrame, NoPython::kNotInitialized}) {
    journal.Allocate({0x1000}, static_cast<std::uint16_t>(static_cast<unsigned>(why) << journal::kNoPythonShift));
  }
  const Snapshot snapshot = journal.Read();
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < 4; ++i) reasons.push_back(snapshot.strings[StackOf(snapshot, i).no_python]);
  EXPECT_THAT(reasons, ElementsAre("", kPythonUnknownThread, kPythonIdleThread, kPythonNotInitialized));
}

TEST(JournalPythonTest, FlagsOfTheWalkAreKept) {
  PythonJournal journal;
  journal.AddCodes({{}});
  const std::uint64_t word = MakePythonWord(1, true, 0);
  journal.Allocate({word}, journal::kStackPythonUnplaced);
  journal.Allocate({word}, journal::kStackPythonTruncated);
  journal.Allocate({word}, journal::kStackPythonUnreadable);
  const Snapshot snapshot = journal.Read();
  EXPECT_TRUE(StackOf(snapshot, 0).python_unplaced);
  EXPECT_FALSE(StackOf(snapshot, 0).truncated || StackOf(snapshot, 0).unwind_failed);
  EXPECT_TRUE(StackOf(snapshot, 1).truncated);
  EXPECT_TRUE(StackOf(snapshot, 2).unwind_failed);
}

// What a record claims about itself is not believed; the records before it are kept.
TEST(JournalPythonTest, DamagedRecordsEndTheirExtentOnly) {
  const auto damages = std::vector<void (*)(PythonCodeHeader&)>{
      [](PythonCodeHeader& header) { header.bytes = 0; },
      [](PythonCodeHeader& header) { header.bytes = 0xFFFFFFF8; },
      [](PythonCodeHeader& header) { header.bytes += 4; },
      [](PythonCodeHeader& header) { header.filename_bytes = 5000; },
      [](PythonCodeHeader& header) { header.name_bytes = 0xFFFFFFFF; },
      [](PythonCodeHeader& header) { header.line_table_bytes = 1000; },
  };
  for (std::size_t i = 0; i < damages.size(); ++i) {
    PythonJournal journal;
    const auto offsets = journal.AddCodes({{.name = "first"}, {.name = "second"}});
    journal.AddCodes({{.name = "third"}}, 3);
    damages[i](*journal.builder().At<PythonCodeHeader>(offsets[1]));
    journal.Allocate({MakePythonWord(1, true, 0), MakePythonWord(2, true, 0), MakePythonWord(3, true, 0)});
    const Snapshot snapshot = journal.Read();
    EXPECT_THAT(Frames(snapshot, 0), ElementsAre("first /srv/train.py:11 ", std::string(" :0 ") + kPythonCodeLost,
                                                 "third /srv/train.py:11 "))
        << i;
    EXPECT_THAT(Damage(snapshot), ElementsAre(HasSubstr("Python code: 1 extents"))) << i;
  }
}

TEST(JournalPythonTest, CodeWithoutItsCommitIsNotThere) {
  PythonJournal journal;
  const auto offsets = journal.AddCodes({{.name = "first"}, {.name = "half written"}});
  journal.builder().At<PythonCodeHeader>(offsets[1])->commit = 0;
  journal.Allocate({MakePythonWord(1, true, 0), MakePythonWord(2, true, 0)});
  const Snapshot snapshot = journal.Read();
  EXPECT_THAT(Frames(snapshot, 0), ElementsAre("first /srv/train.py:11 ", std::string(" :0 ") + kPythonCodeLost));
  EXPECT_THAT(Damage(snapshot), IsEmpty());
}

}  // namespace
}  // namespace cuheap::analysis
