// Handles of physical memory (cuMemCreate): the memory lives until every handle is released and every mapping is gone.
// Source: CUDA Driver API, Virtual Memory Management, cuMemRelease, cuMemRetainAllocationHandle.
#ifndef CUHEAP_INTERPOSE_PHYSICAL_BOOK_H_
#define CUHEAP_INTERPOSE_PHYSICAL_BOOK_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "interpose/journal/format.h"

namespace cuheap {

class PhysicalBook {
 public:
  using Handle = std::uint64_t;

  struct Ended {
    Handle handle;
    journal::AllocationKind kind;
  };
  struct Mapping {
    std::uint64_t address;
    std::uint64_t bytes;
    Handle handle;
  };

  void Created(Handle handle, journal::AllocationKind kind) {
    const std::lock_guard lock(mutex_);
    uses_[handle] = {1, 0, kind};
  }
  // The driver may give a handle that this process has already. True if it is new.
  bool Imported(Handle handle, journal::AllocationKind kind) {
    const std::lock_guard lock(mutex_);
    const auto [found, added] = uses_.try_emplace(handle, Uses{1, 0, kind});
    if (!added) ++found->second.handles;
    return added;
  }
  void Retained(Handle handle) {
    const std::lock_guard lock(mutex_);
    if (const auto found = uses_.find(handle); found != uses_.end()) ++found->second.handles;
  }
  // The memory that releasing the handle once would end, if it is the last use.
  std::optional<Ended> EndedByRelease(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = uses_.find(handle);
    if (found == uses_.end() || found->second.handles != 1 || found->second.mappings != 0) return std::nullopt;
    return Ended{handle, found->second.kind};
  }
  void Released(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = uses_.find(handle);
    if (found == uses_.end() || found->second.handles == 0) return;
    --found->second.handles;
    DropIfUnused(found);
  }
  // True if the handle is known.
  bool Mapped(std::uint64_t address, std::uint64_t bytes, Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = uses_.find(handle);
    if (found == uses_.end()) return false;
    ++found->second.mappings;
    mappings_[address] = {address, bytes, handle};
    return true;
  }
  // The mappings that begin in [address, address + bytes).
  std::vector<Mapping> MappingsIn(std::uint64_t address, std::uint64_t bytes) const {
    const std::lock_guard lock(mutex_);
    std::vector<Mapping> found;
    for (auto at = mappings_.lower_bound(address); at != mappings_.end() && at->first - address < bytes; ++at) {
      found.push_back(at->second);
    }
    return found;
  }
  // The memory that would end if [address, address + bytes) were unmapped.
  std::vector<Ended> EndedByUnmap(std::uint64_t address, std::uint64_t bytes) const {
    const std::lock_guard lock(mutex_);
    std::unordered_map<Handle, std::uint64_t> lost;
    std::vector<Ended> ended;
    for (auto at = mappings_.lower_bound(address); at != mappings_.end() && at->first - address < bytes; ++at) {
      const auto found = uses_.find(at->second.handle);
      if (found == uses_.end()) continue;
      if (++lost[at->second.handle] == found->second.mappings && found->second.handles == 0) {
        ended.push_back({at->second.handle, found->second.kind});
      }
    }
    return ended;
  }
  void Unmapped(std::uint64_t address, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto at = mappings_.lower_bound(address);
    while (at != mappings_.end() && at->first - address < bytes) {
      const auto found = uses_.find(at->second.handle);
      if (found != uses_.end()) {
        --found->second.mappings;
        DropIfUnused(found);
      }
      at = mappings_.erase(at);
    }
  }

 private:
  struct Uses {
    std::uint64_t handles;
    std::uint64_t mappings;
    journal::AllocationKind kind;
  };
  void DropIfUnused(std::unordered_map<Handle, Uses>::iterator found) {
    if (found->second.handles == 0 && found->second.mappings == 0) uses_.erase(found);
  }

  mutable std::mutex mutex_;
  std::unordered_map<Handle, Uses> uses_;
  std::map<std::uint64_t, Mapping> mappings_;  // by address
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_PHYSICAL_BOOK_H_
