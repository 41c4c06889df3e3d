// Fuzzes the journal reader: whatever a journal's bytes are, reading ends, without damage, in an error or in a snapshot
// that can be written and loaded again.
//
// A real journal's header alone has 400 KB, mostly empty: random bytes would never get past it. So the input is a list
// of changes to a small, whole journal that is built here:
//
//   byte 0       how much of the file is kept: 255 = all, else that many 256ths
//   then, each   region (1 byte), offset in it (2 bytes, little endian, times the region's step), length (1 byte, at
//                most 32), the bytes to put there
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "analysis/journal_reader.h"
#include "analysis/snapshot_loader.h"
#include "analysis/snapshot_writer.h"
#include "interpose/journal/format.h"

namespace {

namespace journal = cuheap::journal;

constexpr std::uint64_t kStepBytes = 4096;
constexpr std::uint32_t kExtents = 7;

// Where extent i lies in the built journal: one page each, after the header.
constexpr std::uint64_t ExtentOffset(std::uint32_t i) { return journal::kHeaderBytes + i * kStepBytes; }

template <class Record>
Record* At(std::vector<std::uint64_t>& words, std::uint64_t offset) {
  return reinterpret_cast<Record*>(reinterpret_cast<std::byte*>(words.data()) + offset);
}

void FillHeader(journal::FileHeader* header) {
  header->version = journal::kVersion;
  header->header_bytes = journal::kHeaderBytes;
  header->state = static_cast<std::uint32_t>(journal::ProcessState::kEnded);
  header->max_devices = journal::kMaxDevices;
  header->max_extents = journal::kMaxExtents;
  header->pid = 4711;
  header->pointer_bytes = 8;
  header->start_monotonic_ns = 1000;
  header->end_monotonic_ns = 900000;
  std::strcpy(header->executable, "/usr/bin/program");
  std::memcpy(header->command_line, "program\0x", 9);
  header->command_line_bytes = 9;
  std::strcpy(header->configuration, "pack=1\n");
  header->devices[0].present = 1;
  header->devices[0].total_bytes = std::uint64_t{80} << 30;
  std::strcpy(header->devices[0].name, "Fuzzed");
  const journal::ExtentKind kinds[kExtents] = {journal::ExtentKind::kEvents,    journal::ExtentKind::kLive,
                                               journal::ExtentKind::kStacks,    journal::ExtentKind::kModules,
                                               journal::ExtentKind::kThreads,   journal::ExtentKind::kNotes,
                                               journal::ExtentKind::kPythonCode};
  for (std::uint32_t i = 0; i < kExtents; ++i) {
    header->extents[i] = {static_cast<std::uint32_t>(kinds[i]), 1, ExtentOffset(i), kStepBytes};
  }
  header->extent_count = kExtents;
  header->magic = journal::kMagic;
}

void FillEvents(std::vector<std::uint64_t>& words) {
  const std::uint64_t extent = ExtentOffset(0);
  auto* chain = At<journal::EventExtentHeader>(words, extent);
  chain->chain = 1;
  auto* events = At<journal::Event>(words, extent + sizeof(journal::EventExtentHeader));
  for (std::uint32_t i = 0; i < 8; ++i) {
    journal::Event& event = events[i];
    event.time_ns = 2000 + i * 100;
    event.address = 0x700000000000 + (i / 2) * 0x200000;
    event.bytes = 1000 + i;
    event.allocation_id = journal::MakeAllocationId(1, i / 2 + 1);
    event.stack = 1;
    event.thread = 1;
    event.type = static_cast<std::uint8_t>(i % 2 == 0 ? journal::EventType::kAllocate : journal::EventType::kFree);
    event.kind = static_cast<std::uint8_t>(journal::AllocationKind::kDevice);
    event.commit = i + 1;
  }
  chain->first_sequence = 1;
}

void FillTables(std::vector<std::uint64_t>& words) {
  auto* slot = At<journal::LiveSlot>(words, ExtentOffset(1));
  slot->state = 1;
  slot->allocation_id = journal::MakeAllocationId(1, 9);
  slot->address = 0x700010000000;
  slot->bytes = 4096;
  slot->reserved_bytes = 4096;
  slot->stack = 1;
  slot->thread = 1;
  slot->kind = static_cast<std::uint8_t>(journal::AllocationKind::kDevice);
  slot->sequence = 2;

  auto* stack = At<journal::StackHeader>(words, ExtentOffset(2) + 8);
  stack->depth = 4;
  auto* frames = At<std::uint64_t>(words, ExtentOffset(2) + 8 + sizeof(journal::StackHeader));
  frames[0] = (std::uint64_t{1} << journal::kModuleShift) | 0x1234;
  frames[1] = 0x401000;
  frames[2] = journal::MakePythonWord(1, false, 3);
  frames[3] = journal::MakePythonWord(2, true, 1);
  stack->commit = journal::kStackCommitted;

  auto* module = At<journal::ModuleRecord>(words, ExtentOffset(3));
  std::strcpy(module->path, "/nowhere/libmodule.so");
  module->path_bytes = static_cast<std::uint32_t>(std::strlen(module->path));
  module->begin = 0x10000;
  module->end = 0x90000;
  module->build_id_bytes = 20;
  module->commit = 1;

  auto* thread = At<journal::ThreadRecord>(words, ExtentOffset(4));
  thread->tid = 4711;
  std::strcpy(thread->name, "main");
  thread->commit = 1;

  auto* note = At<journal::NoteRecord>(words, ExtentOffset(5));
  note->code = static_cast<std::uint16_t>(journal::NoteCode::kSelfCheck);
  std::strcpy(note->text, "text");
  note->text_bytes = 4;
  note->commit = 1;
}

// Two code objects: one of 3.12 and one of 3.9, whose line tables differ.
void FillPythonCode(std::vector<std::uint64_t>& words) {
  const auto put = [&](std::uint64_t offset, std::uint32_t number, std::uint16_t version, const std::string& table) {
    auto* code = At<journal::PythonCodeHeader>(words, offset);
    const std::string text = "/srv/train.py" + std::string("Model.forward") + table;
    code->first_line = 7;
    code->python_version = version;
    code->filename_bytes = 13;
    code->name_bytes = 13;
    code->line_table_bytes = static_cast<std::uint32_t>(table.size());
    code->bytes = static_cast<std::uint32_t>((sizeof(journal::PythonCodeHeader) + text.size() + 7) / 8 * 8);
    std::memcpy(static_cast<void*>(code + 1), text.data(), text.size());
    code->commit = number;
    return offset + code->bytes;
  };
  const std::uint64_t next = put(ExtentOffset(6), 1, 0x030C, std::string("\xF0\x02\0\0\0\xD8\x04\x0A", 8));
  put(next, 2, 0x0309, std::string("\x00\x01\x02\x01", 4));
}

std::vector<std::uint64_t> WholeJournal() {
  std::vector<std::uint64_t> words(ExtentOffset(kExtents) / sizeof(std::uint64_t));
  FillHeader(At<journal::FileHeader>(words, 0));
  FillEvents(words);
  FillTables(words);
  FillPythonCode(words);
  return words;
}

// Regions 0 to 5 and 9 are the extents, 6 the first of the extent list, 7 the header's own fields, 8 its devices.
std::uint64_t PlaceOf(unsigned region, std::uint64_t offset) {
  switch (region % 10) {
    case 6:
      return offsetof(journal::FileHeader, extents) + offset % (sizeof(journal::Extent) * (kExtents + 2));
    case 7:
      return offset % offsetof(journal::FileHeader, devices);
    case 8:
      return offsetof(journal::FileHeader, devices) + offset % (2 * sizeof(journal::DeviceRecord));
    case 9:
      return ExtentOffset(6) + offset % kStepBytes;
    default:
      return ExtentOffset(region % 10) + offset % kStepBytes;
  }
}

std::size_t ApplyChanges(std::span<const std::uint8_t> input, std::span<std::byte> file) {
  if (input.empty()) return file.size();
  const std::size_t kept = input[0] == 255 ? file.size() : file.size() * input[0] / 256;
  for (std::size_t at = 1; at + 4 < input.size();) {
    const std::uint64_t offset = input[at + 1] + std::uint64_t{256} * input[at + 2];
    const std::uint64_t place = PlaceOf(input[at], offset);
    const std::size_t length = std::min<std::size_t>({input[at + 3] % 33u, input.size() - at - 4, file.size() - place});
    std::memcpy(file.data() + place, input.data() + at + 4, length);
    at += 4 + length;
  }
  return kept;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::uint64_t> whole = WholeJournal();
  std::vector<std::uint64_t> words = whole;
  const auto file = std::as_writable_bytes(std::span(words));
  const std::size_t kept = ApplyChanges({data, size}, file);

  const auto snapshot = cuheap::analysis::ReadJournalFromMemory(file.first(kept), "fuzzed");
  if (!snapshot.ok()) return 0;
  const std::string text = cuheap::analysis::SnapshotToJson(*snapshot);
  const auto again = cuheap::analysis::LoadSnapshotFromMemory(text, "fuzzed");
  if (!again.ok() || cuheap::analysis::SnapshotToJson(*again) != text) {
    const std::string why = again.ok() ? "differs after loading" : again.status().ToString();
    std::fprintf(stderr, "a snapshot that was read from a journal cannot be loaded: %s\n", why.c_str());
    std::abort();
  }
  return 0;
}
