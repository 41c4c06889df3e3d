// StreamPool's lock and its calls of the driver: the ladder of Note [The ladder] in allocator/stream_pool.h, growing,
// giving back, and what ends. Every member that calls out does so between critical sections, never within one.
#ifndef CUHEAP_ALLOCATOR_STREAM_LADDER_H_
#define CUHEAP_ALLOCATOR_STREAM_LADDER_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "allocator/release_watch.h"
#include "allocator/stream_books.h"
#include "allocator/stream_memory.h"
#include "allocator/stream_pool.h"
#include "allocator/stream_types.h"

namespace cuheap {

class StreamLadder {
 public:
  StreamLadder(StreamMemoryRef memory, StreamPoolObserver* observer, const StreamPoolOptions& options)
      : memory_(memory), observer_(observer), options_(options), books_(options), watch_(options.await_releases) {}

  // Runs f(StreamBooks&) under the lock. Out of host memory for the books ends the process: no exception may cross the
  // entry points above us.
  template <class F>
  auto Locked(F f) noexcept {
    const std::lock_guard lock(mutex_);
    return f(books_);
  }
  bool disabled() const { return disabled_.load(std::memory_order_relaxed); }
  void Disable() { disabled_.store(true, std::memory_order_relaxed); }

  StreamAllocateOutcome Allocate(StreamPoolId pool, const StreamRef& stream, std::size_t bytes);
  DriverResult SetAccess(StreamPoolId pool, const AccessGrant* grants, std::size_t count);
  std::size_t TrimTo(StreamPoolId pool, std::size_t keep);
  void TrimAfterSynchronization();
  std::size_t ReleaseIdle(std::optional<int> device, std::size_t wanted);
  bool FreeAddressSpace();
  bool StreamCompleted(StreamId id, std::uint64_t point);
  void StreamDestroying(StreamId stream);
  void StreamDestroyed(StreamId stream);
  void CloseContext(ContextId context);
  void OpenContext(ContextId context);
  void ContextDestroyed(ContextId context);
  bool Owns(DeviceAddress address);
  ReleaseWatch& watch() { return watch_; }

 private:
  StreamAllocateOutcome AllocateAfterOutOfMemory(const StreamRequest& request, int device,
                                                 StreamAllocateOutcome outcome);
  bool ProbeOthers(const StreamRequest& request);
  void Ask(StreamProbe* probe);
  StreamAllocateOutcome Grow(const StreamRequest& request);
  DriverResult AddRegion(const StreamRequest& request);
  DriverResult MapPages(StreamPoolId pool, int device, const StreamBlock& space, std::vector<StreamChunk>* chunks,
                        bool* stuck);
  DriverResult MapChunk(int device, DeviceAddress address, StreamChunk* chunk);
  bool UnmapChunk(DeviceAddress address, const StreamChunk& chunk);
  DriverResult Grant(StreamPoolId pool, int device, DeviceAddress address, std::size_t bytes);
  bool WaitForContexts(int device);
  std::size_t GiveBack(const std::vector<StreamDetached>& detached);
  void TakeDead();
  void Destroy(const std::vector<std::uint64_t>& events) {
    for (const std::uint64_t event : events) memory_.DestroyEvent(event);
  }

  const StreamMemoryRef memory_;
  StreamPoolObserver* const observer_;
  const StreamPoolOptions options_;
  std::atomic<bool> disabled_{false};
  // All regions that ever were lie in [low_, high_).
  std::atomic<DeviceAddress> low_{~DeviceAddress{0}};
  std::atomic<DeviceAddress> high_{0};
  std::mutex mutex_;
  std::condition_variable left_;  // a driver call of ours in some stream is over
  StreamBooks books_;             // guarded by mutex_
  ReleaseWatch watch_;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_STREAM_LADDER_H_
