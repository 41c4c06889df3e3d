#include "analysis/snapshot_loader.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/file_error.h"
#include "analysis/json_reader.h"
#include "analysis/snapshot_check.h"
#include "analysis/snapshot_columns.h"
#include "analysis/text_file.h"
#include "analysis/torch_snapshot.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kMaxRows = std::size_t{1} << 31;  // no process makes as many; indices have 32 bits
// Tables in which one character of text may stand for many bytes of memory: a text that only fills them ends here.
constexpr std::size_t kMaxNames = std::size_t{1} << 24;   // strings, frames, stacks
constexpr std::size_t kMaxStackFrames = std::size_t{1} << 16;
constexpr std::size_t kMaxWords = std::size_t{1} << 16;  // lists and maps of few words
constexpr const char* kForeign = "not a cuheap snapshot";
constexpr const char* kMakeAgain =
    "make the snapshot again (cuheap run, or cuheap recover if the journals are still there)";

// A member of an object and how its value is read.
struct Field {
  const char* name;
  std::function<bool(JsonReader&)> read;
  bool optional = false;  // snapshots of an earlier cuheap lack it
};
Field Optional(Field field) {
  field.optional = true;
  return field;
}

template <typename Value>
Field Scalar(const char* name, Value& value) {
  return {name, [&value](JsonReader& in) { return in.Read(value); }};
}
// A member that is left out where there is no value.
template <typename Value>
Field Present(const char* name, std::optional<Value>& value) {
  return {name, [&value](JsonReader& in) { return in.Read(value.emplace()); }};
}
template <typename Values>
Field Array(const char* name, Values& values, std::size_t most = kMaxRows) {
  return {name, [&values, most](JsonReader& in) { return in.ReadArray(values, most); }};
}

// true and false as 1 and 0: std::vector<bool> cannot be read into by reference.
Field Booleans(const char* name, std::vector<std::uint8_t>& values) {
  return {name, [&values](JsonReader& in) {
            values.clear();
            if (!in.EnterArray()) return false;
            while (in.NextElement()) {
              if (values.size() == kMaxRows) return in.Fail("more than " + std::to_string(kMaxRows) + " elements");
              bool value = false;
              if (!in.Read(value)) return false;
              values.push_back(value ? 1 : 0);
            }
            return in.ok();
          }};
}

// Reads an object that must have all the fields but the optional ones, once each, in any order; members with other
// names are skipped. If the very first member is none of them, the object is something else: then `foreign`, if given,
// is the error.
bool ReadObject(JsonReader& in, const std::vector<Field>& fields, const char* foreign = nullptr) {
  std::vector<bool> seen(fields.size(), false);
  std::string name;
  if (!in.EnterObject()) return false;
  while (in.NextMember(name)) {
    std::size_t i = 0;
    while (i < fields.size() && name != fields[i].name) ++i;
    if (i == fields.size()) {
      if (foreign != nullptr) return in.Fail(foreign);
      if (!in.Skip()) return false;
      continue;
    }
    if (seen[i]) return in.Fail("the member is there twice");
    seen[i] = true;
    foreign = nullptr;
    if (!fields[i].read(in)) return false;
  }
  for (std::size_t i = 0; in.ok() && i < fields.size(); ++i) {
    if (!seen[i] && !fields[i].optional)
      return in.Fail("the object that ends here has no member \"" + std::string(fields[i].name) + "\"");
  }
  return in.ok();
}

Field Object(const char* name, std::vector<Field> fields) {
  return {name, [fields = std::move(fields)](JsonReader& in) { return ReadObject(in, fields); }};
}

// An object with names that are data.
template <typename Value>
Field Map(const char* name, std::map<std::string, Value>& map) {
  return {name, [&map](JsonReader& in) {
            std::string key;
            if (!in.EnterObject()) return false;
            while (in.NextMember(key)) {
              if (map.size() == kMaxWords) return in.Fail("more than " + std::to_string(kMaxWords) + " members");
              const auto [place, fresh] = map.try_emplace(key);
              if (!fresh) return in.Fail("the member is there twice");
              if (!in.Read(place->second)) return false;
            }
            return in.ok();
          }};
}

// An array of objects.
template <typename Row>
Field Rows(const char* name, std::vector<Row>& rows, std::vector<Field> (*fields)(Row&)) {
  return {name, [&rows, fields](JsonReader& in) {
            rows.clear();
            if (!in.EnterArray()) return false;
            while (in.NextElement()) {
              Row row;
              if (!ReadObject(in, fields(row))) return false;
              rows.push_back(std::move(row));
            }
            return in.ok();
          }};
}

std::vector<Field> FieldsOf(Process& process) {
  return {Scalar("pid", process.pid),
          Scalar("parent_pid", process.parent_pid),
          Scalar("host", process.host),
          Scalar("executable", process.executable),
          Scalar("working_directory", process.working_directory),
          Array("command_line", process.command_line, kMaxWords),
          Scalar("command_line_cut", process.command_line_cut),
          Scalar("start_realtime_ns", process.start_realtime_ns),
          Scalar("duration_ns", process.duration_ns),
          Map("launcher", process.launcher)};
}

std::vector<Field> FieldsOf(DriverTime& time) {
  return {Scalar("call", time.call), Scalar("count", time.count), Scalar("total_ns", time.total_ns),
          Scalar("longest_ns", time.longest_ns)};
}

std::vector<Field> FieldsOf(Completeness& completeness) {
  return {Scalar("end", completeness.end),
          Scalar("events_overwritten", completeness.events_overwritten),
          Scalar("events_dropped", completeness.events_dropped),
          Scalar("live_dropped", completeness.live_dropped),
          Scalar("stacks_failed", completeness.stacks_failed),
          Optional(Present("exit_status", completeness.exit_status)),
          Optional(Present("exit_signal", completeness.exit_signal))};
}

std::vector<Field> FieldsOf(WordLists& words) {
  return {Array("frame_kind", words.frame_kind, kMaxWords), Array("allocation_kind", words.allocation_kind, kMaxWords),
          Array("allocator", words.allocator, kMaxWords), Array("event_type", words.event_type, kMaxWords)};
}

std::vector<Field> FieldsOf(Device& device) {
  return {Scalar("ordinal", device.ordinal),
          Scalar("name", device.name),
          Scalar("uuid", device.uuid),
          Scalar("total_bytes", device.total_bytes),
          Scalar("compute_capability", device.compute_capability),
          Scalar("live_bytes", device.live_bytes),
          Scalar("live_count", device.live_count),
          Scalar("peak_bytes", device.peak_bytes),
          Scalar("peak_ns", device.peak_ns),
          Scalar("reserved_bytes", device.reserved_bytes),
          Scalar("reserved_peak_bytes", device.reserved_peak_bytes),
          Scalar("quarantined_bytes", device.quarantined_bytes),
          Scalar("driver_free_at_start", device.driver_free_at_start),
          Optional(Scalar("tensor_live_bytes", device.tensor_live_bytes)),
          Optional(Scalar("tensor_live_count", device.tensor_live_count)),
          Optional(Scalar("tensor_peak_bytes", device.tensor_peak_bytes)),
          Optional(Scalar("tensor_peak_ns", device.tensor_peak_ns)),
          Optional(Scalar("framework_held_bytes", device.framework_held_bytes)),
          Optional(Scalar("framework_held_peak_bytes", device.framework_held_peak_bytes))};
}

std::vector<Field> FieldsOf(Module& module) {
  return {Scalar("path", module.path),         Scalar("path_cut", module.path_cut),
          Scalar("build_id", module.build_id), Scalar("load_bias", module.load_bias),
          Scalar("begin", module.begin),       Scalar("end", module.end)};
}

std::vector<Field> FieldsOf(ThreadInfo& thread) {
  return {Scalar("tid", thread.tid), Scalar("name", thread.name), Scalar("first_ns", thread.first_ns),
          Scalar("last_ns", thread.last_ns)};
}

std::vector<Field> FieldsOf(Note& note) {
  return {Scalar("code", note.code), Scalar("text", note.text), Scalar("time_ns", note.time_ns), Scalar("a", note.a),
          Scalar("b", note.b)};
}

std::vector<Field> FieldsOf(FrameColumns& frames) {
  return {Array("kind", frames.kind, kMaxNames), Array("function", frames.function), Array("file", frames.file),
          Array("line", frames.line),          Array("module", frames.module),     Array("offset", frames.offset),
          Booleans("inlined", frames.inlined), Array("reason", frames.reason)};
}

std::vector<Field> FieldsOf(StackColumns& stacks) {
  return {{"frames",
           [&stacks](JsonReader& in) {
             if (!in.EnterArray()) return false;
             while (in.NextElement()) {
               if (stacks.frames.size() == kMaxNames)
                 return in.Fail("more than " + std::to_string(kMaxNames) + " elements");
               if (!in.ReadArray(stacks.frames.emplace_back(), kMaxStackFrames)) return false;
             }
             return in.ok();
           }},
          Array("truncated", stacks.truncated),
          Array("unwind_failed", stacks.unwind_failed),
          Array("python_unplaced", stacks.python_unplaced),
          Array("no_python", stacks.no_python),
          Array("backward", stacks.backward)};
}

std::vector<Field> FieldsOf(LiveColumns& table) {
  return {Array("id", table.id),
          Array("address", table.address),
          Array("bytes", table.bytes),
          Array("reserved_bytes", table.reserved_bytes),
          Array("stream", table.stream),
          Array("context", table.context),
          Array("time_ns", table.time_ns),
          Array("stack", table.stack),
          Array("thread", table.thread),
          Array("device", table.device),
          Array("kind", table.kind),
          Array("allocator", table.allocator),
          Booleans("served", table.served),
          Optional({"mapped_address",
                    [&table](JsonReader& in) { return in.ReadArray(table.mapped_address.emplace(), kMaxRows); }})};
}

// What is read before it becomes the model.
struct Draft {
  Snapshot snapshot;
  std::string format;
  int version = 0;
  WordLists words;
  FrameColumns frames;
  StackColumns stacks;
  LiveColumns live, segments;
  PackedColumn<std::uint8_t> event_type, event_kind;
};

std::vector<Field> EventFields(Draft& draft) {
  Events& events = draft.snapshot.events;
  return {Array("type", draft.event_type),  Array("time_ns", events.time_ns), Array("id", events.id),
          Array("address", events.address), Array("bytes", events.bytes),     Array("stream", events.stream),
          Array("stack", events.stack),     Array("thread", events.thread),   Array("device", events.device),
          Array("kind", draft.event_kind),  Array("flags", events.flags),     Array("result", events.result)};
}

// Stops at once in a file that is something else, or that a newer version made.
Field FormatField(Draft& draft) {
  return {"format", [&draft](JsonReader& in) {
            if (!in.Read(draft.format)) return false;
            return draft.format == "cuheap-snapshot" || in.Fail(kForeign);
          }};
}
Field VersionField(Draft& draft) {
  return {"version", [&draft](JsonReader& in) {
            if (!in.Read(draft.version)) return false;
            return draft.version == kSnapshotVersion || in.Fail("version " + std::to_string(draft.version));
          }};
}

std::vector<Field> TopFields(Draft& draft) {
  Snapshot& snapshot = draft.snapshot;
  return {FormatField(draft),
          VersionField(draft),
          Scalar("cuheap_version", snapshot.cuheap_version),
          Object("process", FieldsOf(snapshot.process)),
          Optional(Scalar("recorder", snapshot.recorder)),
          Scalar("simulated", snapshot.simulated),
          Map("configuration", snapshot.configuration),
          Map("counters", snapshot.counters),
          Optional(Rows<DriverTime>("driver_time", snapshot.driver_time, FieldsOf)),
          Object("completeness", FieldsOf(snapshot.completeness)),
          Object("words", FieldsOf(draft.words)),
          Rows<Device>("devices", snapshot.devices, FieldsOf),
          Rows<Module>("modules", snapshot.modules, FieldsOf),
          Rows<ThreadInfo>("threads", snapshot.threads, FieldsOf),
          Array("strings", snapshot.strings, kMaxNames),
          Object("frames", FieldsOf(draft.frames)),
          Object("stacks", FieldsOf(draft.stacks)),
          Object("live", FieldsOf(draft.live)),
          Object("segments", FieldsOf(draft.segments)),
          Object("events", EventFields(draft)),
          Rows<Note>("notes", snapshot.notes, FieldsOf)};
}

std::optional<Inconsistency> Complete(Draft& draft) {
  Snapshot& snapshot = draft.snapshot;
  if (auto wrong = MakeFrames(draft.frames, draft.words, snapshot.frames)) return wrong;
  if (auto wrong = MakeStacks(draft.stacks, snapshot.stacks)) return wrong;
  if (auto wrong = MakeLive("live", draft.live, draft.words, snapshot.live)) return wrong;
  if (auto wrong = MakeLive("segments", draft.segments, draft.words, snapshot.segments)) return wrong;
  if (auto wrong = MakeEventEnums(draft.event_type, draft.event_kind, draft.words, snapshot.events)) return wrong;
  return FindInconsistency(snapshot);
}

absl::Status ReadingError(const JsonReader& in, const Draft& draft, const std::string& name) {
  if (draft.format == "cuheap-snapshot" && draft.version > kSnapshotVersion) {
    return FileError(absl::StatusCode::kFailedPrecondition, name, in.place(),
                     "snapshot version " + std::to_string(draft.version) + ", this cuheap reads version " +
                         std::to_string(kSnapshotVersion),
                     "it was made by a newer cuheap: update");
  }
  if (in.cut_off()) {
    return FileError(absl::StatusCode::kInvalidArgument, name, in.place(), in.problem(),
                     std::string("the file is cut off: copy it again, or ") + kMakeAgain);
  }
  if (draft.format == "cuheap-snapshot") {
    return FileError(absl::StatusCode::kInvalidArgument, name, in.place(), in.problem(), kMakeAgain);
  }
  const std::string foreign = in.problem() == kForeign ? kForeign : kForeign + (": " + in.problem());
  return FileError(absl::StatusCode::kInvalidArgument, name, in.place(), foreign, "name a snapshot that cuheap wrote");
}

// Gives the first bytes again after a look at them.
class PeekedSource final : public TextSource {
 public:
  explicit PeekedSource(TextSource& source) : source_(source) { has_first_ = source.Read(&first_, 1) == 1; }
  // Every pickle of protocol 2 or later begins so, and no JSON text does.
  bool IsPickle() const { return has_first_ && static_cast<unsigned char>(first_) == 0x80; }
  bool IsGzip() const { return has_first_ && static_cast<unsigned char>(first_) == 0x1F; }
  std::size_t Read(char* out, std::size_t bytes) override {
    if (!has_first_ || bytes == 0) return source_.Read(out, bytes);
    has_first_ = false;
    *out = first_;
    return 1;
  }
  const std::string& error() const override { return source_.error(); }

 private:
  TextSource& source_;
  char first_ = 0;
  bool has_first_ = false;
};

absl::StatusOr<Snapshot> Load(TextSource& unread, const std::string& name) {
  PeekedSource source(unread);
  if (source.IsPickle()) return LoadTorchSnapshot(source, name);
  if (source.IsGzip()) {
    return FileError(absl::StatusCode::kInvalidArgument, name, "", "is compressed with gzip, which is not read",
                     "unpack it (gunzip), or compress it with zstd");
  }
  JsonReader in(source);
  Draft draft;
  if (!ReadObject(in, TopFields(draft), kForeign) || !in.ExpectEnd()) return ReadingError(in, draft, name);
  if (const std::optional<Inconsistency> wrong = Complete(draft)) {
    return FileError(absl::StatusCode::kInvalidArgument, name, wrong->place, wrong->problem, kMakeAgain);
  }
  return std::move(draft.snapshot);
}

}  // namespace

absl::StatusOr<Snapshot> LoadSnapshot(const std::string& path,
                                      std::function<void(std::uint64_t, std::uint64_t)> progress) {
  constexpr std::chrono::seconds kPatience(10);
  absl::StatusOr<std::unique_ptr<TextSource>> source = OpenTextFile(path, kPatience, std::move(progress));
  if (!source.ok()) return source.status();
  return Load(**source, path);
}

absl::StatusOr<Snapshot> LoadSnapshotFromMemory(std::string_view text, const std::string& name) {
  return Load(*TextInMemory(text), name);
}

}  // namespace cuheap::analysis
