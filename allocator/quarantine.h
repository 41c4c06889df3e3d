// Where the freed blocks of one context wait until a synchronisation has proved that nothing uses them any more.
//
// Stamps never fall from one Push to the next, so what is proven is always a prefix:
//
//   front                                             back
//   | stamp 3 | stamp 3 | stamp 5 | stamp 6 | stamp 6 |        proven = 6: the first three are ready
#ifndef CUHEAP_ALLOCATOR_QUARANTINE_H_
#define CUHEAP_ALLOCATOR_QUARANTINE_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/intrusive_list.h"
#include "allocator/segment.h"
#include "allocator/types.h"

namespace cuheap {

// Threads: none of its own; the pool's lock guards it. Owns no segment. Pushing never allocates: Reserve comes first.
class Quarantine {
 public:
  // Makes room for `blocks` blocks of slabs in all; may throw std::bad_alloc.
  void Reserve(std::size_t blocks) {
    if (blocks <= ring_.size()) return;
    std::size_t size = ring_.empty() ? 256 : ring_.size();
    while (size < blocks) size *= 2;
    std::vector<Entry> larger(size);
    for (std::size_t i = 0; i < count_; ++i) larger[i] = At(i);
    ring_.swap(larger);
    head_ = 0;
  }

  // REQUIRES: stamp is not below any earlier one; room was reserved.
  void PushBlock(Segment* slab, std::uint32_t index, SyncTicket stamp) {
    assert(count_ < ring_.size());
    ring_[(head_ + count_++) & (ring_.size() - 1)] = {stamp, slab, index};
  }

  // A dedicated segment, which can leave early. REQUIRES: as PushBlock; not in a quarantine.
  void PushSegment(Segment* segment, SyncTicket stamp) {
    segment->quarantine_stamp = stamp;
    segments_.PushBack(segment);
  }
  // REQUIRES: in this quarantine.
  void RemoveSegment(Segment* segment) { segments_.Remove(segment); }

  // Calls release(segment, index) for every block with a stamp below `proven` and drops it.
  template <class Release>
  void Drain(SyncTicket proven, Release release) {
    while (count_ > 0 && At(0).stamp < proven) {
      const Entry entry = At(0);
      head_ = (head_ + 1) & (ring_.size() - 1);
      --count_;
      release(entry.slab, entry.index);
    }
    while (!segments_.empty() && segments_.front()->quarantine_stamp < proven) {
      Segment* segment = segments_.front();
      segments_.Remove(segment);
      release(segment, std::uint32_t{0});
    }
  }

  // Drops the blocks of a slab that is no more. O(blocks waiting): for segments lost, not for the common way.
  void ForgetSlab(const Segment* slab) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      if (At(i).slab != slab) At(kept++) = At(i);
    }
    count_ = kept;
  }

  // Drops the blocks of all slabs.
  void ForgetAllBlocks() { count_ = 0; }

  std::size_t waiting_blocks() const { return count_; }  // of slabs
  bool empty() const { return count_ == 0 && segments_.empty(); }

  // The dedicated segments, oldest first.
  Segment* FirstSegment() const { return segments_.front(); }
  static Segment* Next(const Segment* segment) { return segment->quarantine_link.next; }

 private:
  struct Entry {
    SyncTicket stamp = 0;
    Segment* slab = nullptr;
    std::uint32_t index = 0;
  };
  Entry& At(std::size_t i) { return ring_[(head_ + i) & (ring_.size() - 1)]; }

  std::vector<Entry> ring_;  // its size is a power of two
  std::size_t head_ = 0;
  std::size_t count_ = 0;
  IntrusiveList<Segment, &Segment::quarantine_link> segments_;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_QUARANTINE_H_
