#include "tests/analysis/journal_builder.h"

#include <algorithm>
#include <cstring>
#include <fstream>

namespace cuheap::analysis {
namespace {

using journal::ExtentKind;

constexpr std::uint64_t kStackExtentBytes = 4096;

void Put(const EventValues& values, std::uint64_t sequence, journal::Event* event) {
  event->time_ns = values.time_ns;
  event->address = values.address;
  event->bytes = values.bytes;
  event->allocation_id = values.id;
  event->stream = values.stream;
  event->stack = values.stack;
  event->thread = values.thread;
  event->type = static_cast<std::uint8_t>(values.type);
  event->kind = static_cast<std::uint8_t>(values.kind);
  event->device = values.device;
  event->flags = values.flags;
  event->result = values.result;
  event->commit = sequence;
}

void FillProcess(journal::FileHeader& header) {
  header.state = static_cast<std::uint32_t>(journal::ProcessState::kEnded);
  header.pid = 0x7FFFFFFF;  // no process has it
  header.parent_pid = 4710;
  header.start_ticks = 99;
  header.start_realtime_ns = 1'700'000'000'000'000'001;
  header.start_monotonic_ns = 1'000'000;
  header.end_monotonic_ns = 1'900'000;
  std::strcpy(header.host, "host-a");
  std::strcpy(header.executable, "/opt/train");
  constexpr char kCommandLine[] = "train\0--name\0\0last";
  std::memcpy(header.command_line, kCommandLine, sizeof(kCommandLine) - 1);
  header.command_line_bytes = sizeof(kCommandLine) - 1;
  header.command_line_cut = 1;
  std::strcpy(header.working_directory, "/srv");
  std::strcpy(header.configuration, "driver=simulated\nempty=\nnot a pair\npath=a=b\n");
  std::strcpy(header.launcher_facts, "RANK=7\nWORLD_SIZE=8");
  for (std::size_t i = 0; i < static_cast<std::size_t>(journal::Counter::kCount); ++i) header.counters[i] = 1000 + i;
}

void FillDevice(journal::DeviceRecord& device) {
  device.compute_capability = 90;
  device.total_bytes = 101;
  std::memset(device.name, 'N', sizeof(device.name));  // fills the field, without NUL
  for (int i = 0; i < 16; ++i) device.uuid[i] = static_cast<char>(0xA0 + i);
  device.live_bytes = 102;
  device.live_count = 103;
  device.peak_bytes = 104;
  device.peak_time_ns = 1'000'105;
  device.reserved_bytes = 106;
  device.reserved_peak_bytes = 107;
  device.quarantined_bytes = 108;
  device.driver_free_at_start = 109;
  device.present = 1;
}

void FillSlot(journal::LiveSlot& slot, std::uint64_t n, journal::AllocationKind kind, std::uint16_t flags) {
  slot.state = 1;
  slot.allocation_id = journal::MakeAllocationId(1, n);
  slot.address = 0xA000 - n * 0x100;  // later slots lie lower
  slot.bytes = 0xB00 + n;
  slot.reserved_bytes = 0xC00 + n;
  slot.time_ns = 1'000'000 + n;
  slot.stream = 0xD00 + n;
  slot.context = 0xE00 + n;
  slot.thread = 2;
  slot.kind = static_cast<std::uint8_t>(kind);
  slot.device = static_cast<std::uint16_t>(n);
  slot.flags = flags;
  slot.sequence = 2;
}

void AddTables(JournalBuilder& builder) {
  const std::uint64_t modules = builder.AddExtent(ExtentKind::kModules, 4096);
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto* module = builder.At<journal::ModuleRecord>(modules) + i;
    const std::string path = i == 0 ? "/opt/train" : "/usr/lib/libx.so";
    std::memcpy(module->path, path.data(), path.size());
    module->path_bytes = static_cast<std::uint32_t>(path.size());
    module->path_cut = i;
    module->load_bias = 0x1100 + i;
    module->begin = 0x2200 + i;
    module->end = 0x3300 + i;
    module->build_id_bytes = 2 + i;
    for (unsigned at = 0; at < 3; ++at) module->build_id[at] = static_cast<std::uint8_t>(0x0F + 16 * i + at);
    module->commit = i + 1;
  }
  const std::uint64_t threads = builder.AddExtent(ExtentKind::kThreads, 4096);
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto* thread = builder.At<journal::ThreadRecord>(threads) + i;
    thread->tid = 501 + i;
    thread->first_ns = 1'000'010 + i;
    thread->last_ns = i == 0 ? 0 : 1'000'999;
    std::strcpy(thread->name, i == 0 ? "main" : "fifteen letters");
    thread->commit = i + 1;
  }
  const std::uint64_t notes = builder.AddExtent(ExtentKind::kNotes, 4096);
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto* note = builder.At<journal::NoteRecord>(notes) + i;
    note->code = i == 0 ? static_cast<std::uint16_t>(journal::NoteCode::kForked) : 999;
    std::strcpy(note->text, "text");
    note->text_bytes = 3;  // shorter than what lies there
    note->time_ns = 1'000'020 + i;
    note->a = 31 + i;
    note->b = 41 + i;
    note->commit = i + 1;
  }
}

}  // namespace

JournalBuilder::JournalBuilder() : words_(journal::kHeaderBytes / sizeof(std::uint64_t)) {
  journal::FileHeader& start = header();
  start.version = journal::kVersion;
  start.header_bytes = journal::kHeaderBytes;
  start.max_devices = journal::kMaxDevices;
  start.max_extents = journal::kMaxExtents;
  start.pointer_bytes = 8;
  FillProcess(start);
  start.magic = journal::kMagic;
}

std::uint64_t JournalBuilder::AddExtent(ExtentKind kind, std::uint64_t bytes) {
  bytes = (bytes + journal::kExtentAlignment - 1) / journal::kExtentAlignment * journal::kExtentAlignment;
  const std::uint64_t offset = words_.size() * sizeof(std::uint64_t);
  words_.resize(words_.size() + bytes / sizeof(std::uint64_t));
  const std::uint32_t index = header().extent_count;
  header().extents[index] = {static_cast<std::uint32_t>(kind), 0, offset, bytes};
  header().extent_count = index + 1;
  return offset;
}

std::uint64_t JournalBuilder::AddEvents(std::uint32_t chain, std::uint64_t first_sequence,
                                        const std::vector<EventValues>& events) {
  const std::uint64_t bytes = sizeof(journal::EventExtentHeader) + events.size() * sizeof(journal::Event);
  const std::uint64_t offset = AddExtent(ExtentKind::kEvents, bytes);
  auto* extent = At<journal::EventExtentHeader>(offset);
  extent->chain = chain;
  auto* records = At<journal::Event>(offset + sizeof(journal::EventExtentHeader));
  for (std::size_t i = 0; i < events.size(); ++i) Put(events[i], first_sequence + i, records + i);
  extent->first_sequence = first_sequence;
  return offset;
}

std::uint32_t JournalBuilder::AddStack(const std::vector<std::uint64_t>& words, std::uint16_t flags) {
  const std::uint64_t needed = sizeof(journal::StackHeader) / 8 + words.size();
  if (stack_extent_ == 0) {
    stack_extent_ = AddExtent(ExtentKind::kStacks, kStackExtentBytes);
    stack_words_used_ = 1;  // id 0 means none
  }
  const auto id = static_cast<std::uint32_t>(stack_words_used_);
  auto* stack = At<journal::StackHeader>(stack_extent_ + id * 8);
  stack->depth = static_cast<std::uint16_t>(words.size());
  stack->flags = flags;
  std::copy(words.begin(), words.end(), reinterpret_cast<std::uint64_t*>(stack + 1));
  stack->commit = journal::kStackCommitted;
  stack_words_used_ += needed;
  return id;
}

void JournalBuilder::Write(const std::string& path) const {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(words_.data()), static_cast<std::streamsize>(words_.size() * 8));
}

JournalBuilder DistinctJournal() {
  JournalBuilder builder;
  FillDevice(builder.header().devices[3]);
  constexpr std::uint64_t kModule1 = std::uint64_t{1} << journal::kModuleShift;
  constexpr std::uint64_t kModule2 = std::uint64_t{2} << journal::kModuleShift;
  const std::uint32_t first = builder.AddStack({kModule1 | 0x10, kModule2 | 0x20});
  const std::uint32_t second = builder.AddStack({0x7F0000001234, kModule2 | 0x20}, journal::kStackTruncated);
  AddTables(builder);
  const std::uint64_t live = builder.AddExtent(ExtentKind::kLive, 4096);
  auto* slots = builder.At<journal::LiveSlot>(live);
  FillSlot(slots[0], 1, journal::AllocationKind::kDevice, journal::kCallerIsPyTorch);
  slots[0].stack = second;
  FillSlot(slots[1], 2, journal::AllocationKind::kHostPinned, journal::kServedFromPool);
  FillSlot(slots[3], 3, journal::AllocationKind::kPoolSegment, 0);
  // Two chains whose times alternate, so that the merge shows.
  using Type = journal::EventType;
  builder.AddEvents(1, 1,
                    {{Type::kAllocate, 1'000'100, 0xA1, 0xB1, 0xC1, 0xD1, first, 1, journal::AllocationKind::kPitched,
                      3, journal::kDuringCapture, 0},
                     {Type::kFree, 1'000'300, 0xA3, 0xB3, 0xC3, 0xD3, 0, 2, journal::AllocationKind::kVirtual, 0xFFFF,
                      journal::kFreedAtShutdown, 0}});
  builder.AddEvents(
      2, 1,
      {{Type::kAllocateFailed, 1'000'200, 0, 0xB2, 0, 0xD2, second, 2, journal::AllocationKind::kManaged, 1, 0, 2},
       {Type::kStepMark, 1'000'300, 0, 0xB4, 0, 0, 0, 1, journal::AllocationKind::kNone, 0, 0, 0}});
  return builder;
}

}  // namespace cuheap::analysis
