// Free blocks by size, found in constant time (the "two-level segregated fit" of Masmano et al., 2004).
//
// Sizes are counted in granules of 512 bytes. Below 32 granules every size has a list of its own; above, every doubling
// is cut into 32 lists, so that the blocks of a list differ by at most 1/32. Two levels of bitmaps say which lists are
// not empty:
//
//   first level   0: [0, 32)   1: [32, 64)   2: [64, 128)  ...      granules
//   second level  1 granule    1 granule     2 granules    ...      a list
//
// A request looks through a few blocks of its own list, where some are too small, and then takes any block of the next
// list that has one.
#ifndef CUHEAP_ALLOCATOR_FREE_INDEX_H_
#define CUHEAP_ALLOCATOR_FREE_INDEX_H_

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "allocator/intrusive_list.h"
#include "allocator/stream_types.h"

namespace cuheap {

// kLink links the block in its list; kKey holds the bytes it is entered under, 0 while it is not in the index.
// Threads: none of its own; the pool's lock guards it. Owns nothing, allocates nothing.
template <class T, ListLink<T> T::* kLink, std::size_t T::* kKey>
class FreeIndex {
 public:
  // bytes: > 0, a multiple of the granule. REQUIRES: the block is not in the index.
  void Insert(T* block, std::size_t bytes) {
    assert(bytes != 0 && bytes % kStreamGranule == 0 && block->*kKey == 0);
    block->*kKey = bytes;
    const Class at = ClassOf(bytes);
    lists_[at.first][at.second].PushFront(block);
    second_[at.first] |= std::uint32_t{1} << at.second;
    first_ |= std::uint64_t{1} << at.first;
  }
  // Nothing happens if the block is not in the index.
  void Remove(T* block) {
    if (block->*kKey == 0) return;
    const Class at = ClassOf(block->*kKey);
    block->*kKey = 0;
    lists_[at.first][at.second].Remove(block);
    if (!lists_[at.first][at.second].empty()) return;
    second_[at.first] &= ~(std::uint32_t{1} << at.second);
    if (second_[at.first] == 0) first_ &= ~(std::uint64_t{1} << at.first);
  }

  // A block entered under at least `bytes` (> 0), or null. It stays in the index.
  T* Find(std::size_t bytes) const {
    const Class at = ClassOf(bytes);
    if (at.first >= kLevels) return nullptr;
    T* best = nullptr;
    int seen = 0;
    for (T* block = lists_[at.first][at.second].front(); block != nullptr && seen < kLookedAt; ++seen) {
      if (block->*kKey >= bytes && (best == nullptr || block->*kKey < best->*kKey)) best = block;
      block = (block->*kLink).next;
    }
    return best != nullptr ? best : FirstAbove(at);
  }

  bool empty() const { return first_ == 0; }

 private:
  static constexpr int kSecondBits = 5;
  static constexpr unsigned kLevels = 40;  // up to 2^48 bytes and more
  static constexpr int kLookedAt = 8;

  struct Class {
    unsigned first, second;
  };
  static Class ClassOf(std::size_t bytes) {
    const std::size_t granules = (bytes + kStreamGranule - 1) / kStreamGranule;
    if (granules < (1u << kSecondBits)) return {0, static_cast<unsigned>(granules)};
    const auto first = static_cast<unsigned>(std::bit_width(granules)) - kSecondBits;
    return {first, static_cast<unsigned>(granules >> (first - 1)) - (1u << kSecondBits)};
  }
  T* FirstAbove(Class at) const {
    const std::uint32_t beside = second_[at.first] & ~((std::uint32_t{2} << at.second) - 1);
    if (beside != 0) return lists_[at.first][std::countr_zero(beside)].front();
    const std::uint64_t above = first_ & ~((std::uint64_t{2} << at.first) - 1);
    if (above == 0) return nullptr;
    const int first = std::countr_zero(above);
    return lists_[first][std::countr_zero(second_[first])].front();
  }

  std::uint64_t first_ = 0;
  std::uint32_t second_[kLevels] = {};
  IntrusiveList<T, kLink> lists_[kLevels][std::size_t{1} << kSecondBits];
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_FREE_INDEX_H_
