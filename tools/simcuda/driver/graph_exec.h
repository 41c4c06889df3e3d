// Executable graphs: instantiation, launch, update.
#pragma once

#include <memory>
#include <vector>

#include "tools/simcuda/driver/graph.h"

namespace simcuda {

struct GraphExec {
  ~GraphExec();
  CUgraphExec handle = nullptr;
  cuuint64_t flags = 0;
  bool destroyed = false;                                     // by cuGraphExecDestroy; launches may still run
  uint64_t source_id = 0;                                     // the graph that it was made of
  std::shared_ptr<Graph> copy;                                // its own nodes, without handles
  std::vector<std::shared_ptr<GraphAllocation>> allocations;  // of its allocation nodes
  std::vector<std::shared_ptr<GraphAllocation>> frees;        // of its free nodes
  std::weak_ptr<Work> last_launch;                            // the piece that ends it
};

// Errors: INVALID_VALUE; `error_node`: null, or what is wrong; `why`: as CUDA_GRAPH_INSTANTIATE_PARAMS has it.
CUresult Instantiate(const std::shared_ptr<Graph>& graph, cuuint64_t flags, std::shared_ptr<GraphExec>* exec,
                     CUgraphNode* error_node, CUgraphInstantiateResult* why);
// Errors: INVALID_VALUE (its memory is not freed), OUT_OF_MEMORY, INVALID_CONTEXT.
CUresult LaunchGraph(const std::shared_ptr<GraphExec>& exec, const std::shared_ptr<Stream>& stream);
// Takes the parameters of `graph`'s nodes over into an executable graph's copy. Errors: GRAPH_EXEC_UPDATE_FAILURE, told
// apart in `info`.
CUresult UpdateNodes(Graph& old, const Graph& graph, CUgraphExecUpdateResultInfo* info);
// The executable graph's copy of a node of the graph that it was made of, or of a child graph in it; null if there is
// none.
Node* NodeOfExec(const GraphExec& exec, const Node& node);

}  // namespace simcuda
