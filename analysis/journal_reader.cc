#include "analysis/journal_reader.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "analysis/journal_bytes.h"
#include "analysis/journal_events.h"
#include "analysis/journal_layout.h"
#include "analysis/journal_live.h"
#include "analysis/journal_scan.h"
#include "analysis/journal_stacks.h"
#include "analysis/journal_tables.h"
#include "analysis/process_state.h"
#include "interpose/journal/format.h"

namespace cuheap::analysis {
namespace {

using journal::FileHeader;
using journal::ProcessState;

std::uint64_t MonotonicNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

WriterState StateOfWriter(const FileHeader& header, const JournalBytes& bytes) {
  if (bytes.inode() == 0) return WriterState::kGone;  // in memory
  JournalWriter writer;
  writer.pid = header.pid;
  writer.start_ticks = header.start_ticks;
  writer.host = FixedString(header.host);
  writer.device = bytes.device();
  writer.inode = bytes.inode();
  return StateOf(writer);
}

// How the process ended, from what it wrote and from /proc.
std::string EndOf(std::uint32_t state, WriterState writer) {
  switch (static_cast<ProcessState>(state)) {
    case ProcessState::kEnded:
      return "exited";
    case ProcessState::kExecuted:
      return "executed";
    case ProcessState::kRecording:
      break;
    default:
      return "unknown";
  }
  switch (writer) {
    case WriterState::kRuns:
      return "running";
    case WriterState::kExecuted:
      return "executed";
    case WriterState::kGone:
      return "killed";
    case WriterState::kElsewhere:
      break;
  }
  return "unknown";
}

// A later image of the same process left a journal beside this one: "<pid>-<ticks>.journal" is the first image's,
// "<pid>-<ticks>.<image>.journal" a later one's (interpose/recorder/journal_file.h).
bool HasNextImage(const std::string& path) {
  constexpr std::string_view kSuffix = ".journal";
  if (!std::string_view(path).ends_with(kSuffix)) return false;
  std::string stem = path.substr(0, path.size() - kSuffix.size());
  std::uint64_t image = 0;  // what the first one, without a number, would be
  const std::size_t name = stem.rfind('/') == std::string::npos ? 0 : stem.rfind('/') + 1;
  if (const std::size_t dot = stem.rfind('.'); dot != std::string::npos && dot >= name) {
    if (!absl::SimpleAtoi(stem.substr(dot + 1), &image)) return false;
    stem.resize(dot);
  }
  std::error_code error;
  return std::filesystem::exists(stem + "." + std::to_string(image + 1) + std::string(kSuffix), error);
}

// The stacks that events and live slots name, by journal id; then turned into indices of the snapshot.
class StackReferences {
 public:
  void Collect(const Snapshot& snapshot) {
    absl::flat_hash_set<std::uint32_t> seen;
    for (const std::uint32_t id : snapshot.events.stack) seen.insert(id);
    for (const auto* table : {&snapshot.live, &snapshot.segments}) {
      for (const LiveAllocation& allocation : *table) seen.insert(allocation.stack);
    }
    seen.erase(0);
    ids_.assign(seen.begin(), seen.end());  // in any order: sorted next
    std::sort(ids_.begin(), ids_.end());
  }
  const std::vector<std::uint32_t>& ids() const { return ids_; }

  static void Replace(const absl::flat_hash_map<std::uint32_t, std::uint32_t>& indices, Snapshot& snapshot) {
    snapshot.events.stack.Transform([&](std::size_t, std::uint32_t id) { return indices.at(id); });
    for (auto* table : {&snapshot.live, &snapshot.segments}) {
      for (LiveAllocation& allocation : *table) allocation.stack = indices.at(allocation.stack);
    }
  }

 private:
  std::vector<std::uint32_t> ids_;
};

// Threads that the record names but that are not in the table become 0, "not known".
std::uint64_t DropUnknownThreads(Snapshot& snapshot) {
  const auto threads = static_cast<std::uint32_t>(snapshot.threads.size());
  std::uint64_t unknown = 0;
  const auto known = [&](std::uint32_t thread) {
    if (thread <= threads) return thread;
    ++unknown;
    return 0u;
  };
  snapshot.events.thread.Transform([&](std::size_t, std::uint32_t thread) { return known(thread); });
  for (auto* table : {&snapshot.live, &snapshot.segments}) {
    for (LiveAllocation& allocation : *table) allocation.thread = known(allocation.thread);
  }
  return unknown;
}

void FillCompleteness(const FileHeader& header, const JournalEvents& events, Snapshot& snapshot) {
  const auto counter = [&](journal::Counter which) { return header.counters[static_cast<std::size_t>(which)].load(); };
  Completeness& completeness = snapshot.completeness;
  // Both say how many are gone; they differ only if the file is damaged or the process was killed while recycling.
  completeness.events_overwritten = std::max(counter(journal::Counter::kEventsOverwritten), events.missing);
  completeness.events_dropped = counter(journal::Counter::kEventsDropped) + events.damaged;
  completeness.live_dropped = counter(journal::Counter::kLiveDropped);
  completeness.stacks_failed = counter(journal::Counter::kStacksFailed);
}

void FillDuration(const FileHeader& header, std::uint64_t now_ns, Snapshot& snapshot) {
  const std::uint64_t start = header.start_monotonic_ns;
  std::uint64_t end = header.end_monotonic_ns.load();
  if (snapshot.completeness.end == "running") {
    end = now_ns;
  } else if (end < start) {
    end = start;
    if (!snapshot.events.time_ns.empty()) {
      end += static_cast<std::uint64_t>(std::max<std::int64_t>(snapshot.events.time_ns.back(), 0));
    }
    for (const ThreadInfo& thread : snapshot.threads) {
      const std::int64_t last = std::max<std::int64_t>({thread.first_ns, thread.last_ns, 0});
      end = std::max(end, start + static_cast<std::uint64_t>(last));
    }
  }
  snapshot.process.duration_ns = static_cast<std::int64_t>(end - start);
}

void AddDamage(const JournalDamage& damage, Snapshot& snapshot) {
  for (const std::string& text : damage.texts()) snapshot.notes.push_back({"journal_damaged", text, 0, 0, 0});
  if (damage.more() > 0) {
    snapshot.notes.push_back({"journal_damaged", std::to_string(damage.more()) + " more", 0, damage.more(), 0});
  }
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// The simulated driver is known by its folder, whose name is a part of the installed layout.
bool IsSimulated(const Snapshot& snapshot) {
  const auto is_simulated_driver = [](const std::string& path) { return EndsWith(path, "/simcuda/libcuda.so.1"); };
  const auto driver = snapshot.configuration.find("driver");
  if (driver != snapshot.configuration.end())
    return driver->second == "simulated" || is_simulated_driver(driver->second);
  return std::any_of(snapshot.modules.begin(), snapshot.modules.end(),
                     [&](const Module& module) { return is_simulated_driver(module.path); });
}

absl::StatusOr<Snapshot> Read(const JournalBytes& bytes, const std::string& name, const ReadJournalOptions& options) {
  JournalDamage layout_damage, damage;
  absl::StatusOr<JournalLayout> layout = ReadJournalLayout(bytes, name, layout_damage);
  if (!layout.ok()) return layout.status();
  // Asked after the header was copied: a process found gone here wrote nothing since.
  const WriterState writer = StateOfWriter(layout->header.get(), bytes);
  const bool live = writer == WriterState::kRuns || writer == WriterState::kElsewhere;
  Snapshot snapshot;
  const std::uint64_t live_since_ns = MonotonicNow();
  ReadLiveTable(bytes, *layout, live, snapshot, damage);
  const std::uint64_t now_ns = MonotonicNow();
  if (live) {
    // What was published meanwhile (extents, totals) belongs to the instant `now_ns` at which the events are cut.
    layout_damage = JournalDamage();
    layout = ReadJournalLayout(bytes, name, layout_damage);
    if (!layout.ok()) return layout.status();
  }
  const FileHeader& header = layout->header.get();
  snapshot.cuheap_version = CUHEAP_VERSION;
  FillFromHeader(header, snapshot);
  snapshot.completeness.end = EndOf(header.state.load(), writer);
  JournalEvents events = ReadJournalEvents(bytes, *layout, live, live ? now_ns : UINT64_MAX, damage);
  FillCompleteness(header, events, snapshot);
  snapshot.events = std::move(events.events);
  if (live) SettleLiveTable(static_cast<std::int64_t>(live_since_ns - header.start_monotonic_ns), snapshot);
  // Tables come after what names them: a record is committed before its first use.
  ReadTables(bytes, *layout, live, snapshot, damage);
  FillDuration(header, now_ns, snapshot);
  if (!options.keep_events) snapshot.events = Events{};
  if (const std::uint64_t unknown = DropUnknownThreads(snapshot); unknown > 0) {
    damage.Add("threads: " + std::to_string(unknown) + " records name a thread that is not in the journal");
  }
  StackReferences references;
  references.Collect(snapshot);
  StackReferences::Replace(ReadJournalStacks(bytes, *layout, references.ids(), snapshot, damage), snapshot);
  snapshot.simulated = IsSimulated(snapshot);
  AddDamage(layout_damage, snapshot);
  AddDamage(damage, snapshot);
  return snapshot;
}

}  // namespace

absl::StatusOr<Snapshot> ReadJournal(const std::string& path, const ReadJournalOptions& options) {
  absl::StatusOr<std::unique_ptr<JournalBytes>> bytes = OpenJournalFile(path);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<Snapshot> snapshot = Read(**bytes, path, options);
  // An image cannot write that it is about to be replaced if the exec is not seen (a static or raw system call).
  if (snapshot.ok() && (snapshot->completeness.end == "killed" || snapshot->completeness.end == "unknown") &&
      HasNextImage(path)) {
    snapshot->completeness.end = "executed";
  }
  return snapshot;
}

absl::StatusOr<Snapshot> ReadJournalFromMemory(std::span<const std::byte> bytes, const std::string& name,
                                               const ReadJournalOptions& options) {
  return Read(*JournalInMemory(bytes), name, options);
}

}  // namespace cuheap::analysis
