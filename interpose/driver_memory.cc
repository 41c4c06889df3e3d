#include "interpose/driver_memory.h"

namespace cuheap {

ContextScope::ContextScope(const DriverFunctions& driver, std::uint64_t context) : driver_(driver) {
  CUcontext current = nullptr;
  result_ = driver_.cuCtxGetCurrent(&current);
  if (result_ != CUDA_SUCCESS || context == 0 || reinterpret_cast<std::uint64_t>(current) == context) return;
  result_ = driver_.cuCtxPushCurrent_v2(reinterpret_cast<CUcontext>(context));
  pushed_ = result_ == CUDA_SUCCESS;
}

ContextScope::~ContextScope() {
  CUcontext popped = nullptr;
  if (pushed_) driver_.cuCtxPopCurrent_v2(&popped);
}

DriverResult DriverMemory::Allocate(std::size_t bytes, std::uint64_t* out) {
  const RelaxedCapture relaxed(driver_);
  CUcontext context = nullptr;
  driver_.cuCtxGetCurrent(&context);
  CUdeviceptr address = 0;
  const CUresult result = driver_.cuMemAlloc_v2(&address, bytes);
  if (result == CUDA_SUCCESS) {
    const std::lock_guard lock(mutex_);
    contexts_[address] = reinterpret_cast<std::uint64_t>(context);
    *out = address;
  }
  return {result};
}

DriverResult DriverMemory::Free(std::uint64_t address) {
  std::uint64_t context = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = contexts_.find(address);
    if (found != contexts_.end()) {
      context = found->second;
      // Before the call: afterwards the address may be another segment's.
      contexts_.erase(found);
    }
  }
  const RelaxedCapture relaxed(driver_);
  const ContextScope scope(driver_, context);
  if (scope.result() != CUDA_SUCCESS) return {scope.result()};
  const CUresult result = driver_.cuMemFree_v2(address);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE) {  // still there
    const std::lock_guard lock(mutex_);
    contexts_[address] = context;
  }
  return {result};
}

}  // namespace cuheap
