// Memory on its way back to the driver. It is in nobody's books any more and not yet free, so a request that the driver
// refuses meanwhile must wait for it rather than fail.
#ifndef CUHEAP_ALLOCATOR_RELEASE_WATCH_H_
#define CUHEAP_ALLOCATOR_RELEASE_WATCH_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace cuheap {

// Thread-safe. Locks nothing else, so that Begin may be called under a pool's lock: no instant may lie between a
// segment leaving the books and being on its way.
class ReleaseWatch {
 public:
  // active: false in tests only, to show what the watch prevents.
  explicit ReleaseWatch(bool active = true) : active_(active) {}

  void Begin(std::uint64_t count) {
    const std::lock_guard lock(mutex_);
    begun_ += count;
  }
  // Given back, or not after all: either way a new look is worth it.
  void End(std::uint64_t count = 1) {
    {
      const std::lock_guard lock(mutex_);
      ended_ += count;
    }
    changed_.notify_all();
  }
  std::uint64_t ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  // True if anything has come back since ended() was `seen`; waits, up to a second, for what is on its way.
  bool ChangedSince(std::uint64_t seen) {
    if (!active_) return false;
    std::unique_lock lock(mutex_);
    if (ended_ == seen && begun_ == ended_) return false;
    return changed_.wait_for(lock, std::chrono::seconds(1), [&] { return ended_ != seen; });
  }

 private:
  const bool active_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t begun_ = 0;
  std::uint64_t ended_ = 0;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_RELEASE_WATCH_H_
