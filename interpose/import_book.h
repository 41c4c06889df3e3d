// Memory of other processes that is open here: opening it again gives the same address and counts.
// Source: CUDA Driver API, cuIpcOpenMemHandle ("the reference count on the handle is incremented by 1 and the existing
// device pointer is returned"), cuIpcCloseMemHandle ("decrements the reference count").
#ifndef CUHEAP_INTERPOSE_IMPORT_BOOK_H_
#define CUHEAP_INTERPOSE_IMPORT_BOOK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>

namespace cuheap {

// Thread-safe. Queries pay nothing but a load while no packed block is open.
class ImportBook {
 public:
  // A packed block of another process: the driver only knows the slab, which is open here.
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t segment = 0;
    std::uint64_t segment_bytes = 0;
    std::uint64_t serial = 0;  // never repeated in this process
  };
  struct Place {
    bool inside = false;         // the address lies in a slab that is open here
    std::optional<Block> block;  // the open block there
  };

  // True if the address was not open yet.
  bool Opened(std::uint64_t address, std::uint64_t context) {
    const std::lock_guard lock(mutex_);
    Open& open = opens_[address];
    open.context = context;
    return ++open.count == 1;
  }
  // The same for a packed block.
  bool OpenedBlock(Block block, std::uint64_t context) {
    const std::lock_guard lock(mutex_);
    Open& open = opens_[block.address];
    open.context = context;
    if (++open.count != 1) return false;
    block.serial = ++last_serial_;
    open.block = block;
    ++segments_[block.segment].opens;
    segments_[block.segment].bytes = block.segment_bytes;
    any_blocks_.store(true, std::memory_order_release);
    return true;
  }

  Place Find(std::uint64_t address) const {
    Place place;
    if (!any_blocks_.load(std::memory_order_acquire)) return place;
    const std::lock_guard lock(mutex_);
    const auto next_segment = segments_.upper_bound(address);
    if (next_segment == segments_.begin()) return place;
    const auto& [segment, facts] = *std::prev(next_segment);
    if (address - segment >= facts.bytes) return place;
    place.inside = true;
    const auto next = opens_.upper_bound(address);
    if (next == opens_.begin()) return place;
    const std::optional<Block> block = std::prev(next)->second.block;
    if (block && address - block->address < block->bytes) place.block = block;
    return place;
  }

  // Would one close end the mapping? Also for addresses we know nothing of.
  bool EndedByClose(std::uint64_t address) const {
    const std::lock_guard lock(mutex_);
    const auto found = opens_.find(address);
    return found == opens_.end() || found->second.count == 1;
  }
  void Closed(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    const auto found = opens_.find(address);
    if (found != opens_.end() && --found->second.count == 0) Erase(found);
  }
  // What was open in the context is not any more.
  void ContextDestroyed(std::uint64_t context) {
    const std::lock_guard lock(mutex_);
    for (auto at = opens_.begin(); at != opens_.end();) at = at->second.context == context ? Erase(at) : std::next(at);
  }

 private:
  struct Open {
    std::uint64_t count = 0;
    std::uint64_t context = 0;
    std::optional<Block> block;
  };
  struct Segment {
    std::uint64_t bytes = 0;
    std::uint64_t opens = 0;  // blocks
  };
  using Opens = std::map<std::uint64_t, Open>;

  Opens::iterator Erase(Opens::iterator open) {
    if (const std::optional<Block> block = open->second.block) {
      const auto segment = segments_.find(block->segment);
      if (--segment->second.opens == 0) segments_.erase(segment);
    }
    return opens_.erase(open);
  }

  std::atomic<bool> any_blocks_{false};
  mutable std::mutex mutex_;
  Opens opens_;  // by address
  std::map<std::uint64_t, Segment> segments_;
  std::uint64_t last_serial_ = 0;
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_IMPORT_BOOK_H_
