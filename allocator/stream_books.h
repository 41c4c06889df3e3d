// StreamPool's books: its pools, the program's streams, and what is proven of them. StreamPool adds the lock, the
// driver and the ladder; nothing here waits or calls out.
#ifndef CUHEAP_ALLOCATOR_STREAM_BOOKS_H_
#define CUHEAP_ALLOCATOR_STREAM_BOOKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator/context_gates.h"
#include "allocator/stream_arena.h"
#include "allocator/stream_memory.h"
#include "allocator/stream_types.h"
#include "allocator/types.h"

namespace cuheap {

struct StreamPoolRecord {
  StreamPoolRecord(StreamPoolId id_in, int device_in, BlockTable<StreamBlock>* live, bool stream_rule)
      : id(id_in),
        device(device_in),
        small(id_in, device_in, live, stream_rule),
        large(id_in, device_in, live, stream_rule) {}

  const StreamPoolId id;
  const int device;
  std::size_t max_bytes = 0;                     // 0: no limit
  std::optional<std::size_t> release_threshold;  // empty: never set
  bool destroyed = false;
  bool expects_much = false;
  std::vector<AccessGrant> access;   // devices beside the pool's own
  std::uint64_t access_version = 0;  // grows with every change of `access`
  StreamArena small, large;
  std::size_t reserved_high = 0, used_high = 0;
  std::uint64_t hits = 0, misses = 0;

  StreamPoolStats Stats() const;
  void NotePeaks();
  // The address space to take next for blocks of the size.
  std::size_t NextRegionBytes(bool for_small, std::size_t bytes, const StreamPoolOptions& options) const;
  // Must give memory back when the program synchronises.
  bool watched() const { return destroyed || (release_threshold.has_value() && *release_threshold != SIZE_MAX); }
};

// A request, with what it needs to be tried again.
struct StreamRequest {
  StreamPoolId pool = 0;
  StreamRef stream;
  std::size_t bytes = 0;
  std::size_t rounded = 0;  // to granules
  bool small = false;
};

// A stream to be asked about, outside the lock. Its gate is entered.
struct StreamProbe {
  StreamState* stream = nullptr;
  StreamRef ref;
  bool alive = false;
  std::vector<StreamState::Mark> marks;  // to be queried; of each, whether it was reached:
  std::vector<bool> reached;
  std::uint64_t point = 0;  // frees up to here precede a new mark
  bool wants_mark = false;
  StreamState::Mark made;  // a new mark, if event is not 0
  bool made_reached = false;
  bool passed = false;  // all up to `point` has completed
};

// Threads: none of its own; StreamPool's lock guards it.
class StreamBooks {
 public:
  explicit StreamBooks(const StreamPoolOptions& options) : options_(options) {}
  StreamBooks(const StreamBooks&) = delete;
  StreamBooks& operator=(const StreamBooks&) = delete;

  // ---- pools ----
  StreamPoolId AddPool(int device, std::size_t max_bytes, bool expects_much);
  StreamPoolRecord* FindPool(StreamPoolId id) const;
  // Calls visit(pool) for the pools of the device, of all devices if it is empty.
  template <class Visit>
  void ForPools(std::optional<int> device, Visit visit) const {
    for (const auto& [id, pool] : pools_) {
      if (!device.has_value() || pool->device == *device) visit(*pool);
    }
  }
  bool AnyWatched() const;
  // Takes regions without any pages out of all pools; their address space is the caller's to give back.
  void TakeEmptyRegions(std::vector<std::pair<DeviceAddress, std::size_t>>* regions);
  // Forgets destroyed pools that hold nothing; their address space is the caller's to give back.
  void TakeDeadPools(std::vector<std::pair<DeviceAddress, std::size_t>>* regions);

  // ---- blocks ----
  StreamArena& ArenaOf(StreamPoolRecord& pool, bool small) const { return small ? pool.small : pool.large; }
  StreamLane* LaneOf(StreamArena& arena, const StreamRef& stream) { return arena.Lane(Stream(stream)); }
  // A block without growing; with `drain`, what is proven by now is made use of first.
  std::optional<StreamPoolBlock> TryTake(const StreamRequest& request, bool drain);
  // The same from the other arena: when the device has nothing left.
  std::optional<StreamPoolBlock> TryTakeElsewhere(const StreamRequest& request);
  StreamFreeOutcome Free(DeviceAddress address, const StreamRef* stream);
  std::optional<StreamPoolBlock> Find(DeviceAddress address) const;
  bool Owns(DeviceAddress address) const;
  bool Pin(DeviceAddress address);
  std::uint64_t PinForNow(DeviceAddress address);
  bool Unpin(DeviceAddress address, std::uint64_t incarnation, ContextId context);

  // ---- streams ----
  StreamState* Stream(const StreamRef& ref);
  StreamState* FindStream(StreamId id) const;
  std::uint64_t Point() const { return point_; }
  void StreamProven(StreamState* stream, std::uint64_t point);
  void ContextProven(ContextId context, std::uint64_t point);
  // Its work has ended; marks are not valid any more.
  void ContextGone(ContextId context);
  std::vector<StreamId> StreamsOf(ContextId context) const;
  // No driver call of ours names the stream. REQUIRES: its gate is closed, so that none begins.
  bool Quiet(StreamId id) const {
    const StreamState* stream = FindStream(id);
    return gates_.Quiet(id) && (stream == nullptr || !stream->probed);
  }
  // Forgets destroyed streams that no free memory waits for. Events to be destroyed are appended.
  void DropDeadStreams(std::vector<std::uint64_t>* done);

  // Streams but the requester's own that the request could profit from, to be asked about.
  std::vector<StreamProbe> BeginProbes(const StreamRequest& request);
  // What was found out. Events to be destroyed are appended. True if anything is proven that was not.
  bool EndProbes(std::vector<StreamProbe>* probes, std::vector<std::uint64_t>* done);
  // Contexts whose streams have unproven frees in memory of the device.
  std::vector<ContextId> WaitingContexts(int device) const;

  // Gates of streams: closed while the program destroys one.
  ContextGates& gates() { return gates_; }

  void CountSynchronization(int device) { ++synchronizations_[device]; }
  StreamPoolStats Stats(std::optional<int> device) const;

 private:
  StreamPoolBlock Describe(const StreamBlock& block) const;
  StreamBlock* FindBlock(DeviceAddress address, bool live) const;

  const StreamPoolOptions options_;
  BlockTable<StreamBlock> live_;
  std::unordered_map<StreamPoolId, std::unique_ptr<StreamPoolRecord>> pools_;
  mutable StreamPoolRecord* last_pool_ = nullptr;  // the usual one
  StreamPoolId next_pool_ = 1;
  std::unordered_map<StreamId, std::unique_ptr<StreamState>> streams_;
  mutable StreamState* last_stream_ = nullptr;  // the usual one
  std::uint64_t point_ = 0;                     // the last free's
  std::uint64_t incarnation_ = 0;               // the last allocation's
  ContextGates gates_;
  std::unordered_map<int, std::uint64_t> synchronizations_;  // by device
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_STREAM_BOOKS_H_
