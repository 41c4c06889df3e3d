// Graph Management (Driver API reference): making nodes, and asking for and setting their parameters. Conditional
// nodes, semaphores and batches of memory operations by parameters are not simulated.
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "entry_points.h"
#include "tools/simcuda/driver/graph_exec.h"
#include "tools/simcuda/driver/graph_node.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

using Made = MadeNode;

// `handle`, or the current context. Errors: INVALID_CONTEXT and what CurrentContext answers.
CUresult ContextOfNode(CUcontext handle, std::shared_ptr<Context>* context) {
  Context* found = nullptr;
  if (const CUresult result = ContextOrCurrent(handle, &found)) return result;
  *context = found->shared_from_this();
  return CUDA_SUCCESS;
}

CUresult Finish(const CUresult result, std::shared_ptr<Work> work, Made* made) {
  if (result != CUDA_SUCCESS) return result;
  made->details = work->details;
  made->work = std::move(work);
  return CUDA_SUCCESS;
}

CUresult MakeKernelNode(const CUDA_KERNEL_NODE_PARAMS& params, Made* made) {
  LaunchDetails launch;
  launch.function = params.func != nullptr ? params.func : reinterpret_cast<CUfunction>(params.kern);
  launch.shape = {{params.gridDimX, params.gridDimY, params.gridDimZ},
                  {params.blockDimX, params.blockDimY, params.blockDimZ},
                  params.sharedMemBytes};
  if (const CUresult result = ContextOfNode(params.func != nullptr ? nullptr : params.ctx, &made->context))
    return result;
  if (const auto* function = State::Get().modules.functions.Find(params.func).get()) {
    if (function->context != nullptr) made->context = function->context->shared_from_this();
  }
  std::shared_ptr<Work> work;
  const CUresult result = MakeLaunch(*made->context, launch, params.kernelParams, params.extra, &work);
  // The reference names INVALID_VALUE only.
  return Finish(result == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : result, work, made);
}

CUresult MakeKernelNode(const CUDA_KERNEL_NODE_PARAMS_v1& params, Made* made) {
  CUDA_KERNEL_NODE_PARAMS wide{};
  std::memcpy(&wide, &params, sizeof params);
  return MakeKernelNode(wide, made);
}

CUresult MakeMemcpyNode(const CUDA_MEMCPY3D& params, CUcontext context, Made* made) {
  std::shared_ptr<Work> work;
  if (const CUresult result = ContextOfNode(context, &made->context)) return result;
  const CUresult result = MakeMemcpy(*made->context, params, &work);
  if (result == CUDA_SUCCESS) work->details = NewDetails(CU_GRAPH_NODE_TYPE_MEMCPY, params);
  return Finish(result, work, made);
}

CUresult MakeMemsetNode(const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context, Made* made) {
  std::shared_ptr<Work> work;
  if (const CUresult result = ContextOfNode(context, &made->context)) return result;
  const CUresult result = MakeMemset(*made->context, params, &work);
  return Finish(result, work, made);
}

CUresult MakeHostNode(const CUDA_HOST_NODE_PARAMS& params, Made* made) {
  if (params.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = ContextOfNode(nullptr, &made->context)) return result;
  return Finish(CUDA_SUCCESS, MakeHostFunction(params.fn, params.userData), made);
}

CUresult MakeEventNode(CUgraphNodeType type, CUevent handle, Made* made) {
  const std::shared_ptr<Event> event = State::Get().events.Find(handle);
  if (!event) return CUDA_ERROR_INVALID_VALUE;
  made->context = event->context->shared_from_this();
  made->details = NewDetails(type, EventNode{event});
  return CUDA_SUCCESS;
}

CUresult MakeChildNode(CUgraph handle, CUgraphChildGraphNodeOwnership ownership, Made* made) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = FindGraph(handle, &graph)) return result;
  if (graph->is_child || graph->captures > 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = ContextOfNode(nullptr, &made->context)) return result;
  if (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) {
    if (graph->HasMemoryNodes()) return CUDA_ERROR_INVALID_VALUE;
    graph = CopyGraph(*graph, true);
  } else if (ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  graph->is_child = true;
  made->details = NewDetails(CU_GRAPH_NODE_TYPE_GRAPH, ChildNode{graph, ownership});
  return CUDA_SUCCESS;
}

CUresult Add(CUgraphNode* node_out, CUgraph handle, const CUgraphNode* dependencies, const CUgraphEdgeData* edges,
             size_t count, const std::function<CUresult(Graph&, const std::vector<Dependency>&, Made*)>& make) {
  std::shared_ptr<Graph> graph;
  std::vector<Dependency> after;
  std::shared_ptr<Node> node;
  Made made;
  if (node_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindGraph(handle, &graph)) return result;
  if (const CUresult result = FindDependencies(dependencies, edges, count, &after)) return result;
  if (const CUresult result = make(*graph, after, &made)) return result;
  if (const CUresult result = AddNode(*graph, std::move(after), made.context, made.details, made.work, &node)) {
    return result;
  }
  *node_out = node->handle;
  return CUDA_SUCCESS;
}

// The node by its handle, if it is of the type. Errors: INVALID_VALUE.
template <typename T>
CUresult FindOfType(CUgraphNode handle, CUgraphNodeType type, std::shared_ptr<Node>* node, const T** value) {
  if (const CUresult result = FindNode(handle, node)) return result;
  *value = (*node)->type() == type ? (*node)->As<T>() : nullptr;
  return *value != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult MakeOfType(const CUgraphNodeParams& params, Made* made) {
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS kernel{};
      static_assert(sizeof kernel == sizeof params.kernel);
      std::memcpy(&kernel, &params.kernel, sizeof kernel);
      return MakeKernelNode(kernel, made);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return MakeMemcpyNode(params.memcpy.copyParams, params.memcpy.copyCtx, made);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto& fill = params.memset;
      return MakeMemsetNode({fill.dst, fill.pitch, fill.value, fill.elementSize, fill.width, fill.height}, fill.ctx,
                            made);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      return MakeHostNode({params.host.fn, params.host.userData}, made);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return MakeChildNode(params.graph.graph, params.graph.ownership, made);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return MakeEventNode(params.type, params.eventWait.event, made);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return MakeEventNode(params.type, params.eventRecord.event, made);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      made->details = NewDetails(CU_GRAPH_NODE_TYPE_EMPTY);
      return ContextOfNode(nullptr, &made->context);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// Puts new parameters of the same type into the node. A 1-dimensional copy keeps its number of dimensions and so on:
// what else the reference refuses for executable graphs is a matter of resources that are not simulated.
CUresult Replace(Node* node, Made made) {
  if (node == nullptr || made.details->type != node->type()) return CUDA_ERROR_INVALID_VALUE;
  const auto* launch = std::get_if<LaunchDetails>(&made.details->value);
  const auto* before = node->As<LaunchDetails>();
  if (launch != nullptr && before != nullptr) {  // attributes have calls of their own
    LaunchDetails kept = *launch;
    kept.attributes = before->attributes;
    kept.cooperative = before->cooperative;
    made.details = NewDetails(CU_GRAPH_NODE_TYPE_KERNEL, std::move(kept));
  }
  node->details = std::move(made.details);
  node->work = std::move(made.work);
  return CUDA_SUCCESS;
}

// The node itself, or an executable graph's copy of it.
CUresult Set(const CUgraphExec* exec_handle, CUgraphNode handle, CUgraphNodeType type,
             const std::function<CUresult(Made*)>& make) {
  std::shared_ptr<Node> node;
  std::shared_ptr<GraphExec> exec;
  Made made;
  if (const CUresult result = FindNode(handle, &node)) return result;
  if (node->type() != type) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = make(&made)) return result;
  if (exec_handle == nullptr) return Replace(node.get(), std::move(made));
  exec = State::Get().graphs.execs.Find(*exec_handle);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  Node* copy = NodeOfExec(*exec, *node);
  // "The owning context of the function cannot change", nor that of copies and memsets.
  if (copy != nullptr && copy->context != made.context && type <= CU_GRAPH_NODE_TYPE_MEMSET) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Replace(copy, std::move(made));
}

}  // namespace

CUresult impl::cuGraphAddKernelNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                       size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, const auto&, Made* made) { return MakeKernelNode(*nodeParams, made); });
}

CUresult impl::cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                    size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, const auto&, Made* made) { return MakeKernelNode(*nodeParams, made); });
}

CUresult impl::cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                    size_t numDependencies, const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  if (copyParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, const auto&, Made* made) { return MakeMemcpyNode(*copyParams, ctx, made); });
}

CUresult impl::cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                    size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                                    CUcontext ctx) {
  if (memsetParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, const auto&, Made* made) { return MakeMemsetNode(*memsetParams, ctx, made); });
}

CUresult impl::cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                  size_t numDependencies, const CUDA_HOST_NODE_PARAMS* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, const auto&, Made* made) { return MakeHostNode(*nodeParams, made); });
}

CUresult impl::cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                        size_t numDependencies, CUgraph childGraph) {
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies, [&](Graph&, const auto&, Made* made) {
    return MakeChildNode(childGraph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, made);
  });
}

CUresult impl::cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                   size_t numDependencies) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_EMPTY;
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph&, const auto&, Made* made) { return MakeOfType(params, made); });
}

CUresult impl::cuGraphAddEventRecordNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                         size_t numDependencies, CUevent event) {
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies, [&](Graph&, const auto&, Made* made) {
    return MakeEventNode(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, made);
  });
}

CUresult impl::cuGraphAddEventWaitNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                       size_t numDependencies, CUevent event) {
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies, [&](Graph&, const auto&, Made* made) {
    return MakeEventNode(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, made);
  });
}

CUresult impl::cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                      size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph& graph, const std::vector<Dependency>& after, Made* made) {
               return MakeAllocationNode(graph, after, nodeParams, made);
             });
}

CUresult impl::cuGraphAddMemFreeNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                     size_t numDependencies, CUdeviceptr dptr) {
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies,
             [&](Graph& graph, const auto&, Made* made) { return MakeFreeNode(graph, dptr, made); });
}

CUresult impl::cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                 const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                 CUgraphNodeParams* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Add(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
             [&](Graph& graph, const std::vector<Dependency>& after, Made* made) {
               if (nodeParams->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
                 auto* alloc = reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(&nodeParams->alloc);
                 static_assert(sizeof *alloc == sizeof nodeParams->alloc);
                 return MakeAllocationNode(graph, after, alloc, made);
               }
               if (nodeParams->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
                 return MakeFreeNode(graph, nodeParams->free.dptr, made);
               return MakeOfType(*nodeParams, made);
             });
}

CUresult impl::cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                              size_t numDependencies, CUgraphNodeParams* nodeParams) {
  return impl::cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, nullptr, numDependencies, nodeParams);
}

// ---- kernel nodes ----

// The arrays are the node's own: valid "until the node is destroyed or its parameters are modified".
CUresult impl::cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  std::shared_ptr<Node> node;
  const LaunchDetails* launch = nullptr;
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindOfType(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &node, &launch)) return result;
  *nodeParams = {};
  const LaunchShape& shape = launch->shape;
  const bool is_kernel = State::Get().modules.kernels.Find(reinterpret_cast<CUkernel>(launch->function)) != nullptr;
  nodeParams->func = is_kernel ? nullptr : launch->function;
  nodeParams->kern = is_kernel ? reinterpret_cast<CUkernel>(launch->function) : nullptr;
  nodeParams->ctx = node->context->handle;
  std::memcpy(&nodeParams->gridDimX, shape.grid, sizeof shape.grid);
  std::memcpy(&nodeParams->blockDimX, shape.block, sizeof shape.block);
  nodeParams->sharedMemBytes = shape.shared_bytes;
  if (launch->parameters) nodeParams->kernelParams = const_cast<void**>(launch->parameters->pointers.data());
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  CUDA_KERNEL_NODE_PARAMS wide{};
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = impl::cuGraphKernelNodeGetParams_v2(hNode, &wide)) return result;
  if (wide.func == nullptr) wide.func = reinterpret_cast<CUfunction>(wide.kern);
  std::memcpy(nodeParams, &wide, sizeof *nodeParams);
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Set(nullptr, hNode, CU_GRAPH_NODE_TYPE_KERNEL, [&](Made* made) { return MakeKernelNode(*nodeParams, made); });
}

CUresult impl::cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Set(nullptr, hNode, CU_GRAPH_NODE_TYPE_KERNEL, [&](Made* made) { return MakeKernelNode(*nodeParams, made); });
}

CUresult impl::cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                 const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Set(&hGraphExec, hNode, CU_GRAPH_NODE_TYPE_KERNEL,
             [&](Made* made) { return MakeKernelNode(*nodeParams, made); });
}

CUresult impl::cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                              const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Set(&hGraphExec, hNode, CU_GRAPH_NODE_TYPE_KERNEL,
             [&](Made* made) { return MakeKernelNode(*nodeParams, made); });
}

// Attributes steer how a kernel runs: kept and returned.
CUresult impl::cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                             CUkernelNodeAttrValue* value_out) {
  std::shared_ptr<Node> node;
  const LaunchDetails* launch = nullptr;
  if (value_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindOfType(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &node, &launch)) return result;
  const auto found = launch->attributes.find(attr);
  *value_out = found == launch->attributes.end() ? CUkernelNodeAttrValue{} : found->second;
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                             const CUkernelNodeAttrValue* value) {
  std::shared_ptr<Node> node;
  const LaunchDetails* launch = nullptr;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindOfType(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &node, &launch)) return result;
  LaunchDetails changed = *launch;
  changed.attributes[attr] = *value;
  if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) changed.cooperative = value->cooperative != 0;
  node->details = NewDetails(CU_GRAPH_NODE_TYPE_KERNEL, std::move(changed));
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
  std::shared_ptr<Node> to, from;
  const LaunchDetails *target = nullptr, *source = nullptr;
  if (const CUresult result = FindOfType(dst, CU_GRAPH_NODE_TYPE_KERNEL, &to, &target)) return result;
  if (const CUresult result = FindOfType(src, CU_GRAPH_NODE_TYPE_KERNEL, &from, &source)) return result;
  LaunchDetails changed = *target;
  changed.attributes = source->attributes;
  to->details = NewDetails(CU_GRAPH_NODE_TYPE_KERNEL, std::move(changed));
  return CUDA_SUCCESS;
}

// ---- copies, memsets, host functions, events, child graphs ----

CUresult impl::cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
  std::shared_ptr<Node> node;
  const CUDA_MEMCPY3D* params = nullptr;
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindOfType(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, &node, &params)) return result;
  *nodeParams = *params;
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D* nodeParams) {
  std::shared_ptr<Node> node;
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindNode(hNode, &node)) return result;
  return Set(nullptr, hNode, CU_GRAPH_NODE_TYPE_MEMCPY,
             [&](Made* made) { return MakeMemcpyNode(*nodeParams, node->context->handle, made); });
}

CUresult impl::cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                              const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  if (copyParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Set(&hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMCPY,
             [&](Made* made) { return MakeMemcpyNode(*copyParams, ctx, made); });
}

CUresult impl::cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  std::shared_ptr<Node> node;
  const CUDA_MEMSET_NODE_PARAMS* params = nullptr;
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindOfType(hNode, CU_GRAPH_NODE_TYPE_MEMSET, &node, &params)) return result;
  *nodeParams = *params;
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  std::shared_ptr<Node> node;
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindNode(hNode, &node)) return result;
  return Set(nullptr, hNode, CU_GRAPH_NODE_TYPE_MEMSET,
             [&](Made* made) { return MakeMemsetNode(*nodeParams, node->context->handle, made); });
}

CUresult impl::cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                              const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
  if (memsetParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Set(&hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMSET,
             [&](Made* made) { return MakeMemsetNode(*memsetParams, ctx, made); });
}

CUresult impl::cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams) {
  std::shared_ptr<Node> node;
  const HostNode* host = nullptr;
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindOfType(hNode, CU_GRAPH_NODE_TYPE_HOST, &node, &host)) return result;
  *nodeParams = {host->function, host->user_data};
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Set(nullptr, hNode, CU_GRAPH_NODE_TYPE_HOST, [&](Made* made) { return MakeHostNode(*nodeParams, made); });
}

CUresult impl::cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_HOST_NODE_PARAMS* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Set(&hGraphExec, hNode, CU_GRAPH_NODE_TYPE_HOST, [&](Made* made) { return MakeHostNode(*nodeParams, made); });
}

namespace {

CUresult GetEvent(CUgraphNode handle, CUgraphNodeType type, CUevent* event) {
  std::shared_ptr<Node> node;
  const EventNode* found = nullptr;
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindOfType(handle, type, &node, &found)) return result;
  *event = found->event->handle;
  return CUDA_SUCCESS;
}

CUresult SetEvent(const CUgraphExec* exec, CUgraphNode handle, CUgraphNodeType type, CUevent event) {
  return Set(exec, handle, type, [&](Made* made) { return MakeEventNode(type, event, made); });
}

}  // namespace

CUresult impl::cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
  return GetEvent(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}
CUresult impl::cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
  return GetEvent(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}
CUresult impl::cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return SetEvent(nullptr, hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}
CUresult impl::cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return SetEvent(nullptr, hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}
CUresult impl::cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  return SetEvent(&hGraphExec, hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}
CUresult impl::cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  return SetEvent(&hGraphExec, hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

CUresult impl::cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph* phGraph) {
  std::shared_ptr<Node> node;
  const ChildNode* child = nullptr;
  if (phGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindOfType(hNode, CU_GRAPH_NODE_TYPE_GRAPH, &node, &child)) return result;
  *phGraph = child->graph->handle;
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  if (nodeParams == nullptr || nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH) return CUDA_ERROR_INVALID_VALUE;
  return Set(nullptr, hNode, nodeParams->type, [&](Made* made) { return MakeOfType(*nodeParams, made); });
}

CUresult impl::cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    return impl::cuGraphExecChildGraphNodeSetParams(hGraphExec, hNode, nodeParams->graph.graph);
  }
  return Set(&hGraphExec, hNode, nodeParams->type, [&](Made* made) { return MakeOfType(*nodeParams, made); });
}

}  // namespace simcuda
