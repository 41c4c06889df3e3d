// CUDA Runtime API, "Graph Management": nodes by their parameters, edges and updates. Copies from and to arrays,
// symbols, generic nodes (cudaGraphAddNode) and what reads a kernel node's host function back are not simulated.
#include "tools/simcuda/runtime/registry.h"
#include "tools/simcuda/runtime/stream_variants.h"

using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::InContext;
using cuheap::simcudart::Registry;
using cuheap::simcudart::ToDevice;
using cuheap::simcudart::ToRuntime;

namespace {

using Nodes = const cudaGraphNode_t*;

CUcontext CurrentContext(const DriverCalls& driver) {
  CUcontext context = nullptr;
  driver.CtxGetCurrent(&context);
  return context;
}

cudaError_t ToDriver(const cudaKernelNodeParams* from, CUDA_KERNEL_NODE_PARAMS& to) {
  if (from == nullptr) return cudaErrorInvalidValue;
  CUkernel kernel = nullptr;
  if (cudaError_t error = Registry::Get().FindKernel(from->func, &kernel); error != cudaSuccess) return error;
  to = {};
  to.kern = kernel;
  to.gridDimX = from->gridDim.x;
  to.gridDimY = from->gridDim.y;
  to.gridDimZ = from->gridDim.z;
  to.blockDimX = from->blockDim.x;
  to.blockDimY = from->blockDim.y;
  to.blockDimZ = from->blockDim.z;
  to.sharedMemBytes = from->sharedMemBytes;
  to.kernelParams = from->kernelParams;
  to.extra = from->extra;
  return cudaSuccess;
}

template <typename Call>
cudaError_t WithKernelParams(const cudaKernelNodeParams* from, Call&& call) {
  return InContext([&](const DriverCalls& driver) -> cudaError_t {
    CUDA_KERNEL_NODE_PARAMS params;
    if (cudaError_t error = ToDriver(from, params); error != cudaSuccess) return error;
    return ToRuntime(call(driver, params));
  });
}

CUDA_MEMSET_NODE_PARAMS ToDriver(const cudaMemsetParams& from) {
  return {ToDevice(from.dst), from.pitch, from.value, from.elementSize, from.width, from.height};
}

template <typename Call>
cudaError_t WithMemsetParams(const cudaMemsetParams* from, Call&& call) {
  return InContext([&](const DriverCalls& driver) -> cudaError_t {
    if (from == nullptr) return cudaErrorInvalidValue;
    const CUDA_MEMSET_NODE_PARAMS params = ToDriver(*from);
    return ToRuntime(call(driver, params));
  });
}

template <typename Call>
cudaError_t WithHostParams(const cudaHostNodeParams* from, Call&& call) {
  return InContext([&](const DriverCalls& driver) -> cudaError_t {
    if (from == nullptr) return cudaErrorInvalidValue;
    const CUDA_HOST_NODE_PARAMS params{from->fn, from->userData};
    return ToRuntime(call(driver, params));
  });
}

cudaError_t Linear(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, CUDA_MEMCPY3D& copy) {
  copy = {};
  const bool from_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice;
  const bool to_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  const CUmemorytype other = kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
  copy.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : other;
  copy.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : other;
  if (from_host) {
    copy.srcHost = from;
  } else {
    copy.srcDevice = ToDevice(from);
  }
  if (to_host) {
    copy.dstHost = to;
  } else {
    copy.dstDevice = ToDevice(to);
  }
  copy.srcPitch = copy.dstPitch = bytes;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return cudaSuccess;
}

template <typename Call>
cudaError_t WithLinear(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, Call&& call) {
  return InContext([&](const DriverCalls& driver) -> cudaError_t {
    CUDA_MEMCPY3D copy;
    if (cudaError_t error = Linear(to, from, bytes, kind, copy); error != cudaSuccess) return error;
    return ToRuntime(call(driver, copy));
  });
}

}  // namespace

// ---- nodes ----

SIMCUDART_EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, Nodes after,
                                                    std::size_t count, const cudaKernelNodeParams* params) {
  return WithKernelParams(params, [&](const DriverCalls& driver, const CUDA_KERNEL_NODE_PARAMS& kernel) {
    return driver.GraphAddKernelNode(node, graph, after, count, &kernel);
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* params) {
  return WithKernelParams(params, [&](const DriverCalls& driver, const CUDA_KERNEL_NODE_PARAMS& kernel) {
    return driver.GraphKernelNodeSetParams(node, &kernel);
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                              const cudaKernelNodeParams* params) {
  return WithKernelParams(params, [&](const DriverCalls& driver, const CUDA_KERNEL_NODE_PARAMS& kernel) {
    return driver.GraphExecKernelNodeSetParams(exec, node, &kernel);
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, Nodes after,
                                                    std::size_t count, const cudaMemsetParams* params) {
  return WithMemsetParams(params, [&](const DriverCalls& driver, const CUDA_MEMSET_NODE_PARAMS& fill) {
    return driver.GraphAddMemsetNode(node, graph, after, count, &fill, CurrentContext(driver));
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* params) {
  return WithMemsetParams(params, [&](const DriverCalls& driver, const CUDA_MEMSET_NODE_PARAMS& fill) {
    return driver.GraphMemsetNodeSetParams(node, &fill);
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                              const cudaMemsetParams* params) {
  return WithMemsetParams(params, [&](const DriverCalls& driver, const CUDA_MEMSET_NODE_PARAMS& fill) {
    return driver.GraphExecMemsetNodeSetParams(exec, node, &fill, CurrentContext(driver));
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, Nodes after,
                                                      std::size_t count, void* to, const void* from, std::size_t bytes,
                                                      cudaMemcpyKind kind) {
  return WithLinear(to, from, bytes, kind, [&](const DriverCalls& driver, const CUDA_MEMCPY3D& copy) {
    return driver.GraphAddMemcpyNode(node, graph, after, count, &copy, CurrentContext(driver));
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from,
                                                            std::size_t bytes, cudaMemcpyKind kind) {
  return WithLinear(to, from, bytes, kind, [&](const DriverCalls& driver, const CUDA_MEMCPY3D& copy) {
    return driver.GraphMemcpyNodeSetParams(node, &copy);
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                                                const void* from, std::size_t bytes,
                                                                cudaMemcpyKind kind) {
  return WithLinear(to, from, bytes, kind, [&](const DriverCalls& driver, const CUDA_MEMCPY3D& copy) {
    return driver.GraphExecMemcpyNodeSetParams(exec, node, &copy, CurrentContext(driver));
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, Nodes after,
                                                  std::size_t count, const cudaHostNodeParams* params) {
  return WithHostParams(params, [&](const DriverCalls& driver, const CUDA_HOST_NODE_PARAMS& host) {
    return driver.GraphAddHostNode(node, graph, after, count, &host);
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* params) {
  return WithHostParams(params, [&](const DriverCalls& driver, const CUDA_HOST_NODE_PARAMS& host) {
    return driver.GraphHostNodeSetParams(node, &host);
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                            const cudaHostNodeParams* params) {
  return WithHostParams(params, [&](const DriverCalls& driver, const CUDA_HOST_NODE_PARAMS& host) {
    return driver.GraphExecHostNodeSetParams(exec, node, &host);
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, Nodes after,
                                                   std::size_t count) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphAddEmptyNode(node, graph, after, count); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, Nodes after,
                                                        std::size_t count, cudaGraph_t child) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.GraphAddChildGraphNode(node, graph, after, count, child); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphChildGraphNodeGetGraph(node, graph); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph, Nodes after,
                                                         std::size_t count, cudaEvent_t event) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.GraphAddEventRecordNode(node, graph, after, count, event); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, Nodes after,
                                                       std::size_t count, cudaEvent_t event) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.GraphAddEventWaitNode(node, graph, after, count, event); });
}

static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));

SIMCUDART_EXPORT cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, Nodes after,
                                                      std::size_t count, cudaMemAllocNodeParams* params) {
  return InContext([&](const DriverCalls& driver) {
    return driver.GraphAddMemAllocNode(node, graph, after, count,
                                       reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(params));
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, Nodes after,
                                                     std::size_t count, void* pointer) {
  return InContext([&](const DriverCalls& driver) {
    return driver.GraphAddMemFreeNode(node, graph, after, count, ToDevice(pointer));
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return InContext([&](const DriverCalls& driver) {
    return driver.GraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(type));
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original,
                                                      cudaGraph_t clone) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphNodeFindInClone(node, original, clone); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int enabled) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphNodeSetEnabled(exec, node, enabled); });
}

SIMCUDART_EXPORT cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     unsigned int* enabled) {
  return InContext([&](const DriverCalls& driver) { return driver.GraphNodeGetEnabled(exec, node, enabled); });
}

// ---- updates ----

static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo));

SIMCUDART_EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                                 cudaGraphExecUpdateResultInfo* info) {
  return InContext([&](const DriverCalls& driver) {
    return driver.GraphExecUpdate(exec, graph, reinterpret_cast<CUgraphExecUpdateResultInfo*>(info));
  });
}

SIMCUDART_EXPORT cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                                  cudaGraph_t child) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.GraphExecChildGraphNodeSetParams(exec, node, child); });
}

// ---- edges: CUDA 12 has them without edge data under the plain names ----

namespace {

cudaError_t GetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* data,
                     std::size_t* count) {
  return InContext([&](const DriverCalls& driver) {
    return driver.GraphGetEdges(graph, from, to, reinterpret_cast<CUgraphEdgeData*>(data), count);
  });
}

cudaError_t GetDependents(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* data, std::size_t* count) {
  return InContext([&](const DriverCalls& driver) {
    return driver.GraphNodeGetDependentNodes(node, nodes, reinterpret_cast<CUgraphEdgeData*>(data), count);
  });
}

cudaError_t AddEdges(cudaGraph_t graph, Nodes from, Nodes to, const cudaGraphEdgeData* data, std::size_t count) {
  return InContext([&](const DriverCalls& driver) {
    return driver.GraphAddDependencies(graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(data), count);
  });
}

cudaError_t RemoveEdges(cudaGraph_t graph, Nodes from, Nodes to, const cudaGraphEdgeData* data, std::size_t count) {
  return InContext([&](const DriverCalls& driver) {
    return driver.GraphRemoveDependencies(graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(data), count);
  });
}

}  // namespace

#if SIMCUDART_MAJOR >= 13
#define SIMCUDART_WITH_DATA(name) name
#else
#define SIMCUDART_WITH_DATA(name) name##_v2
#endif

SIMCUDART_EXPORT cudaError_t SIMCUDART_WITH_DATA(cudaGraphGetEdges)(cudaGraph_t graph, cudaGraphNode_t* from,
                                                                    cudaGraphNode_t* to, cudaGraphEdgeData* data,
                                                                    std::size_t* count) {
  return GetEdges(graph, from, to, data, count);
}

SIMCUDART_EXPORT cudaError_t SIMCUDART_WITH_DATA(cudaGraphNodeGetDependentNodes)(cudaGraphNode_t node,
                                                                                 cudaGraphNode_t* nodes,
                                                                                 cudaGraphEdgeData* data,
                                                                                 std::size_t* count) {
  return GetDependents(node, nodes, data, count);
}

SIMCUDART_EXPORT cudaError_t SIMCUDART_WITH_DATA(cudaGraphAddDependencies)(cudaGraph_t graph, Nodes from, Nodes to,
                                                                           const cudaGraphEdgeData* data,
                                                                           std::size_t count) {
  return AddEdges(graph, from, to, data, count);
}

SIMCUDART_EXPORT cudaError_t SIMCUDART_WITH_DATA(cudaGraphRemoveDependencies)(cudaGraph_t graph, Nodes from, Nodes to,
                                                                              const cudaGraphEdgeData* data,
                                                                              std::size_t count) {
  return RemoveEdges(graph, from, to, data, count);
}

#if SIMCUDART_MAJOR < 13
// The headers are those of CUDA 13, in which the plain names take edge data.
SIMCUDART_EXPORT cudaError_t GetEdges12(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                        std::size_t* count) __asm__("cudaGraphGetEdges");
SIMCUDART_EXPORT cudaError_t GetEdges12(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                        std::size_t* count) {
  return GetEdges(graph, from, to, nullptr, count);
}
SIMCUDART_EXPORT cudaError_t GetDependents12(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                             std::size_t* count) __asm__("cudaGraphNodeGetDependentNodes");
SIMCUDART_EXPORT cudaError_t GetDependents12(cudaGraphNode_t node, cudaGraphNode_t* nodes, std::size_t* count) {
  return GetDependents(node, nodes, nullptr, count);
}
SIMCUDART_EXPORT cudaError_t AddEdges12(cudaGraph_t graph, Nodes from, Nodes to,
                                        std::size_t count) __asm__("cudaGraphAddDependencies");
SIMCUDART_EXPORT cudaError_t AddEdges12(cudaGraph_t graph, Nodes from, Nodes to, std::size_t count) {
  return AddEdges(graph, from, to, nullptr, count);
}
SIMCUDART_EXPORT cudaError_t RemoveEdges12(cudaGraph_t graph, Nodes from, Nodes to,
                                           std::size_t count) __asm__("cudaGraphRemoveDependencies");
SIMCUDART_EXPORT cudaError_t RemoveEdges12(cudaGraph_t graph, Nodes from, Nodes to, std::size_t count) {
  return RemoveEdges(graph, from, to, nullptr, count);
}
#endif
