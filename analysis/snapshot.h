// The model of one process's GPU memory: what readers make (journal, snapshot JSON, later PyTorch pickles) and what
// every analysis and exporter consumes. Plain data; times are ns since Process::start_realtime_ns, sizes are bytes.
//
// Strings, frames and stacks are interned: an index into the table of that name. Index 0 of `strings`, `frames` and
// `stacks` is the empty one ("none"), so that 0 never needs a test. Events are columns, in order of time.
#ifndef CUHEAP_ANALYSIS_SNAPSHOT_H_
#define CUHEAP_ANALYSIS_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/packed_column.h"

namespace cuheap::analysis {

inline constexpr int kSnapshotVersion = 1;  // of the JSON format; docs/snapshot.schema.json

enum class FrameKind : std::uint8_t { kNone, kNative, kPython };

struct Frame {
  FrameKind kind = FrameKind::kNone;
  std::uint32_t function = 0;  // string; 0: not known, then `reason` says why
  std::uint32_t file = 0;      // string; source file, 0: not known
  std::uint32_t line = 0;      // 0: not known
  std::uint32_t module = 0;    // index into modules + 1; 0: none (JIT code, Python)
  std::uint64_t offset = 0;    // native: return address - load bias (what addr2line wants, minus one)
  bool inlined = false;        // the function was inlined into the next outer frame
  std::uint32_t reason = 0;    // string: why function, file or line could not be had
  friend auto operator<=>(const Frame&, const Frame&) = default;
};

struct Stack {
  std::vector<std::uint32_t> frames;  // innermost first
  bool truncated = false;             // deeper than the recorder's limit: outer frames are missing
  bool unwind_failed = false;         // the walk stopped early: outer frames are missing
  bool python_unplaced = false;       // where the Python frames belong is not known: they come behind the native ones
  std::uint32_t no_python = 0;        // string: why there is no Python frame; 0: there is one, or none was asked for
  std::uint32_t backward = 0;         // string: the node of autograd's graph that ran, "AddmmBackward0"; 0: none
  friend auto operator<=>(const Stack&, const Stack&) = default;
};

struct Module {
  std::string path;
  bool path_cut = false;  // longer than the journal holds: only its beginning is known
  std::string build_id;   // hex, empty if none
  std::uint64_t load_bias = 0, begin = 0, end = 0;
};

struct ThreadInfo {
  std::uint32_t tid = 0;
  std::string name;
  std::int64_t first_ns = 0, last_ns = 0;
};

inline constexpr std::uint32_t kUnknownDevice = 0xFFFF;  // ordinal of an allocation or event whose device is not known

struct Device {
  std::uint32_t ordinal = 0;
  std::string name, uuid;
  std::uint64_t total_bytes = 0;
  std::uint32_t compute_capability = 0;          // major * 10 + minor
  std::uint64_t live_bytes = 0, live_count = 0;  // program's device memory, as requested
  std::uint64_t peak_bytes = 0;
  std::int64_t peak_ns = 0;
  std::uint64_t reserved_bytes = 0, reserved_peak_bytes = 0, quarantined_bytes = 0;  // of our pool
  std::uint64_t driver_free_at_start = 0;                                            // 0: not known
  // Of a framework's own cache: what it handed out (kTensor), and what it holds from the driver.
  std::uint64_t tensor_live_bytes = 0, tensor_live_count = 0, tensor_peak_bytes = 0;
  std::int64_t tensor_peak_ns = 0;
  std::uint64_t framework_held_bytes = 0, framework_held_peak_bytes = 0;
};

// Names in JSON are the lower-case words: "device", "pitched", ... (see ToString/FromString in snapshot_names.h).
enum class AllocationKind : std::uint8_t {
  kNone,
  kDevice,
  kPitched,
  kManaged,
  kStreamOrdered,
  kFromPool,
  kArray,
  kMipmappedArray,
  kVirtual,
  kImported,
  kModuleData,
  kPoolSegment,
  kHostPinned,
  kHostRegistered,
  kHostVirtual,
  kTensor,           // handed out by a framework from its own cache, which lies in memory of other kinds
  kMulticast,        // an object over memory of other kinds
  kExternal,         // of another interface: external memory's buffers, graphics resources
  kExternalArray,    // ... mapped as a mipmapped array
  kImportedVirtual,  // of another process, by a shared handle
};
bool IsDeviceMemory(AllocationKind kind);  // counts against a device: kDevice..kVirtual and kModuleData

// Who asked the driver for it.
enum class Allocator : std::uint8_t { kProgram, kPyTorch, kCuheap };

inline constexpr std::int64_t kTimeUnknown = std::numeric_limits<std::int64_t>::min();  // before the record began

struct LiveAllocation {
  std::uint64_t id = 0, address = 0, bytes = 0, reserved_bytes = 0, stream = 0, context = 0;
  std::int64_t time_ns = 0;
  std::uint32_t stack = 0, thread = 0;  // thread: index into threads + 1; 0: not known
  std::uint32_t device = 0;             // ordinal
  std::uint64_t mapped_address = 0;     // kVirtual: where it is mapped, 0: nowhere
  AllocationKind kind = AllocationKind::kNone;
  Allocator allocator = Allocator::kProgram;
  bool served = false;  // lies in a segment of our pool
};

enum class EventType : std::uint8_t {
  kNone,
  kAllocate,
  kFree,
  kFreeFailed,
  kAllocateFailed,
  kSynchronize,
  kContextDestroyed,
  kSegmentAllocate,
  kSegmentFree,
  kStepMark,
  kFrameworkOutOfMemory,  // bytes asked for; address: bytes of all tensors; stream: bytes that the cache holds
  kMap,                   // of a kVirtual (id) at `address`; stream: its handle
  kUnmap,
  kDriverCall,  // one that took 0.1 ms or more; bytes: its duration in ns, address: a DriverCall
};

// What a call of the real driver was for. Names in JSON: "allocate", "free", ... (snapshot_names.h).
enum class DriverCall : std::uint8_t { kAllocate, kFree, kMap, kPinHost, kUnpinHost, kFreeWait, kPoolWait };
inline constexpr std::size_t kDriverCalls = 7;

// Of the process, all threads together.
struct DriverTime {
  std::string call;  // word of a DriverCall
  std::uint64_t count = 0, total_ns = 0, longest_ns = 0;
};

// Columns of equal length. `id` joins an allocation with its free.
struct Events {
  PackedColumn<EventType> type;
  PackedColumn<std::int64_t> time_ns;
  PackedColumn<std::uint64_t> id, address, bytes, stream;
  PackedColumn<std::uint32_t> stack, thread, device;
  PackedColumn<AllocationKind> kind;
  PackedColumn<std::uint16_t> flags, result;  // flags: journal/format.h
  std::size_t size() const { return type.size(); }
};

struct Note {
  std::string code, text;
  std::int64_t time_ns = 0;
  std::uint64_t a = 0, b = 0;
};

// How complete the record is: every loss is a number that a report must show.
struct Completeness {
  std::uint64_t events_overwritten = 0, events_dropped = 0, live_dropped = 0, stacks_failed = 0;
  // "exited" (reached its exit handlers), "quit" (ended by itself, but not through them: _exit, quick_exit, exec of a
  // program without CUDA), "killed" (by a signal; or "quit", if nobody knows how it ended), "running", "executed".
  std::string end = "unknown";
  // As whoever started the process was told: one of the two, or neither if nobody was.
  std::optional<std::uint32_t> exit_status = {};
  std::optional<std::uint32_t> exit_signal = {};
  bool events_complete() const { return events_overwritten == 0 && events_dropped == 0; }
};

struct Process {
  std::uint64_t pid = 0, parent_pid = 0;
  std::string host, executable, working_directory;
  std::vector<std::string> command_line;
  bool command_line_cut = false;
  std::int64_t start_realtime_ns = 0;  // since the epoch; event time 0 is this instant
  std::int64_t duration_ns = 0;
  std::map<std::string, std::string> launcher;  // RANK, LOCAL_RANK, WORLD_SIZE, SLURM_*
};

struct Snapshot {
  std::string cuheap_version;
  std::string recorder = "cuheap";  // who recorded it: "cuheap", or "pytorch" (its memory snapshot)
  Process process;
  bool simulated = false;  // ran on the simulated CUDA: totals leave out what it does not model
  std::map<std::string, std::string> configuration;  // options in force
  std::map<std::string, std::uint64_t> counters;
  std::vector<DriverTime> driver_time;  // in order of DriverCall; empty: the recorder did not take the time
  Completeness completeness;
  std::vector<std::string> strings{""};
  std::vector<Frame> frames{Frame{}};
  std::vector<Stack> stacks{Stack{}};
  std::vector<Module> modules;
  std::vector<ThreadInfo> threads;
  std::vector<Device> devices;
  std::vector<LiveAllocation> live;      // the program's, by address
  std::vector<LiveAllocation> segments;  // our pool's (kind kPoolSegment), by address
  Events events;
  std::vector<Note> notes;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_SNAPSHOT_H_
