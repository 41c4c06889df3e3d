// What CUDA 12 declares otherwise than CUDA 13, by its documentation (CUDA Runtime API 12.9): only the headers of 13
// are needed to build this. Names whose signature changed are defined under another C++ name and given theirs by an
// assembler label.
#include <cstddef>

#include "tools/simcuda/runtime/device_properties.h"
#include "tools/simcuda/runtime/device_properties_12.h"
#include "tools/simcuda/runtime/stream_variants.h"

using cuheap::simcudart::DeviceProperties12;
using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::InContext;
using cuheap::simcudart::Runtime;
using cuheap::simcudart::StreamCalls;
using cuheap::simcudart::Thread;
using cuheap::simcudart::ToDevice;
using cuheap::simcudart::WithDriver;

// Gives the function declared next the exported name `name`.
#define SIMCUDART_NAMED(name) __asm__(name)

namespace {

// Devices as the older calls name them: an ordinal, or cudaCpuDeviceId.
CUmemLocation LocationOf(int device) {
  CUmemLocation location = {};
  location.type = device == cudaCpuDeviceId ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device == cudaCpuDeviceId ? 0 : device;
  return location;
}

CUmemLocation LocationOf(cudaMemLocation from) {
  CUmemLocation location = {};
  location.type = static_cast<CUmemLocationType>(from.type);
  location.id = from.id;
  return location;
}

cudaError_t Properties(DeviceProperties12& properties, int ordinal) {
  return WithDriver([&](const DriverCalls&) {
    if (!Runtime::Get().HasDevice(ordinal)) return cudaErrorInvalidDevice;
    const auto& device = Runtime::Get().device(ordinal);
    cuheap::simcudart::FillCommonProperties(device, properties);
    const auto get = [&device](CUdevice_attribute attribute) { return device.Attribute(attribute); };
    properties.clockRate = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    properties.deviceOverlap = get(CU_DEVICE_ATTRIBUTE_GPU_OVERLAP);
    properties.kernelExecTimeoutEnabled = get(CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT);
    properties.computeMode = get(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
    properties.maxTexture1DLinear = get(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
    properties.memoryClockRate = get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    properties.singleToDoublePrecisionPerfRatio = get(CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO);
    properties.cooperativeMultiDeviceLaunch = get(CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH);
    return cudaSuccess;
  });
}

CUresult CaptureInfo(const StreamCalls& calls, cudaStream_t stream, cudaStreamCaptureStatus* status,
                     unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                     const cudaGraphEdgeData** edges, std::size_t* count) {
  return calls.StreamGetCaptureInfo(stream, reinterpret_cast<CUstreamCaptureStatus*>(status),
                                    reinterpret_cast<cuuint64_t*>(id), graph, dependencies,
                                    reinterpret_cast<const CUgraphEdgeData**>(edges), count);
}

CUresult CaptureInfoShort(const StreamCalls& calls, cudaStream_t stream, cudaStreamCaptureStatus* status,
                          unsigned long long* id) {
  return CaptureInfo(calls, stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

CUresult CaptureInfoNoEdges(const StreamCalls& calls, cudaStream_t stream, cudaStreamCaptureStatus* status,
                            unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                            std::size_t* count) {
  return CaptureInfo(calls, stream, status, id, graph, dependencies, nullptr, count);
}

CUresult UpdateDependencies(const StreamCalls& calls, cudaStream_t stream, cudaGraphNode_t* dependencies,
                            const cudaGraphEdgeData* edges, std::size_t count, unsigned int flags) {
  return calls.StreamUpdateCaptureDependencies(stream, dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges),
                                               count, flags);
}

template <typename Place>
CUresult Prefetch(const StreamCalls& calls, const void* pointer, std::size_t count, Place place, unsigned int flags,
                  cudaStream_t stream) {
  return calls.MemPrefetchAsync(ToDevice(pointer), count, LocationOf(place), flags, stream);
}

template <typename Place>
cudaError_t Advise(const void* pointer, std::size_t count, cudaMemoryAdvise advice, Place place) {
  return InContext([&](const DriverCalls& driver) {
    return driver.MemAdvise(ToDevice(pointer), count, static_cast<CUmem_advise>(advice), LocationOf(place));
  });
}

}  // namespace

SIMCUDART_EXPORT cudaError_t cudaGetDeviceProperties_v2(DeviceProperties12* properties, int device) {
  if (properties == nullptr) return Thread::Current().Finish(cudaErrorInvalidValue);
  return Properties(*properties, device);
}

// The structure of CUDA 11, which ends where 12 added hostRegisterSupported.
SIMCUDART_EXPORT cudaError_t Properties11(void* properties, int device) SIMCUDART_NAMED("cudaGetDeviceProperties");
SIMCUDART_EXPORT cudaError_t Properties11(void* properties, int device) {
  if (properties == nullptr) return Thread::Current().Finish(cudaErrorInvalidValue);
  DeviceProperties12 all;
  cudaError_t error = Properties(all, device);
  if (error == cudaSuccess) std::memcpy(properties, &all, offsetof(DeviceProperties12, hostRegisterSupported));
  return error;
}

SIMCUDART_EXPORT cudaError_t ChooseDevice12(int* device, const DeviceProperties12* wanted)
    SIMCUDART_NAMED("cudaChooseDevice");
SIMCUDART_EXPORT cudaError_t ChooseDevice12(int* device, const DeviceProperties12* wanted) {
  return WithDriver([&](const DriverCalls&) {
    if (device == nullptr || wanted == nullptr) return cudaErrorInvalidValue;
    *device = 0;
    for (int ordinal = 0; ordinal < Runtime::Get().device_count(); ++ordinal) {
      if (Runtime::Get().device(ordinal).total_memory >= wanted->totalGlobalMem) {
        *device = ordinal;
        break;
      }
    }
    return cudaSuccess;
  });
}

SIMCUDART_EXPORT cudaError_t Advise12(const void* pointer, std::size_t count, cudaMemoryAdvise advice, int device)
    SIMCUDART_NAMED("cudaMemAdvise");
SIMCUDART_EXPORT cudaError_t Advise12(const void* pointer, std::size_t count, cudaMemoryAdvise advice, int device) {
  return Advise(pointer, count, advice, device);
}

SIMCUDART_EXPORT cudaError_t cudaMemAdvise_v2(const void* pointer, std::size_t count, cudaMemoryAdvise advice,
                                              cudaMemLocation location) {
  return Advise(pointer, count, advice, location);
}

SIMCUDART_EXPORT cudaError_t Prefetch12(const void* pointer, std::size_t count, int device, cudaStream_t stream)
    SIMCUDART_NAMED("cudaMemPrefetchAsync");
SIMCUDART_EXPORT cudaError_t Prefetch12_ptsz(const void* pointer, std::size_t count, int device, cudaStream_t stream)
    SIMCUDART_NAMED("cudaMemPrefetchAsync_ptsz");
SIMCUDART_VARIANTS(Prefetch12, _ptsz, (const void* pointer, std::size_t count, int device, cudaStream_t stream),
                   Prefetch, pointer, count, device, 0, stream)

SIMCUDART_VARIANTS(cudaMemPrefetchAsync_v2, _ptsz,
                   (const void* pointer, std::size_t count, cudaMemLocation location, unsigned int flags,
                    cudaStream_t stream),
                   Prefetch, pointer, count, location, flags, stream)

SIMCUDART_EXPORT cudaError_t CaptureInfo12(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id)
    SIMCUDART_NAMED("cudaStreamGetCaptureInfo");
SIMCUDART_EXPORT cudaError_t CaptureInfo12_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                unsigned long long* id)
    SIMCUDART_NAMED("cudaStreamGetCaptureInfo_ptsz");
SIMCUDART_VARIANTS(CaptureInfo12, _ptsz, (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id),
                   CaptureInfoShort, stream, status, id)

SIMCUDART_VARIANTS(cudaStreamGetCaptureInfo_v2, _ptsz,
                   (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                    const cudaGraphNode_t** dependencies, std::size_t* count),
                   CaptureInfoNoEdges, stream, status, id, graph, dependencies, count)

SIMCUDART_VARIANTS(cudaStreamGetCaptureInfo_v3, _ptsz,
                   (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                    const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges, std::size_t* count),
                   CaptureInfo, stream, status, id, graph, dependencies, edges, count)

SIMCUDART_EXPORT cudaError_t UpdateDependencies12(cudaStream_t stream, cudaGraphNode_t* dependencies, std::size_t count,
                                                  unsigned int flags)
    SIMCUDART_NAMED("cudaStreamUpdateCaptureDependencies");
SIMCUDART_EXPORT cudaError_t UpdateDependencies12_ptsz(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                                       std::size_t count, unsigned int flags)
    SIMCUDART_NAMED("cudaStreamUpdateCaptureDependencies_ptsz");
SIMCUDART_VARIANTS(UpdateDependencies12, _ptsz,
                   (cudaStream_t stream, cudaGraphNode_t* dependencies, std::size_t count, unsigned int flags),
                   UpdateDependencies, stream, dependencies, nullptr, count, flags)

SIMCUDART_VARIANTS(cudaStreamUpdateCaptureDependencies_v2, _ptsz,
                   (cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                    std::size_t count, unsigned int flags),
                   UpdateDependencies, stream, dependencies, edges, count, flags)

SIMCUDART_EXPORT cudaError_t NodeDependencies12(cudaGraphNode_t node, cudaGraphNode_t* dependencies, std::size_t* count)
    SIMCUDART_NAMED("cudaGraphNodeGetDependencies");
SIMCUDART_EXPORT cudaError_t NodeDependencies12(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                                std::size_t* count) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.GraphNodeGetDependencies(node, dependencies, nullptr, count); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                                             cudaGraphEdgeData* edges, std::size_t* count) {
  return InContext([&](const DriverCalls& driver) {
    return driver.GraphNodeGetDependencies(node, dependencies, reinterpret_cast<CUgraphEdgeData*>(edges), count);
  });
}

SIMCUDART_EXPORT cudaError_t cudaEventElapsedTime_v2(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return cudaEventElapsedTime(milliseconds, begin, end);
}

// "Thread Management [DEPRECATED]": other names of the device's functions.
SIMCUDART_EXPORT cudaError_t cudaThreadExit() { return cudaDeviceReset(); }
SIMCUDART_EXPORT cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
SIMCUDART_EXPORT cudaError_t cudaThreadSetLimit(cudaLimit limit, std::size_t value) {
  return cudaDeviceSetLimit(limit, value);
}
SIMCUDART_EXPORT cudaError_t cudaThreadGetLimit(std::size_t* value, cudaLimit limit) {
  return cudaDeviceGetLimit(value, limit);
}
SIMCUDART_EXPORT cudaError_t cudaThreadGetCacheConfig(cudaFuncCache* config) {
  return cudaDeviceGetCacheConfig(config);
}
SIMCUDART_EXPORT cudaError_t cudaThreadSetCacheConfig(cudaFuncCache config) { return cudaDeviceSetCacheConfig(config); }
