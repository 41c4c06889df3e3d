// The pool for synchronous requests (cuMemAlloc/cuMemFree), safe for callers that we know nothing about.
//
// Note [When a freed block may be used again]
// cuMemFree "may perform implicit synchronization", and work that we cannot see (private tables of the vendor's
// libraries, peers, importers) may still use a block when it is freed. So nothing is inferred from "no work seen". A
// freed block waits in quarantine with the ticket counter's value; it is ready once a context-wide synchronisation whose
// ticket was drawn *after* the free has completed, in the block's own context (and in every context, once peers can
// reach each other's memory).
//
//   thread 1                      thread 2
//   ticket = BeginSynchronize()
//   cuCtxSynchronize() begins
//                                 launch kernel that uses p (another stream)
//                                 Free(p)            -> quarantined: this synchronisation need not cover the kernel
//   EndSynchronize(ticket)        -> p stays in quarantine; the next synchronisation releases it
//
// Note [Identity]
// Requests of kDedicatedBytes (2 MiB) or more are one driver allocation each, cached whole, never split, reused within
// 12.5 % waste, given back on a miss: addresses, IPC and buffer ids stay the driver's own. Smaller requests are packed in
// slabs of one size class; Find() answers the queries that must see the program's block instead of the slab.
//
// Threads: every member may be called from any thread. No lock is held over a call of the DeviceMemory.
// Streams: none is waited for, and none is made to wait; the only device-wide wait is DeviceMemory::Synchronize.
#ifndef CUHEAP_ALLOCATOR_SYNC_POOL_H_
#define CUHEAP_ALLOCATOR_SYNC_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "allocator/device_memory.h"
#include "allocator/driver_result.h"

namespace cuheap {

using DeviceAddress = std::uint64_t;
using ContextId = std::uint64_t;  // a CUcontext handle; 0 is none
using SyncTicket = std::uint64_t;

struct SyncPoolOptions {
  bool pack = true;        // false: every request is dedicated (CUHEAP_PACK=0)
  bool quarantine = true;  // false only in tests, to show that they can fail
  std::size_t dedicated_bytes = std::size_t{2} << 20;
  std::size_t slab_bytes = std::size_t{2} << 20;
  // A free that would leave more than this in quarantine asks for a barrier (see FreeOutcome::wants_barrier).
  std::size_t quarantine_limit_bytes = std::size_t{1} << 30;
};

// A block as its user sees it.
struct PoolBlock {
  DeviceAddress address = 0;
  std::size_t bytes = 0;        // as requested
  std::size_t block_bytes = 0;  // what it occupies
  DeviceAddress segment = 0;    // the driver allocation it lies in
  std::size_t segment_bytes = 0;
  bool packed = false;          // shares its segment with others
  std::uint64_t incarnation = 0;  // unique for every allocation: stands for CU_POINTER_ATTRIBUTE_BUFFER_ID of a packed block
  ContextId context = 0;
  int device = 0;
};

enum class AllocationSource { kReady, kDriver, kAfterSynchronization };

struct AllocateOutcome {
  DriverResult result;
  PoolBlock block;  // valid if result.ok()
  AllocationSource source = AllocationSource::kReady;
};

enum class FreeStatus {
  kFreed,       // quarantined
  kNotOurs,     // no block of ours contains the address: forward the call
  kInvalid,     // inside one of our segments, but no live block begins there (double or interior free): answer invalid value
};

struct FreeOutcome {
  FreeStatus status = FreeStatus::kNotOurs;
  PoolBlock block;  // valid if kFreed
  bool wants_barrier = false;  // quarantine is full: the caller should synchronise the context as a native free may do
};

struct SyncPoolStats {  // bytes
  std::size_t reserved = 0;     // segments held from the driver
  std::size_t active = 0;       // live blocks, rounded (block_bytes)
  std::size_t requested = 0;    // live blocks, as requested
  std::size_t quarantined = 0;  // freed, not yet proven unused (block_bytes)
  std::size_t ready = 0;        // reusable now
  std::size_t reserved_peak = 0;
  std::size_t active_peak = 0;
  std::uint64_t segments = 0, hits = 0, misses = 0, synchronizations = 0;
};

// What the pool tells its owner, called without any lock held: segments taken from and about to be given to the driver.
class SyncPoolObserver {
 public:
  virtual ~SyncPoolObserver() = default;
  virtual void SegmentAllocated(ContextId context, int device, DeviceAddress address, std::size_t bytes) = 0;
  virtual void SegmentFreeing(ContextId context, int device, DeviceAddress address, std::size_t bytes) = 0;
};

class SyncPool {
 public:
  // memory and observer (may be null) must outlive the pool; the pool never calls either from its destructor.
  SyncPool(DeviceMemoryRef memory, SyncPoolObserver* observer, SyncPoolOptions options);
  ~SyncPool();
  SyncPool(const SyncPool&) = delete;
  SyncPool& operator=(const SyncPool&) = delete;

  // Serves `bytes` (> 0) in the calling thread's current context, which must be `context` on `device`.
  // Ladder on a miss: ready blocks -> quarantined blocks whose ticket has completed -> the driver -> one bounded
  // synchronisation -> give idle segments back -> the driver -> the driver's error, unchanged.
  AllocateOutcome Allocate(ContextId context, int device, std::size_t bytes);

  // Puts the block that begins at `address` into quarantine. Needs no current context.
  FreeOutcome Free(DeviceAddress address);

  // Around every context-wide synchronisation of the program (cuCtxSynchronize and calls documented to imply it).
  // `context` is the one synchronised. A failed synchronisation proves nothing.
  SyncTicket BeginSynchronize(ContextId context);
  void EndSynchronize(ContextId context, SyncTicket ticket, bool success);

  // Gives segments that hold no live block back to the driver, in whatever contexts they lie: dedicated ones at once
  // (the native free of a block that its owner has freed is always legal), slabs once no block of theirs is in
  // quarantine. Returns the bytes given back.
  std::size_t ReleaseIdle();
  // What ReleaseIdle() could give back now on the device, in bytes: counted as free by cuMemGetInfo.
  std::size_t IdleBytes(int device) const;

  // The live block that contains the address, whole range [address, address + bytes).
  std::optional<PoolBlock> Find(DeviceAddress address) const;
  // True if the address lies in any segment held by the pool, live or not.
  bool Owns(DeviceAddress address) const;

  // The block's memory is never reused nor given back while the context lives (exported, captured in a graph, marked
  // by cuPointerSetAttribute): for uses whose end cannot be seen. False if no live block contains the address.
  bool Pin(DeviceAddress address);

  // From now on every context can reach every other's blocks (cuCtxEnablePeerAccess succeeded somewhere).
  void PeersEnabled();

  // The context was destroyed or reset: its segments are gone, no driver call is made.
  void ContextDestroyed(ContextId context);

  SyncPoolStats Stats() const;             // all devices
  SyncPoolStats Stats(int device) const;

  // In a forked child: no call of the memory ever again; Allocate answers kDriverInvalidValue, Free kNotOurs.
  void DisableInChild();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_SYNC_POOL_H_
