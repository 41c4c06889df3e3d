// Memory of other processes that is open here: opening it again gives the same address and counts.
// Source: CUDA Driver API, cuIpcCloseMemHandle ("decrements the reference count").
#ifndef CUHEAP_INTERPOSE_IMPORT_BOOK_H_
#define CUHEAP_INTERPOSE_IMPORT_BOOK_H_

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace cuheap {

class ImportBook {
 public:
  // True if the address was not open yet.
  bool Opened(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    return ++opens_[address] == 1;
  }
  // Would one close end the mapping? Also for addresses we know nothing of.
  bool EndedByClose(std::uint64_t address) const {
    const std::lock_guard lock(mutex_);
    const auto found = opens_.find(address);
    return found == opens_.end() || found->second == 1;
  }
  void Closed(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    const auto found = opens_.find(address);
    if (found != opens_.end() && --found->second == 0) opens_.erase(found);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint64_t> opens_;
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_IMPORT_BOOK_H_
