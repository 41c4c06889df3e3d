#include "interpose/stream_driver.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "interpose/driver_memory.h"
#include "interpose/driver_timer.h"

namespace cuheap {
namespace {

using journal::DriverCall;

// As plain as memory of the default pool is: pinned on its device, not to be exported.
CUmemAllocationProp PropertiesOn(int device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

}  // namespace

bool StreamDriver::Supports(int device) const {
  if (!driver_.HasStreamOrdered()) return false;
  int managed = 0;
  if (driver_.cuDeviceGetAttribute != nullptr &&
      (driver_.cuDeviceGetAttribute(&managed, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) !=
           CUDA_SUCCESS ||
       managed == 0)) {
    return false;
  }
  const CUmemAllocationProp properties = PropertiesOn(device);
  std::size_t granularity = 0;
  return driver_.cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
             CUDA_SUCCESS &&
         granularity != 0 && kStreamPage % granularity == 0;
}

bool StreamDriver::HasReserved(std::uint64_t address, std::size_t bytes) const {
  if (bytes == 0) return false;
  const std::uint64_t last = address + (bytes - 1) < address ? UINT64_MAX : address + (bytes - 1);
  const std::lock_guard lock(mutex_);
  const auto behind = reserved_.upper_bound(last);
  if (behind == reserved_.begin()) return false;
  const auto& [base, size] = *std::prev(behind);
  return address < base + size;
}

bool StreamDriver::HasCreated(std::uint64_t handle) const {
  const std::lock_guard lock(mutex_);
  return created_.contains(handle);
}

DriverResult StreamDriver::Reserve(std::size_t bytes, std::uint64_t* out) {
  const RelaxedCapture relaxed(driver_);
  CUdeviceptr address = 0;
  const CUresult result = Timed(DriverCall::kMap, [&] { return driver_.cuMemAddressReserve(&address, bytes, kStreamPage, 0, 0); });
  if (result != CUDA_SUCCESS) return {result};
  *out = address;
  const std::lock_guard lock(mutex_);
  reserved_[address] = bytes;
  return {result};
}

DriverResult StreamDriver::Unreserve(std::uint64_t address, std::size_t bytes) {
  const RelaxedCapture relaxed(driver_);
  {
    // Before the call: once it returns, the addresses may be the program's.
    const std::lock_guard lock(mutex_);
    reserved_.erase(address);
  }
  const CUresult result = Timed(DriverCall::kMap, [&] { return driver_.cuMemAddressFree(address, bytes); });
  if (result == CUDA_SUCCESS) return {result};
  const std::lock_guard lock(mutex_);
  reserved_[address] = bytes;
  return {result};
}

DriverResult StreamDriver::Create(int device, std::size_t bytes, std::uint64_t* out) {
  const RelaxedCapture relaxed(driver_);
  const CUmemAllocationProp properties = PropertiesOn(device);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = Timed(DriverCall::kAllocate, [&] { return driver_.cuMemCreate(&handle, bytes, &properties, 0); });
  if (result != CUDA_SUCCESS) return {result};
  *out = handle;
  const std::lock_guard lock(mutex_);
  created_.insert(handle);
  return {result};
}

DriverResult StreamDriver::Release(std::uint64_t handle) {
  const RelaxedCapture relaxed(driver_);
  {
    const std::lock_guard lock(mutex_);
    created_.erase(handle);
  }
  const CUresult result = Timed(DriverCall::kFree, [&] { return driver_.cuMemRelease(handle); });
  if (result == CUDA_SUCCESS) return {result};
  const std::lock_guard lock(mutex_);
  created_.insert(handle);
  return {result};
}

DriverResult StreamDriver::Map(std::uint64_t address, std::size_t bytes, std::uint64_t handle) {
  const RelaxedCapture relaxed(driver_);
  return {Timed(DriverCall::kMap, [&] { return driver_.cuMemMap(address, bytes, 0, handle, 0); })};
}

DriverResult StreamDriver::Unmap(std::uint64_t address, std::size_t bytes) {
  const RelaxedCapture relaxed(driver_);
  return {Timed(DriverCall::kMap, [&] { return driver_.cuMemUnmap(address, bytes); })};
}

DriverResult StreamDriver::SetAccess(std::uint64_t address, std::size_t bytes, const AccessGrant* grants,
                                     std::size_t count) {
  const RelaxedCapture relaxed(driver_);
  std::vector<CUmemAccessDesc> descriptions(count);
  for (std::size_t i = 0; i < count; ++i) {
    descriptions[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    descriptions[i].location.id = grants[i].device;
    descriptions[i].flags = static_cast<CUmemAccess_flags>(grants[i].flags);
  }
  return {Timed(DriverCall::kMap, [&] { return driver_.cuMemSetAccess(address, bytes, descriptions.data(), count); })};
}

DriverResult StreamDriver::Synchronize(std::uint64_t context) {
  return Timed(DriverCall::kPoolWait, [&] { return DriverResult{helper_.Synchronize(context, deadline_)}; });
}

// Source: CUDA Driver API, cuEventRecord: event and stream must be of the same context.
DriverResult StreamDriver::RecordEvent(const StreamRef& stream, std::uint64_t* out) {
  if (captures_.AnyOpen()) return {CUDA_ERROR_NOT_READY};
  const RelaxedCapture relaxed(driver_);
  const ContextScope scope(driver_, stream.context);
  if (scope.result() != CUDA_SUCCESS) return {scope.result()};
  CUevent event = nullptr;
  CUresult result = driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS) return {result};
  result = driver_.cuEventRecord(event, reinterpret_cast<CUstream>(stream.handle));
  if (result != CUDA_SUCCESS) {
    driver_.cuEventDestroy_v2(event);
    return {result};
  }
  *out = reinterpret_cast<std::uint64_t>(event);
  return {CUDA_SUCCESS};
}

DriverResult StreamDriver::QueryEvent(std::uint64_t event) {
  if (captures_.AnyOpen()) return {CUDA_ERROR_NOT_READY};
  const RelaxedCapture relaxed(driver_);
  return {driver_.cuEventQuery(reinterpret_cast<CUevent>(event))};
}

void StreamDriver::DestroyEvent(std::uint64_t event) {
  const RelaxedCapture relaxed(driver_);
  driver_.cuEventDestroy_v2(reinterpret_cast<CUevent>(event));
}

DriverResult StreamDriver::QueryStream(const StreamRef& stream) {
  if (captures_.AnyOpen()) return {CUDA_ERROR_NOT_READY};
  const RelaxedCapture relaxed(driver_);
  const ContextScope scope(driver_, stream.context);
  if (scope.result() != CUDA_SUCCESS) return {scope.result()};
  return {driver_.cuStreamQuery(reinterpret_cast<CUstream>(stream.handle))};
}

}  // namespace cuheap
