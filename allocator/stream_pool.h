// The pool for stream-ordered requests (cuMemAllocAsync, cuMemFreeAsync): pools of virtual memory, for one process.
//
// Note [When a freed block may be used again]
// Source: CUDA Driver API, Stream Ordered Memory Allocator; the programming guide's section of the same name.
//
//   freed in stream S, wanted in S           at once: S comes to the new use after the free
//   freed in stream S, wanted elsewhere      once S is seen to have passed the free: the program synchronised S or its
//                                            context (StreamCompleted, ContextCompleted), or an event that a miss
//                                            recorded in S has been reached
//   freed synchronously (cuMemFree)          at once: the caller promises that its accesses are over
//   S was destroyed                          as before; an event recorded on the way, or its context's end, proves it
//
// No wait is put into any stream of the program, and no event is recorded while a request can be served without.
//
// Note [The ladder]
// A miss goes down until it finds memory; the driver is asked for as few pages as make room beside free ones:
//
//   free memory of the own stream, clean memory -> what other streams are proven to be done with, asking the driver
//     -> new pages -> (out of memory only) if idle pages suffice: give them back, new pages
//     -> a bounded wait for the contexts that freed memory is waiting for -> free memory
//     -> give back all idle pages of the device -> new pages -> the other arena -> the driver's error, unchanged
//
// Threads: every member may be called from any thread. One mutex; it is never held over a call of the StreamMemory or
// of the observer. Contexts: Allocate needs a current context of the device; see StreamMemory for what its calls need.
#ifndef CUHEAP_ALLOCATOR_STREAM_POOL_H_
#define CUHEAP_ALLOCATOR_STREAM_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "allocator/driver_result.h"
#include "allocator/release_watch.h"
#include "allocator/stream_memory.h"
#include "allocator/stream_types.h"
#include "allocator/types.h"

namespace cuheap {

// Told, without any lock held, of physical memory taken and about to be given back: every SegmentAllocated is followed
// by one SegmentFreeing. If the driver refuses to take a segment back, SegmentAllocated is called for it again.
class StreamPoolObserver {
 public:
  virtual ~StreamPoolObserver() = default;
  virtual void StreamSegmentAllocated(int device, DeviceAddress address, std::size_t bytes) = 0;
  virtual void StreamSegmentFreeing(int device, DeviceAddress address, std::size_t bytes) = 0;
};

class StreamPool {
 public:
  // memory and observer (may be null) must outlive the pool; neither is ever called from its destructor.
  StreamPool(StreamMemoryRef memory, StreamPoolObserver* observer, StreamPoolOptions options);
  ~StreamPool();
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  // ---- pools ----

  // An empty pool on the device, holding at most max_bytes (0: no limit). Makes no driver call. expects_much: it may
  // come to hold most of the device's memory, so address space is taken generously.
  StreamPoolId AddPool(int device, std::size_t max_bytes, bool expects_much = false);
  // No more allocations; its memory goes back as blocks are freed. Source: cuMemPoolDestroy.
  void DestroyPool(StreamPoolId pool);
  // Who beside its own device may use the pool's memory, held now and later. Source: cuMemPoolSetAccess.
  DriverResult SetAccess(StreamPoolId pool, const AccessGrant* grants, std::size_t count);
  // From now on memory that is held above this and unused goes back when the program synchronises. A pool for which it
  // was never called keeps its memory until somebody needs it. Source: CU_MEMPOOL_ATTR_RELEASE_THRESHOLD.
  void SetReleaseThreshold(StreamPoolId pool, std::size_t bytes);
  void ResetReservedHigh(StreamPoolId pool);
  void ResetUsedHigh(StreamPoolId pool);
  // Gives unused memory back until at most `keep` bytes are held, as far as whole chunks allow. The bytes given back.
  // Source: cuMemPoolTrimTo.
  std::size_t TrimTo(StreamPoolId pool, std::size_t keep);
  StreamPoolStats Stats(StreamPoolId pool) const;

  // ---- blocks ----

  // `bytes` (> 0) of the pool for use in the stream, 512-byte aligned. Errors: kDriverInvalidValue for 0 bytes, an
  // unknown or destroyed pool, and in a forked child; kDriverOutOfMemory; any other is the driver's.
  StreamAllocateOutcome Allocate(StreamPoolId pool, const StreamRef& stream, std::size_t bytes);
  // Frees the block that begins at the address in stream order; stream null: now, as cuMemFree does. No driver call.
  StreamFreeOutcome Free(DeviceAddress address, const StreamRef* stream);
  // The live block that contains the address.
  std::optional<StreamPoolBlock> Find(DeviceAddress address) const;
  // True if the address lies in address space of the pool, used or not. Lock-free for most others.
  bool Owns(DeviceAddress address) const;
  // The block's memory is never used again once it is freed. False if no live block contains the address.
  bool Pin(DeviceAddress address);

  // The same until Unpin names the block that begins at the address by what this returned, its incarnation. 0: no live
  // block begins there, or it is pinned for good.
  std::uint64_t PinForNow(DeviceAddress address);
  // What was freed meanwhile may be used again once a synchronisation of the context that begins from now on has
  // completed; at once if the context is 0: what could use it is known to be over. Makes no driver call. False if the
  // block is gone.
  bool Unpin(DeviceAddress address, std::uint64_t incarnation, ContextId context);

  // ---- what the program's calls prove ----

  // Before a synchronisation of the program begins: what to give to its end.
  std::uint64_t BeginSynchronize() const;
  // All that was in the stream, or the context, when BeginSynchronize gave `point` has completed. True if
  // TrimAfterSynchronization has something to do. A free puts nothing into its stream, so a stream that follows the
  // legacy default stream may be empty while work there, which the free comes after, is not done: if frees wait in such
  // a stream, the legacy stream is asked.
  bool StreamCompleted(StreamId stream, std::uint64_t point);
  bool ContextCompleted(ContextId context, std::uint64_t point);
  // Gives back what release thresholds and destroyed pools ask for.
  void TrimAfterSynchronization();

  // Around the program's destruction of a stream or a context: in between the pool makes no driver call of its own in
  // it; Destroying waits for those under way. Then either Destroyed or Kept.
  void StreamDestroying(StreamId stream);
  void StreamDestroyed(StreamId stream);
  void StreamKept(StreamId stream);
  void ContextDestroying(ContextId context);
  void ContextDestroyed(ContextId context);
  void ContextKept(ContextId context);

  // ---- idle memory ----

  // Gives whole chunks that hold nothing and that nothing can be using back to the driver: `wanted` bytes of the device
  // if that is not 0 and so many can be had, otherwise all. The bytes given back.
  std::size_t ReleaseIdle(std::optional<int> device = std::nullopt, std::size_t wanted = 0);
  // Gives address space back in which there is no memory: also what ReleaseIdle emptied. True if there was any.
  bool FreeAddressSpace();
  // Pages on their way back to the driver, by whoever gives them back. Not to be used in a forked child.
  ReleaseWatch& releases();
  // What ReleaseIdle could give back now.
  std::size_t IdleBytes(int device) const;
  StreamPoolStats DeviceStats(std::optional<int> device) const;

  // In a forked child: no call of the memory ever again; takes no lock. Allocate answers kDriverInvalidValue, Free
  // kNotOurs, queries nothing.
  void DisableInChild();

  // For tests: the first broken rule of the books in words, or null.
  const char* CheckInvariants() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_STREAM_POOL_H_
