// Graphics resources whose memory was given out as an address: it is the program's until the resource is unmapped.
// Source: CUDA Driver API, Graphics Interoperability, cuGraphicsResourceGetMappedPointer, cuGraphicsUnmapResources.
#ifndef CUHEAP_INTERPOSE_GRAPHICS_BOOK_H_
#define CUHEAP_INTERPOSE_GRAPHICS_BOOK_H_

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace cuheap {

class GraphicsBook {
 public:
  using Resource = std::uint64_t;  // a CUgraphicsResource

  // True if the address is new: the resource was asked for the first time since it was mapped.
  bool Mapped(Resource resource, std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    const auto [at, added] = addresses_.try_emplace(resource, address);
    if (added || at->second == address) return added;
    at->second = address;
    return true;
  }
  // 0 if it was never asked for.
  std::uint64_t Find(Resource resource) const {
    const std::lock_guard lock(mutex_);
    const auto found = addresses_.find(resource);
    return found == addresses_.end() ? 0 : found->second;
  }
  void Unmapped(Resource resource) {
    const std::lock_guard lock(mutex_);
    addresses_.erase(resource);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Resource, std::uint64_t> addresses_;
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_GRAPHICS_BOOK_H_
