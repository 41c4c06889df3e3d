#include "tools/simcuda/driver/graph.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "tools/simcuda/driver/graph_exec.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {

void ReleaseUserObject(const std::shared_ptr<UserObject>& object, uint64_t count) {
  object->references -= std::min(object->references, count);
  if (object->references != 0) return;
  State& state = State::Get();
  state.graphs.user_objects.Remove(object->handle);
  // "Executed by a shared internal thread": CUDA calls are not permitted there.
  state.engine.RunOnHostThread([destroy = object->destroy, pointer = object->pointer] { destroy(pointer); });
}

UserObjectReferences::UserObjectReferences(const UserObjectReferences& other) : counts(other.counts) {
  for (auto& [object, count] : counts) object->references += count;
}

UserObjectReferences::~UserObjectReferences() {
  for (auto& [object, count] : counts) ReleaseUserObject(object, count);
}

void ForgetNode(Node& node) {
  if (const auto* child = node.As<ChildNode>()) ForgetGraph(*child->graph);
  const CUgraphNode handle = std::exchange(node.handle, nullptr);
  if (handle != nullptr) State::Get().graphs.nodes.Remove(handle);
}

void ForgetGraph(Graph& graph) {
  for (const auto& node : graph.nodes) ForgetNode(*node);
  const CUgraph handle = std::exchange(graph.handle, nullptr);
  if (handle != nullptr) State::Get().graphs.graphs.Remove(handle);
}

bool Graph::HasMemoryNodes() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const auto& node) {
    if (const auto* child = node->template As<ChildNode>()) return child->graph->HasMemoryNodes();
    return node->type() == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type() == CU_GRAPH_NODE_TYPE_MEM_FREE;
  });
}

std::shared_ptr<const NodeDetails> NewDetails(CUgraphNodeType type, decltype(NodeDetails::value) value) {
  return std::make_shared<const NodeDetails>(NodeDetails{type, std::move(value)});
}

std::shared_ptr<Graph> NewGraph() {
  Graphs& graphs = State::Get().graphs;
  auto graph = std::make_shared<Graph>();
  graph->id = graphs.next_id++;
  graph->handle = graphs.graphs.Add(graph);
  return graph;
}

CUresult AddNode(Graph& graph, std::vector<Dependency> dependencies, const std::shared_ptr<Context>& context,
                 std::shared_ptr<const NodeDetails> details, std::shared_ptr<const Work> work,
                 std::shared_ptr<Node>* added) {
  std::set<const Node*> seen;
  for (const Dependency& dependency : dependencies) {
    if (dependency.node->graph != &graph || !seen.insert(dependency.node).second) return CUDA_ERROR_INVALID_VALUE;
  }
  Graphs& graphs = State::Get().graphs;
  auto node = std::make_shared<Node>();
  node->id = graphs.next_id++;
  node->graph = &graph;
  node->context = context;
  node->dependencies = std::move(dependencies);
  node->details = std::move(details);
  node->work = std::move(work);
  node->handle = graphs.nodes.Add(node);
  graph.nodes.push_back(node);
  *added = std::move(node);
  return CUDA_SUCCESS;
}

std::shared_ptr<Graph> CopyGraph(const Graph& graph, bool handles) {
  Graphs& graphs = State::Get().graphs;
  auto copy = std::make_shared<Graph>();
  copy->id = graphs.next_id++;
  copy->copied_from = graph.id;
  if (handles) copy->handle = graphs.graphs.Add(copy);
  copy->user_objects = std::make_shared<UserObjectReferences>(*graph.user_objects);
  std::unordered_map<const Node*, Node*> copies;
  for (const auto& node : graph.nodes) {
    auto made = std::make_shared<Node>(*node);
    made->id = graphs.next_id++;
    made->copied_from = node->id;
    made->graph = copy.get();
    made->handle = handles ? graphs.nodes.Add(made) : nullptr;
    if (const auto* child = node->As<ChildNode>()) {
      const std::shared_ptr<Graph> inner = CopyGraph(*child->graph, handles);
      inner->is_child = true;
      made->details = NewDetails(CU_GRAPH_NODE_TYPE_GRAPH, ChildNode{inner, child->ownership});
    }
    copies.emplace(node.get(), made.get());
    copy->nodes.push_back(std::move(made));
  }
  for (const auto& node : copy->nodes) {
    for (Dependency& dependency : node->dependencies) dependency.node = copies.at(dependency.node);
  }
  return copy;
}

bool ComesBefore(const Node* node, const Node* of) {
  std::vector<const Node*> stack{of};
  std::set<const Node*> seen;
  while (!stack.empty()) {
    const Node* next = stack.back();
    stack.pop_back();
    if (next == node) return true;
    if (!seen.insert(next).second) continue;
    for (const Dependency& dependency : next->dependencies) stack.push_back(dependency.node);
  }
  return false;
}

bool SortNodes(const Graph& graph, std::vector<Node*>* sorted) {
  std::unordered_map<const Node*, std::vector<Node*>> dependents;
  std::unordered_map<const Node*, size_t> waiting;
  // The lowest id first, so that a graph built in order stays in that order.
  const auto later = [](const Node* a, const Node* b) { return a->id < b->id; };
  std::set<Node*, decltype(later)> ready(later);
  for (const auto& node : graph.nodes) {
    waiting[node.get()] = node->dependencies.size();
    if (node->dependencies.empty()) ready.insert(node.get());
    for (const Dependency& dependency : node->dependencies) dependents[dependency.node].push_back(node.get());
  }
  while (!ready.empty()) {
    Node* node = *ready.begin();
    ready.erase(ready.begin());
    sorted->push_back(node);
    for (Node* dependent : dependents[node]) {
      if (--waiting[dependent] == 0) ready.insert(dependent);
    }
  }
  return sorted->size() == graph.nodes.size();
}

std::vector<Node*> LastNodes(const std::vector<Node*>& nodes) {
  std::set<const Node*> needed;
  for (const Node* node : nodes) {
    for (const Dependency& dependency : node->dependencies) needed.insert(dependency.node);
  }
  std::vector<Node*> last;
  for (Node* node : nodes) {
    if (needed.count(node) == 0) last.push_back(node);
  }
  return last;
}

CUresult FindGraph(CUgraph handle, std::shared_ptr<Graph>* graph) {
  *graph = State::Get().graphs.graphs.Find(handle);
  return *graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult FindNode(CUgraphNode handle, std::shared_ptr<Node>* node) {
  *node = State::Get().graphs.nodes.Find(handle);
  return *node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult FindDependencies(const CUgraphNode* nodes, const CUgraphEdgeData* edges, size_t count,
                          std::vector<Dependency>* dependencies) {
  if (count > 0 && nodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    std::shared_ptr<Node> node;
    if (const CUresult result = FindNode(nodes[i], &node)) return result;
    dependencies->push_back({node.get(), edges == nullptr ? CUgraphEdgeData{} : edges[i]});
  }
  return CUDA_SUCCESS;
}

}  // namespace simcuda
