// The pieces of work that nodes of graphs are made of, by the parameters that the graph API takes.
#pragma once

#include <memory>
#include <vector>

#include "tools/simcuda/driver/graph.h"

namespace simcuda {

// Errors: INVALID_VALUE, NOT_SUPPORTED (arrays).
CUresult MakeMemset(Context& context, const CUDA_MEMSET_NODE_PARAMS& params, std::shared_ptr<Work>* work);
CUresult MakeMemcpy(Context& context, const CUDA_MEMCPY3D& params, std::shared_ptr<Work>* work);
std::shared_ptr<Work> MakeHostFunction(CUhostFn fn, void* user_data);

// What a node is to do: its parameters, its piece of work (null: nothing) and where.
struct MadeNode {
  std::shared_ptr<const NodeDetails> details;
  std::shared_ptr<const Work> work;
  std::shared_ptr<Context> context;
};
// An allocation node that will come after `after`; sets params->dptr. The address may be one that a free node before it
// gave back. Errors: INVALID_VALUE, NOT_SUPPORTED (memory other than that of a device, handles to share),
// OUT_OF_MEMORY.
CUresult MakeAllocationNode(Graph& graph, const std::vector<Dependency>& after, CUDA_MEM_ALLOC_NODE_PARAMS* params,
                            MadeNode* made);
// A free node for the allocation at `address`.
// Errors: INVALID_VALUE (no allocation of a graph, or one that has a free node already).
CUresult MakeFreeNode(const Graph& graph, CUdeviceptr address, MadeNode* made);
// The same during capture: cuMemAllocAsync and cuMemFreeAsync in a capturing stream.
CUresult CaptureAllocation(Stream& stream, Device& device, size_t bytes, CUdeviceptr* address);
CUresult CaptureFree(Stream& stream, CUdeviceptr address);

}  // namespace simcuda
