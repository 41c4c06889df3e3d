// The recorder: what the hooks tell of the program's memory, written into the journal (interpose/journal/format.h).
//
// Hooks use it like this, which keeps the journal true after a kill at any instant:
//
//   allocation:  result = real call; if ok: stack = CaptureStack(); recorder.Allocated({...});
//   free:        auto freeing = recorder.Freeing(address, flags); result = real call; if failed:
//   recorder.FreeFailed(freeing, result);
//
// Every function may be called from any thread, at any time (before and after exit handlers, during thread teardown),
// never throws, never calls CUDA, keeps errno, never takes a lock that is held over a call of anything but ours, and
// degrades to counters when there is no space. A call that comes while the same thread is inside one of them (a signal
// handler that allocates) only counts kReentries. Before Start() succeeded all of them do nothing. In a forked child
// they do nothing either, until the child calls Start() for a journal of its own.
#ifndef CUHEAP_INTERPOSE_RECORDER_RECORDER_H_
#define CUHEAP_INTERPOSE_RECORDER_RECORDER_H_

#include <cstdint>
#include <string_view>

#include "interpose/journal/format.h"

namespace cuheap::recorder {

using StackId = std::uint32_t;  // 0 = none

struct Allocation {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;           // as requested
  std::uint64_t reserved_bytes = 0;  // occupied; 0 means the same as bytes
  std::uint64_t stream = 0;
  std::uint64_t context = 0;
  std::uint16_t device = 0xFFFF;
  journal::AllocationKind kind = journal::AllocationKind::kNone;
  std::uint16_t flags = 0;  // journal::kServedFromPool, ...
  StackId stack = 0;
};

// What a free was recorded as, so that its failure can be recorded too.
struct FreeToken {
  bool known = false;  // the address was live in our books
  Allocation allocation;
  std::uint64_t allocation_id = 0;
  std::uint64_t time_ns = 0;  // of the allocation
  std::uint32_t thread = 0;   // that allocated
};

// Opens the journal in the directory (0700, ours, local; made if it is not there) that the options name. Called once,
// from the first driver look-up, not from a constructor; further calls return what the first one did, except in a
// forked child, where the first call makes the child's journal. False: no journal; everything below stays silent, and
// the reason was said on stderr if the user asked for a journal. The configuration is the text "name=value\n..." of the
// options in force.
struct StartOptions {
  const char* directory = nullptr;
  std::uint64_t max_event_bytes = 256u << 20;  // cap on all event extents
  std::string_view configuration;
};
bool Start(const StartOptions& options);
bool Started();

// The device's facts, once each; and its totals as the hooks see them.
void DeviceSeen(std::uint16_t device, std::string_view name, std::uint64_t total_bytes,
                std::uint32_t compute_capability, const unsigned char (&uuid)[16], std::uint64_t free_bytes_now);

// Writes slot, event, device totals. Precondition: the real call succeeded and its result is not yet known to the
// program.
void Allocated(const Allocation& allocation);
// The call returned `result` (CUresult) to the program.
void AllocationFailed(const Allocation& asked, std::uint16_t result);

// Before the real free. Removes the block from the live set; not known: only counted, nothing recorded.
// kind: only needed when `address` is not the address of memory but a handle or a registration, which may have the same
// value as some memory's address: arrays, physical memory, multicast objects, kHostRegistered; and for kTensor,
// whose first one in a segment has the segment's address.
FreeToken Freeing(std::uint64_t address, std::uint16_t flags, std::uint64_t stream = 0, StackId stack = 0,
                  journal::AllocationKind kind = journal::AllocationKind::kNone);
// The real free failed: the block is live again, with its old allocation id.
void FreeFailed(const FreeToken& token, std::uint16_t result);

// Physical memory (kVirtual and the other kinds of cuMemMap; named by its handle) was mapped; is about to be unmapped. Handles that are
// not in the live table are ignored.
void Mapped(std::uint64_t handle, journal::AllocationKind kind, std::uint64_t address, std::uint64_t bytes);
void Unmapping(std::uint64_t handle, journal::AllocationKind kind, std::uint64_t address, std::uint64_t bytes);

// What a framework says of its own cache on one device, in bytes.
struct FrameworkTotals {
  std::uint64_t handed_out = 0;  // to tensors
  std::uint64_t held = 0;        // from the driver
};
// The framework gives up: it will tell the program that memory ran out.
void FrameworkOutOfMemory(std::uint16_t device, std::uint64_t asked, const FrameworkTotals& totals, StackId stack);
// Counts and notes where its totals are not what we saw. Precondition: nobody else changes that cache meanwhile.
void CompareTotals(std::uint16_t device, const FrameworkTotals& totals);

// Our pool's own segments.
void SegmentAllocated(const Allocation& segment);
void SegmentFreeing(std::uint64_t address);

// The pool's gauges of a device, in bytes.
void PoolState(std::uint16_t device, std::uint64_t reserved, std::uint64_t quarantined);

// A context-wide synchronisation of the program returned success after duration_ns.
void Synchronized(std::uint16_t device, std::uint64_t context, std::uint64_t duration_ns, StackId stack);
// The context is gone, and with it every live block recorded with it (kinds that die with a context, stream-ordered
// memory excepted): frees them with journal::kFreedWithContext, then records the event. Once the process is Ending()
// only the event is recorded: what it held at its end stays live.
void ContextDestroyed(std::uint64_t context);
void StepMark(std::uint64_t step);

// A call of the real driver returned after duration_ns, whatever it returned. Slow ones (kSlowDriverCallNs) leave an event
// with the stack. Hooks use DriverTimer (interpose/driver_timer.h).
void DriverCalled(journal::DriverCall call, std::uint64_t duration_ns, StackId stack);

void Count(journal::Counter counter, std::uint64_t by = 1);
// Text is cut to what fits; the same (code, text) is written once.
void Note(journal::NoteCode code, std::string_view text, std::uint64_t a = 0, std::uint64_t b = 0);

// The process reached its exit handlers: frees from now on carry kFreedAtShutdown.
void Ending();

// ---- stacks (interpose/stacks) ----

struct StackOptions {
  bool enabled = true;
  unsigned max_depth = 64;  // native frames kept, innermost first
  bool python = false;      // Python frames too
  unsigned max_python_depth = 128;
  // Some function of the Python interpreter, if one is known to be loaded; otherwise it is found when code of its module
  // shows up in a stack.
  const void* python_function = nullptr;
};
void ConfigureStacks(const StackOptions& options);

struct CapturedStack {
  StackId id = 0;
  bool caller_is_pytorch = false;  // the first frame above the CUDA runtime lies in libc10_cuda
};
// The calling thread's stack, without our own frames: unwinds, interns, commits new modules and the stack.
// `need_caller` asks for caller_is_pytorch even when stacks are off. No allocation in the steady state; no loader lock
// on glibc >= 2.35.
CapturedStack CaptureStack(bool need_caller = false);

// dlclose happened (or may have): addresses seen so far may belong to other modules from now on. Best called twice,
// before the real dlclose and after it (dlclose, unlike dlsym, doesn't look at its caller): what other threads see in
// between is forgotten too.
void ModulesChanged();

}  // namespace cuheap::recorder

#endif  // CUHEAP_INTERPOSE_RECORDER_RECORDER_H_
