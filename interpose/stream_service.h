// Stream-ordered allocation for the router: which pool and which stream a call means, and what other calls prove.
//
// Note [Which pools are served]
// Default pools and plain ones (cuMemPoolCreate with pinned memory of a device, without handle types): the driver's
// pool stays beside ours, empty, and every call on it is made there first, so that errors are the driver's own.
// Imported, exportable and managed pools, those of the host, memory nodes of captures, and everything while a capture
// is open: recorded and forwarded.
#ifndef CUHEAP_INTERPOSE_STREAM_SERVICE_H_
#define CUHEAP_INTERPOSE_STREAM_SERVICE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "allocator/stream_pool.h"
#include "interpose/capture_watch.h"
#include "interpose/driver_functions.h"
#include "interpose/hook_list.h"
#include "interpose/options/option_parse.h"
#include "interpose/pool_book.h"
#include "interpose/stream_driver.h"
#include "interpose/sync_helper.h"

namespace cuheap {

class StreamService {
 public:
  struct Stream {
    CUresult result = CUDA_SUCCESS;  // what the driver says of the handle
    StreamRef ref;
    int device = -1;
  };

  StreamService(const DriverFunctions& driver, const CaptureWatch& captures, SyncHelper& helper,
                StreamPoolObserver* observer, const options::Options& options);

  StreamPool& pool() { return pool_; }
  const StreamPool& pool() const { return pool_; }
  const StreamDriver& memory() const { return memory_; }
  // Something was served already: only then do synchronisations and streams need a look.
  bool used() const { return used_.load(std::memory_order_relaxed); }
  void SetUsed() { used_.store(true, std::memory_order_relaxed); }

  // Which stream a call means. `context` is the current one, on `device`; NULL is the calling thread's own stream in
  // functions for per-thread default streams. Source: CUDA Driver API, cuStreamGetId, cuStreamGetCtx.
  Stream Identify(HookId id, CUstream stream, std::uint64_t context, int device);
  void StreamGone(StreamId id);
  void ContextGone(std::uint64_t context);

  // Our pool behind a handle, or behind what cuMemAllocAsync uses on the device; 0: the driver's business.
  StreamPoolId PoolOf(CUmemoryPool handle) const { return book_.Find(reinterpret_cast<std::uint64_t>(handle)); }
  StreamPoolId CurrentPool(int device);
  CUmemoryPool HandleOf(StreamPoolId id) const { return reinterpret_cast<CUmemoryPool>(book_.HandleOf(id)); }

  // What the program's successful calls on pools said.
  void PoolCreated(CUmemoryPool handle, const CUmemPoolProps& properties);
  // Around the program's destruction of a pool. Empty if it is not known.
  std::optional<StreamPoolId> PoolGoing(CUmemoryPool handle);
  void PoolWent(CUmemoryPool handle, StreamPoolId id, bool gone);
  void PoolSeen(CUmemoryPool handle, int device);
  void PoolMadeCurrent(CUmemoryPool handle, int device);
  void AttributeSet(CUmemoryPool handle, CUmemPool_attribute attribute, const void* value);
  // Adds what our pool holds to the driver's answer.
  void CorrectAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) const;
  CUresult AccessSet(CUmemoryPool handle, const CUmemAccessDesc* map, std::size_t count);

 private:
  struct Known {
    std::uint64_t context = 0;
    int device = -1;
    bool behind_legacy = true;
  };
  int DeviceOf(std::uint64_t context) const;
  StreamPoolId NewPool(int device, std::size_t max_bytes, bool expects_much);

  const DriverFunctions& driver_;
  StreamDriver memory_;
  StreamPool pool_;
  PoolBook book_;
  std::atomic<bool> used_{false};
  std::mutex mutex_;
  std::unordered_map<StreamId, Known> streams_;  // ordinary ones; ids never repeat
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_STREAM_SERVICE_H_
