// Graph Management (Driver API reference): memory allocation and free nodes, and what cuMemAllocAsync and
// cuMemFreeAsync become in a capturing stream.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "entry_points.h"
#include "tools/simcuda/driver/address_space.h"
#include "tools/simcuda/driver/capture.h"
#include "tools/simcuda/driver/graph_node.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

bool ComesBeforeAny(const Node* node, const std::vector<Dependency>& after) {
  return std::any_of(after.begin(), after.end(),
                     [&](const Dependency& dependency) { return ComesBefore(node, dependency.node); });
}

// "CUDA ... may assign the same virtual address to different allocations" whose lifetimes are ordered: the range of an
// allocation of the same size that was freed before (CUDA C++ Programming Guide, "Address Reuse within a Graph").
std::shared_ptr<GraphRange> FreedBefore(const Graph& graph, const std::vector<Dependency>& after, const Device& device,
                                        size_t bytes) {
  for (const auto& node : graph.nodes) {
    const auto* freed = node->As<FreeNode>();
    if (freed == nullptr || freed->allocation->graph_id != graph.id) continue;
    const std::shared_ptr<GraphRange>& range = freed->allocation->range;
    // Only the newest allocation of a range is free to be followed by another one.
    const bool newest = FindGraphAllocation(range->address) == freed->allocation;
    if (range->device != &device || range->reserved != RoundUp(bytes, kPageBytes) || !newest) continue;
    if (ComesBeforeAny(node.get(), after)) return range;
  }
  return nullptr;
}

}  // namespace

CUresult MakeAllocationNode(Graph& graph, const std::vector<Dependency>& after, CUDA_MEM_ALLOC_NODE_PARAMS* params,
                            MadeNode* made) {
  Device* device = nullptr;
  SIMCUDA_CURRENT(context);
  const CUmemPoolProps& props = params->poolProps;
  if (params->bytesize == 0 || (params->accessDescCount > 0 && params->accessDescs == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (props.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (props.handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult result = FindDevice(props.location.id, &device)) return result;
  AllocationNode value;
  const std::shared_ptr<GraphRange> reuse = FreedBefore(graph, after, *device, params->bytesize);
  if (const CUresult result = MakeGraphAllocation(*device, params->bytesize, graph.id, reuse, &value.allocation)) {
    return result;
  }
  params->dptr = value.allocation->range->address;
  value.params = *params;
  value.access.assign(params->accessDescs, params->accessDescs + params->accessDescCount);
  auto work = NewWork("allocate", [range = value.allocation->range] {
    OpenGraphRange(*range);
    return Outcome::kDone;
  });
  work->cost_ns = 0;
  made->context = context->shared_from_this();
  made->details = NewDetails(CU_GRAPH_NODE_TYPE_MEM_ALLOC, std::move(value));
  made->work = std::move(work);
  return CUDA_SUCCESS;
}

CUresult MakeFreeNode(const Graph& graph, CUdeviceptr address, MadeNode* made) {
  SIMCUDA_CURRENT(context);
  const std::shared_ptr<GraphAllocation> allocation = FindGraphAllocation(address);
  // "An allocation twice in the same graph, an address that was not returned by an allocation node, an invalid
  // address"; "it is not possible to free an allocation in both the owning graph and another graph".
  if (!allocation || allocation->freed_in_owner) return CUDA_ERROR_INVALID_VALUE;
  const bool own = allocation->graph_id == graph.id;
  if (own && allocation->freed_elsewhere) return CUDA_ERROR_INVALID_VALUE;
  const bool twice = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
    const auto* freed = node->template As<FreeNode>();
    return freed != nullptr && freed->allocation == allocation;
  });
  if (twice) return CUDA_ERROR_INVALID_VALUE;
  (own ? allocation->freed_in_owner : allocation->freed_elsewhere) = true;
  auto work = NewWork("free", [range = allocation->range] {
    CloseGraphRange(*range);
    return Outcome::kDone;
  });
  work->cost_ns = 0;
  made->context = context->shared_from_this();
  made->details = NewDetails(CU_GRAPH_NODE_TYPE_MEM_FREE, FreeNode{allocation});
  made->work = std::move(work);
  return CUDA_SUCCESS;
}

CUresult CaptureAllocation(Stream& stream, Device& device, size_t bytes, CUdeviceptr* address) {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device.ordinal}};
  params.bytesize = bytes;
  const StreamCapture& part = *stream.capture;
  std::shared_ptr<Node> node;
  MadeNode made;
  if (const CUresult result = MakeAllocationNode(*part.capture->graph, part.next, &params, &made)) return result;
  if (const CUresult result = CaptureNode(stream, made.details, made.work, &node)) return result;
  *address = params.dptr;
  return CUDA_SUCCESS;
}

// "During stream capture, this function results in the creation of a free node and must therefore be passed the address
// of a graph allocation."
CUresult CaptureFree(Stream& stream, CUdeviceptr address) {
  std::shared_ptr<Node> node;
  MadeNode made;
  if (const CUresult result = MakeFreeNode(*stream.capture->capture->graph, address, &made)) return result;
  return CaptureNode(stream, made.details, made.work, &node);
}

CUresult impl::cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
  std::shared_ptr<Node> node;
  if (params_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindNode(hNode, &node)) return result;
  const auto* found = node->As<AllocationNode>();
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *params_out = found->params;
  params_out->accessDescs = found->access.data();
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr* dptr_out) {
  std::shared_ptr<Node> node;
  if (dptr_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindNode(hNode, &node)) return result;
  const auto* found = node->As<FreeNode>();
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *dptr_out = found->allocation->range->address;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
