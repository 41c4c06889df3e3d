// Live blocks by the address they begin at: open addressing, one cache line a look-up as a rule.
#ifndef CUHEAP_ALLOCATOR_BLOCK_TABLE_H_
#define CUHEAP_ALLOCATOR_BLOCK_TABLE_H_

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "allocator/types.h"

namespace cuheap {

// Threads: none of its own; the pool's lock guards it. Owns no block.
template <class T>
class BlockTable {
 public:
  // Makes room for one more, so that Insert can't fail. May throw std::bad_alloc.
  void Reserve() {
    if ((count_ + 1) * 2 <= entries_.size()) return;
    std::vector<Entry> larger(entries_.empty() ? 1024 : entries_.size() * 2);
    entries_.swap(larger);
    shift_ = 64 - std::countr_zero(entries_.size());
    for (const Entry& entry : larger) {
      if (entry.block != nullptr) entries_[Vacant(entry.address)] = entry;
    }
  }
  // REQUIRES: Reserve() came before; the address is not in the table.
  void Insert(DeviceAddress address, T* block) {
    entries_[Vacant(address)] = {address, block};
    ++count_;
  }
  // The block that begins at the address, or null.
  T* Find(DeviceAddress address) const {
    const std::size_t at = Place(address);
    return at == kNone ? nullptr : entries_[at].block;
  }
  // Finds it and takes it out.
  T* Erase(DeviceAddress address) {
    std::size_t hole = Place(address);
    if (hole == kNone) return nullptr;
    T* block = entries_[hole].block;
    --count_;
    // What follows in the same run moves up, so that no look-up ends early at the hole.
    const std::size_t mask = entries_.size() - 1;
    for (std::size_t next = (hole + 1) & mask; entries_[next].block != nullptr; next = (next + 1) & mask) {
      if (((next - Home(entries_[next].address)) & mask) < ((next - hole) & mask)) continue;
      entries_[hole] = entries_[next];
      hole = next;
    }
    entries_[hole] = {};
    return block;
  }
  std::size_t size() const { return count_; }

 private:
  struct Entry {
    DeviceAddress address = 0;
    T* block = nullptr;
  };
  static constexpr std::size_t kNone = ~std::size_t{0};

  std::size_t Home(DeviceAddress address) const { return (address >> 9) * 0x9E3779B97F4A7C15u >> shift_; }
  std::size_t Vacant(DeviceAddress address) const {
    std::size_t at = Home(address);
    while (entries_[at].block != nullptr) at = (at + 1) & (entries_.size() - 1);
    return at;
  }
  std::size_t Place(DeviceAddress address) const {
    if (entries_.empty()) return kNone;
    for (std::size_t at = Home(address); entries_[at].block != nullptr; at = (at + 1) & (entries_.size() - 1)) {
      if (entries_[at].address == address) return at;
    }
    return kNone;
  }

  std::vector<Entry> entries_;  // its size is a power of two; at most half full
  std::size_t count_ = 0;
  int shift_ = 64;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_BLOCK_TABLE_H_
