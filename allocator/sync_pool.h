// The pool for synchronous requests (cuMemAlloc/cuMemFree), safe for callers that we know nothing about.
//
// Note [When a freed block may be used again]
// cuMemFree "may perform implicit synchronization", and work that we cannot see (private tables of the vendor's
// libraries, peers, importers) may still use a block when it is freed. So nothing is inferred from "no work seen". A
// freed block waits in quarantine with the ticket counter's value; it is ready once a context-wide synchronisation
// whose ticket was drawn *after* the free has completed, in the block's own context (and in every context, once peers
// can reach each other's memory). A context's destruction ends its work as well.
//
//   thread 1                      thread 2
//   ticket = BeginSynchronize()
//   cuCtxSynchronize() begins
//                                 launch kernel that uses p (another stream)
//                                 Free(p)            -> quarantined: this synchronisation need not cover the kernel
//   EndSynchronize(ticket)        -> p stays in quarantine; the next synchronisation releases it
//
// Note [Identity]
// Requests that are too big to share a slab (more than half of slab_bytes, or dedicated_bytes and more) are one driver
// allocation each, of exactly the size asked for, cached whole, never split, reused for requests of at least 8/9 of
// their size (12.5 % waste), given back on a miss: addresses, IPC and buffer ids stay the driver's own. Smaller
// requests are packed in slabs of one size class; Find() answers the queries that must see the program's block instead
// of the slab.
//
// Note [Who holds an address]
// A segment leaves the pool's index before the driver is asked to free it, and enters after the driver has handed it
// out. So an address that the driver hands out again, to whomever, is never still in the index:
//
//   thread 1 (gives back)                 thread 2
//   lock; choose idle s; unpublish; unlock
//                                         Free(s) -> kNotOurs: forwarded, as for any address we do not hold
//   SegmentFreeing(s)
//   DeviceMemory::Free(s)
//                                         DeviceMemory::Allocate -> the same address
//                                         lock; publish; unlock
// If the driver refuses, s is published again (unless its context died meanwhile). Were the driver ever to hand out an
// address that is still in the index, the index would be wrong (a context died unnoticed), and the old segment is
// dropped.
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
#include "allocator/release_watch.h"
#include "allocator/sync_pool_types.h"
#include "allocator/types.h"

namespace cuheap {

// What the pool tells its owner, called without any lock held: segments taken from and about to be given to the driver.
// Every SegmentAllocated is followed by one SegmentFreeing, before the driver can hand out the address again, except
// when the context's destruction took the segment (told when the pool learns of it). It is also called for segments
// that leave the pool without being freed (Disown, kUnpooled). If the driver refuses to free a segment,
// SegmentAllocated is called for it again.
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
  // Ladder on a miss: ready blocks (quarantined ones whose ticket has completed among them) -> the driver -> if that
  // reported out of memory: one bounded synchronisation, if anything in quarantine could become useful by it -> ready
  // blocks -> give back idle segments of the device, first as many as are asked for, then all -> the driver, as often
  // as anything goes back, by this thread or another -> the driver for the exact size instead of a slab -> the driver's
  // error, unchanged. Any other error ends the ladder at once. Growth is one slab or one dedicated segment. Errors:
  // kDriverInvalidValue for 0 bytes (as cuMemAlloc), and in a forked child; otherwise the driver's.
  AllocateOutcome Allocate(ContextId context, int device, std::size_t bytes);

  // Puts the block that begins at `address` into quarantine. Needs no current context, makes no driver call, cannot
  // fail for want of memory.
  FreeOutcome Free(DeviceAddress address);

  // Around every context-wide synchronisation of the program (cuCtxSynchronize and calls documented to imply it).
  // `context` is the one synchronised. A failed synchronisation proves nothing. Begin draws the ticket before the real
  // call starts; End follows after it has returned.
  SyncTicket BeginSynchronize(ContextId context);
  void EndSynchronize(ContextId context, SyncTicket ticket, bool success);

  // Gives segments that hold no live block back to the driver, in whatever contexts they lie: dedicated ones at once
  // (the native free of a block that its owner has freed is always legal), slabs once no block of theirs is in
  // quarantine. Returns the bytes given back.
  std::size_t ReleaseIdle();
  // The same after one bounded synchronisation of each context in which slabs wait whose blocks are all freed: what the
  // native frees of those blocks would have cost. Of one device, or of all. 0 if there are none, or nothing was proven.
  std::size_t ReleaseAfterWaiting(std::optional<int> device);
  // Segments on their way back to the driver, by whoever gives them back. Not to be used in a forked child.
  ReleaseWatch& releases();
  // What ReleaseIdle() could give back now on the device, in bytes as the driver charges them (ChargedBytes): counted
  // as free by cuMemGetInfo.
  std::size_t IdleBytes(int device) const;
  // What ReleaseAfterWaiting() could give back beside that. It counts as free too: natively it is, at once.
  std::size_t WaitingBytes(int device) const;

  // The live block that contains the address, whole range [address, address + bytes).
  std::optional<PoolBlock> Find(DeviceAddress address) const;
  // True if the address lies in any segment held by the pool, live or not.
  bool Owns(DeviceAddress address) const;

  // The block's memory is never reused nor given back while the context lives (exported, captured in a graph, marked
  // by cuPointerSetAttribute): for uses whose end cannot be seen. False if no live block contains the address.
  bool Pin(DeviceAddress address);

  // Other processes may open the packed block that contains the address, through its driver allocation: once freed it is
  // never handed out again, and its slab goes back to the driver when nothing else in it is used. The block as it is
  // now; empty if no live packed block contains the address.
  std::optional<PoolBlock> Export(DeviceAddress address);

  // The same for uses whose end will be told (a graph that was captured meanwhile): Pin until Unpin names the block that
  // begins at `address` by what this returned, its incarnation. 0: no live block begins there, or it is pinned for good.
  std::uint64_t PinForNow(DeviceAddress address);
  // A block freed meanwhile is treated as if it were freed now: it waits in quarantine. Makes no driver call. False if
  // the block is gone, or somebody else's by now.
  bool Unpin(DeviceAddress address, std::uint64_t incarnation);

  // Takes the live, dedicated block that begins at `address` out of the pool: its memory is the caller's, who forwards
  // the program's free to the driver (an exported block is released with a real free). SegmentFreeing is called. Empty
  // if no such block begins there or it is packed.
  std::optional<PoolBlock> Disown(DeviceAddress address);

  // The context exists and may run work. Known without this: contexts named to Allocate and BeginSynchronize. Once
  // peers are enabled a block is reused only after a synchronisation of every known context, so a context must be made
  // known before it first uses memory of another one.
  void ContextSeen(ContextId context);

  // From now on work of any known context may use blocks of any other: call before cuCtxEnablePeerAccess, and before
  // the first copy between contexts (cuMemcpyPeer and those that infer contexts from unified addresses).
  void PeersEnabled();

  // Around the program's destruction of a context (cuCtxDestroy, cuDevicePrimaryCtxReset and Release): Destroying
  // before the real call, then either Destroyed (it is gone: so are its segments, no driver call is made for them) or
  // Kept. In between the pool makes no driver call of its own in the context, since the program may have ended all use
  // of it while another thread's request makes the pool give back its memory; Destroying waits for those under way.
  // Allocate and Free go on as ever: a primary context may be released by one user and kept by others.
  void ContextDestroying(ContextId context);
  void ContextDestroyed(ContextId context);
  void ContextKept(ContextId context);

  SyncPoolStats Stats() const;  // all devices
  SyncPoolStats Stats(int device) const;

  // In a forked child: no call of the memory ever again; Allocate answers kDriverInvalidValue, Free kNotOurs, queries
  // nothing. Takes no lock (another thread of the parent may have held it) and is safe in a pthread_atfork handler.
  void DisableInChild();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_SYNC_POOL_H_
