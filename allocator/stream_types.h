// The values that StreamPool takes and gives: streams, blocks, outcomes, statistics. See allocator/stream_pool.h.
#ifndef CUHEAP_ALLOCATOR_STREAM_TYPES_H_
#define CUHEAP_ALLOCATOR_STREAM_TYPES_H_

#include <cstddef>
#include <cstdint>

#include "allocator/driver_result.h"
#include "allocator/types.h"

namespace cuheap {

using StreamId = std::uint64_t;      // unique in the process, never repeated. Source: cuStreamGetId
using StreamPoolId = std::uint64_t;  // of a pool of a StreamPool, never repeated; 0 is none

// What virtual memory is made of: physical memory comes in whole pages, and addresses are multiples of them.
// Source: cuMemGetAllocationGranularity, 2 MiB on every device so far (docs/unverified.md).
inline constexpr std::size_t kStreamPage = std::size_t{2} << 20;

// What blocks are multiples of, and aligned to.
inline constexpr std::size_t kStreamGranule = 512;

enum class StreamKind : std::uint8_t {
  kOrdinary,   // made by the program: events can be recorded in it from any thread
  kLegacy,     // the context's legacy default stream: an event recorded there makes other streams wait, so none is
  kPerThread,  // a thread's own default stream: only that thread can name it
};

// A stream of the program. Streams with equal ids are the same stream.
struct StreamRef {
  StreamId id = 0;
  std::uint64_t handle = 0;  // a CUstream
  ContextId context = 0;     // that it belongs to
  StreamKind kind = StreamKind::kOrdinary;
  // Its work comes after what the legacy default stream had before it: it was not made with CU_STREAM_NON_BLOCKING.
  bool behind_legacy = true;
};

struct StreamPoolOptions {
  // Address space taken at once for a pool's large blocks, in bytes (multiples of kStreamPage): at first, and at most,
  // each next one four times the one before. For small blocks it is a sixteenth. A pool that is expected to hold much
  // begins with the most.
  std::size_t first_region_bytes = std::size_t{512} << 20;
  std::size_t region_bytes = std::size_t{64} << 30;
  // Requests below this have pages of their own, so that they don't pin the big ones' memory.
  std::size_t small_bytes = std::size_t{1} << 20;
  // Physical memory is taken in pieces of at most this, so that a part of a big one can go back (multiple of the page).
  std::size_t chunk_bytes = std::size_t{256} << 20;
  // False only in tests, to show that they can fail.
  bool stream_rule = true;
  bool await_releases = true;  // of memory that other threads are giving back
};

struct StreamPoolBlock {
  DeviceAddress address = 0;
  std::size_t bytes = 0;          // as requested
  std::size_t block_bytes = 0;    // what it occupies
  std::uint64_t incarnation = 0;  // unique for every allocation
  StreamPoolId pool = 0;
  int device = 0;
};

enum class StreamSource : std::uint8_t {
  kReady,      // from memory that the pool held, no driver call
  kProven,     // from memory that the pool held, after asking the driver whether other streams are done with it
  kDriver,     // new memory
  kAfterWait,  // from memory that the pool held, after a bounded wait
};

struct StreamAllocateOutcome {
  DriverResult result;
  StreamPoolBlock block;  // valid if result.ok()
  StreamSource source = StreamSource::kReady;
  bool no_address_space = false;  // it failed because none could be reserved, whatever memory there is
};

enum class StreamFreeStatus : std::uint8_t {
  kFreed,
  kNotOurs,  // not in memory of the pool: forward the call
  kInvalid,  // in memory of the pool, but no live block begins there: answer invalid value
};

struct StreamFreeOutcome {
  StreamFreeStatus status = StreamFreeStatus::kNotOurs;
  StreamPoolBlock block;  // valid if kFreed
};

// Bytes; at every moment reserved == used + free + pinned + moving.
struct StreamPoolStats {
  std::size_t reserved = 0;                      // physical memory held
  std::size_t used = 0;                          // live blocks (block_bytes)
  std::size_t requested = 0;                     // live blocks, as requested
  std::size_t free = 0;                          // reusable by some stream at least
  std::size_t pinned = 0;                        // freed by the program, never reusable
  std::size_t moving = 0;                        // on its way to or from the driver
  std::size_t reserved_high = 0, used_high = 0;  // since the start, or since they were reset
  std::uint64_t hits = 0, misses = 0;            // requests served without, and not without, any driver call
  std::uint64_t synchronizations = 0;            // bounded waits for a context, begun by the pool

  StreamPoolStats& operator+=(const StreamPoolStats& other) {
    reserved += other.reserved, used += other.used, requested += other.requested, free += other.free;
    pinned += other.pinned, moving += other.moving, reserved_high += other.reserved_high, used_high += other.used_high;
    hits += other.hits, misses += other.misses, synchronizations += other.synchronizations;
    return *this;
  }
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_STREAM_TYPES_H_
