// The driver as the router sees it: functions without a library behind them. What each does can be set by the test;
// each call goes into the fake recorder's log.
#ifndef CUHEAP_TESTS_INTERPOSE_FAKE_CUDA_H_
#define CUHEAP_TESTS_INTERPOSE_FAKE_CUDA_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "interpose/driver_functions.h"

namespace cuheap::testing {

inline CUcontext ContextHandle(std::uint64_t number) { return reinterpret_cast<CUcontext>(number); }

struct FakeCuda {
  std::mutex mutex;
  std::condition_variable changed;
  CUcontext current = ContextHandle(0xC1);  // of every thread
  CUresult context_error = CUDA_SUCCESS;    // of cuCtxGetDevice: the current context was destroyed
  std::size_t limit = std::size_t{1} << 40;
  std::size_t used = 0;
  std::map<CUdeviceptr, std::size_t> live;
  CUresult synchronize_result = CUDA_SUCCESS;
  bool variable_is_managed = false;
  bool hold_synchronize = false;  // cuCtxSynchronize does not return before this is false again
  CUstreamCaptureStatus capture_status = CU_STREAM_CAPTURE_STATUS_NONE;
  int primary_active = 0;
  CUresult memory_error = CUDA_SUCCESS;  // of cuMemAlloc: capture forbids it
  // User objects that graphs hold: DestroyGraphs() is the end of all of them.
  std::vector<std::pair<CUhostFn, void*>> user_objects;
  CUgraph retained_by = nullptr;
  void DestroyGraphs();
  CUdeviceptr next = 0x7f0000000000;

  FakeCuda();
  DriverFunctions Functions() const;
  void ReleaseSynchronize();

  static std::atomic<FakeCuda*> instance;
};

// The real functions that a hook would hand to its handler, beyond those in DriverFunctions.
CUresult FakeMemAlloc(CUdeviceptr* out, std::size_t bytes);
CUresult FakeMemFree(CUdeviceptr address);
CUresult FakeSynchronize();
CUresult FakeMemHostAlloc(void** out, std::size_t bytes, unsigned int flags);
CUresult FakeGetAddressRange(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address);
CUresult FakeGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address);  // IS_MANAGED only

// How often the call is in the fake recorder's log.
int Calls(const std::string& name);
// Position of its first occurrence, or -1.
int Position(const std::string& name);

}  // namespace cuheap::testing

#endif  // CUHEAP_TESTS_INTERPOSE_FAKE_CUDA_H_
