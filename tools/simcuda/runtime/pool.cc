// CUDA Runtime API, "Stream Ordered Memory Allocator", and interprocess memory and events of "Device Management".
#include <cstring>

#include "tools/simcuda/runtime/stream_variants.h"

using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::InContext;
using cuheap::simcudart::Runtime;
using cuheap::simcudart::StreamCalls;
using cuheap::simcudart::ToDevice;
using cuheap::simcudart::ToPointer;
using cuheap::simcudart::ToRuntime;
using cuheap::simcudart::WithDriver;

namespace {

CUresult AllocAsync(const StreamCalls& calls, void** pointer, std::size_t bytes, cudaStream_t stream) {
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) {
    *pointer = nullptr;
    return CUDA_SUCCESS;
  }
  CUdeviceptr address = 0;
  CUresult result = calls.MemAllocAsync(&address, bytes, stream);
  if (result == CUDA_SUCCESS) *pointer = ToPointer(address);
  return result;
}

CUresult AllocFromPoolAsync(const StreamCalls& calls, void** pointer, std::size_t bytes, cudaMemPool_t pool,
                            cudaStream_t stream) {
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) {
    *pointer = nullptr;
    return CUDA_SUCCESS;
  }
  CUdeviceptr address = 0;
  CUresult result = calls.MemAllocFromPoolAsync(&address, bytes, pool, stream);
  if (result == CUDA_SUCCESS) *pointer = ToPointer(address);
  return result;
}

CUresult FreeAsync(const StreamCalls& calls, void* pointer, cudaStream_t stream) {
  return calls.MemFreeAsync(ToDevice(pointer), stream);
}

template <typename Call>
cudaError_t OfDevice(int device, Call&& call) {
  return WithDriver([&](const DriverCalls& driver) -> cudaError_t {
    if (!Runtime::Get().HasDevice(device)) return cudaErrorInvalidDevice;
    return ToRuntime(call(driver, Runtime::Get().device(device).handle));
  });
}

// Structures of the two interfaces that are the same memory.
template <typename To, typename From>
To* Same(From* from) {
  static_assert(sizeof(To) == sizeof(From) && alignof(To) == alignof(From));
  return reinterpret_cast<To*>(from);
}

}  // namespace

SIMCUDART_VARIANTS(cudaMallocAsync, _ptsz, (void** pointer, std::size_t bytes, cudaStream_t stream), AllocAsync,
                   pointer, bytes, stream)

SIMCUDART_VARIANTS(cudaMallocFromPoolAsync, _ptsz,
                   (void** pointer, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream), AllocFromPoolAsync,
                   pointer, bytes, pool, stream)

SIMCUDART_VARIANTS(cudaFreeAsync, _ptsz, (void* pointer, cudaStream_t stream), FreeAsync, pointer, stream)

SIMCUDART_EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return OfDevice(
      device, [&](const DriverCalls& driver, CUdevice handle) { return driver.DeviceGetDefaultMemPool(pool, handle); });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return OfDevice(device,
                  [&](const DriverCalls& driver, CUdevice handle) { return driver.DeviceGetMemPool(pool, handle); });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return OfDevice(device,
                  [&](const DriverCalls& driver, CUdevice handle) { return driver.DeviceSetMemPool(handle, pool); });
}

SIMCUDART_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.MemPoolCreate(pool, Same<const CUmemPoolProps>(properties)); });
}

SIMCUDART_EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return InContext([&](const DriverCalls& driver) { return driver.MemPoolDestroy(pool); });
}

SIMCUDART_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes_to_keep) {
  return InContext([&](const DriverCalls& driver) { return driver.MemPoolTrimTo(pool, bytes_to_keep); });
}

SIMCUDART_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}

SIMCUDART_EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}

SIMCUDART_EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list,
                                                  std::size_t count) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemPoolSetAccess(pool, Same<const CUmemAccessDesc>(list), count);
  });
}

SIMCUDART_EXPORT cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                                  cudaMemLocation* location) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), pool, Same<CUmemLocation>(location));
  });
}

SIMCUDART_EXPORT cudaError_t cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool,
                                                                cudaMemAllocationHandleType type, unsigned int flags) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemPoolExportToShareableHandle(handle, pool, static_cast<CUmemAllocationHandleType>(type), flags);
  });
}

SIMCUDART_EXPORT cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* handle,
                                                                  cudaMemAllocationHandleType type,
                                                                  unsigned int flags) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemPoolImportFromShareableHandle(pool, handle, static_cast<CUmemAllocationHandleType>(type), flags);
  });
}

SIMCUDART_EXPORT cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* data, void* pointer) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemPoolExportPointer(Same<CUmemPoolPtrExportData>(data), ToDevice(pointer));
  });
}

SIMCUDART_EXPORT cudaError_t cudaMemPoolImportPointer(void** pointer, cudaMemPool_t pool,
                                                      cudaMemPoolPtrExportData* data) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemPoolImportPointer(reinterpret_cast<CUdeviceptr*>(pointer), pool,
                                       Same<CUmemPoolPtrExportData>(data));
  });
}

#if SIMCUDART_MAJOR >= 13
SIMCUDART_EXPORT cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                                      cudaMemAllocationType type) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemGetDefaultMemPool(pool, Same<CUmemLocation>(location), static_cast<CUmemAllocationType>(type));
  });
}

SIMCUDART_EXPORT cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                               cudaMemAllocationType type) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemGetMemPool(pool, Same<CUmemLocation>(location), static_cast<CUmemAllocationType>(type));
  });
}

SIMCUDART_EXPORT cudaError_t cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type,
                                               cudaMemPool_t pool) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemSetMemPool(Same<CUmemLocation>(location), static_cast<CUmemAllocationType>(type), pool);
  });
}
#endif

SIMCUDART_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  return InContext([&](const DriverCalls& driver) {
    return driver.IpcGetMemHandle(Same<CUipcMemHandle>(handle), ToDevice(pointer));
  });
}

SIMCUDART_EXPORT cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned int flags) {
  return InContext([&](const DriverCalls& driver) {
    return driver.IpcOpenMemHandle(reinterpret_cast<CUdeviceptr*>(pointer), *Same<CUipcMemHandle>(&handle), flags);
  });
}

SIMCUDART_EXPORT cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  return InContext([&](const DriverCalls& driver) { return driver.IpcCloseMemHandle(ToDevice(pointer)); });
}

SIMCUDART_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.IpcGetEventHandle(Same<CUipcEventHandle>(handle), event); });
}

SIMCUDART_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.IpcOpenEventHandle(event, *Same<CUipcEventHandle>(&handle)); });
}
