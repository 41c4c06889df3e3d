// Graph Management (Driver API reference): executable graphs.
#include <memory>

#include "entry_points.h"
#include "tools/simcuda/driver/capture.h"
#include "tools/simcuda/driver/graph_exec.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

CUresult FindExec(CUgraphExec handle, std::shared_ptr<GraphExec>* exec) {
  *exec = State::Get().graphs.execs.Find(handle);
  return *exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Make(CUgraphExec* handle, CUgraph graph_handle, cuuint64_t flags, CUgraphNode* error_node,
              CUgraphInstantiateResult* why) {
  *error_node = nullptr;
  *why = CUDA_GRAPH_INSTANTIATE_ERROR;
  std::shared_ptr<Graph> graph;
  std::shared_ptr<GraphExec> exec;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindGraph(graph_handle, &graph)) return result;
  if (const CUresult result = Instantiate(graph, flags, &exec, error_node, why)) return result;
  *handle = exec->handle;
  return CUDA_SUCCESS;
}

// Physical memory for what the graph allocates is taken now instead of at the first launch.
CUresult Upload(const std::shared_ptr<GraphExec>& exec) {
  for (const auto& allocation : exec->allocations) {
    if (const CUresult result = BackGraphRange(*allocation->range)) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult impl::cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph, unsigned long long flags) {
  CUgraphNode error_node = nullptr;
  CUgraphInstantiateResult why;
  // "Only supported by cuGraphInstantiateWithParams."
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) return CUDA_ERROR_INVALID_VALUE;
  return Make(phGraphExec, hGraph, flags, &error_node, &why);
}

CUresult impl::cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                                     char* logBuffer, size_t bufferSize) {
  CUgraphNode error_node = nullptr;
  CUgraphInstantiateResult why;
  const CUresult result = Make(phGraphExec, hGraph, 0, &error_node, &why);
  if (phErrorNode != nullptr) *phErrorNode = error_node;
  if (logBuffer != nullptr && bufferSize > 0) *logBuffer = '\0';
  return result;
}

CUresult impl::cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
                                  size_t bufferSize) {
  return impl::cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult impl::cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
  if (instantiateParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = Make(phGraphExec, hGraph, instantiateParams->flags, &instantiateParams->hErrNode_out,
                               &instantiateParams->result_out);
  if (result != CUDA_SUCCESS || (instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) == 0) return result;
  return impl::cuGraphUpload(*phGraphExec, instantiateParams->hUploadStream);
}

CUresult impl::cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
  std::shared_ptr<GraphExec> exec;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindExec(hGraphExec, &exec)) return result;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphExecDestroy(CUgraphExec hGraphExec) {
  std::shared_ptr<GraphExec> exec;
  if (const CUresult result = FindExec(hGraphExec, &exec)) return result;
  exec->destroyed = true;
  State::Get().graphs.execs.Remove(hGraphExec);
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  std::shared_ptr<GraphExec> exec;
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindExec(hGraphExec, &exec)) return result;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  return LaunchGraph(exec, stream);
}

CUresult impl::cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
  std::shared_ptr<GraphExec> exec;
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindExec(hGraphExec, &exec)) return result;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  return Upload(exec);
}

CUresult impl::cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo* resultInfo) {
  std::shared_ptr<GraphExec> exec;
  std::shared_ptr<Graph> graph;
  CUgraphExecUpdateResultInfo ignored{};
  CUgraphExecUpdateResultInfo* info = resultInfo != nullptr ? resultInfo : &ignored;
  *info = {};
  info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
  if (const CUresult result = FindExec(hGraphExec, &exec)) return result;
  if (const CUresult result = FindGraph(hGraph, &graph)) return result;
  return UpdateNodes(*exec->copy, *graph, info);
}

CUresult impl::cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                                 CUgraphExecUpdateResult* updateResult_out) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = impl::cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
  if (hErrorNode_out != nullptr) *hErrorNode_out = info.errorNode;
  if (updateResult_out != nullptr) *updateResult_out = info.result;
  return result;
}

// "Currently only kernel, memset and memcpy nodes are supported."
CUresult impl::cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
  std::shared_ptr<GraphExec> exec;
  std::shared_ptr<Node> node;
  if (const CUresult result = FindExec(hGraphExec, &exec)) return result;
  if (const CUresult result = FindNode(hNode, &node)) return result;
  if (node->type() > CU_GRAPH_NODE_TYPE_MEMSET || isEnabled > 1) return CUDA_ERROR_INVALID_VALUE;
  Node* copy = NodeOfExec(*exec, *node);
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  copy->enabled = isEnabled != 0;
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int* isEnabled) {
  std::shared_ptr<GraphExec> exec;
  std::shared_ptr<Node> node;
  if (isEnabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindExec(hGraphExec, &exec)) return result;
  if (const CUresult result = FindNode(hNode, &node)) return result;
  const Node* copy = NodeOfExec(*exec, *node);
  if (copy == nullptr || node->type() > CU_GRAPH_NODE_TYPE_MEMSET) return CUDA_ERROR_INVALID_VALUE;
  *isEnabled = copy->enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

// "Topology must match and restrictions apply recursively; see cuGraphExecUpdate."
CUresult impl::cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph) {
  std::shared_ptr<GraphExec> exec;
  std::shared_ptr<Node> node;
  std::shared_ptr<Graph> graph;
  if (const CUresult result = FindExec(hGraphExec, &exec)) return result;
  if (const CUresult result = FindNode(hNode, &node)) return result;
  if (const CUresult result = FindGraph(childGraph, &graph)) return result;
  const Node* copy = NodeOfExec(*exec, *node);
  const ChildNode* child = copy == nullptr ? nullptr : copy->As<ChildNode>();
  if (child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo info{};
  return UpdateNodes(*child->graph, *graph, &info) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace simcuda
