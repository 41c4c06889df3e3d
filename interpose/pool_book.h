// Which of the driver's memory pools our pool stands in for. The driver's handles stay the program's names for them.
#ifndef CUHEAP_INTERPOSE_POOL_BOOK_H_
#define CUHEAP_INTERPOSE_POOL_BOOK_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "allocator/stream_types.h"

namespace cuheap {

class PoolBook {
 public:
  using Handle = std::uint64_t;  // a CUmemoryPool

  // 0 if allocations from the pool are the driver's.
  StreamPoolId Find(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = ids_.find(handle);
    return found == ids_.end() ? 0 : found->second;
  }
  // Known at all, served or not.
  bool Knows(Handle handle) const {
    const std::lock_guard lock(mutex_);
    return ids_.contains(handle);
  }
  // The handle that the program knows a pool by, also after it was destroyed.
  Handle HandleOf(StreamPoolId id) const {
    const std::lock_guard lock(mutex_);
    const auto found = handles_.find(id);
    return found == handles_.end() ? 0 : found->second;
  }
  // id 0: not served. False, and nothing changed, if the handle is known already.
  bool Add(Handle handle, StreamPoolId id) {
    const std::lock_guard lock(mutex_);
    if (!ids_.emplace(handle, id).second) return false;
    if (id != 0) handles_[id] = handle;
    return true;
  }
  // The driver may give the handle to another pool from now on. Its id; empty if the handle is not known.
  std::optional<StreamPoolId> Remove(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = ids_.find(handle);
    if (found == ids_.end()) return std::nullopt;
    const StreamPoolId id = found->second;
    ids_.erase(found);
    current_.clear();  // a device whose current pool goes falls back to its default one
    return id;
  }

  // The pool that cuMemAllocAsync takes from on the device; 0 while it is not known.
  Handle Current(int device) const {
    const std::lock_guard lock(mutex_);
    const auto found = current_.find(device);
    return found == current_.end() ? 0 : found->second;
  }
  void SetCurrent(int device, Handle handle) {
    const std::lock_guard lock(mutex_);
    current_[device] = handle;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Handle, StreamPoolId> ids_;
  std::unordered_map<StreamPoolId, Handle> handles_;
  std::unordered_map<int, Handle> current_;
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_POOL_BOOK_H_
