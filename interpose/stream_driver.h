// StreamPool's seam to the real driver: virtual memory, events, and synchronisation with a deadline.
#ifndef CUHEAP_INTERPOSE_STREAM_DRIVER_H_
#define CUHEAP_INTERPOSE_STREAM_DRIVER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_set>

#include "allocator/stream_memory.h"
#include "interpose/capture_watch.h"
#include "interpose/driver_functions.h"
#include "interpose/sync_helper.h"

namespace cuheap {

// A model of StreamMemory. While any stream of the process captures, nothing is asked of streams and events: a recorded
// event would become part of the capture, a query could invalidate it. Source: CUDA Driver API, cuStreamBeginCapture.
class StreamDriver {
 public:
  StreamDriver(const DriverFunctions& driver, const CaptureWatch& captures, SyncHelper& helper,
               std::chrono::milliseconds deadline)
      : driver_(driver), captures_(captures), helper_(helper), deadline_(deadline) {}

  // The driver has all functions, and its pages fit ours, on the device. Not cached.
  bool Supports(int device) const;

  // What is ours and not the program's: any of the addresses [address, address + bytes), or the handle.
  bool HasReserved(std::uint64_t address, std::size_t bytes) const;
  bool HasCreated(std::uint64_t handle) const;

  DriverResult Reserve(std::size_t bytes, std::uint64_t* out);
  DriverResult Unreserve(std::uint64_t address, std::size_t bytes);
  DriverResult Create(int device, std::size_t bytes, std::uint64_t* out);
  DriverResult Release(std::uint64_t handle);
  DriverResult Map(std::uint64_t address, std::size_t bytes, std::uint64_t handle);
  DriverResult Unmap(std::uint64_t address, std::size_t bytes);
  DriverResult SetAccess(std::uint64_t address, std::size_t bytes, const AccessGrant* grants, std::size_t count);
  DriverResult RecordEvent(const StreamRef& stream, std::uint64_t* out);
  DriverResult QueryEvent(std::uint64_t event);
  void DestroyEvent(std::uint64_t event);
  DriverResult QueryStream(const StreamRef& stream);
  DriverResult Synchronize(std::uint64_t context);

 private:
  const DriverFunctions& driver_;
  const CaptureWatch& captures_;
  SyncHelper& helper_;
  const std::chrono::milliseconds deadline_;
  mutable std::mutex mutex_;  // never held over a driver call
  std::map<std::uint64_t, std::size_t> reserved_;
  std::unordered_set<std::uint64_t> created_;
};

static_assert(StreamMemory<StreamDriver>);

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_STREAM_DRIVER_H_
