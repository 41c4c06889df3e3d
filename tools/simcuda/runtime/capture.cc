// CUDA Runtime API: stream capture, and of "Graph Management" what needs no translation of node parameters. Whether a
// graph can be built and run is the driver's to say.
#include "tools/simcuda/runtime/stream_variants.h"

using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::InContext;
using cuheap::simcudart::Runtime;
using cuheap::simcudart::StreamCalls;
using cuheap::simcudart::ToRuntime;
using cuheap::simcudart::WithDriver;

namespace {

CUresult BeginCapture(const StreamCalls& calls, cudaStream_t stream, cudaStreamCaptureMode mode) {
  return calls.StreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode));
}

CUresult IsCapturing(const StreamCalls& calls, cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return calls.StreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status));
}

}  // namespace

SIMCUDART_VARIANTS(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, cudaStreamCaptureMode mode), BeginCapture,
                   stream, mode)

SIMCUDART_VARIANTS(cudaStreamIsCapturing, _ptsz, (cudaStream_t stream, cudaStreamCaptureStatus* status), IsCapturing,
                   stream, status)

SIMCUDART_FORWARD_VARIANTS(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t* graph), StreamEndCapture,
                           stream, graph)

SIMCUDART_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return InContext([&](const DriverCalls& driver) {
    return driver.ThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode));
  });
}

namespace {

static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));

CUresult BeginCaptureToGraph(const StreamCalls& calls, cudaStream_t stream, cudaGraph_t graph,
                             const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges, std::size_t count,
                             cudaStreamCaptureMode mode) {
  return calls.StreamBeginCaptureToGraph(stream, graph, dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges),
                                         count, static_cast<CUstreamCaptureMode>(mode));
}

}  // namespace

SIMCUDART_VARIANTS(cudaStreamBeginCaptureToGraph, _ptsz,
                   (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                    const cudaGraphEdgeData* edges, std::size_t count, cudaStreamCaptureMode mode),
                   BeginCaptureToGraph, stream, graph, dependencies, edges, count, mode)

#if SIMCUDART_MAJOR >= 13
namespace {

CUresult GetCaptureInfo(const StreamCalls& calls, cudaStream_t stream, cudaStreamCaptureStatus* status,
                        unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                        const cudaGraphEdgeData** edges, std::size_t* count) {
  return calls.StreamGetCaptureInfo(stream, reinterpret_cast<CUstreamCaptureStatus*>(status),
                                    reinterpret_cast<cuuint64_t*>(id), graph, dependencies,
                                    reinterpret_cast<const CUgraphEdgeData**>(edges), count);
}

CUresult UpdateDependencies(const StreamCalls& calls, cudaStream_t stream, cudaGraphNode_t* dependencies,
                            const cudaGraphEdgeData* edges, std::size_t count, unsigned int flags) {
  return calls.StreamUpdateCaptureDependencies(stream, dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges),
                                               count, flags);
}

}  // namespace

SIMCUDART_VARIANTS(cudaStreamGetCaptureInfo, _ptsz,
                   (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                    const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges, std::size_t* count),
                   GetCaptureInfo, stream, status, id, graph, dependencies, edges, count)

SIMCUDART_VARIANTS(cudaStreamUpdateCaptureDependencies, _ptsz,
                   (cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                    std::size_t count, unsigned int flags),
                   UpdateDependencies, stream, dependencies, edges, count, flags)

SIMCUDART_EXPORT cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                                          cudaGraphEdgeData* edges, std::size_t* count) {
  return InContext([&](const DriverCalls& driver) {
    return driver.GraphNodeGetDependencies(node, dependencies, reinterpret_cast<CUgraphEdgeData*>(edges), count);
  });
}
#endif

SIMCUDART_EXPORT cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphCreate(graph, flags); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphDestroy(graph); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphClone(clone, original); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphDestroyNode(node); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphGetNodes(graph, nodes, count); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphGetRootNodes(graph, nodes, count); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                  unsigned long long flags) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.GraphInstantiateWithFlags(executable, graph, flags); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                           unsigned long long flags) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.GraphInstantiateWithFlags(executable, graph, flags); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphExecDestroy(executable); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t executable, unsigned long long* flags) {
  return InContext([&](const DriverCalls& driver) {
    return driver.GraphExecGetFlags(executable, reinterpret_cast<cuuint64_t*>(flags));
  });
}

SIMCUDART_FORWARD_VARIANTS(cudaGraphLaunch, _ptsz, (cudaGraphExec_t executable, cudaStream_t stream), GraphLaunch,
                           executable, stream)

SIMCUDART_FORWARD_VARIANTS(cudaGraphUpload, _ptsz, (cudaGraphExec_t executable, cudaStream_t stream), GraphUpload,
                           executable, stream)

SIMCUDART_EXPORT cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned int flags) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphDebugDotPrint(graph, path, flags); });
}

SIMCUDART_EXPORT cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy,
                                                  unsigned int references, unsigned int flags) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.UserObjectCreate(object, pointer, destroy, references, flags); });
}

SIMCUDART_EXPORT cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  return InContext([&](const DriverCalls& driver) { return driver.UserObjectRetain(object, count); });
}

SIMCUDART_EXPORT cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  return InContext([&](const DriverCalls& driver) { return driver.UserObjectRelease(object, count); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
                                                       unsigned int flags) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.GraphRetainUserObject(graph, object, count, flags); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                        unsigned int count) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphReleaseUserObject(graph, object, count); });
}

namespace {

template <typename Call>
cudaError_t OfDevice(int device, Call&& call) {
  return WithDriver([&](const DriverCalls& driver) -> cudaError_t {
    if (!Runtime::Get().HasDevice(device)) return cudaErrorInvalidDevice;
    return ToRuntime(call(driver, Runtime::Get().device(device).handle));
  });
}

}  // namespace

SIMCUDART_EXPORT cudaError_t cudaDeviceGraphMemTrim(int device) {
  return OfDevice(device, [](const DriverCalls& driver, CUdevice handle) { return driver.DeviceGraphMemTrim(handle); });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                                            void* value) {
  return OfDevice(device, [&](const DriverCalls& driver, CUdevice handle) {
    return driver.DeviceGetGraphMemAttribute(handle, static_cast<CUgraphMem_attribute>(attribute), value);
  });
}

SIMCUDART_EXPORT cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                                            void* value) {
  return OfDevice(device, [&](const DriverCalls& driver, CUdevice handle) {
    return driver.DeviceSetGraphMemAttribute(handle, static_cast<CUgraphMem_attribute>(attribute), value);
  });
}
