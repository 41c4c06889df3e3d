// The slabs of one size class that have a ready block, found fullest first, so that nearly empty slabs drain and become
// releasable as a whole.
//
// Bins by occupancy: bin 0 holds the empty slabs and nothing else; bins 1 to 15 split the rest evenly. Full slabs are
// in none. So "fullest" is exact up to 1/15 of a slab; within a bin the slab that changed last is first. Spent slabs
// (idle, with blocks that must not be taken again) have a bin of their own: they wait to be given back, and are taken
// from only where there is no other. Otherwise a program that exports one small block after the other would get a slab
// for each. Those without a ready block come last in their bin.
#ifndef CUHEAP_ALLOCATOR_SLAB_BINS_H_
#define CUHEAP_ALLOCATOR_SLAB_BINS_H_

#include <array>
#include <bit>
#include <cstdint>

#include "allocator/intrusive_list.h"
#include "allocator/segment.h"

namespace cuheap {

// Threads: none of its own; the pool's lock guards it. Owns no slab. All members are O(1).
class SlabBins {
 public:
  static constexpr int kBins = 16;
  static constexpr int kSpent = kBins;

  // Where a slab belongs: -1 (full), 0 (empty) to kBins - 1, or kSpent.
  static int BinOf(const Segment& slab) {
    if (slab.retired() > 0 && slab.idle()) return kSpent;
    if (slab.ready() == 0) return -1;
    if (slab.used() == 0) return 0;
    return 1 + static_cast<int>((std::uint64_t{slab.used()} - 1) * (kBins - 1) / slab.capacity());
  }

  // Puts the slab, new or changed, where it belongs.
  void Update(Segment* slab) {
    const int bin = BinOf(*slab);
    if (bin == slab->bin) return;
    Remove(slab);
    slab->bin = bin;
    if (bin < 0) return;
    if (bin == kSpent && slab->ready() == 0) return bins_[bin].PushBack(slab);
    bins_[bin].PushFront(slab);
    if (bin != kSpent) occupied_ |= 1u << bin;
  }

  // Takes the slab out of its bin, if it is in one.
  void Remove(Segment* slab) {
    if (slab->bin < 0) return;
    bins_[slab->bin].Remove(slab);
    if (slab->bin != kSpent && bins_[slab->bin].empty()) occupied_ &= ~(1u << slab->bin);
    slab->bin = -1;
  }

  // The fullest slab with a ready block, or null.
  Segment* Fullest() const {
    if (occupied_ != 0) return bins_[std::bit_width(occupied_) - 1].front();
    Segment* const spent = bins_[kSpent].front();
    return spent != nullptr && spent->ready() != 0 ? spent : nullptr;
  }

  // The first of the slabs without a used block, or null; then Next.
  Segment* FirstEmpty() const { return bins_[0].front(); }
  // The first of the spent ones, or null; then Next.
  Segment* FirstSpent() const { return bins_[kSpent].front(); }
  static Segment* Next(const Segment* slab) { return slab->bin_link.next; }
  // The last of the spent ones, or null; then Previous. Those without a ready block come first this way.
  Segment* LastSpent() const { return bins_[kSpent].back(); }
  static Segment* Previous(const Segment* slab) { return slab->bin_link.previous; }

 private:
  std::array<IntrusiveList<Segment, &Segment::bin_link>, kBins + 1> bins_;
  std::uint32_t occupied_ = 0;  // bit b: bins_[b] is not empty; not for kSpent
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_SLAB_BINS_H_
