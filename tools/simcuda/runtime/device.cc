// CUDA Runtime API, "Device Management", "Version Management", "Peer Device Memory Access", "Profiler Control".
#include <cstring>

#include "tools/simcuda/runtime/device_properties.h"
#include "tools/simcuda/runtime/runtime.h"

using cuheap::simcudart::Device;
using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::InContext;
using cuheap::simcudart::Runtime;
using cuheap::simcudart::Thread;
using cuheap::simcudart::ToRuntime;
using cuheap::simcudart::WithDriver;

namespace {

// `call(driver, device)` for a device ordinal the program named.
template <typename Function>
cudaError_t OnDevice(int ordinal, Function&& call) {
  return WithDriver([&](const DriverCalls& driver) -> cudaError_t {
    Runtime& runtime = Runtime::Get();
    if (!runtime.HasDevice(ordinal)) return cudaErrorInvalidDevice;
    return ToRuntime(call(driver, runtime.device(ordinal)));
  });
}

}  // namespace

SIMCUDART_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return Thread::Current().Finish(cudaErrorInvalidValue);
  *version = Runtime::Get().driver_version();  // 0 without a driver, as documented
  return cudaSuccess;
}

SIMCUDART_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return Thread::Current().Finish(cudaErrorInvalidValue);
  *version = cuheap::simcudart::kRuntimeVersion;
  return cudaSuccess;
}

SIMCUDART_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return Thread::Current().Finish(cudaErrorInvalidValue);
  *count = 0;
  return WithDriver([count](const DriverCalls&) {
    *count = Runtime::Get().device_count();
    return cudaSuccess;
  });
}

SIMCUDART_EXPORT cudaError_t cudaGetDevice(int* device) {
  return WithDriver([device](const DriverCalls&) {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = Thread::Current().device();
    return cudaSuccess;
  });
}

SIMCUDART_EXPORT cudaError_t cudaSetDevice(int device) {
  Thread& thread = Thread::Current();
  return thread.Finish(thread.SetDevice(device));
}

SIMCUDART_EXPORT cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags) {
  return OnDevice(device, [&](const DriverCalls& driver, Device& found) {
    if ((flags & cudaInitDeviceFlagsAreValid) != 0) {
      CUresult result = driver.DevicePrimaryCtxSetFlags(found.handle, device_flags);
      if (result != CUDA_SUCCESS) return result;
    }
    CUcontext context = nullptr;
    return Runtime::Get().PrimaryContext(device, &context);  // not made current, as documented
  });
}

SIMCUDART_EXPORT cudaError_t cudaSetValidDevices(int* devices, int length) {
  return WithDriver([&](const DriverCalls&) {
    if (devices == nullptr && length != 0) return cudaErrorInvalidValue;
    for (int i = 0; i < length; ++i) {
      if (!Runtime::Get().HasDevice(devices[i])) return cudaErrorInvalidDevice;
    }
    return cudaSuccess;
  });
}

SIMCUDART_EXPORT cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  return WithDriver([flags](const DriverCalls& driver) {
    const Device& device = Runtime::Get().device(Thread::Current().device());
    return driver.DevicePrimaryCtxSetFlags(device.handle, flags);
  });
}

SIMCUDART_EXPORT cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  return WithDriver([flags](const DriverCalls& driver) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    int active = 0;
    const Device& device = Runtime::Get().device(Thread::Current().device());
    return driver.DevicePrimaryCtxGetState(device.handle, flags, &active);
  });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return OnDevice(device, [&](const DriverCalls&, const Device& found) {
    // Both enumerations have the same numbers.
    const auto index = static_cast<std::size_t>(attribute);
    if (value == nullptr || index >= found.known.size() || !found.known[index]) return cudaErrorInvalidValue;
    *value = found.attributes[index];
    return cudaSuccess;
  });
}

#if SIMCUDART_MAJOR >= 13
SIMCUDART_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return OnDevice(device, [&](const DriverCalls&, const Device& found) {
    if (properties == nullptr) return cudaErrorInvalidValue;
    cuheap::simcudart::FillCommonProperties(found, *properties);
    properties->deviceNumaConfig = found.Attribute(CU_DEVICE_ATTRIBUTE_NUMA_CONFIG);
    properties->deviceNumaId = found.Attribute(CU_DEVICE_ATTRIBUTE_NUMA_ID);
    properties->hostNumaId = found.Attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
    return cudaSuccess;
  });
}

// The device that matches most of what is asked for: here, the first with the capability and memory.
SIMCUDART_EXPORT cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* wanted) {
  return WithDriver([&](const DriverCalls&) {
    if (device == nullptr || wanted == nullptr) return cudaErrorInvalidValue;
    *device = 0;
    Runtime& runtime = Runtime::Get();
    for (int ordinal = 0; ordinal < runtime.device_count(); ++ordinal) {
      if (runtime.device(ordinal).total_memory >= wanted->totalGlobalMem) {
        *device = ordinal;
        break;
      }
    }
    return cudaSuccess;
  });
}
#endif

SIMCUDART_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* bus_id, int length, int device) {
  return OnDevice(device, [&](const DriverCalls& driver, const Device& found) {
    return driver.DeviceGetPCIBusId(bus_id, length, found.handle);
  });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* bus_id) {
  return WithDriver([&](const DriverCalls& driver) { return driver.DeviceGetByPCIBusId(device, bus_id); });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceReset() {
  Thread& thread = Thread::Current();
  return thread.Finish(thread.ResetDevice());
}

SIMCUDART_EXPORT cudaError_t cudaDeviceSynchronize() {
#if SIMCUDART_MAJOR >= 13
  return InContext([](const DriverCalls& driver) { return driver.CtxSynchronize(nullptr); });
#else
  return InContext([](const DriverCalls& driver) { return driver.CtxSynchronize(); });
#endif
}

SIMCUDART_EXPORT cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  return InContext([&](const DriverCalls& driver) { return driver.CtxGetLimit(value, static_cast<CUlimit>(limit)); });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
  return InContext([&](const DriverCalls& driver) { return driver.CtxSetLimit(static_cast<CUlimit>(limit), value); });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  return InContext([&](const DriverCalls& driver) {
    CUfunc_cache value = CU_FUNC_CACHE_PREFER_NONE;
    if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = driver.CtxGetCacheConfig(&value);
    if (result == CUDA_SUCCESS) *config = static_cast<cudaFuncCache>(value);
    return result;
  });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.CtxSetCacheConfig(static_cast<CUfunc_cache>(config)); });
}

// Deprecated: banks can't be configured on any device since Maxwell, so there is nothing to do (as documented).
SIMCUDART_EXPORT cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  return InContext([&](const DriverCalls&) {
    if (config == nullptr) return cudaErrorInvalidValue;
    *config = cudaSharedMemBankSizeFourByte;
    return cudaSuccess;
  });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) {
  return InContext([](const DriverCalls&) { return cudaSuccess; });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return InContext([&](const DriverCalls& driver) { return driver.CtxGetStreamPriorityRange(least, greatest); });
}

SIMCUDART_EXPORT cudaError_t cudaCtxResetPersistingL2Cache() {
  return InContext([](const DriverCalls& driver) { return driver.CtxResetPersistingL2Cache(); });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTarget target,
                                                                cudaFlushGPUDirectRDMAWritesScope scope) {
  return InContext([&](const DriverCalls& driver) {
    return driver.FlushGPUDirectRDMAWrites(static_cast<CUflushGPUDirectRDMAWritesTarget>(target),
                                           static_cast<CUflushGPUDirectRDMAWritesScope>(scope));
  });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int source,
                                                       int destination) {
  return OnDevice(source, [&](const DriverCalls& driver, const Device& from) -> cudaError_t {
    if (!Runtime::Get().HasDevice(destination)) return cudaErrorInvalidDevice;
    const CUdevice to = Runtime::Get().device(destination).handle;
    return ToRuntime(
        driver.DeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attribute), from.handle, to));
  });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can_access, int device, int peer) {
  return OnDevice(device, [&](const DriverCalls& driver, const Device& from) -> cudaError_t {
    if (!Runtime::Get().HasDevice(peer)) return cudaErrorInvalidDevice;
    return ToRuntime(driver.DeviceCanAccessPeer(can_access, from.handle, Runtime::Get().device(peer).handle));
  });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return InContext([&](const DriverCalls& driver) -> cudaError_t {
    if (!Runtime::Get().HasDevice(peer)) return cudaErrorInvalidDevice;
    CUcontext context = nullptr;
    CUresult result = Runtime::Get().PrimaryContext(peer, &context);
    return ToRuntime(result == CUDA_SUCCESS ? driver.CtxEnablePeerAccess(context, flags) : result);
  });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return InContext([&](const DriverCalls& driver) -> cudaError_t {
    if (!Runtime::Get().HasDevice(peer)) return cudaErrorInvalidDevice;
    CUcontext context = nullptr;
    CUresult result = Runtime::Get().PrimaryContext(peer, &context);
    return ToRuntime(result == CUDA_SUCCESS ? driver.CtxDisablePeerAccess(context) : result);
  });
}

SIMCUDART_EXPORT cudaError_t cudaProfilerStart() {
  return InContext([](const DriverCalls& driver) { return driver.ProfilerStart(); });
}

SIMCUDART_EXPORT cudaError_t cudaProfilerStop() {
  return InContext([](const DriverCalls& driver) { return driver.ProfilerStop(); });
}
