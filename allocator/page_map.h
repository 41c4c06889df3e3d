// From any address to the segment that contains it.
//
// The address space up to 2^49 in granules of 2 MiB, as a table of two levels. An entry is empty, the one segment that
// touches the granule, or (the pointer's lowest bit set) the sorted list of several: dedicated segments need be neither
// aligned to, nor multiples of, the granule.
//
//   root (2^14, touched on demand) -> leaf (2^14 entries, 32 GiB) -> Segment*  or  [Segment*, Segment*, ...]
#ifndef CUHEAP_ALLOCATOR_PAGE_MAP_H_
#define CUHEAP_ALLOCATOR_PAGE_MAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/segment.h"
#include "allocator/types.h"

namespace cuheap {

// Threads: none of its own; the pool's lock guards it. Owns no segment.
class PageMap {
 public:
  // Addresses from here on can't be entered. (User addresses have 47 bits on x86-64 and 48 on aarch64.)
  static constexpr DeviceAddress kAddressLimit = DeviceAddress{1} << 49;

  PageMap() = default;
  ~PageMap();
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  // False, and nothing changed, if the segment reaches beyond kAddressLimit or host memory is short.
  // REQUIRES: it overlaps none that is in the map.
  bool Insert(Segment* segment);
  // REQUIRES: the segment is in the map, at its present base.
  void Erase(Segment* segment);

  // The segment that contains the address, or null.
  Segment* Find(DeviceAddress address) const;
  // A segment that shares a byte with [base, base + bytes), or null.
  Segment* FindOverlap(DeviceAddress base, std::size_t bytes) const;

 private:
  static constexpr int kGranuleShift = 21;
  static constexpr int kLeafBits = 14;
  static constexpr int kRootBits = 14;
  static_assert(kGranuleShift + kLeafBits + kRootBits == 49);
  static constexpr std::uintptr_t kSharedBit = 1;

  using Entry = std::uintptr_t;
  using Shared = std::vector<Segment*>;  // sorted by base, at least two (one while an insertion prepares)

  static bool IsShared(Entry entry) { return (entry & kSharedBit) != 0; }
  static Shared& SharedOf(Entry entry) { return *reinterpret_cast<Shared*>(entry & ~kSharedBit); }
  static Segment* SegmentOf(Entry entry) { return reinterpret_cast<Segment*>(entry); }

  Entry* EntryAt(std::size_t granule) const;  // null if there is no leaf
  bool Prepare(std::size_t granule);
  static void Tidy(Entry* entry);

  Entry** root_ = nullptr;  // calloc'ed arrays: untouched pages cost nothing
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_PAGE_MAP_H_
