// Graph Management (Driver API reference): graphs, their structure, user objects. Nodes' parameters are in
// graph_node_calls.cc, executable graphs in graph_exec_calls.cc.
#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>

#include "entry_points.h"
#include "tools/simcuda/driver/graph.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

// Nodes or edges into the program's arrays, as the reference has it: null arrays ask for the number only, surplus
// entries become null.
void FillNodes(const std::vector<CUgraphNode>& found, CUgraphNode* nodes, size_t capacity) {
  for (size_t i = 0; nodes != nullptr && i < capacity; ++i) nodes[i] = i < found.size() ? found[i] : nullptr;
}

CUresult GiveNodes(const std::vector<CUgraphNode>& found, CUgraphNode* nodes, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  FillNodes(found, nodes, *count);
  *count = nodes == nullptr ? found.size() : std::min(*count, found.size());
  return CUDA_SUCCESS;
}

struct Edges {
  std::vector<CUgraphNode> from, to;
  std::vector<CUgraphEdgeData> data;
  void Add(const Dependency& dependency, const Node& node) {
    from.push_back(dependency.node->handle);
    to.push_back(node.handle);
    data.push_back(dependency.data);
  }
};

CUresult GiveEdges(const Edges& edges, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  if (count == nullptr || (data != nullptr && from == nullptr && to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const bool query = from == nullptr && to == nullptr;
  constexpr CUgraphEdgeData kNone{};
  for (const CUgraphEdgeData& each : edges.data) {
    if (!query && data == nullptr && std::memcmp(&each, &kNone, sizeof kNone) != 0) return CUDA_ERROR_LOSSY_QUERY;
  }
  FillNodes(edges.from, from, *count);
  FillNodes(edges.to, to, *count);
  const size_t given = query ? edges.from.size() : std::min(*count, edges.from.size());
  if (data != nullptr) std::copy_n(edges.data.begin(), given, data);
  *count = given;
  return CUDA_SUCCESS;
}

CUresult EditDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                          size_t count, bool add) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = FindGraph(hGraph, &graph)) return result;
  if (count > 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  // "Nodes and edges of the graph cannot be deleted" where there are memory nodes.
  if (!add && graph->HasMemoryNodes()) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    std::shared_ptr<Node> first, second;
    if (const CUresult result = FindNode(from[i], &first)) return result;
    if (const CUresult result = FindNode(to[i], &second)) return result;
    if (first->graph != graph.get() || second->graph != graph.get() || first == second) return CUDA_ERROR_INVALID_VALUE;
    auto& known = second->dependencies;
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const Dependency& dependency) { return dependency.node == first.get(); });
    // "Specifying an existing dependency will return an error", and removing one that is not there.
    if (add == (found != known.end())) return CUDA_ERROR_INVALID_VALUE;
    if (add) {
      known.push_back({first.get(), data == nullptr ? CUgraphEdgeData{} : data[i]});
    } else {
      known.erase(found);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult impl::cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
  if (phGraph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *phGraph = NewGraph()->handle;
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphDestroy(CUgraph hGraph) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = FindGraph(hGraph, &graph)) return result;
  if (graph->is_child || graph->captures > 0) return CUDA_ERROR_INVALID_VALUE;
  ForgetGraph(*graph);
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
  std::shared_ptr<Graph> graph;
  if (phGraphClone == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindGraph(originalGraph, &graph)) return result;
  if (graph->HasMemoryNodes()) return CUDA_ERROR_NOT_SUPPORTED;
  *phGraphClone = CopyGraph(*graph, true)->handle;
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph) {
  std::shared_ptr<Graph> clone;
  std::shared_ptr<Node> original;
  if (phNode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindNode(hOriginalNode, &original)) return result;
  if (const CUresult result = FindGraph(hClonedGraph, &clone)) return result;
  for (const auto& node : clone->nodes) {
    if (node->copied_from != original->id) continue;
    *phNode = node->handle;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult impl::cuGraphDestroyNode(CUgraphNode hNode) {
  std::shared_ptr<Node> node;
  if (const CUresult result = FindNode(hNode, &node)) return result;
  Graph& graph = *node->graph;
  if (graph.HasMemoryNodes() || graph.captures > 0) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& other : graph.nodes) {
    std::erase_if(other->dependencies, [&](const Dependency& dependency) { return dependency.node == node.get(); });
  }
  ForgetNode(*node);
  std::erase(graph.nodes, node);
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = FindGraph(hGraph, &graph)) return result;
  std::vector<CUgraphNode> found;
  for (const auto& node : graph->nodes) found.push_back(node->handle);
  return GiveNodes(found, nodes, numNodes);
}

CUresult impl::cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = FindGraph(hGraph, &graph)) return result;
  std::vector<CUgraphNode> found;
  for (const auto& node : graph->nodes) {
    if (node->dependencies.empty()) found.push_back(node->handle);
  }
  return GiveNodes(found, rootNodes, numRootNodes);
}

CUresult impl::cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edgeData,
                                  size_t* numEdges) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = FindGraph(hGraph, &graph)) return result;
  if ((from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  Edges edges;
  for (const auto& node : graph->nodes) {
    for (const Dependency& dependency : node->dependencies) edges.Add(dependency, *node);
  }
  return GiveEdges(edges, from, to, edgeData, numEdges);
}

CUresult impl::cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, size_t* numEdges) {
  return impl::cuGraphGetEdges_v2(hGraph, from, to, nullptr, numEdges);
}

CUresult impl::cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode* dependencies, CUgraphEdgeData* edgeData,
                                             size_t* numDependencies) {
  std::shared_ptr<Node> node;
  if (const CUresult result = FindNode(hNode, &node)) return result;
  Edges edges;
  for (const Dependency& dependency : node->dependencies) edges.Add(dependency, *node);
  return GiveEdges(edges, dependencies, nullptr, edgeData, numDependencies);
}

CUresult impl::cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode* dependencies, size_t* numDependencies) {
  return impl::cuGraphNodeGetDependencies_v2(hNode, dependencies, nullptr, numDependencies);
}

CUresult impl::cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                               CUgraphEdgeData* edgeData, size_t* numDependentNodes) {
  std::shared_ptr<Node> node;
  if (const CUresult result = FindNode(hNode, &node)) return result;
  Edges edges;
  for (const auto& other : node->graph->nodes) {
    for (const Dependency& dependency : other->dependencies) {
      if (dependency.node == node.get()) edges.Add(dependency, *other);
    }
  }
  return GiveEdges(edges, nullptr, dependentNodes, edgeData, numDependentNodes);
}

CUresult impl::cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode* dependentNodes, size_t* numDependentNodes) {
  return impl::cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, nullptr, numDependentNodes);
}

CUresult impl::cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                         const CUgraphEdgeData* edgeData, size_t numDependencies) {
  return EditDependencies(hGraph, from, to, edgeData, numDependencies, true);
}

CUresult impl::cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                      size_t numDependencies) {
  return EditDependencies(hGraph, from, to, nullptr, numDependencies, true);
}

CUresult impl::cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                            const CUgraphEdgeData* edgeData, size_t numDependencies) {
  return EditDependencies(hGraph, from, to, edgeData, numDependencies, false);
}

CUresult impl::cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                         size_t numDependencies) {
  return EditDependencies(hGraph, from, to, nullptr, numDependencies, false);
}

CUresult impl::cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
  std::shared_ptr<Node> node;
  if (type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindNode(hNode, &node)) return result;
  *type = node->type();
  return CUDA_SUCCESS;
}

// Structure only; the flags that ask for more are accepted.
CUresult impl::cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int) {
  std::shared_ptr<Graph> graph;
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindGraph(hGraph, &graph)) return result;
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  std::fprintf(file, "digraph graph_%llu {\n", static_cast<unsigned long long>(graph->id));
  for (const auto& node : graph->nodes) {
    const char* what = node->work ? node->work->what : "node";
    std::fprintf(file, "  n%llu [label=\"%s, type %d\"];\n", static_cast<unsigned long long>(node->id), what,
                 node->type());
    for (const Dependency& dependency : node->dependencies) {
      std::fprintf(file, "  n%llu -> n%llu;\n", static_cast<unsigned long long>(dependency.node->id),
                   static_cast<unsigned long long>(node->id));
    }
  }
  std::fputs("}\n", file);
  return std::fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

// CUDA User Objects (CUDA C++ Programming Guide).
CUresult impl::cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy, unsigned int initialRefcount,
                                  unsigned int flags) {
  if (object_out == nullptr || destroy == nullptr || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (initialRefcount == 0 || initialRefcount > INT_MAX) return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_shared<UserObject>();
  object->pointer = ptr;
  object->destroy = destroy;
  object->references = initialRefcount;
  *object_out = object->handle = State::Get().graphs.user_objects.Add(object);
  return CUDA_SUCCESS;
}

CUresult impl::cuUserObjectRetain(CUuserObject object, unsigned int count) {
  const auto found = State::Get().graphs.user_objects.Find(object);
  if (!found || count == 0 || count > INT_MAX) return CUDA_ERROR_INVALID_VALUE;
  found->references += count;
  return CUDA_SUCCESS;
}

CUresult impl::cuUserObjectRelease(CUuserObject object, unsigned int count) {
  const auto found = State::Get().graphs.user_objects.Find(object);
  if (!found || count == 0 || count > INT_MAX) return CUDA_ERROR_INVALID_VALUE;
  ReleaseUserObject(found, count);
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags) {
  std::shared_ptr<Graph> found;
  if (const CUresult result = FindGraph(graph, &found)) return result;
  const auto retained = State::Get().graphs.user_objects.Find(object);
  if (!retained || count == 0 || count > INT_MAX || (flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->user_objects->counts[retained] += count;
  if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0) retained->references += count;
  return CUDA_SUCCESS;
}

CUresult impl::cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
  std::shared_ptr<Graph> found;
  if (const CUresult result = FindGraph(graph, &found)) return result;
  const auto released = State::Get().graphs.user_objects.Find(object);
  const auto held = found->user_objects->counts.find(released);
  if (held == found->user_objects->counts.end() || count == 0 || count > held->second) return CUDA_ERROR_INVALID_VALUE;
  held->second -= count;
  if (held->second == 0) found->user_objects->counts.erase(held);
  ReleaseUserObject(released, count);
  return CUDA_SUCCESS;
}

}  // namespace simcuda
