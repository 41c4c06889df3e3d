#include "analysis/snapshot_check.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/snapshot_names.h"

namespace cuheap::analysis {
namespace {

class Checker {
 public:
  const std::optional<Inconsistency>& found() const { return found_; }

  // `index` must name one of `count` things.
  void Index(std::string_view column, std::size_t row, std::uint64_t index, std::uint64_t count, const char* table) {
    if (index < count || found_) return;
    Report(column, row,
           std::to_string(index) + " is no index of " + table + ", which has " + std::to_string(count) + " entries");
  }

  void Lengths(const char* table, std::initializer_list<std::pair<const char*, std::size_t>> columns) {
    const auto& first = *columns.begin();
    for (const auto& [name, length] : columns) {
      if (length == first.second || found_) continue;
      found_ = {"$." + std::string(table) + "." + name, "has " + std::to_string(length) + " elements, but \"" +
                                                            first.first + "\" has " + std::to_string(first.second)};
    }
  }

  void Report(std::string_view column, std::size_t row, const std::string& problem) {
    if (!found_) found_ = {"$." + std::string(column) + "[" + std::to_string(row) + "]", problem};
  }

 private:
  std::optional<Inconsistency> found_;
};

void CheckTables(const Snapshot& snapshot, Checker& check) {
  if (snapshot.strings.empty() || !snapshot.strings[0].empty()) check.Report("strings", 0, "must be the empty string");
  if (snapshot.frames.empty() || snapshot.frames[0] != Frame{})
    check.Report("frames.kind", 0, "must be the empty frame");
  if (snapshot.stacks.empty() || snapshot.stacks[0] != Stack{}) check.Report("stacks.frames", 0, "must be empty");
  const std::size_t strings = snapshot.strings.size();
  for (std::size_t i = 0; i < snapshot.frames.size(); ++i) {
    const Frame& frame = snapshot.frames[i];
    check.Index("frames.function", i, frame.function, strings, "strings");
    check.Index("frames.file", i, frame.file, strings, "strings");
    check.Index("frames.reason", i, frame.reason, strings, "strings");
    check.Index("frames.module", i, frame.module, snapshot.modules.size() + 1, "modules (plus one)");
  }
  for (std::size_t i = 0; i < snapshot.stacks.size(); ++i) {
    for (const std::uint32_t frame : snapshot.stacks[i].frames) {
      check.Index("stacks.frames", i, frame, snapshot.frames.size(), "frames");
    }
    check.Index("stacks.no_python", i, snapshot.stacks[i].no_python, strings, "strings");
    check.Index("stacks.backward", i, snapshot.stacks[i].backward, strings, "strings");
  }
}

void CheckLive(const Snapshot& snapshot, const char* name, const std::vector<LiveAllocation>& table, Checker& check) {
  const std::string prefix = std::string(name) + ".";
  for (std::size_t i = 0; i < table.size(); ++i) {
    check.Index(prefix + "stack", i, table[i].stack, snapshot.stacks.size(), "stacks");
    check.Index(prefix + "thread", i, table[i].thread, snapshot.threads.size() + 1, "threads (plus one)");
    if (i > 0 && table[i].address < table[i - 1].address) {
      check.Report(prefix + "address", i, "is lower than the one before it");
    }
  }
}

void CheckEvents(const Snapshot& snapshot, Checker& check) {
  const Events& events = snapshot.events;
  check.Lengths("events", {{"type", events.type.size()},
                           {"time_ns", events.time_ns.size()},
                           {"id", events.id.size()},
                           {"address", events.address.size()},
                           {"bytes", events.bytes.size()},
                           {"stream", events.stream.size()},
                           {"stack", events.stack.size()},
                           {"thread", events.thread.size()},
                           {"device", events.device.size()},
                           {"kind", events.kind.size()},
                           {"flags", events.flags.size()},
                           {"result", events.result.size()}});
  if (check.found()) return;
  for (std::size_t i = 0; i < events.size(); ++i) {
    check.Index("events.stack", i, events.stack[i], snapshot.stacks.size(), "stacks");
    check.Index("events.thread", i, events.thread[i], snapshot.threads.size() + 1, "threads (plus one)");
    if (i > 0 && events.time_ns[i] < events.time_ns[i - 1]) {
      check.Report("events.time_ns", i, "is earlier than the one before it");
    }
  }
}

}  // namespace

std::optional<Inconsistency> FindInconsistency(const Snapshot& snapshot) {
  Checker check;
  CheckTables(snapshot, check);
  if (!check.found()) CheckLive(snapshot, "live", snapshot.live, check);
  if (!check.found()) CheckLive(snapshot, "segments", snapshot.segments, check);
  if (!check.found()) CheckEvents(snapshot, check);
  return check.found();
}

}  // namespace cuheap::analysis
