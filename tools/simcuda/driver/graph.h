// Graphs and their nodes (Driver API reference, "Graph Management").
//
// A node holds a prototype of the piece of work that it becomes at every launch. Prototypes never change: new
// parameters are a new prototype, so that clones and executable graphs share them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/cuda_api.h"
#include "tools/simcuda/driver/graph_memory.h"
#include "tools/simcuda/driver/handle_table.h"
#include "tools/simcuda/driver/launch.h"
#include "tools/simcuda/driver/stream.h"

namespace simcuda {

struct Graph;
struct GraphExec;
struct Node;

struct HostNode {
  CUhostFn function = nullptr;
  void* user_data = nullptr;
};
struct EventNode {
  std::shared_ptr<Event> event;
};
struct ChildNode {
  std::shared_ptr<Graph> graph;
  CUgraphChildGraphNodeOwnership ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
};
struct AllocationNode {
  std::shared_ptr<GraphAllocation> allocation;
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  std::vector<CUmemAccessDesc> access;
};
struct FreeNode {
  std::shared_ptr<GraphAllocation> allocation;
};

// The parameters of a node as the API speaks of them. A monostate has none to ask for.
struct NodeDetails {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::variant<std::monostate, LaunchDetails, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, HostNode, EventNode, ChildNode,
               AllocationNode, FreeNode>
      value;
};

// The node depends on `node`. Edge data other than zeros is kept and returned; a kernel that starts early cannot be
// told from one that starts late here.
struct Dependency {
  Node* node = nullptr;
  CUgraphEdgeData data{};
};

struct Node {
  CUgraphNode handle = nullptr;  // null in executable graphs
  uint64_t id = 0;               // never repeated
  uint64_t copied_from = 0;      // the id of the node of which it is a copy
  Graph* graph = nullptr;
  std::shared_ptr<Context> context;
  std::vector<Dependency> dependencies;
  std::shared_ptr<const Work> work;  // the prototype; null: nothing to do (empty nodes, child graphs, events)
  std::shared_ptr<const NodeDetails> details;
  bool enabled = true;  // cuGraphNodeSetEnabled

  CUgraphNodeType type() const { return details->type; }
  template <typename T>
  const T* As() const {
    return std::get_if<T>(&details->value);
  }
};

// cuUserObjectCreate. The destructor runs on the host-function thread when the last reference is gone.
struct UserObject {
  CUuserObject handle = nullptr;
  void* pointer = nullptr;
  CUhostFn destroy = nullptr;
  uint64_t references = 0;
};
void ReleaseUserObject(const std::shared_ptr<UserObject>& object, uint64_t count);

// References of one graph or executable graph on user objects.
struct UserObjectReferences {
  UserObjectReferences() = default;
  UserObjectReferences(const UserObjectReferences& other);
  UserObjectReferences& operator=(const UserObjectReferences&) = delete;
  ~UserObjectReferences();
  std::map<std::shared_ptr<UserObject>, uint64_t> counts;
};

struct Graph {
  CUgraph handle = nullptr;  // null in executable graphs
  uint64_t id = 0;           // never repeated
  uint64_t copied_from = 0;
  std::vector<std::shared_ptr<Node>> nodes;  // in the order in which they were added
  std::shared_ptr<UserObjectReferences> user_objects = std::make_shared<UserObjectReferences>();  // never null
  unsigned captures = 0;          // that put nodes here now
  bool is_child = false;          // belongs to a node of another graph
  std::weak_ptr<GraphExec> exec;  // the last one made of it; matters for graphs with memory nodes

  bool HasMemoryNodes() const;
};

struct Graphs {
  HandleTable<CUgraph, Graph> graphs{0x5a000040, HandleReuse::kRecycled};
  HandleTable<CUgraphNode, Node> nodes{0x5b000040, HandleReuse::kRecycled};
  HandleTable<CUgraphExec, GraphExec> execs{0x5c000040, HandleReuse::kRecycled};
  HandleTable<CUuserObject, UserObject> user_objects{0x5d000040, HandleReuse::kRecycled};
  GraphMemory memory;
  uint64_t next_id = 1;
  uint64_t next_capture_id = 1;
};

std::shared_ptr<Graph> NewGraph();
// Takes away the handles of the graph, of its nodes and of its child graphs; what still runs or captures keeps the
// rest.
void ForgetGraph(Graph& graph);
void ForgetNode(Node& node);
// Adds a node. work: may be null. Errors: INVALID_VALUE for a dependency of another graph or one that is named twice.
CUresult AddNode(Graph& graph, std::vector<Dependency> dependencies, const std::shared_ptr<Context>& context,
                 std::shared_ptr<const NodeDetails> details, std::shared_ptr<const Work> work,
                 std::shared_ptr<Node>* added);
// handles: whether copies of graph and nodes get handles of their own.
std::shared_ptr<Graph> CopyGraph(const Graph& graph, bool handles);
// Whether `node` is `of` or comes before it.
bool ComesBefore(const Node* node, const Node* of);
// In an order that respects the dependencies. Returns: false for a cycle.
bool SortNodes(const Graph& graph, std::vector<Node*>* sorted);
// Which nodes no other node of the graph depends on.
std::vector<Node*> LastNodes(const std::vector<Node*>& nodes);

// Handles, as the calls understand them. Errors: INVALID_VALUE, which is all that the reference names.
CUresult FindGraph(CUgraph handle, std::shared_ptr<Graph>* graph);
CUresult FindNode(CUgraphNode handle, std::shared_ptr<Node>* node);
// edges: may be null.
CUresult FindDependencies(const CUgraphNode* nodes, const CUgraphEdgeData* edges, size_t count,
                          std::vector<Dependency>* dependencies);

std::shared_ptr<const NodeDetails> NewDetails(CUgraphNodeType type, decltype(NodeDetails::value) value = {});

}  // namespace simcuda
