// Blocks whose memory the program has shared, or set apart, in ways whose end cannot be seen, so that the pool does not
// reuse them: what their attributes must say for as long as they live.
#ifndef CUHEAP_INTERPOSE_EXPOSED_BOOK_H_
#define CUHEAP_INTERPOSE_EXPOSED_BOOK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "allocator/sync_pool.h"

namespace cuheap {

// Thread-safe. Nothing but a load is paid while no block is exposed.
class ExposedBook {
 public:
  // ---- blocks that left the pool: the driver knows their segment, we their size and id ----

  void Add(const PoolBlock& block) {
    const std::lock_guard lock(mutex_);
    blocks_[block.address] = block;
    any_.store(true, std::memory_order_release);
  }
  // The exposed block that contains the address.
  std::optional<PoolBlock> Find(std::uint64_t address) const {
    if (!any_.load(std::memory_order_acquire)) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto next = blocks_.upper_bound(address);
    if (next == blocks_.begin()) return std::nullopt;
    const PoolBlock& block = std::prev(next)->second;
    if (address - block.address >= block.bytes) return std::nullopt;
    return block;
  }
  // Before the free of the address, which others may be given at once. If the free fails, Add() it again.
  std::optional<PoolBlock> Take(std::uint64_t address) {
    if (!any_.load(std::memory_order_acquire)) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) return std::nullopt;
    const PoolBlock block = found->second;
    blocks_.erase(found);
    return block;
  }

  // ---- CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of packed blocks: the driver has one for the whole slab ----

  // Must the driver's be on, once this block's is set so?
  bool SetSyncMemops(const PoolBlock& block, bool on) {
    const std::lock_guard lock(mutex_);
    sync_memops_[block.address] = {block, on};
    any_sync_memops_.store(true, std::memory_order_release);
    for (const auto& [address, entry] : sync_memops_) {
      if (entry.second && entry.first.segment == block.segment) return true;
    }
    return false;
  }
  bool SyncMemops(const PoolBlock& block) const {
    const std::lock_guard lock(mutex_);
    const auto found = sync_memops_.find(block.address);
    return found != sync_memops_.end() && found->second.second && found->second.first.incarnation == block.incarnation;
  }

  // The block that began there is free: whoever comes next has none of it.
  void Freed(std::uint64_t address) {
    if (!any_sync_memops_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    sync_memops_.erase(address);
    any_sync_memops_.store(!sync_memops_.empty(), std::memory_order_release);
  }

  void ContextDestroyed(ContextId context) {
    const std::lock_guard lock(mutex_);
    std::erase_if(blocks_, [context](const auto& entry) { return entry.second.context == context; });
    std::erase_if(sync_memops_, [context](const auto& entry) { return entry.second.first.context == context; });
  }

 private:
  std::atomic<bool> any_{false};
  std::atomic<bool> any_sync_memops_{false};
  mutable std::mutex mutex_;
  std::map<std::uint64_t, PoolBlock> blocks_;  // by address
  std::map<std::uint64_t, std::pair<PoolBlock, bool>> sync_memops_;
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_EXPOSED_BOOK_H_
