// The books of one arena: a pool's small blocks, or its large ones. Addresses, pages and free blocks; no lock, no
// driver.
//
// An arena is one or more regions of address space. Pages are mapped where they are needed, so that free memory grows
// together whenever it was taken:
//
//   region | live | free | live | live | free          | gap: no pages behind it .......................... |
//          |<---- pages in chunks: 2 MiB or a multiple ---->|
//
// Blocks of a region follow one another without holes, in address order; free neighbours are merged at once.
//
// Note [Whose free memory]
// Memory freed in a stream may be used again by that stream at once, and by others only when the stream has passed the
// free. A free block therefore has an owner (the lane of that stream) and a dirty part, the hull of what was freed
// there; what lies outside is clean. A free block without owner is clean.
//
//   | clean | dirty: freed in stream S at point 7 | clean |      in S's index by its whole size,
//                                                               in the shared index by its larger clean end
//
// S takes from its own index first, then from the shared one; any other stream takes clean ends only. Frees are
// numbered by points that grow; once S is known to have passed point 7, the block is clean and the owner is dropped
// (Drain). Two free neighbours of different owners, neither proven, stay apart: the only case in which free neighbours
// do.
//
// A live block remembers what it was carved from: freed synchronously (cuMemFree), which promises that the program's
// own accesses are over, it is as dirty as it was then.
#ifndef CUHEAP_ALLOCATOR_STREAM_ARENA_H_
#define CUHEAP_ALLOCATOR_STREAM_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "allocator/block_table.h"
#include "allocator/boundary_map.h"
#include "allocator/free_index.h"
#include "allocator/intrusive_list.h"
#include "allocator/stream_types.h"
#include "allocator/types.h"

namespace cuheap {

class StreamArena;
struct StreamLane;
struct StreamRegion;

// What is known of one stream of the program.
struct StreamState {
  struct Mark {
    std::uint64_t event = 0;  // recorded in the stream
    std::uint64_t point = 0;  // all frees up to this one came before it
  };
  StreamRef ref;
  std::uint64_t last_free = 0;  // point of the last free in it
  std::uint64_t proven = 0;     // it has passed all frees up to this point
  bool alive = true;            // the program has not destroyed it
  bool probed = false;          // some thread is asking the driver about it, and keeps a pointer to this
  bool context_gone = false;    // events recorded in it went with the context
  std::vector<Mark> marks;
  unsigned lanes = 0;
};

struct StreamBlock {
  enum class State : std::uint8_t { kGap, kFree, kLive, kPinned, kMoving };

  DeviceAddress address = 0;
  std::size_t bytes = 0;
  StreamBlock* previous = nullptr;  // in the region
  StreamBlock* next = nullptr;
  StreamRegion* region = nullptr;
  State state = State::kGap;
  bool pin = false;  // live: becomes pinned when it is freed

  // Free or live: see Note [Whose free memory]. Without owner the rest says nothing.
  StreamLane* owner = nullptr;
  std::uint64_t point = 0;
  DeviceAddress dirty_begin = 0, dirty_end = 0;

  // Live.
  std::size_t requested = 0;
  std::uint64_t incarnation = 0;

  ListLink<StreamBlock> own_link;     // the owner's index; gaps: the arena's gaps
  ListLink<StreamBlock> shared_link;  // the shared index
  ListLink<StreamBlock> order_link;   // the owner's list by points
  std::size_t own_key = 0, shared_key = 0;

  DeviceAddress end() const { return address + bytes; }
};

// A stream's free blocks in one arena.
struct StreamLane {
  StreamState* stream = nullptr;
  FreeIndex<StreamBlock, &StreamBlock::own_link, &StreamBlock::own_key> index;
  IntrusiveList<StreamBlock, &StreamBlock::order_link> order;  // points never fall
  std::size_t live = 0;                                        // live blocks and growths that remember this lane
};

// Physical memory: one handle of the driver, mapped whole.
struct StreamChunk {
  std::size_t bytes = 0;
  std::uint64_t handle = 0;
};

struct StreamRegion {
  StreamRegion(StreamArena* arena_in, DeviceAddress base_in, std::size_t bytes_in)
      : arena(arena_in), base(base_in), bytes(bytes_in), starts(bytes_in / kStreamGranule) {}
  StreamArena* arena;
  DeviceAddress base;
  std::size_t bytes;
  StreamBlock* first = nullptr;
  BoundaryMap starts;  // of blocks, in granules from the base
  std::map<DeviceAddress, StreamChunk> chunks;

  bool Contains(DeviceAddress address) const { return address - base < bytes; }
  std::size_t Place(DeviceAddress address) const { return (address - base) / kStreamGranule; }
};

// Where an arena would grow. `space` is kMoving: pages are to be mapped there; the free blocks around it that the
// request also needs are kMoving too.
struct StreamGrowth {
  StreamLane* lane = nullptr;
  StreamBlock* before = nullptr;  // or null
  StreamBlock* space = nullptr;
  StreamBlock* after = nullptr;  // or null
};

// Pages on their way to the driver: `block` is kMoving and covers exactly the chunk.
struct StreamDetached {
  StreamArena* arena = nullptr;
  StreamBlock* block = nullptr;
  StreamChunk chunk;
};

class StreamArena {
 public:
  StreamArena(StreamPoolId pool, int device, BlockTable<StreamBlock>* live, bool stream_rule)
      : pool_(pool), device_(device), live_(live), stream_rule_(stream_rule) {}
  ~StreamArena();
  StreamArena(const StreamArena&) = delete;
  StreamArena& operator=(const StreamArena&) = delete;

  StreamPoolId pool() const { return pool_; }
  int device() const { return device_; }
  StreamPoolStats usage() const;  // without peaks and counts
  std::size_t used() const { return used_; }
  std::size_t reserved() const { return used_ + free_ + pinned_ + moving_; }

  StreamLane* Lane(StreamState* stream);

  // A block for the lane's stream out of free memory, or null. bytes: a multiple of the granule.
  // It is entered in the table of live blocks.
  StreamBlock* Take(StreamLane* lane, std::size_t bytes, std::size_t requested, std::uint64_t incarnation);
  // Frees a live block (already out of the table). lane: of the stream it is freed in, whose last_free is the point;
  // null: a synchronous free.
  void Free(StreamBlock* block, StreamLane* lane);

  // A block that was freed while it was pinned is freed now, as Free does.
  void Unpin(StreamBlock* block, StreamLane* lane);
  // The pinned block that begins at the address, or null.
  StreamBlock* FindPinned(DeviceAddress address) const;

  // Frees that are proven by now become clean.
  void Drain();
  // Lanes whose streams have unproven frees here.
  std::vector<StreamLane*> Waiting() const;
  // Drops lanes of dead streams that nothing remembers.
  void DropDeadLanes();
  // The arena holds nothing any more: no block remembers any lane.
  void DropAllLanes();

  // Picks the place where the fewest new pages make room for the request, and claims it. False: there is no room in any
  // region (then the caller adds one).
  bool ClaimGrowth(StreamLane* lane, std::size_t bytes, StreamGrowth* growth);
  // The pages are there: all of it is free now, merged, and at least as large as was asked for.
  void CommitGrowth(const StreamGrowth& growth, const std::vector<StreamChunk>& chunks);
  // There are none. stuck: the driver would not take some of them back, so the place can't be used any more.
  void AbortGrowth(const StreamGrowth& growth, bool stuck = false);
  void AddRegion(DeviceAddress base, std::size_t bytes);

  // Chunks that hold nothing and that nothing can be using: out of the books, highest addresses first, until `wanted`
  // bytes are together (all, if it is 0). Call Drain before.
  void DetachIdle(std::size_t wanted, std::vector<StreamDetached>* detached);
  std::size_t IdleBytes() const;
  // The driver has taken it, or refused.
  void FinishDetach(const StreamDetached& detached, bool released);
  // Regions without any pages: out of the books, their address space is the caller's to give back.
  std::vector<std::pair<DeviceAddress, std::size_t>> TakeEmptyRegions();

  // The region that contains the address, or null.
  StreamRegion* FindRegion(DeviceAddress address) const;
  // The live block that contains the address (whole range as requested), or null.
  StreamBlock* FindLive(DeviceAddress address) const;
  const std::vector<std::unique_ptr<StreamRegion>>& regions() const { return regions_; }

  // Walks everything; the first broken rule in words, or null. For tests.
  const char* CheckInvariants() const;

 private:
  using State = StreamBlock::State;

  StreamBlock* NewBlock();
  void Recycle(StreamBlock* block);
  StreamBlock* SplitAfter(StreamBlock* block, std::size_t bytes);
  static void Absorb(StreamBlock* survivor, StreamBlock* other);
  static bool Clean(const StreamBlock& block);
  static std::size_t CleanEnd(const StreamBlock& block);
  void Index(StreamBlock* block);
  void Unindex(StreamBlock* block);
  void Leave(StreamBlock* block);
  static void DropOwner(StreamBlock* block) { block->owner = nullptr, block->point = 0; }
  static void ClipDirt(StreamBlock* block);
  bool MergeSide(StreamBlock** block, bool* in_order, bool left);
  StreamBlock* PutFree(StreamBlock* block);
  void Settle(StreamBlock* block);
  void MergeClean(StreamRegion* region);
  void PutGap(StreamBlock* block);
  void BecomeFree(StreamBlock* block, StreamLane* lane);
  StreamBlock* MakeLive(StreamBlock* block, std::size_t requested, std::uint64_t incarnation);
  StreamBlock* Carve(StreamBlock* free, DeviceAddress from, std::size_t bytes, bool merge_rest = true);
  static std::size_t UsableBefore(const StreamBlock& gap, const StreamLane* lane);
  static std::size_t UsableAfter(const StreamBlock& gap, const StreamLane* lane);
  void Count(State state, std::size_t bytes, bool add);

  const StreamPoolId pool_;
  const int device_;
  BlockTable<StreamBlock>* const live_;
  const bool stream_rule_;

  std::vector<std::unique_ptr<StreamRegion>> regions_;
  FreeIndex<StreamBlock, &StreamBlock::shared_link, &StreamBlock::shared_key> shared_;
  IntrusiveList<StreamBlock, &StreamBlock::own_link> gaps_;
  std::unordered_map<StreamState*, std::unique_ptr<StreamLane>> lanes_;
  StreamLane* last_lane_ = nullptr;  // the usual one

  std::size_t free_ = 0, used_ = 0, requested_ = 0, pinned_ = 0, moving_ = 0;
  std::vector<std::unique_ptr<StreamBlock[]>> slabs_;
  StreamBlock* spare_ = nullptr;  // linked by next
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_STREAM_ARENA_H_
