// CUDA Runtime API, "Memory Management" (allocation, registration, queries), "Unified Addressing".
#include "tools/simcuda/runtime/runtime.h"

using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::InContext;
using cuheap::simcudart::ToDevice;
using cuheap::simcudart::ToPointer;

namespace {

CUresult HostAlloc(const DriverCalls& driver, void** pointer, std::size_t bytes, unsigned int flags) {
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) {
    *pointer = nullptr;
    return CUDA_SUCCESS;
  }
  return driver.MemHostAlloc(pointer, bytes, flags);  // flags have the same numbers
}

// The runtime asks for the coarsest pitch a coalesced access needs, that of a 4-byte element.
constexpr unsigned int kPitchElementBytes = 4;

}  // namespace

SIMCUDART_EXPORT cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return InContext([&](const DriverCalls& driver) {
    if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (bytes == 0) {
      *pointer = nullptr;
      return CUDA_SUCCESS;
    }
    CUdeviceptr address = 0;
    CUresult result = driver.MemAlloc(&address, bytes);
    if (result == CUDA_SUCCESS) *pointer = ToPointer(address);
    return result;
  });
}

// Also of null: the driver does nothing with it, but sees the call.
SIMCUDART_EXPORT cudaError_t cudaFree(void* pointer) {
  return InContext([&](const DriverCalls& driver) { return driver.MemFree(ToDevice(pointer)); });
}

SIMCUDART_EXPORT cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width,
                                             std::size_t height) {
  return InContext([&](const DriverCalls& driver) {
    if (pointer == nullptr || pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (width == 0 || height == 0) {
      *pointer = nullptr;
      *pitch = 0;
      return CUDA_SUCCESS;
    }
    CUdeviceptr address = 0;
    CUresult result = driver.MemAllocPitch(&address, pitch, width, height, kPitchElementBytes);
    if (result == CUDA_SUCCESS) *pointer = ToPointer(address);
    return result;
  });
}

SIMCUDART_EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* pitched, cudaExtent extent) {
  return InContext([&](const DriverCalls& driver) {
    if (pitched == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pitched = {nullptr, 0, extent.width, extent.height};
    if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return CUDA_SUCCESS;
    CUdeviceptr address = 0;
    CUresult result =
        driver.MemAllocPitch(&address, &pitched->pitch, extent.width, extent.height * extent.depth, kPitchElementBytes);
    if (result == CUDA_SUCCESS) pitched->ptr = ToPointer(address);
    return result;
  });
}

SIMCUDART_EXPORT cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned int flags) {
  return InContext([&](const DriverCalls& driver) {
    if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    CUresult result = driver.MemAllocManaged(&address, bytes, flags);
    if (result == CUDA_SUCCESS) *pointer = ToPointer(address);
    return result;
  });
}

SIMCUDART_EXPORT cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return InContext([&](const DriverCalls& driver) { return HostAlloc(driver, pointer, bytes, 0); });
}

SIMCUDART_EXPORT cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned int flags) {
  return InContext([&](const DriverCalls& driver) { return HostAlloc(driver, pointer, bytes, flags); });
}

SIMCUDART_EXPORT cudaError_t cudaFreeHost(void* pointer) {
  return InContext(
      [&](const DriverCalls& driver) { return pointer == nullptr ? CUDA_SUCCESS : driver.MemFreeHost(pointer); });
}

SIMCUDART_EXPORT cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned int flags) {
  return InContext([&](const DriverCalls& driver) { return driver.MemHostRegister(pointer, bytes, flags); });
}

SIMCUDART_EXPORT cudaError_t cudaHostUnregister(void* pointer) {
  return InContext([&](const DriverCalls& driver) { return driver.MemHostUnregister(pointer); });
}

SIMCUDART_EXPORT cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned int flags) {
  return InContext([&](const DriverCalls& driver) {
    if (device_pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    CUresult result = driver.MemHostGetDevicePointer(&address, host_pointer, flags);
    if (result == CUDA_SUCCESS) *device_pointer = ToPointer(address);
    return result;
  });
}

SIMCUDART_EXPORT cudaError_t cudaHostGetFlags(unsigned int* flags, void* pointer) {
  return InContext([&](const DriverCalls& driver) { return driver.MemHostGetFlags(flags, pointer); });
}

SIMCUDART_EXPORT cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return InContext([&](const DriverCalls& driver) { return driver.MemGetInfo(free_bytes, total_bytes); });
}

SIMCUDART_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return InContext([&](const DriverCalls& driver) {
    if (attributes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUcontext context = nullptr;
    unsigned int type = 0;  // a CUmemorytype; 0, no kind of memory, for pointers nobody knows
    CUdeviceptr device_pointer = 0;
    void* host_pointer = nullptr;
    unsigned int managed = 0;
    int ordinal = cudaInvalidDeviceId;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                    CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void* values[] = {static_cast<void*>(&context),      &type,    &device_pointer,
                      static_cast<void*>(&host_pointer), &managed, &ordinal};
    CUresult result = driver.PointerGetAttributes(std::size(wanted), wanted, values, ToDevice(pointer));
    if (result != CUDA_SUCCESS) return result;
    // Field by field: the structure that a CUDA 12 program passes ends after hostPointer.
    attributes->device = cudaInvalidDeviceId;
    attributes->devicePointer = nullptr;
    attributes->hostPointer = nullptr;
    if (managed != 0) {
      attributes->type = cudaMemoryTypeManaged;
    } else if (type == CU_MEMORYTYPE_DEVICE) {
      attributes->type = cudaMemoryTypeDevice;
    } else if (type == CU_MEMORYTYPE_HOST) {
      attributes->type = cudaMemoryTypeHost;
    } else {
      attributes->type = cudaMemoryTypeUnregistered;
      return CUDA_SUCCESS;
    }
    attributes->device = ordinal;
    attributes->devicePointer = ToPointer(device_pointer);
    attributes->hostPointer = host_pointer;
    return CUDA_SUCCESS;
  });
}

SIMCUDART_EXPORT cudaError_t cudaMemRangeGetAttribute(void* data, std::size_t data_bytes,
                                                      cudaMemRangeAttribute attribute, const void* pointer,
                                                      std::size_t count) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemRangeGetAttribute(data, data_bytes, static_cast<CUmem_range_attribute>(attribute),
                                       ToDevice(pointer), count);
  });
}

SIMCUDART_EXPORT cudaError_t cudaMemRangeGetAttributes(void** data, std::size_t* data_bytes,
                                                       cudaMemRangeAttribute* attributes, std::size_t number,
                                                       const void* pointer, std::size_t count) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemRangeGetAttributes(data, data_bytes, reinterpret_cast<CUmem_range_attribute*>(attributes), number,
                                        ToDevice(pointer), count);
  });
}

#if SIMCUDART_MAJOR >= 13
SIMCUDART_EXPORT cudaError_t cudaMemAdvise(const void* pointer, std::size_t count, cudaMemoryAdvise advice,
                                           cudaMemLocation location) {
  return InContext([&](const DriverCalls& driver) {
    CUmemLocation where = {};
    where.type = static_cast<CUmemLocationType>(location.type);
    where.id = location.id;
    return driver.MemAdvise(ToDevice(pointer), count, static_cast<CUmem_advise>(advice), where);
  });
}
#endif
