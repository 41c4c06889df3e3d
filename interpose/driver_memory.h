// The pool's seam to the real driver: cuMemAlloc, cuMemFree, and synchronisation with a deadline.
#ifndef CUHEAP_INTERPOSE_DRIVER_MEMORY_H_
#define CUHEAP_INTERPOSE_DRIVER_MEMORY_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "allocator/device_memory.h"
#include "interpose/driver_functions.h"
#include "interpose/free_helper.h"
#include "interpose/no_cancel.h"
#include "interpose/options/option_parse.h"
#include "interpose/sync_helper.h"

namespace cuheap {

// The longest wait for the device on a miss. Two rules can be switched off in tests: no wait at all, and one without
// end.
inline std::chrono::milliseconds LongestWait(const options::Options& options) {
  if (options.test_without == options::Rule::kWait) return std::chrono::milliseconds(0);
  if (options.test_without == options::Rule::kDeadline) return std::chrono::hours(24);
  return std::chrono::milliseconds(options.sync_deadline_ms);
}

// While it lives, the calling thread's driver calls do not count as unsafe in a capture that some other thread may
// open. Source: CUDA Driver API, cuThreadExchangeStreamCaptureMode.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverFunctions& driver) : exchange_(driver.cuThreadExchangeStreamCaptureMode) {
    if (exchange_ != nullptr && exchange_(&mode_) != CUDA_SUCCESS) exchange_ = nullptr;
  }
  ~RelaxedCapture() {
    if (exchange_ != nullptr) exchange_(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const NoCancel whole_;  // the bracket must be closed, and the books behind it
  decltype(&::cuThreadExchangeStreamCaptureMode) exchange_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// Makes a context current on the calling thread for a while, if it is not yet; 0 stands for whichever is current.
// Source: CUDA Driver API, cuCtxPushCurrent.
class ContextScope {
 public:
  ContextScope(const DriverFunctions& driver, std::uint64_t context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  CUresult result() const { return result_; }

 private:
  const DriverFunctions& driver_;
  bool pushed_ = false;
  CUresult result_ = CUDA_SUCCESS;
};

// A model of DeviceMemory. A segment is freed in the context it was allocated in.
class DriverMemory {
 public:
  DriverMemory(const DriverFunctions& driver, SyncHelper& helper, std::chrono::milliseconds deadline)
      : driver_(driver), helper_(helper), deadline_(deadline) {}

  DriverResult Allocate(std::size_t bytes, std::uint64_t* out);
  DriverResult Free(std::uint64_t address);
  // Before a context is destroyed: no free of ours is under way in it afterwards.
  void Leave(std::uint64_t context) { frees_.Leave(context); }
  DriverResult Synchronize(std::uint64_t context);

 private:
  CUresult FreeHere(std::uint64_t context, std::uint64_t address);

  // A free waits for work as a synchronisation does, but if it is given up the request fails: so much longer.
  static constexpr int kFreeDeadlines = 30;
  const DriverFunctions& driver_;
  SyncHelper& helper_;
  FreeHelper frees_{driver_};
  const std::chrono::milliseconds deadline_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint64_t> contexts_;  // by address
};

static_assert(DeviceMemory<DriverMemory>);

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_DRIVER_MEMORY_H_
