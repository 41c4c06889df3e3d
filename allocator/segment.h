// One driver allocation and the blocks it is cut into. All records lie in host memory: device memory can't hold them.
//
// A dedicated segment is one block. A slab is cut into equal blocks of one size class:
//
//   base                                                                base + bytes
//   | block 0 | block 1 | block 2 | block 3 | ...      | block n-1 | tail |
//      live     quarant.   ready     live                (too short for a block)
//
// States of a block (SyncPool decides when; Segment only keeps the books):
//
//              Take                 Quarantine              MakeReady
//     ready ----------> live ---------------------> quarantined ----------> ready
//       ^                |  \------ MakePinned ---> pinned ----------> quarantined
//       |                |                                 Unpin
//       |                |
//       +-- MakeReady ---+   (only with quarantine off)
//
// An exported block, which other processes may have open, goes where it would become ready into `retired` instead: never
// taken again, but no reason to keep the driver allocation once nothing else in it is used.
#ifndef CUHEAP_ALLOCATOR_SEGMENT_H_
#define CUHEAP_ALLOCATOR_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>

#include "allocator/intrusive_list.h"
#include "allocator/types.h"

namespace cuheap {

struct PoolContext;
class Segment;

enum class BlockState : std::uint8_t { kReady, kLive, kQuarantined, kPinned, kRetired };

struct BlockRecord {
  std::uint64_t incarnation;  // of the last allocation
  std::size_t requested;      // bytes, of the last allocation
  std::uint32_t next_ready;   // index + 1 of the next free block given back before, 0 at the end
  BlockState state;
  bool pinned;    // goes to kPinned when freed
  bool exported;  // goes to kRetired instead of kReady
};

// What a segment, or any set of them, holds; in bytes.
struct SegmentUsage {
  std::size_t reserved = 0, active = 0, requested = 0, quarantined = 0, ready = 0, pinned = 0, tail = 0;
  std::size_t idle = 0;     // could be given back to the driver now
  std::size_t waiting = 0;  // slabs that could be, once their freed blocks are proven unused

  // Unsigned and wrapping: sums of differences come out right.
  SegmentUsage& operator+=(const SegmentUsage& other);
  SegmentUsage& operator-=(const SegmentUsage& other);
};

// A dedicated segment's place in a DedicatedCache: a tree node that travels with the segment, so that caching never
// allocates.
struct SegmentOrder {
  using is_transparent = void;
  bool operator()(const Segment* a, const Segment* b) const;
  bool operator()(const Segment* a, std::size_t bytes) const;
};
using SegmentSet = std::set<Segment*, SegmentOrder>;

class Segment {
 public:
  // block_bytes == bytes for a dedicated segment. packed tells slabs, whose blocks share the driver's allocation.
  // Empty if host memory is short.
  static std::unique_ptr<Segment> Create(DeviceAddress base, std::size_t bytes, std::size_t block_bytes, bool packed,
                                         std::uint32_t size_class);

  DeviceAddress base() const { return base_; }
  DeviceAddress end() const { return base_ + bytes_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t block_bytes() const { return block_bytes_; }
  std::uint32_t capacity() const { return capacity_; }  // blocks
  std::uint32_t size_class() const { return size_class_; }
  bool packed() const { return packed_; }
  bool Contains(DeviceAddress address) const { return address - base_ < bytes_; }

  // The base is known only after the driver was asked; records are made before, so that nothing can fail after.
  void set_base(DeviceAddress base) { base_ = base; }

  std::uint32_t live() const { return live_; }
  std::uint32_t quarantined() const { return quarantined_; }
  std::uint32_t pinned() const { return pinned_; }
  std::uint32_t retired() const { return retired_; }
  std::uint32_t ready() const { return capacity_ - used(); }
  std::uint32_t used() const { return live_ + quarantined_ + pinned_ + retired_; }  // blocks that can't be taken

  // May be given back to the driver: no block is live or pinned, and in a slab none is in quarantine either. (The
  // native free of a dedicated block that the program has freed is what the program asked for, so it is always legal; a
  // slab's address was never the program's to free, so its blocks must be proven unused.)
  bool idle() const { return live_ == 0 && pinned_ == 0 && (!packed_ || quarantined_ == 0); }

  SegmentUsage Usage() const;

  // Index of the block that contains the address; capacity() for the tail. REQUIRES: Contains(address).
  std::uint32_t IndexOf(DeviceAddress address) const;
  DeviceAddress BlockAddress(std::uint32_t index) const { return base_ + std::size_t{index} * block_bytes_; }
  const BlockRecord& block(std::uint32_t index) const { return blocks_.get()[index]; }

  // Takes a ready block, the one freed last if there is one. REQUIRES: ready() > 0.
  std::uint32_t Take(std::size_t requested, std::uint64_t incarnation);
  // REQUIRES: the block is live.
  void Pin(std::uint32_t index, bool pinned = true) { blocks_.get()[index].pinned = pinned; }
  void Export(std::uint32_t index) { blocks_.get()[index].exported = true; }
  void Quarantine(std::uint32_t index);
  void MakePinned(std::uint32_t index);
  // REQUIRES: the block is pinned.
  void Unpin(std::uint32_t index);
  // Ready, or retired if it was exported. REQUIRES: the block is live or quarantined.
  void MakeReady(std::uint32_t index);

  // Owned by the lists and caches that the segment is in.
  PoolContext* context = nullptr;
  ListLink<Segment> context_link;     // all segments of the context
  ListLink<Segment> bin_link;         // SlabBins
  int bin = -1;                       // SlabBins; -1: in none
  ListLink<Segment> quarantine_link;  // Quarantine, dedicated segments only
  SyncTicket quarantine_stamp = 0;
  SegmentSet::node_type cache_node;  // DedicatedCache; empty while the segment is in it

 private:
  struct FreeDeleter {
    void operator()(BlockRecord* records) const { std::free(records); }
  };
  Segment() = default;

  DeviceAddress base_ = 0;
  std::size_t bytes_ = 0;
  std::size_t block_bytes_ = 0;
  std::size_t live_requested_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t live_ = 0, quarantined_ = 0, pinned_ = 0, retired_ = 0;
  std::uint32_t first_ready_ = 0;  // index + 1; 0: none given back
  std::uint32_t untouched_ = 0;    // blocks from here on have never been taken
  std::uint32_t size_class_ = 0;
  bool packed_ = false;
  // calloc'ed and carved from the front: a slab of 4,096 blocks touches the records of those it has used.
  std::unique_ptr<BlockRecord, FreeDeleter> blocks_;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_SEGMENT_H_
