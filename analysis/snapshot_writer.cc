#include "analysis/snapshot_writer.h"

#include <array>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "analysis/snapshot_names.h"
#include "analysis/text_file.h"

namespace cuheap::analysis {
namespace {

// Keeps the order in which members are added: docs/snapshot.md lists them so.
using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Big tables are written element by element; only small objects become a Json value first.
class Output {
 public:
  explicit Output(TextSink& sink) : sink_(sink) {}

  void Text(std::string_view text) { sink_.Write(text); }

  // A member of the object being written, on a line of its own.
  void Member(std::string_view name, const Json& value) {
    Name(name);
    Text(Dump(value));
  }
  void Name(std::string_view name) {
    Text(first_ ? "\n\"" : ",\n\"");
    first_ = false;
    Text(name);
    Text("\":");
  }
  void Begin(std::string_view name) {
    Name(name);
    Text("{");
    first_ = true;
  }
  void End() {
    Text("}");
    first_ = false;
  }

  template <typename Rows, typename Get>
  void Column(std::string_view name, const Rows& rows, Get get) {
    Name(name);
    Text("[");
    bool first = true;
    for (const auto& row : rows) {
      if (!first) Text(",");
      first = false;
      Value(get(row));
    }
    Text("]");
  }
  template <typename Rows>
  void Column(std::string_view name, const Rows& rows) {
    Column(name, rows, [](const auto& row) { return row; });
  }
  void Strings(std::string_view name, const std::vector<std::string>& strings) {
    Name(name);
    Text("[");
    for (std::size_t i = 0; i < strings.size(); ++i) {
      Text(i == 0 ? "" : ",\n");
      Text(Dump(strings[i]));
    }
    Text("]");
  }

 private:
  template <typename T>
  void Value(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      Text(value ? "true" : "false");
    } else if constexpr (std::is_enum_v<T>) {
      Value(static_cast<unsigned>(value));
    } else {
      std::array<char, 24> digits;
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
      Text({digits.data(), static_cast<std::size_t>(end - digits.data())});
    }
  }

  TextSink& sink_;
  bool first_ = true;
};

template <typename Enum>
Json WordsOf() {
  Json words = Json::array();
  for (const std::string_view word : Words<Enum>()) words.push_back(std::string(word));
  return words;
}

Json ToJson(const Process& process) {
  return {{"pid", process.pid},
          {"parent_pid", process.parent_pid},
          {"host", process.host},
          {"executable", process.executable},
          {"working_directory", process.working_directory},
          {"command_line", process.command_line},
          {"command_line_cut", process.command_line_cut},
          {"start_realtime_ns", process.start_realtime_ns},
          {"duration_ns", process.duration_ns},
          {"launcher", process.launcher}};
}

Json ToJson(const Completeness& completeness) {
  Json json = {{"end", completeness.end},
               {"events_overwritten", completeness.events_overwritten},
               {"events_dropped", completeness.events_dropped},
               {"live_dropped", completeness.live_dropped},
               {"stacks_failed", completeness.stacks_failed}};
  if (completeness.exit_status) json["exit_status"] = *completeness.exit_status;
  if (completeness.exit_signal) json["exit_signal"] = *completeness.exit_signal;
  return json;
}

Json ToJson(const Device& device) {
  return {{"ordinal", device.ordinal},
          {"name", device.name},
          {"uuid", device.uuid},
          {"total_bytes", device.total_bytes},
          {"compute_capability", device.compute_capability},
          {"live_bytes", device.live_bytes},
          {"live_count", device.live_count},
          {"peak_bytes", device.peak_bytes},
          {"peak_ns", device.peak_ns},
          {"reserved_bytes", device.reserved_bytes},
          {"reserved_peak_bytes", device.reserved_peak_bytes},
          {"quarantined_bytes", device.quarantined_bytes},
          {"driver_free_at_start", device.driver_free_at_start},
          {"tensor_live_bytes", device.tensor_live_bytes},
          {"tensor_live_count", device.tensor_live_count},
          {"tensor_peak_bytes", device.tensor_peak_bytes},
          {"tensor_peak_ns", device.tensor_peak_ns},
          {"framework_held_bytes", device.framework_held_bytes},
          {"framework_held_peak_bytes", device.framework_held_peak_bytes}};
}

Json ToJson(const Module& module) {
  return {{"path", module.path},           {"path_cut", module.path_cut}, {"build_id", module.build_id},
          {"load_bias", module.load_bias}, {"begin", module.begin},       {"end", module.end}};
}

Json ToJson(const ThreadInfo& thread) {
  return {{"tid", thread.tid}, {"name", thread.name}, {"first_ns", thread.first_ns}, {"last_ns", thread.last_ns}};
}

Json ToJson(const DriverTime& time) {
  return {{"call", time.call}, {"count", time.count}, {"total_ns", time.total_ns}, {"longest_ns", time.longest_ns}};
}

Json ToJson(const Note& note) {
  return {{"code", note.code}, {"text", note.text}, {"time_ns", note.time_ns}, {"a", note.a}, {"b", note.b}};
}

template <typename Row>
void WriteRows(Output& out, std::string_view name, const std::vector<Row>& rows) {
  out.Name(name);
  out.Text("[");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out.Text(i == 0 ? "\n" : ",\n");
    out.Text(Dump(ToJson(rows[i])));
  }
  out.Text("]");
}

void WriteFrames(Output& out, const std::vector<Frame>& frames) {
  out.Begin("frames");
  out.Column("kind", frames, [](const Frame& f) { return f.kind; });
  out.Column("function", frames, [](const Frame& f) { return f.function; });
  out.Column("file", frames, [](const Frame& f) { return f.file; });
  out.Column("line", frames, [](const Frame& f) { return f.line; });
  out.Column("module", frames, [](const Frame& f) { return f.module; });
  out.Column("offset", frames, [](const Frame& f) { return f.offset; });
  out.Column("inlined", frames, [](const Frame& f) { return f.inlined; });
  out.Column("reason", frames, [](const Frame& f) { return f.reason; });
  out.End();
}

// Indices of the stacks for which `holds` is true.
template <typename Holds>
std::vector<std::uint32_t> StacksThat(const std::vector<Stack>& stacks, Holds holds) {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < stacks.size(); ++i) {
    if (holds(stacks[i])) indices.push_back(i);
  }
  return indices;
}

void WriteStacks(Output& out, const std::vector<Stack>& stacks) {
  out.Begin("stacks");
  out.Name("frames");
  out.Text("[");
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    out.Text(i == 0 ? "" : ",\n");
    out.Text(Dump(stacks[i].frames));
  }
  out.Text("]");
  out.Column("truncated", StacksThat(stacks, [](const Stack& s) { return s.truncated; }));
  out.Column("unwind_failed", StacksThat(stacks, [](const Stack& s) { return s.unwind_failed; }));
  out.Column("python_unplaced", StacksThat(stacks, [](const Stack& s) { return s.python_unplaced; }));
  out.Column("no_python", stacks, [](const Stack& s) { return s.no_python; });
  out.Column("backward", stacks, [](const Stack& s) { return s.backward; });
  out.End();
}

void WriteLive(Output& out, std::string_view name, const std::vector<LiveAllocation>& table) {
  using Row = LiveAllocation;
  out.Begin(name);
  out.Column("id", table, [](const Row& r) { return r.id; });
  out.Column("address", table, [](const Row& r) { return r.address; });
  out.Column("bytes", table, [](const Row& r) { return r.bytes; });
  out.Column("reserved_bytes", table, [](const Row& r) { return r.reserved_bytes; });
  out.Column("stream", table, [](const Row& r) { return r.stream; });
  out.Column("context", table, [](const Row& r) { return r.context; });
  out.Column("time_ns", table, [](const Row& r) { return r.time_ns; });
  out.Column("stack", table, [](const Row& r) { return r.stack; });
  out.Column("thread", table, [](const Row& r) { return r.thread; });
  out.Column("device", table, [](const Row& r) { return r.device; });
  out.Column("kind", table, [](const Row& r) { return r.kind; });
  out.Column("allocator", table, [](const Row& r) { return r.allocator; });
  out.Column("served", table, [](const Row& r) { return r.served; });
  out.Column("mapped_address", table, [](const Row& r) { return r.mapped_address; });
  out.End();
}

void WriteEvents(Output& out, const Events& events) {
  out.Begin("events");
  out.Column("type", events.type);
  out.Column("time_ns", events.time_ns);
  out.Column("id", events.id);
  out.Column("address", events.address);
  out.Column("bytes", events.bytes);
  out.Column("stream", events.stream);
  out.Column("stack", events.stack);
  out.Column("thread", events.thread);
  out.Column("device", events.device);
  out.Column("kind", events.kind);
  out.Column("flags", events.flags);
  out.Column("result", events.result);
  out.End();
}

void Write(const Snapshot& snapshot, TextSink& sink) {
  Output out(sink);
  out.Text("{");
  out.Member("format", "cuheap-snapshot");
  out.Member("version", kSnapshotVersion);
  out.Member("cuheap_version", snapshot.cuheap_version);
  out.Member("process", ToJson(snapshot.process));
  out.Member("recorder", snapshot.recorder);
  out.Member("simulated", snapshot.simulated);
  out.Member("configuration", snapshot.configuration);
  out.Member("counters", snapshot.counters);
  if (!snapshot.driver_time.empty()) WriteRows(out, "driver_time", snapshot.driver_time);
  out.Member("completeness", ToJson(snapshot.completeness));
  out.Member("words", {{"frame_kind", WordsOf<FrameKind>()},
                       {"allocation_kind", WordsOf<AllocationKind>()},
                       {"allocator", WordsOf<Allocator>()},
                       {"event_type", WordsOf<EventType>()}});
  WriteRows(out, "devices", snapshot.devices);
  WriteRows(out, "modules", snapshot.modules);
  WriteRows(out, "threads", snapshot.threads);
  out.Strings("strings", snapshot.strings);
  WriteFrames(out, snapshot.frames);
  WriteStacks(out, snapshot.stacks);
  WriteLive(out, "live", snapshot.live);
  WriteLive(out, "segments", snapshot.segments);
  WriteEvents(out, snapshot.events);
  WriteRows(out, "notes", snapshot.notes);
  out.Text("\n}\n");
}

}  // namespace

absl::Status WriteSnapshot(const Snapshot& snapshot, const std::string& path) {
  absl::StatusOr<std::unique_ptr<TextSink>> sink = CreateTextFile(path);
  if (!sink.ok()) return sink.status();
  Write(snapshot, **sink);
  return (*sink)->Finish();
}

std::string SnapshotToJson(const Snapshot& snapshot) {
  std::string text;
  Write(snapshot, *TextToString(text));
  return text;
}

}  // namespace cuheap::analysis
