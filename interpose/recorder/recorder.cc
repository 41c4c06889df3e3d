#include "interpose/recorder/recorder.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "interpose/recorder/own_files.h"
#include "interpose/recorder/process_facts.h"
#include "interpose/recorder/state.h"
#include "interpose/recorder/thread_locals.h"

namespace cuheap::recorder {
namespace {

using journal::AllocationKind;
using journal::Counter;
using journal::EventType;
using journal::NoteCode;

std::mutex g_start_mutex;
std::atomic<bool> g_fork_handlers_set = false;

void AfterForkInParent() {
  RecordingScope scope;
  if (scope.recorder() != nullptr) scope.recorder()->Note(NoteCode::kForked, "", 0, 0);
}

void AfterForkInChild() {
  // Kernels before 4.14 don't wipe the page; and the lock may have been held by a thread that is not here.
  if (Recorder* recorder = g_recorder.load(std::memory_order_relaxed); recorder != nullptr) {
    recorder->alive->store(0, std::memory_order_relaxed);
  }
  new (&g_start_mutex) std::mutex;
}

bool SayWhyNot(const char* why) {
  char line[400];
  const int size = std::snprintf(line, sizeof(line), "cuheap: not recording: %s\n", why);
  if (size > 0) {
    Complain({line, std::min<std::size_t>(static_cast<std::size_t>(size), sizeof(line) - 1)});
  }
  return false;
}

std::atomic<std::uint32_t>* MakeAlivePage() {
  void* page = MapMemory(4096);
  if (page == nullptr) return nullptr;
  madvise(page, 4096, MADV_WIPEONFORK);
  auto* alive = new (page) std::atomic<std::uint32_t>(1);
  return alive;
}

// The shared chain is chain 1, so that its index is known to nobody and needed by nobody.
bool InitParts(Recorder& recorder, const StartOptions& options) {
  recorder.alive = MakeAlivePage();
  if (recorder.alive == nullptr) return false;
  recorder.chains.Init(&recorder.file, &recorder.arena, options.max_event_bytes);
  recorder.live.Init(&recorder.file);
  recorder.threads.Init(&recorder.file, kMaxThreadRecords);
  recorder.notes.Init(&recorder.file, kMaxNotes);
  recorder.modules.Init(&recorder.file, kMaxModules);
  recorder.shared_chain = recorder.chains.Acquire();
  return recorder.shared_chain != nullptr;
}

bool StartLocked(const StartOptions& options) {
  void* memory = MapMemory(sizeof(Recorder));
  if (memory == nullptr) return SayWhyNot("no memory");
  auto* recorder = new (memory) Recorder;
  OpenError error;
  if (!recorder->file.Create(options.directory, static_cast<std::uint64_t>(getpid()), ProcessStartTicks(), error)) {
    UnmapMemory(memory, sizeof(Recorder));
    return SayWhyNot(error.text);
  }
  if (!InitParts(*recorder, options)) return SayWhyNot("no memory");
  FillProcessFacts(*recorder->file.header(), options.configuration);
  if (!g_fork_handlers_set.exchange(true)) pthread_atfork(nullptr, AfterForkInParent, AfterForkInChild);
  MakeThreadKey();
  recorder->file.Publish();
  g_recorder.store(recorder, std::memory_order_release);
  if (recorder->file.on_network_file_system()) {
    recorder->Note(NoteCode::kJournalPlace,
                   "the journal lies on a network file system: slow, and lost with the network", 0, 0);
  }
  return true;
}

std::uint64_t NewAllocationId(Recorder& recorder, ThreadState& thread) {
  if (thread.chain != nullptr) [[likely]] {
    return thread.chain->NewAllocationId();
  }
  std::lock_guard<std::mutex> lock(recorder.shared_mutex);
  return recorder.shared_chain->NewAllocationId();
}

journal::DeviceRecord* DeviceOf(Recorder& recorder, std::uint16_t device) {
  return device < journal::kMaxDevices ? &recorder.file.header()->devices[device] : nullptr;
}

// Every value that the sum takes upwards is returned by exactly one fetch_add, so the maximum of them is exact. A block
// is found by its address before it is added, so that the end of its context may subtract it first: what is below zero
// for a moment, as a signed number, is no peak.
void AddTo(std::atomic<std::uint64_t>& live, std::atomic<std::uint64_t>& peak, std::atomic<std::uint64_t>* peak_time,
           const LiveBlock& block) {
  const std::uint64_t now = live.fetch_add(block.bytes, std::memory_order_relaxed) + block.bytes;
  if (static_cast<std::int64_t>(now) < 0) return;
  if (Raise(peak, now) && peak_time != nullptr) peak_time->store(block.time_ns, std::memory_order_relaxed);
}

// Stream-ordered allocations of a framework are its tensors, not memory for a cache.
bool HeldByFramework(const LiveBlock& block) {
  return (block.flags & journal::kCallerIsPyTorch) != 0 && journal::IsDeviceMemory(block.kind) &&
         block.kind != AllocationKind::kStreamOrdered && block.kind != AllocationKind::kFromPool;
}

void AddToDevice(Recorder& recorder, const LiveBlock& block) {
  journal::DeviceRecord* device = DeviceOf(recorder, block.device);
  if (device == nullptr) return;
  if (block.kind == AllocationKind::kTensor) {
    AddTo(device->tensor_live_bytes, device->tensor_peak_bytes, &device->tensor_peak_time_ns, block);
    device->tensor_live_count.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (!journal::IsDeviceMemory(block.kind)) return;
  AddTo(device->live_bytes, device->peak_bytes, &device->peak_time_ns, block);
  device->live_count.fetch_add(1, std::memory_order_relaxed);
  if (HeldByFramework(block)) AddTo(device->framework_held_bytes, device->framework_held_peak_bytes, nullptr, block);
}

void SubtractFromDevice(Recorder& recorder, const LiveBlock& block) {
  journal::DeviceRecord* device = DeviceOf(recorder, block.device);
  if (device == nullptr) return;
  if (block.kind == AllocationKind::kTensor) {
    device->tensor_live_bytes.fetch_sub(block.bytes, std::memory_order_relaxed);
    device->tensor_live_count.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  if (!journal::IsDeviceMemory(block.kind)) return;
  device->live_bytes.fetch_sub(block.bytes, std::memory_order_relaxed);
  device->live_count.fetch_sub(1, std::memory_order_relaxed);
  if (HeldByFramework(block)) device->framework_held_bytes.fetch_sub(block.bytes, std::memory_order_relaxed);
}

// Tensors are counted apart: they are no calls of the driver.
Counter ByKind(AllocationKind kind, Counter memory, Counter tensor) {
  return kind == AllocationKind::kTensor ? tensor : memory;
}

LiveBlock BlockOf(const Allocation& allocation) {
  LiveBlock block;
  block.address = allocation.address;
  block.bytes = allocation.bytes;
  block.reserved_bytes = allocation.reserved_bytes == 0 ? allocation.bytes : allocation.reserved_bytes;
  block.stream = allocation.stream;
  block.context = allocation.context;
  block.stack = allocation.stack;
  block.kind = allocation.kind;
  block.device = allocation.device;
  block.flags = allocation.flags;
  return block;
}

Allocation AllocationOf(const LiveBlock& block) {
  Allocation allocation;
  allocation.address = block.address;
  allocation.bytes = block.bytes;
  allocation.reserved_bytes = block.reserved_bytes;
  allocation.stream = block.stream;
  allocation.context = block.context;
  allocation.device = block.device;
  allocation.kind = block.kind;
  allocation.flags = block.flags;
  allocation.stack = block.stack;
  return allocation;
}

EventData EventOf(EventType type, const LiveBlock& block) {
  EventData event;
  event.type = type;
  event.time_ns = block.time_ns;
  event.address = block.address;
  event.bytes = block.bytes;
  event.allocation_id = block.allocation_id;
  event.stream = block.stream;
  event.stack = block.stack;
  event.kind = block.kind;
  event.device = block.device;
  event.flags = block.flags;
  return event;
}

void AppendMapping(Recorder& recorder, EventType type, const LiveBlock& block, std::uint64_t address,
                   std::uint64_t bytes) {
  EventData event = EventOf(type, block);
  event.time_ns = MonotonicNs();
  event.address = address;
  event.bytes = bytes;
  event.stream = block.address;
  event.stack = 0;
  AppendEvent(recorder, *CurrentThread(recorder), event);
}

// Counts; the first one is noted (a note costs a search, and what differs once may differ ever after).
void NoteDifference(Recorder& recorder, Counter counter, std::string_view text, std::uint64_t theirs,
                    std::uint64_t ours) {
  auto& count = recorder.file.header()->counters[static_cast<std::size_t>(counter)];
  if (count.fetch_add(1, std::memory_order_relaxed) == 0) recorder.Note(NoteCode::kTensorReports, text, theirs, ours);
}

// The end of a block that nobody told us about by its own free call.
void AppendImplicitFree(Recorder& recorder, ThreadState& thread, const LiveBlock& block, std::uint16_t flag,
                        std::uint64_t time_ns) {
  const bool segment = block.kind == AllocationKind::kPoolSegment;
  EventData event = EventOf(segment ? EventType::kSegmentFree : EventType::kFree, block);
  event.time_ns = time_ns;
  event.stack = 0;
  event.flags |= flag;
  if (recorder.ending.load(std::memory_order_relaxed)) event.flags |= journal::kFreedAtShutdown;
  AppendEvent(recorder, thread, event);
  SubtractFromDevice(recorder, block);
}

// Slot first, then the event: see the publication rules.
void InsertBlock(Recorder& recorder, ThreadState& thread, LiveBlock& block, EventType type, std::uint16_t result) {
  const LiveTable::InsertResult inserted = recorder.live.Insert(block);
  if (!inserted.stored) {
    recorder.Count(Counter::kLiveDropped);
    recorder.Note(NoteCode::kNoSpace, "live table: blocks are missing from it", 0, 0);
  }
  if (inserted.replaced) {
    recorder.Count(Counter::kFreesNotSeen);
    AppendImplicitFree(recorder, thread, inserted.old, journal::kFreeNotSeen, block.time_ns);
  }
  EventData event = EventOf(type, block);
  event.result = result;
  event.time_ns = type == EventType::kFreeFailed ? MonotonicNs() : block.time_ns;
  AppendEvent(recorder, thread, event);
  // A block without a slot is not found when it is freed, so it must not be added either.
  if (inserted.stored) AddToDevice(recorder, block);
}

}  // namespace

void AppendEvent(Recorder& recorder, ThreadState& thread, EventData& data) {
  data.thread = t_locals.thread;
  bool stored;
  if (thread.chain != nullptr) [[likely]] {
    stored = recorder.chains.Append(*thread.chain, data);
  } else {
    std::lock_guard<std::mutex> lock(recorder.shared_mutex);
    stored = recorder.chains.Append(*recorder.shared_chain, data);
  }
  if (!stored && recorder.file.out_of_space()) {
    recorder.Note(NoteCode::kNoSpace, "events: no space left for the journal", 0, 0);
  }
}

bool Raise(std::atomic<std::uint64_t>& peak, std::uint64_t value) {
  std::uint64_t known = peak.load(std::memory_order_relaxed);
  while (known < value) {
    if (peak.compare_exchange_weak(known, value, std::memory_order_relaxed)) return true;
  }
  return false;
}

bool Start(const StartOptions& options) {
  const int saved_errno = errno;
  std::lock_guard<std::mutex> lock(g_start_mutex);
  if (ActiveRecorder() != nullptr) return true;
  if (options.directory == nullptr || options.directory[0] == '\0') return false;
  const bool started = StartLocked(options);
  errno = saved_errno;
  return started;
}

bool Started() { return ActiveRecorder() != nullptr; }

void DeviceSeen(std::uint16_t device, std::string_view name, std::uint64_t total_bytes,
                std::uint32_t compute_capability, const unsigned char (&uuid)[16], std::uint64_t free_bytes_now) {
  RecordingScope scope;
  if (scope.recorder() == nullptr) return;
  journal::DeviceRecord* record = DeviceOf(*scope.recorder(), device);
  if (record == nullptr) return;
  std::lock_guard<std::mutex> lock(scope.recorder()->shared_mutex);
  if (record->present.load(std::memory_order_relaxed) != 0) return;
  record->compute_capability = compute_capability;
  record->total_bytes = total_bytes;
  name.copy(record->name, sizeof(record->name) - 1);
  std::memcpy(record->uuid, uuid, sizeof(record->uuid));
  record->driver_free_at_start.store(free_bytes_now, std::memory_order_relaxed);
  record->present.store(1, std::memory_order_release);
}

void Allocated(const Allocation& allocation) {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return;
  ThreadState* thread = CurrentThread(*recorder);
  LiveBlock block = BlockOf(allocation);
  block.time_ns = MonotonicNs();
  block.thread = t_locals.thread;
  block.allocation_id = NewAllocationId(*recorder, *thread);
  InsertBlock(*recorder, *thread, block, EventType::kAllocate, 0);
  recorder->Count(ByKind(block.kind, Counter::kAllocations, Counter::kTensorAllocations));
}

void AllocationFailed(const Allocation& asked, std::uint16_t result) {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return;
  ThreadState* thread = CurrentThread(*recorder);
  LiveBlock block = BlockOf(asked);
  block.time_ns = MonotonicNs();
  EventData event = EventOf(EventType::kAllocateFailed, block);
  event.result = result;
  AppendEvent(*recorder, *thread, event);
  recorder->Count(Counter::kAllocationFailures);
}

FreeToken Freeing(std::uint64_t address, std::uint16_t flags, std::uint64_t stream, StackId stack,
                  AllocationKind kind) {
  FreeToken token;
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return token;
  recorder->Count(ByKind(kind, Counter::kFrees, Counter::kTensorFrees));
  LiveBlock block;
  if (!recorder->live.Remove(address, SpaceOf(kind), block)) {
    recorder->Count(ByKind(kind, Counter::kFreesUnknown, Counter::kTensorFreesUnknown));
    token.allocation.address = address;
    return token;
  }
  token.known = true;
  token.allocation = AllocationOf(block);
  token.allocation_id = block.allocation_id;
  EventData event = EventOf(EventType::kFree, block);
  event.time_ns = MonotonicNs();
  event.stream = stream;
  event.stack = stack;
  event.flags |= flags;
  if (recorder->ending.load(std::memory_order_relaxed)) event.flags |= journal::kFreedAtShutdown;
  ThreadState* thread = CurrentThread(*recorder);
  AppendEvent(*recorder, *thread, event);
  SubtractFromDevice(*recorder, block);
  token.time_ns = block.time_ns;
  token.thread = block.thread;
  return token;
}

void FreeFailed(const FreeToken& token, std::uint16_t result) {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return;
  recorder->Uncount(Counter::kFrees);
  if (!token.known) {
    recorder->Uncount(Counter::kFreesUnknown);
    return;
  }
  ThreadState* thread = CurrentThread(*recorder);
  LiveBlock block = BlockOf(token.allocation);
  block.allocation_id = token.allocation_id;
  block.time_ns = token.time_ns;
  block.thread = token.thread;
  block.flags |= journal::kHadFailedFree;
  InsertBlock(*recorder, *thread, block, EventType::kFreeFailed, result);
}

void Mapped(std::uint64_t handle, AllocationKind kind, std::uint64_t address, std::uint64_t bytes) {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return;
  LiveBlock block;
  if (!recorder->live.SetMapping(handle, SpaceOf(kind), address, block)) return;
  AppendMapping(*recorder, EventType::kMap, block, address, bytes);
}

void Unmapping(std::uint64_t handle, AllocationKind kind, std::uint64_t address, std::uint64_t bytes) {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return;
  LiveBlock block;
  if (!recorder->live.SetMapping(handle, SpaceOf(kind), 0, block)) return;
  AppendMapping(*recorder, EventType::kUnmap, block, address, bytes);
}

void FrameworkOutOfMemory(std::uint16_t device, std::uint64_t asked, const FrameworkTotals& totals, StackId stack) {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return;
  EventData event;
  event.type = EventType::kFrameworkOutOfMemory;
  event.time_ns = MonotonicNs();
  event.bytes = asked;
  event.address = totals.handed_out;
  event.stream = totals.held;
  event.kind = AllocationKind::kTensor;
  event.flags = journal::kCallerIsPyTorch;
  event.device = device;
  event.stack = stack;
  AppendEvent(*recorder, *CurrentThread(*recorder), event);
  recorder->Count(Counter::kFrameworkOutOfMemory);
}

void CompareTotals(std::uint16_t device, const FrameworkTotals& totals) {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  const journal::DeviceRecord* record = recorder == nullptr ? nullptr : DeviceOf(*recorder, device);
  if (record == nullptr) return;
  const std::uint64_t tensors = record->tensor_live_bytes.load(std::memory_order_relaxed);
  if (tensors != totals.handed_out) [[unlikely]] {
    NoteDifference(*recorder, Counter::kTensorTotalsDiffer,
                   "the framework's total of its tensors is not what its reports add up to (a: its total, b: ours)",
                   totals.handed_out, tensors);
  }
  const std::uint64_t held = record->framework_held_bytes.load(std::memory_order_relaxed);
  if (held != totals.held) [[unlikely]] {
    NoteDifference(
        *recorder, Counter::kFrameworkReservedDiffer,
        "the framework's total of what its cache holds is not what it was seen to get from the driver (a: its "
        "total, b: ours)",
        totals.held, held);
  }
}

void SegmentAllocated(const Allocation& segment) {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return;
  ThreadState* thread = CurrentThread(*recorder);
  LiveBlock block = BlockOf(segment);
  block.kind = AllocationKind::kPoolSegment;
  block.time_ns = MonotonicNs();
  block.thread = t_locals.thread;
  block.allocation_id = NewAllocationId(*recorder, *thread);
  InsertBlock(*recorder, *thread, block, EventType::kSegmentAllocate, 0);
}

void SegmentFreeing(std::uint64_t address) {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return;
  LiveBlock block;
  if (!recorder->live.Remove(address, AddressSpace::kSegment, block)) return;
  ThreadState* thread = CurrentThread(*recorder);
  AppendImplicitFree(*recorder, *thread, block, 0, MonotonicNs());
}

void PoolState(std::uint16_t device, std::uint64_t reserved, std::uint64_t quarantined) {
  Recorder* recorder = ActiveRecorder();
  if (recorder == nullptr) return;
  journal::DeviceRecord* record = DeviceOf(*recorder, device);
  if (record == nullptr) return;
  record->reserved_bytes.store(reserved, std::memory_order_relaxed);
  record->quarantined_bytes.store(quarantined, std::memory_order_relaxed);
  Raise(record->reserved_peak_bytes, reserved);
}

void Synchronized(std::uint16_t device, std::uint64_t context, std::uint64_t duration_ns, StackId stack) {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return;
  recorder->Count(Counter::kContextSynchronizations);
  EventData event;
  event.type = EventType::kSynchronize;
  event.time_ns = MonotonicNs();
  event.address = context;
  event.bytes = duration_ns;
  event.device = device;
  event.stack = stack;
  AppendEvent(*recorder, *CurrentThread(*recorder), event);
}

namespace {

void RemoveOfContext(Recorder& recorder, ThreadState& thread, std::uint64_t context, std::uint64_t now) {
  constexpr std::uint64_t kBatch = 32;
  LiveBlock blocks[kBatch];
  std::uint64_t count;
  do {
    count = recorder.live.RemoveOfContext(context, blocks, kBatch);
    for (std::uint64_t i = 0; i < count; ++i) {
      AppendImplicitFree(recorder, thread, blocks[i], journal::kFreedWithContext, now);
      if (blocks[i].kind != AllocationKind::kPoolSegment) recorder.Count(Counter::kFreesWithContext);
    }
  } while (count == kBatch);
}

}  // namespace

void ContextDestroyed(std::uint64_t context) {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return;
  ThreadState* thread = CurrentThread(*recorder);
  const std::uint64_t now = MonotonicNs();
  EventData event;
  event.type = EventType::kContextDestroyed;
  // The runtime destroys its contexts in an exit handler. What the program held until then is what a reader wants to
  // see, so it stays live; and as many frees as blocks would push the last events out of the rings.
  if (recorder->ending.load(std::memory_order_relaxed)) {
    event.flags |= journal::kFreedAtShutdown;
  } else {
    RemoveOfContext(*recorder, *thread, context, now);
  }
  event.time_ns = MonotonicNs();
  event.address = context;
  AppendEvent(*recorder, *thread, event);
}

void StepMark(std::uint64_t step) {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr) return;
  EventData event;
  event.type = EventType::kStepMark;
  event.time_ns = MonotonicNs();
  event.bytes = step;
  AppendEvent(*recorder, *CurrentThread(*recorder), event);
}

void Count(Counter counter, std::uint64_t by) {
  if (Recorder* recorder = ActiveRecorder(); recorder != nullptr) recorder->Count(counter, by);
}

void Note(NoteCode code, std::string_view text, std::uint64_t a, std::uint64_t b) {
  RecordingScope scope;
  if (scope.recorder() != nullptr) scope.recorder()->Note(code, text, a, b);
}

void Ending() {
  RecordingScope scope;
  Recorder* recorder = scope.recorder();
  if (recorder == nullptr || recorder->ending.exchange(true)) return;
  journal::FileHeader* header = recorder->file.header();
  header->end_monotonic_ns.store(MonotonicNs(), std::memory_order_relaxed);
  header->state.store(static_cast<std::uint32_t>(journal::ProcessState::kEnded), std::memory_order_release);
}

}  // namespace cuheap::recorder
