// The journal's layout: the one thing that the recorder (in the program) and the readers (outside) share.
//
// One process image writes one file, `<CUHEAP_DIR>/<pid>-<start ticks>.journal` (an image that came by exec, which
// keeps both numbers, `<pid>-<start ticks>.<image>.journal`), through shared mappings only, so that what was stored
// survives the process whatever ends it. The file is a FileHeader followed by extents; every extent holds fixed-size
// records of one kind. Space is allocated (fallocate) before an extent is published, since touching an unreserved page
// of a full tmpfs kills the process.
//
//   0            FileHeader (facts, counters, devices, extent directory), kHeaderBytes long
//   extents[i]   at Extent::offset, Extent::bytes long, kind Extent::kind, in order of publication
//
// Publication rules, which make the file readable after a kill at any instant:
//  - an extent exists once FileHeader::extent_count (release) covers it;
//  - an event, module, thread, note or stack exists once its commit word (release) holds the expected value, written
//  last;
//  - a live slot is a seqlock: odd while being written; readers outside a living process retry. The slots alone say
//  what
//    is live: a slot is filled before the kAllocate event and emptied before the kFree event, both before the hook goes
//    on. So after a kill an odd slot is a block whose allocation or free had not returned, and is not counted; the
//    events need not be replayed, and the newest kFree of a killed thread may be missing;
//  - a stack is committed before the first event or slot that names it, a module and a Python code object before the
//    first stack that names it;
//  - frees are recorded before the real free, allocations after the real success.
//
// All integers are little endian; atomics are lock-free words of the mapping. This header includes <cstdint>-level
// headers only. docs/journal.md draws it.
#ifndef CUHEAP_INTERPOSE_JOURNAL_FORMAT_H_
#define CUHEAP_INTERPOSE_JOURNAL_FORMAT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cuheap::journal {

inline constexpr std::uint64_t kMagic = 0x314A504145485543;  // the bytes "CUHEAPJ1"
inline constexpr std::uint32_t kVersion = 1;

inline constexpr std::uint32_t kMaxExtents = 16384;
inline constexpr std::uint32_t kMaxDevices = 64;
inline constexpr std::uint64_t kExtentAlignment = 4096;  // offsets and sizes of extents

// What an extent holds.
enum class ExtentKind : std::uint32_t {
  kNone = 0,
  kEvents = 1,      // EventExtentHeader, then Event records; the owner is EventExtentHeader::chain
  kLive = 2,        // LiveSlot records
  kStacks = 3,      // 64-bit words, see StackHeader; the words of all kStacks extents form one sequence
  kModules = 4,     // ModuleRecord
  kThreads = 5,     // ThreadRecord
  kNotes = 6,       // NoteRecord
  kPythonCode = 7,  // PythonCodeHeader, each followed by its bytes
};

struct Extent {
  std::uint32_t kind;  // ExtentKind
  std::uint32_t owner;
  std::uint64_t offset;  // bytes from the start of the file
  std::uint64_t bytes;
};
static_assert(sizeof(Extent) == 24);

enum class ProcessState : std::uint32_t {
  kStarting = 0,   // header not complete yet: nothing else may be trusted
  kRecording = 1,  // the process runs, or was killed
  kEnded = 2,      // the process reached its exit handlers
  kExecuted = 3,   // replaced by exec (the supervisor concludes this; never written by the recorder)
};

// Counters of the whole process, each one monotonic unless said otherwise.
enum class Counter : std::uint32_t {
  kAllocations,         // successful allocations the program made
  kFrees,               // successful frees the program made (counted before the free, taken back when it fails)
  kAllocationFailures,  // calls that returned an error to the program
  kEventsOverwritten,   // events lost because the cap on event extents was reached
  kEventsDropped,       // events never written (no space, no thread slot, re-entry)
  kLiveDropped,         // allocations without a live slot (no space): the live set is then incomplete
  kStacksInterned,
  kStacksFailed,             // stacks that could not be taken or stored
  kPoolHits,                 // allocations served from memory the pool held
  kPoolMisses,               // allocations for which the pool asked the driver
  kForwarded,                // allocations handed to the driver as they were
  kContextSynchronizations,  // completed context-wide synchronisations, the program's
  kPoolSynchronizations,     // ... begun by the pool
  kOutOfMemoryRescues,       // forwarded calls that succeeded after the pool gave memory back
  kFreesUnknown,             // frees of addresses that were not in the live table
  kFreesNotSeen,             // blocks dropped because their address was allocated again (kFreeNotSeen)
  kFreesWithContext,         // blocks that went with their context (kFreedWithContext)
  kReentries,                // hooks that came while the thread was recording: what they did is not in the journal
  kTensorAllocations,        // blocks of a framework's cache that it reported handing out (AllocationKind::kTensor)
  kTensorFrees,              // ... taking back
  kTensorFreesUnknown,       // ... taking back that were not in the live table
  kTensorTotalsDiffer,       // reports whose total of bytes handed out was not ours (DeviceRecord::tensor_live_bytes)
  kFrameworkReservedDiffer,  // reports whose total of bytes held from the driver was not ours (framework_held_bytes)
  kFrameworkOutOfMemory,     // out-of-memory errors that a framework reported of its own
  kEventsCreated,            // CUDA events, the program's and its libraries': created or opened from another process
  kEventsDestroyed,          // ... destroyed by a call of theirs (others go with their context)
  kStreamsCreated,           // CUDA streams, likewise
  kStreamsDestroyed,
  kCount = 32,               // room, so that new counters do not move what follows
};

// What a call of the real driver was for. Values never change their meaning.
enum class DriverCall : std::uint8_t {
  kAllocate = 0,   // device memory for the program or the pool: cuMemAlloc and its kind, cuMemCreate
  kFree = 1,       // cuMemFree and its kind, which may wait for the device's work; cuMemRelease
  kMap = 2,        // virtual memory: cuMemMap, cuMemUnmap, cuMemSetAccess, cuMemAddressReserve, cuMemAddressFree
  kPinHost = 3,    // cuMemHostAlloc, cuMemAllocHost, cuMemHostRegister
  kUnpinHost = 4,  // cuMemFreeHost, cuMemHostUnregister
  kFreeWait = 5,   // a wait for a context's work that we make in a free of the program's, where the driver would
  kPoolWait = 6,   // ... that the pool makes before it asks the driver for more
};
inline constexpr std::uint32_t kDriverCalls = 8;  // room

// Of all threads together. All zero in journals of recorders that did not take the time.
struct DriverTime {
  std::atomic<std::uint64_t> count, total_ns, longest_ns;
};
static_assert(sizeof(DriverTime) == 24);

struct DeviceRecord {
  std::atomic<std::uint32_t> present;  // 1 once the fields below are valid
  std::uint32_t compute_capability;    // major * 10 + minor
  std::uint64_t total_bytes;           // as the driver reports it
  char name[64];
  char uuid[16];  // raw bytes of cuDeviceGetUuid_v2
  // Device memory of the program (IsDeviceMemory below), in bytes as requested.
  std::atomic<std::uint64_t> live_bytes;
  std::atomic<std::uint64_t> live_count;
  std::atomic<std::uint64_t> peak_bytes;    // exact: updated on every allocation
  std::atomic<std::uint64_t> peak_time_ns;  // when peak_bytes was reached
  // Memory the pool holds from the driver (segments), and its parts.
  std::atomic<std::uint64_t> reserved_bytes;
  std::atomic<std::uint64_t> reserved_peak_bytes;
  std::atomic<std::uint64_t> quarantined_bytes;     // freed by the program, not yet proven unused
  std::atomic<std::uint64_t> driver_free_at_start;  // cuMemGetInfo at first use of the device, 0 if not known
  // A framework's own cache: what it handed out (kTensor), in bytes as it reported them, and what it holds from the
  // driver (allocations with kCallerIsPyTorch that are device memory).
  std::atomic<std::uint64_t> tensor_live_bytes;
  std::atomic<std::uint64_t> tensor_live_count;
  std::atomic<std::uint64_t> tensor_peak_bytes;    // exact, as peak_bytes
  std::atomic<std::uint64_t> tensor_peak_time_ns;  // when tensor_peak_bytes was reached
  std::atomic<std::uint64_t> framework_held_bytes;
  std::atomic<std::uint64_t> framework_held_peak_bytes;
  std::uint64_t spare[2];
};

struct FileHeader {
  std::atomic<std::uint64_t> magic;  // kMagic, written last when the header is made
  std::uint32_t version;
  std::uint32_t header_bytes;        // kHeaderBytes of the writer
  std::atomic<std::uint32_t> state;  // ProcessState
  std::uint32_t max_devices;
  std::uint32_t max_extents;
  std::atomic<std::uint32_t> extent_count;
  std::uint64_t pid;
  std::uint64_t parent_pid;
  std::uint64_t start_ticks;         // field 22 of /proc/self/stat: with pid, unique on a host
  std::uint64_t start_realtime_ns;   // CLOCK_REALTIME and CLOCK_MONOTONIC read together:
  std::uint64_t start_monotonic_ns;  // every time in the journal is CLOCK_MONOTONIC in ns
  std::atomic<std::uint64_t> end_monotonic_ns;
  std::uint64_t pointer_bytes;  // 8
  std::uint64_t image;          // how many earlier images of this process (exec) had written a journal here
  char host[64];
  char executable[1024];    // /proc/self/exe
  char command_line[2048];  // arguments joined by NUL, cut at the end if longer (command_line_cut)
  std::uint32_t command_line_bytes;
  std::uint32_t command_line_cut;
  char working_directory[1024];
  char configuration[2048];   // "name=value\n" of every option in force
  char launcher_facts[1024];  // "RANK=0\n..." of the few launcher variables that are recorded (never the environment)
  std::atomic<std::uint64_t> counters[static_cast<std::size_t>(Counter::kCount)];
  DeviceRecord devices[kMaxDevices];
  Extent extents[kMaxExtents];
  DriverTime driver_time[kDriverCalls];  // by DriverCall; lies in what was room behind the extents before it came
};
inline constexpr std::uint64_t kHeaderBytes =
    (sizeof(FileHeader) + kExtentAlignment - 1) / kExtentAlignment * kExtentAlignment;
static_assert(kHeaderBytes == 417792, "extents would lie elsewhere than in journals of before: a new kVersion");

// How memory was obtained: one value per kind of driver call. Values never change their meaning.
enum class AllocationKind : std::uint8_t {
  kNone = 0,
  kDevice = 1,          // cuMemAlloc
  kPitched = 2,         // cuMemAllocPitch
  kManaged = 3,         // cuMemAllocManaged
  kStreamOrdered = 4,   // cuMemAllocAsync
  kFromPool = 5,        // cuMemAllocFromPoolAsync
  kArray = 6,           // cuArrayCreate, cuArray3DCreate (address is the handle)
  kMipmappedArray = 7,  // (address is the handle)
  kVirtual = 8,         // cuMemCreate (address is the handle; physical memory on a device)
  kImported = 9,  // cuIpcOpenMemHandle and other imports: another process owns the bytes, not counted as device memory
  kModuleData = 10,     // reserved for globals of modules
  kPoolSegment = 11,    // our pool's own segments: not the program's, counted in reserved_bytes
  kTensor = 12,         // a block that a framework handed out of its own cache: lies in memory that is counted already
  kMulticast = 13,      // cuMulticastCreate (address is the handle): bound to memory that is counted by itself
  kExternal = 14,       // memory of another interface, mapped: external memory's buffers, graphics resources
  kExternalArray = 15,  // ... mapped as a mipmapped array (address is the handle)
  kImportedVirtual = 16,  // cuMemImportFromShareableHandle (address is the handle): another process owns the bytes
  kHostFirst = 32,
  kHostPinned = 32,      // cuMemHostAlloc, cuMemAllocHost
  kHostRegistered = 33,  // cuMemHostRegister
  kHostVirtual = 34,     // cuMemCreate with a host location
};

// Takes a device's memory, on behalf of the program. Tensors do not: the memory around them does.
inline constexpr bool IsDeviceMemory(AllocationKind kind) {
  switch (kind) {
    case AllocationKind::kDevice:
    case AllocationKind::kPitched:
    case AllocationKind::kManaged:
    case AllocationKind::kStreamOrdered:
    case AllocationKind::kFromPool:
    case AllocationKind::kArray:
    case AllocationKind::kMipmappedArray:
    case AllocationKind::kVirtual:
    case AllocationKind::kModuleData:
      return true;
    default:
      return false;
  }
}

// Bits of LiveSlot::flags and Event::flags.
inline constexpr std::uint16_t kServedFromPool = 1u << 0;   // the block lies in a segment of our pool
inline constexpr std::uint16_t kCallerIsPyTorch = 1u << 1;  // the driver call came from PyTorch's caching allocator
inline constexpr std::uint16_t kDuringCapture = 1u << 2;
inline constexpr std::uint16_t kFreedAtShutdown = 1u << 3;   // free recorded after the process began to exit
inline constexpr std::uint16_t kFreedWithContext = 1u << 4;  // its context was destroyed or reset
inline constexpr std::uint16_t kHadFailedFree = 1u << 5;     // an earlier kFree of this allocation failed: still live
inline constexpr std::uint16_t kFreeNotSeen = 1u << 6;       // its address was handed out again: it was freed unseen

enum class EventType : std::uint8_t {
  kNone = 0,
  kAllocate = 1,          // after success
  kFree = 2,              // before the real free; address, bytes and allocation_id name the block
  kFreeFailed = 3,        // the real free failed (result): the block named by the preceding kFree is live again
  kAllocateFailed = 4,    // bytes and kind asked for, result; no allocation id
  kSynchronize = 5,       // a context-wide synchronisation of the program returned; bytes = duration in ns
  kContextDestroyed = 6,  // context in `address`; the blocks it freed have their own kFree events before this one
  kSegmentAllocate = 7,   // our pool took a segment from the driver (kind kPoolSegment)
  kSegmentFree = 8,       // ... gave it back
  kStepMark = 9,          // cuheap_step() was called; bytes = the program's step number, or 0
  // A framework is about to tell the program that memory ran out: bytes asked for, in `address` the bytes of all its
  // tensors on the device, in `stream` those that its cache holds there.
  kFrameworkOutOfMemory = 10,
  kMap = 11,    // cuMemMap of a kVirtual (allocation_id) at `address`, `bytes` long; its handle in `stream`
  kUnmap = 12,  // ... is about to be unmapped
  kDriverCall = 13,  // a call of the driver returned that took kSlowDriverCallNs or more: DriverCall in `address`,
                     // bytes = duration in ns, with its stack
};

inline constexpr std::uint64_t kSlowDriverCallNs = 100'000;

// One event. `commit` is written last (release) and holds the event's sequence number in its chain, from 1. A chain has
// one writing thread at a time; when that thread ends, a new thread goes on with the chain (thousands of short threads
// need no thousands of extents), so the thread of an event is Event::thread, not its chain.
struct Event {
  std::atomic<std::uint64_t> commit;
  std::uint64_t time_ns;
  std::uint64_t address;
  std::uint64_t bytes;          // as requested
  std::uint64_t allocation_id;  // see MakeAllocationId; names the block from kAllocate to kFree; 0 = none
  std::uint64_t stream;         // CUstream handle of stream-ordered calls, else 0
  std::uint32_t stack;          // stack id, 0 = none taken
  std::uint32_t thread;         // index of the ThreadRecord, from 1; 0 = not known
  std::uint8_t type;            // EventType
  std::uint8_t kind;            // AllocationKind
  std::uint16_t device;         // ordinal; 0xFFFF = not known
  std::uint16_t flags;
  std::uint16_t result;  // CUresult
};
static_assert(sizeof(Event) == 64);

// First 64 bytes of a kEvents extent. Record i (from 0) is valid iff first_sequence != 0 and its commit ==
// first_sequence + i. An extent is recycled for newer events (of any chain) by storing first_sequence = 0, which
// invalidates all the old records at once, then clearing the commits, then `chain`, then the new first_sequence. A
// reader of a living process reads first_sequence before and after a copy and discards what changed.
struct EventExtentHeader {
  std::atomic<std::uint64_t> first_sequence;
  std::atomic<std::uint32_t> chain;  // owner now, from 1
  std::uint32_t spare0;
  std::uint64_t spare[6];
};
static_assert(sizeof(EventExtentHeader) == 64);

// One block the program holds (or a segment our pool holds). Slots are reused after a free.
struct LiveSlot {
  std::atomic<std::uint32_t> sequence;  // odd while being written
  std::uint32_t state;                  // 0 empty, 1 live
  std::uint64_t allocation_id;
  std::uint64_t address;
  std::uint64_t bytes;           // as requested
  std::uint64_t reserved_bytes;  // what it occupies: block size in the pool, or bytes if forwarded
  std::uint64_t time_ns;
  std::uint64_t stream;
  std::uint64_t context;  // CUcontext handle
  std::uint32_t stack;
  std::uint32_t thread;
  std::uint8_t kind;  // AllocationKind
  std::uint8_t spare0;
  std::uint16_t device;
  std::uint16_t flags;
  std::uint16_t spare1;
  std::uint64_t mapped_address;  // kVirtual: where it is mapped (the last place, if at several), 0 = nowhere
  std::uint64_t spare[5];
};
static_assert(sizeof(LiveSlot) == 128);

// Unique in the process without a global counter: the chain of the allocating thread, and a number of that chain.
inline constexpr std::uint64_t MakeAllocationId(std::uint32_t chain, std::uint64_t number) {
  return (static_cast<std::uint64_t>(chain) << 40) | (number & ((std::uint64_t{1} << 40) - 1));
}

// A stack in the word sequence of the kStacks extents: StackHeader (2 words), then `depth` words, innermost first.
// The stack's id is the index of its first word in the whole sequence (all kStacks extents in order of publication,
// each Extent::bytes / 8 words); a stack never crosses an extent. Word 0 of the sequence is not used: id 0 = none.
// Frame word: module index << 48 | (return address - load bias), module index from 1; index 0: absolute address. Module
// index kPythonModule: a frame of Python code, see MakePythonWord. Native and Python frames are in one order, as the
// calls were: a Python frame comes right after (outside) the native frame of the interpreter's loop that ran it.
struct StackHeader {
  std::atomic<std::uint32_t> commit;  // kStackCommitted, written last
  std::uint16_t depth;
  std::uint16_t flags;
  std::uint64_t hash;
};
static_assert(sizeof(StackHeader) == 16);
inline constexpr std::uint32_t kStackCommitted = 0x4B415453;
inline constexpr std::uint16_t kStackTruncated = 1u << 0;         // deeper than the limit
inline constexpr std::uint16_t kStackUnwindFailed = 1u << 1;      // the unwinder stopped early
inline constexpr std::uint16_t kStackPythonTruncated = 1u << 2;   // more Python frames than the limit
inline constexpr std::uint16_t kStackPythonUnreadable = 1u << 3;  // reading the Python frames stopped early
inline constexpr std::uint16_t kStackPythonUnplaced = 1u << 4;    // where among the native frames the Python frames
                                                                  // belong is not known: they are the last words
// Why a stack has no Python frame (a NoPython): flags >> kNoPythonShift & kNoPythonMask.
inline constexpr unsigned kNoPythonShift = 5;
inline constexpr std::uint16_t kNoPythonMask = 7;
enum class NoPython : std::uint16_t {
  kNotAsked = 0,        // it has some; or Python frames are off, or no Python was seen in the process
  kUnknownThread = 1,   // the interpreter does not know this thread: a thread of C++ that never ran Python
  kNoFrame = 2,         // the interpreter knows the thread, but it runs no Python code (autograd's threads)
  kNotInitialized = 3,  // Python has not begun, or is ending
};
inline constexpr unsigned kModuleShift = 48;

// A frame of Python code: kPythonModule << 48 | code << 26 | entered << 25 | instruction.
//   code         of PythonCodeHeader::commit; 0: there was no room for it
//   entered      the frame was called from C: it is the outermost one that its native frame of the interpreter runs
//   instruction  what the frame is executing, counted in code units of 2 bytes from the beginning of the bytecode;
//                kNoPythonInstruction: not known
inline constexpr std::uint32_t kPythonModule = 0xFFFF;
inline constexpr unsigned kPythonCodeShift = 26;
inline constexpr std::uint32_t kMaxPythonCodes = (1u << 22) - 1;
inline constexpr std::uint64_t kPythonEntered = std::uint64_t{1} << 25;
inline constexpr std::uint32_t kNoPythonInstruction = (1u << 25) - 1;
inline constexpr std::uint64_t MakePythonWord(std::uint32_t code, bool entered, std::uint32_t instruction) {
  return (std::uint64_t{kPythonModule} << kModuleShift) | (std::uint64_t{code} << kPythonCodeShift) |
         (entered ? kPythonEntered : 0) | instruction;
}

// What is needed of a code object to name its lines, copied when it was first seen. Records of a kPythonCode extent lie
// one behind the other, each PythonCodeHeader followed by filename, name and line table without anything between, and
// filled up to a multiple of 8 bytes; one without commit ends its extent. Numbers count through all extents, from 1.
struct PythonCodeHeader {
  std::atomic<std::uint32_t> commit;  // its number, written last
  std::uint32_t bytes;                // of the whole record
  std::uint32_t first_line;
  std::uint16_t python_version;    // major << 8 | minor: says what the line table means
  std::uint16_t cut;               // kPythonFilenameCut, ...
  std::uint32_t filename_bytes;    // UTF-8; what is no Unicode (surrogates) became U+FFFD
  std::uint32_t name_bytes;        // UTF-8; co_qualname from 3.11 on, before co_name
  std::uint32_t line_table_bytes;  // co_lnotab of 3.9, co_linetable later
  std::uint32_t spare;
};
static_assert(sizeof(PythonCodeHeader) == 32);
inline constexpr std::uint16_t kPythonFilenameCut = 1u << 0;  // longer than kMaxPythonText: its beginning
inline constexpr std::uint16_t kPythonNameCut = 1u << 1;
inline constexpr std::uint16_t kPythonLineTableCut = 1u
                                                     << 2;  // longer than kMaxPythonLineTable, or unreadable: left out
inline constexpr std::uint32_t kMaxPythonText = 4096;
inline constexpr std::uint32_t kMaxPythonLineTable = 1u << 20;

// A loaded object. A library unloaded and loaded again gets a new record, so that old stacks stay true.
struct ModuleRecord {
  std::atomic<std::uint32_t> commit;  // index from 1, written last
  std::uint32_t path_bytes;           // without NUL; path_cut tells if longer than fits
  std::uint64_t load_bias;
  std::uint64_t begin;  // mapped range
  std::uint64_t end;
  std::uint32_t build_id_bytes;
  std::uint32_t path_cut;
  std::uint8_t build_id[32];
  char path[1024 - 72];
};
static_assert(sizeof(ModuleRecord) == 1024);

struct ThreadRecord {
  std::atomic<std::uint32_t> commit;  // index from 1, written last
  std::uint32_t tid;                  // kernel thread id
  std::uint64_t first_ns;
  std::atomic<std::uint64_t> last_ns;  // when its exit was noticed, 0 if it was not
  char name[16];
  std::uint64_t spare[3];
};
static_assert(sizeof(ThreadRecord) == 64);

// What the recorder could not do or see, and what it decided: becomes "not observed" in the report.
enum class NoteCode : std::uint16_t {
  kNone = 0,
  kUnknownAddress = 1,    // the driver answered a hooked name with an address we don't know: text = name
  kMissingFunction = 2,   // a function that we need is not in this driver
  kPassThrough = 3,       // serving was switched off for good: text = reason
  kIpcOfPackedBlock = 4,  // an IPC handle of a packed block was asked for and refused
  kUnwinderOff = 5,       // native stacks are off: text = reason
  kNoSpace = 6,           // the journal could not grow: text = what was lost
  kForked = 7,            // a child was forked; it is not recorded by this journal: a = child pid (if known)
  kSelfCheck = 8,         // an entry of the self-check: text
  kOptionRejected = 9,    // an environment option was not understood: text
  kCapture = 10,          // stream capture seen; what it changed
  kJournalPlace = 11,     // the journal lies on a network file system: text = which
  kPythonOff = 12,        // Python frames are off: text = reason
  kTensorReports = 13,    // tensors inside a framework's cache are not reported to us, or not all: text = why
  kPoolNotTaken = 14,     // a framework uses a cache of its own although CUHEAP_MODE=pool: text = which, and why
  kUnseenLibrary = 15,    // a library reaches the driver without us: text = end of its path, a = an UnseenWay, b = how
                          // many addresses it holds
  kUnseenDriver = 16,     // a second copy of the driver is loaded, whose users are not seen: text = end of its path
  kUnseenProcess = 17,    // the process used the driver (text = end of its path), and no call came to us; a = device
                          // files that CUDA alone opens
};

// How a library reaches the driver without us.
enum class UnseenWay : std::uint8_t {
  kDirect = 1,       // it holds addresses of the driver's functions (RTLD_DEEPBIND, a table of its own)
  kOwnLookups = 2,   // its dlsym is the C library's, and it names the driver: it may have looked functions up
  kOtherDriver = 3,  // it holds addresses of another copy of the driver
};

struct NoteRecord {
  std::atomic<std::uint32_t> commit;  // index from 1, written last
  std::uint16_t code;                 // NoteCode
  std::uint16_t text_bytes;
  std::uint64_t time_ns;
  std::uint64_t a;
  std::uint64_t b;
  char text[224];
};
static_assert(sizeof(NoteRecord) == 256);

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace cuheap::journal

#endif  // CUHEAP_INTERPOSE_JOURNAL_FORMAT_H_
