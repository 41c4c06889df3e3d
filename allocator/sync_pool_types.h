// The values that SyncPool takes and gives: options, blocks, outcomes, statistics. See allocator/sync_pool.h for the
// notes that are cited here.
#ifndef CUHEAP_ALLOCATOR_SYNC_POOL_TYPES_H_
#define CUHEAP_ALLOCATOR_SYNC_POOL_TYPES_H_

#include <cstddef>
#include <cstdint>

#include "allocator/driver_result.h"
#include "allocator/types.h"

namespace cuheap {

struct SyncPoolOptions {
  bool pack = true;                                    // false: every request is dedicated (CUHEAP_PACK=0)
  bool quarantine = true;                              // false only in tests, to show that they can fail
  std::size_t dedicated_bytes = std::size_t{2} << 20;  // requests of this size or more are never packed
  std::size_t slab_bytes = std::size_t{2} << 20;       // a multiple of 512; requests above half of it are never packed
  // A free that leaves more than this in its context's quarantine asks for a barrier (see FreeOutcome::wants_barrier).
  std::size_t quarantine_limit_bytes = std::size_t{1} << 30;
  // Off for tests only: requests then fail for memory that another thread is giving back.
  bool await_releases = true;
};

// A block as its user sees it.
struct PoolBlock {
  DeviceAddress address = 0;
  std::size_t bytes = 0;        // as requested
  std::size_t block_bytes = 0;  // what it occupies
  DeviceAddress segment = 0;    // the driver allocation it lies in
  std::size_t segment_bytes = 0;
  bool packed = false;  // shares its segment with others
  std::uint64_t incarnation =
      0;  // unique for every allocation: stands for CU_POINTER_ATTRIBUTE_BUFFER_ID of a packed block
  ContextId context = 0;
  int device = 0;
};

enum class AllocationSource {
  kReady,                 // from the cache, no driver call
  kDriver,                // a new segment
  kAfterSynchronization,  // from the cache, once a synchronisation of ours had completed
  kUnpooled,              // the driver's own: the pool could not keep a record of it (host memory, address beyond 2^49,
                          // context destroyed meanwhile). Free() will answer kNotOurs; block.segment is 0
};

struct AllocateOutcome {
  DriverResult result;
  PoolBlock block;  // valid if result.ok()
  AllocationSource source = AllocationSource::kReady;
};

enum class FreeStatus {
  kFreed,    // quarantined
  kNotOurs,  // no block of ours contains the address: forward the call
  kInvalid,  // inside one of our segments, but no live block begins there (double or interior free): answer invalid
             // value
};

struct FreeOutcome {
  FreeStatus status = FreeStatus::kNotOurs;
  PoolBlock block;             // valid if kFreed
  bool wants_barrier = false;  // quarantine is full: the caller should synchronise the context as a native free may do
};

// Bytes; at every moment reserved == active + quarantined + ready + pinned + tail.
struct SyncPoolStats {
  std::size_t reserved = 0;     // segments held from the driver
  std::size_t active = 0;       // live blocks, rounded (block_bytes)
  std::size_t requested = 0;    // live blocks, as requested
  std::size_t quarantined = 0;  // freed, not yet proven unused (block_bytes)
  std::size_t ready = 0;        // reusable now
  std::size_t pinned = 0;       // freed by the program, but pinned or exported: not reusable
  std::size_t tail = 0;         // ends of slabs that are too short for a block
  std::size_t reserved_peak = 0;
  std::size_t active_peak = 0;
  std::uint64_t segments = 0;  // held now
  std::uint64_t hits = 0,
                misses = 0;  // requests served without, and not without, asking the driver for memory or waiting
  std::uint64_t synchronizations = 0;  // begun by the pool itself
  std::uint64_t lost_segments = 0;     // dropped because the driver disowned them (see Note [Who holds an address])
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_SYNC_POOL_TYPES_H_
