#include "analysis/journal_tables.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/journal_scan.h"
#include "analysis/snapshot_names.h"

namespace cuheap::analysis {
namespace {

using journal::Counter;

constexpr std::pair<Counter, std::string_view> kCounters[] = {
    {Counter::kAllocations, "allocations"},
    {Counter::kFrees, "frees"},
    {Counter::kAllocationFailures, "allocation_failures"},
    {Counter::kEventsOverwritten, "events_overwritten"},
    {Counter::kEventsDropped, "events_dropped"},
    {Counter::kLiveDropped, "live_dropped"},
    {Counter::kStacksInterned, "stacks_interned"},
    {Counter::kStacksFailed, "stacks_failed"},
    {Counter::kPoolHits, "pool_hits"},
    {Counter::kPoolMisses, "pool_misses"},
    {Counter::kForwarded, "forwarded"},
    {Counter::kContextSynchronizations, "context_synchronizations"},
    {Counter::kPoolSynchronizations, "pool_synchronizations"},
    {Counter::kOutOfMemoryRescues, "out_of_memory_rescues"},
    {Counter::kFreesUnknown, "frees_unknown"},
    {Counter::kFreesNotSeen, "frees_not_seen"},
    {Counter::kFreesWithContext, "frees_with_context"},
    {Counter::kReentries, "reentries"},
    {Counter::kTensorAllocations, "tensor_allocations"},
    {Counter::kTensorFrees, "tensor_frees"},
    {Counter::kTensorFreesUnknown, "tensor_frees_unknown"},
    {Counter::kTensorTotalsDiffer, "tensor_totals_differ"},
    {Counter::kFrameworkReservedDiffer, "framework_reserved_differ"},
    {Counter::kFrameworkOutOfMemory, "framework_out_of_memory"},
    {Counter::kEventsCreated, "events_created"},
    {Counter::kEventsDestroyed, "events_destroyed"},
    {Counter::kStreamsCreated, "streams_created"},
    {Counter::kStreamsDestroyed, "streams_destroyed"},
};

std::string NoteWord(std::uint16_t code) {
  constexpr std::array<std::string_view, 18> kWords = {
      "none",         "unknown_address", "missing_function", "pass_through", "ipc_of_packed_block",
      "unwinder_off", "no_space",        "forked",           "self_check",   "option_rejected",
      "capture",      "journal_place",   "python_off",       "tensor_reports",
      "pool_not_taken", "unseen_library", "unseen_driver", "unseen_process"};
  return code < kWords.size() ? std::string(kWords[code]) : "code_" + std::to_string(code);
}

// "name=value\n" lines.
std::map<std::string, std::string> ParsePairs(const std::string& text) {
  std::map<std::string, std::string> pairs;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos && equals > 0) pairs[line.substr(0, equals)] = line.substr(equals + 1);
    at = end + 1;
  }
  return pairs;
}

std::vector<std::string> ParseArguments(const char* text, std::size_t bytes) {
  std::vector<std::string> arguments;
  std::size_t at = 0;
  while (at < bytes) {
    const std::size_t length = strnlen(text + at, bytes - at);
    arguments.emplace_back(text + at, length);
    at += length + 1;
  }
  return arguments;
}

std::string Hex(const std::uint8_t* bytes, std::size_t count) {
  std::string text;
  char two[3];
  for (std::size_t i = 0; i < count; ++i) {
    std::snprintf(two, sizeof(two), "%02x", bytes[i]);
    text += two;
  }
  return text;
}

// As nvidia-smi shows it: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
std::string UuidText(const char (&uuid)[16]) {
  const std::string hex = Hex(reinterpret_cast<const std::uint8_t*>(uuid), sizeof(uuid));
  if (hex.find_first_not_of('0') == std::string::npos) return "";
  return "GPU-" + hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20);
}

Device FromRecord(const journal::DeviceRecord& record, std::uint32_t ordinal, std::uint64_t start_ns) {
  Device device;
  device.ordinal = ordinal;
  device.name = FixedString(record.name);
  device.uuid = UuidText(record.uuid);
  device.total_bytes = record.total_bytes;
  device.compute_capability = record.compute_capability;
  device.live_bytes = record.live_bytes.load();
  device.live_count = record.live_count.load();
  device.peak_bytes = record.peak_bytes.load();
  const std::uint64_t peak_time = record.peak_time_ns.load();
  device.peak_ns = peak_time == 0 ? 0 : static_cast<std::int64_t>(peak_time - start_ns);
  device.reserved_bytes = record.reserved_bytes.load();
  device.reserved_peak_bytes = record.reserved_peak_bytes.load();
  device.quarantined_bytes = record.quarantined_bytes.load();
  device.driver_free_at_start = record.driver_free_at_start.load();
  device.tensor_live_bytes = record.tensor_live_bytes.load();
  device.tensor_live_count = record.tensor_live_count.load();
  device.tensor_peak_bytes = record.tensor_peak_bytes.load();
  const std::uint64_t tensor_peak_time = record.tensor_peak_time_ns.load();
  device.tensor_peak_ns = tensor_peak_time == 0 ? 0 : static_cast<std::int64_t>(tensor_peak_time - start_ns);
  device.framework_held_bytes = record.framework_held_bytes.load();
  device.framework_held_peak_bytes = record.framework_held_peak_bytes.load();
  return device;
}

Module FromRecord(const journal::ModuleRecord& record) {
  Module module;
  module.path = std::string(record.path, std::min<std::size_t>(record.path_bytes, sizeof(record.path)));
  module.path_cut = record.path_cut != 0;
  module.build_id = Hex(record.build_id, std::min<std::size_t>(record.build_id_bytes, sizeof(record.build_id)));
  module.load_bias = record.load_bias;
  module.begin = record.begin;
  module.end = record.end;
  return module;
}

ThreadInfo FromRecord(const journal::ThreadRecord& record, std::uint64_t start_ns) {
  ThreadInfo thread;
  thread.tid = record.tid;
  thread.name = FixedString(record.name);
  thread.first_ns = static_cast<std::int64_t>(record.first_ns - start_ns);
  const std::uint64_t last = record.last_ns.load();
  thread.last_ns = last == 0 ? 0 : static_cast<std::int64_t>(last - start_ns);
  return thread;
}

Note FromRecord(const journal::NoteRecord& record, std::uint64_t start_ns) {
  Note note;
  note.code = NoteWord(record.code);
  note.text = std::string(record.text, std::min<std::size_t>(record.text_bytes, sizeof(record.text)));
  note.time_ns = record.time_ns == 0 ? 0 : static_cast<std::int64_t>(record.time_ns - start_ns);
  note.a = record.a;
  note.b = record.b;
  return note;
}

// Reads the committed records of one kind into `table`, each at its index; `convert` makes one of them.
template <typename Record, typename Row, typename Convert>
void ReadTable(const JournalBytes& bytes, const std::vector<ExtentPlace>& extents, bool live, const char* name,
               std::vector<Row>& table, JournalDamage& damage, Convert convert) {
  std::uint64_t capacity = 0;
  for (const ExtentPlace& extent : extents) capacity += extent.bytes / sizeof(Record);
  std::vector<bool> known;
  std::uint64_t wrong = 0;
  for (const ExtentPlace& extent : extents) {
    const bool whole = ScanExtent<Record>(
        bytes, extent, live, [&](const Record& before, const Record& record, const Record&, std::uint64_t) {
          const std::uint32_t index = before.commit.load();
          if (index == 0) return;
          // An index beyond what there is room for, or given twice, is damage.
          if (index > capacity || (index <= known.size() && known[index - 1])) {
            ++wrong;
            return;
          }
          if (index > table.size()) {
            table.resize(index);
            known.resize(index, false);
          }
          known[index - 1] = true;
          table[index - 1] = convert(record);
        });
    if (!whole) damage.Add(std::string(name) + ": the file could not be read to the end of an extent");
  }
  if (wrong > 0) damage.Add(std::string(name) + ": " + std::to_string(wrong) + " records are damaged, left out");
}

// Recorders of before left zeros: then there is none.
void FillDriverTime(const journal::FileHeader& header, Snapshot& snapshot) {
  static_assert(static_cast<int>(journal::DriverCall::kPoolWait) == static_cast<int>(DriverCall::kPoolWait));
  static_assert(kDriverCalls <= journal::kDriverCalls);
  std::vector<DriverTime> times;
  std::uint64_t calls = 0;
  for (std::size_t call = 0; call < kDriverCalls; ++call) {
    const journal::DriverTime& time = header.driver_time[call];
    times.push_back({std::string(ToString(static_cast<DriverCall>(call))), time.count.load(), time.total_ns.load(),
                     time.longest_ns.load()});
    calls += times.back().count;
  }
  if (calls != 0) snapshot.driver_time = std::move(times);
}

}  // namespace

void FillFromHeader(const journal::FileHeader& header, Snapshot& snapshot) {
  Process& process = snapshot.process;
  process.pid = header.pid;
  process.parent_pid = header.parent_pid;
  process.host = FixedString(header.host);
  process.executable = FixedString(header.executable);
  process.working_directory = FixedString(header.working_directory);
  process.command_line = ParseArguments(header.command_line,
                                        std::min<std::size_t>(header.command_line_bytes, sizeof(header.command_line)));
  process.command_line_cut = header.command_line_cut != 0;
  process.start_realtime_ns = static_cast<std::int64_t>(header.start_realtime_ns);
  process.launcher = ParsePairs(FixedString(header.launcher_facts));
  snapshot.configuration = ParsePairs(FixedString(header.configuration));
  for (const auto& [counter, name] : kCounters) {
    snapshot.counters[std::string(name)] = header.counters[static_cast<std::size_t>(counter)].load();
  }
  FillDriverTime(header, snapshot);
  for (std::uint32_t ordinal = 0; ordinal < journal::kMaxDevices; ++ordinal) {
    const journal::DeviceRecord& record = header.devices[ordinal];
    if (record.present.load() != 0) {
      snapshot.devices.push_back(FromRecord(record, ordinal, header.start_monotonic_ns));
    }
  }
}

void ReadTables(const JournalBytes& bytes, const JournalLayout& layout, bool live, Snapshot& snapshot,
                JournalDamage& damage) {
  const std::uint64_t start_ns = layout.header.get().start_monotonic_ns;
  ReadTable<journal::ModuleRecord>(bytes, layout.modules, live, "modules", snapshot.modules, damage,
                                   [](const journal::ModuleRecord& record) { return FromRecord(record); });
  ReadTable<journal::ThreadRecord>(bytes, layout.threads, live, "threads", snapshot.threads, damage,
                                   [&](const journal::ThreadRecord& record) { return FromRecord(record, start_ns); });
  std::vector<Note> notes;
  ReadTable<journal::NoteRecord>(bytes, layout.notes, live, "notes", notes, damage,
                                 [&](const journal::NoteRecord& record) { return FromRecord(record, start_ns); });
  std::erase_if(notes, [](const Note& note) { return note.code.empty(); });
  snapshot.notes.insert(snapshot.notes.begin(), notes.begin(), notes.end());
}

}  // namespace cuheap::analysis
