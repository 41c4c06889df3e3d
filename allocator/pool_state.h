// The pool's books: which segments there are, which block of them is in which state. SyncPool adds the lock, the driver
// and the ladder; nothing here waits, calls out or decides to grow, so everything can be tested without a driver.
#ifndef CUHEAP_ALLOCATOR_POOL_STATE_H_
#define CUHEAP_ALLOCATOR_POOL_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "allocator/context_gates.h"
#include "allocator/dedicated_cache.h"
#include "allocator/page_map.h"
#include "allocator/quarantine.h"
#include "allocator/segment.h"
#include "allocator/slab_bins.h"
#include "allocator/sync_clock.h"
#include "allocator/sync_pool_types.h"
#include "allocator/types.h"

namespace cuheap {

// Totals of one device, or of all.
struct PoolTotals {
  SegmentUsage usage;
  std::size_t reserved_peak = 0;
  std::size_t active_peak = 0;
  std::uint64_t segments = 0, hits = 0, misses = 0, synchronizations = 0, lost_segments = 0;

  SyncPoolStats ToStats() const;
};

// Everything about one context that has segments.
struct PoolContext {
  ContextId id = 0;
  int device = 0;
  std::uint64_t serial = 0;  // tells a context from a later one of the same handle
  PoolTotals* device_totals = nullptr;
  SegmentUsage usage;
  std::vector<SlabBins> bins;  // by size class
  DedicatedCache cache;
  Quarantine quarantine;
  std::size_t slab_blocks = 0;  // capacity of all slabs: what the quarantine must have room for
  IntrusiveList<Segment, &Segment::context_link> segments;
};

// A request and what it would take from the driver.
struct PoolRequest {
  ContextId context = 0;
  int device = 0;
  std::size_t bytes = 0;          // asked for
  std::size_t segment_bytes = 0;  // growth: a slab, or exactly bytes
  std::size_t block_bytes = 0;
  bool packed = false;
  std::uint32_t size_class = 0;  // if packed
};

// What an owner is told of a segment (SyncPoolObserver).
struct SegmentNotice {
  ContextId context = 0;
  int device = 0;
  DeviceAddress address = 0;
  std::size_t bytes = 0;
};

// A segment out of the books, on its way to the driver. Nobody else knows it.
struct DetachedSegment {
  std::unique_ptr<Segment> segment;
  SegmentNotice notice;
  std::uint64_t context_serial = 0;
};

// Threads: none of its own; SyncPool's lock guards it.
class PoolState {
 public:
  explicit PoolState(const SyncPoolOptions& options);
  ~PoolState();
  PoolState(const PoolState&) = delete;
  PoolState& operator=(const PoolState&) = delete;

  // How `bytes` (> 0) would be served; `exact` asks for a dedicated segment whatever the size.
  PoolRequest Plan(ContextId context, int device, std::size_t bytes, bool exact) const;

  // Registers the context if it is new. Its serial, for Add.
  std::uint64_t EnsureContext(ContextId context, int device);

  // A ready block, never growing.
  std::optional<PoolBlock> TryTake(const PoolRequest& request);

  // Records for the segment that the request would grow by, its base not yet known. Null if host memory is short.
  static std::unique_ptr<Segment> CreateSegment(const PoolRequest& request);
  // The driver has just handed out [base, base + bytes): segments that overlap it are stale. Drops and names them.
  void DropStale(DeviceAddress base, std::size_t bytes, std::vector<SegmentNotice>* dropped);
  // Enters a segment fresh from the driver and takes its first block. Empty, and the segment not entered, if that can't
  // be done (PageMap::Insert, host memory, context gone). REQUIRES: DropStale was called for its range.
  std::optional<PoolBlock> Add(const PoolRequest& request, std::uint64_t context_serial,
                               std::unique_ptr<Segment> segment);

  FreeOutcome Free(DeviceAddress address);
  std::optional<PoolBlock> Find(DeviceAddress address) const;
  bool Owns(DeviceAddress address) const { return map_.Find(address) != nullptr; }
  bool Pin(DeviceAddress address);
  std::optional<PoolBlock> Export(DeviceAddress address);
  std::uint64_t PinForNow(DeviceAddress address);
  bool Unpin(DeviceAddress address, std::uint64_t incarnation);
  std::optional<PoolBlock> Disown(DeviceAddress address, std::vector<SegmentNotice>* dropped);

  void ContextSeen(ContextId context) { clock_.Register(context); }
  SyncTicket BeginSynchronize(ContextId context) { return clock_.Begin(context); }
  void EndSynchronize(ContextId context, SyncTicket ticket, bool success);
  void PeersEnabled() { clock_.PeersEnabled(); }
  void ContextDestroyed(ContextId context, std::vector<SegmentNotice>* dropped);
  // The contexts whose synchronisation could make memory useful for the request: its own, if anything waits there,
  // those of the same device with waiting blocks of slabs, and all, if peers are enabled and there is any of these.
  std::vector<ContextId> ContextsWorthSynchronizing(const PoolRequest& request) const;

  // Where the pool's own driver calls may be made; TakeIdle has entered the context of every segment that it returns.
  ContextGates& gates() { return gates_; }

  // Takes idle segments out of the books, sparing contexts with a closed gate: of one device (all if empty); if
  // `wanted` is not 0, no more than make up that many bytes: the smallest one that suffices, otherwise the largest
  // ones.
  std::vector<DetachedSegment> TakeIdle(std::optional<int> device, std::size_t wanted);
  // The same for slabs of the device without a block that could ever be taken, if they are more than `keep`.
  std::vector<DetachedSegment> TakeUsedUp(int device, std::size_t keep);
  // The driver refused to free the segment: back into the books, in quarantine again if it was. False if its context is
  // gone, or the address has come back as another's: then it is dropped.
  bool PutBack(DetachedSegment detached);
  void CountLost(int device) { ++total_.lost_segments, ++Totals(device).lost_segments; }

  void CountHit(int device) { ++total_.hits, ++Totals(device).hits; }
  void CountMiss(int device) { ++total_.misses, ++Totals(device).misses; }
  void CountSynchronization(int device) { ++total_.synchronizations, ++Totals(device).synchronizations; }
  SyncPoolStats Stats() const { return total_.ToStats(); }
  SyncPoolStats Stats(int device) const;
  std::size_t IdleBytes(int device) const;
  std::size_t WaitingBytes(int device) const;  // slabs that a synchronisation would make idle
  // The contexts that such a synchronisation would have to cover; of one device, or of all.
  std::vector<ContextId> ContextsWithWaitingSlabs(std::optional<int> device) const;

 private:
  std::vector<DetachedSegment> Detach(const std::vector<Segment*>& segments);
  PoolContext* FindContext(ContextId context) const;
  PoolTotals& Totals(int device);
  void Apply(PoolContext* context, const SegmentUsage& before, const SegmentUsage& after);
  // Runs change() on the segment and keeps totals and bins true.
  template <class Change>
  void Mutate(Segment* segment, Change change);
  PoolBlock TakeFrom(Segment* segment, std::size_t requested);
  void PushIntoQuarantine(Segment* segment, std::uint32_t index);
  PoolBlock Describe(const Segment& segment, std::uint32_t index) const;
  void DrainContext(PoolContext* context);
  void Link(Segment* segment, PoolContext* context);
  std::unique_ptr<Segment> Unlink(Segment* segment);
  SegmentNotice Drop(Segment* segment);

  const SyncPoolOptions options_;
  std::uint32_t classes_ = 0;  // packed size classes; 0: nothing is packed
  SyncClock clock_;
  ContextGates gates_;
  PageMap map_;
  std::unordered_map<ContextId, std::unique_ptr<PoolContext>> contexts_;
  mutable PoolContext* last_context_ = nullptr;  // the usual one
  std::uint64_t next_serial_ = 1;
  std::uint64_t next_incarnation_ = 1;
  PoolTotals total_;
  std::vector<std::pair<int, std::unique_ptr<PoolTotals>>> devices_;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_POOL_STATE_H_
