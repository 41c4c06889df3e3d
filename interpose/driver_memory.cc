#include "interpose/driver_memory.h"

#include "interpose/driver_timer.h"

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
  const CUresult result =
      Timed(journal::DriverCall::kAllocate, [&] { return driver_.cuMemAlloc_v2(&address, bytes); });
  if (result == CUDA_SUCCESS) {
    const std::lock_guard lock(mutex_);
    contexts_[address] = reinterpret_cast<std::uint64_t>(context);
    *out = address;
  }
  return {result};
}

DriverResult DriverMemory::Synchronize(std::uint64_t context) {
  return Timed(journal::DriverCall::kPoolWait, [&] { return DriverResult{helper_.Synchronize(context, deadline_)}; });
}

CUresult DriverMemory::FreeHere(std::uint64_t context, std::uint64_t address) {
  const RelaxedCapture relaxed(driver_);
  const ContextScope scope(driver_, context);
  return scope.result() != CUDA_SUCCESS ? scope.result() : driver_.cuMemFree_v2(address);
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
  if (context == 0) {
    CUcontext current = nullptr;
    driver_.cuCtxGetCurrent(&current);
    context = reinterpret_cast<std::uint64_t>(current);
  }
  CUresult result = CUDA_SUCCESS;
  const DriverTimer timer(journal::DriverCall::kFree);
  switch (frees_.Free(context, address, deadline_ * kFreeDeadlines, &result)) {
    case FreeHelper::Outcome::kDone:
      break;
    case FreeHelper::Outcome::kGoing:  // it will be free, only not yet
      return {CUDA_SUCCESS};
    case FreeHelper::Outcome::kBusy:
      result = CUDA_ERROR_NOT_READY;
      break;
    case FreeHelper::Outcome::kNone:
      result = FreeHere(context, address);
      break;
  }
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE) {  // still there
    const std::lock_guard lock(mutex_);
    contexts_[address] = context;
  }
  return {result};
}

}  // namespace cuheap
