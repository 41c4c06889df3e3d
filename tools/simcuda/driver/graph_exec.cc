#include "tools/simcuda/driver/graph_exec.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "tools/simcuda/driver/capture.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

// The nodes of one launch as pieces of work. Each chain of nodes has a stream of its own, which no program sees: what
// does not depend on each other runs in any order.
class Launcher {
 public:
  explicit Launcher(const std::shared_ptr<Stream>& stream) : stream_(stream) {}

  // Queues the graph's nodes behind `begin`. Returns: the pieces with which it ends.
  std::vector<std::shared_ptr<Work>> Queue(const Graph& graph, const std::shared_ptr<Work>& begin) {
    std::vector<Node*> nodes;
    SortNodes(graph, &nodes);
    std::unordered_map<const Node*, std::shared_ptr<Work>> made;
    for (const Node* node : nodes) {
      std::vector<std::shared_ptr<Work>> after;
      after.reserve(node->dependencies.size() + 1);
      for (const Dependency& dependency : node->dependencies) after.push_back(made.at(dependency.node));
      if (after.empty()) after.push_back(begin);
      made[node] = QueueNode(*node, std::move(after));
    }
    std::vector<std::shared_ptr<Work>> last;
    for (const Node* node : LastNodes(nodes)) last.push_back(made.at(node));
    if (last.empty()) last.push_back(begin);
    return last;
  }

 private:
  std::shared_ptr<Work> QueueNode(const Node& node, std::vector<std::shared_ptr<Work>> after) {
    if (const auto* child = node.As<ChildNode>()) {
      const auto enter = Add(node.context, NewWork("child_graph", nullptr), std::move(after));
      return Add(node.context, NewWork("child_graph", nullptr), Queue(*child->graph, enter));
    }
    if (node.type() == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
      const auto& event = node.As<EventNode>()->event;
      if (SharedEvents::Elsewhere(*event))
        return Add(node.context, SharedEvents::WaitingWork(*event), std::move(after));
      if (event->record) after.push_back(event->record);
      return Add(node.context, Marker("wait_event"), std::move(after));
    }
    std::shared_ptr<Work> work;
    if (node.work && node.enabled) {
      work = std::make_shared<Work>(*node.work);
    } else {
      work = Marker("empty");
    }
    if (node.type() != CU_GRAPH_NODE_TYPE_EVENT_RECORD) return Add(node.context, std::move(work), std::move(after));
    const auto& event = node.As<EventNode>()->event;
    if (event->shared) State::Get().shared_events.Recording(*event->shared, work);
    event->captured = nullptr;
    return event->record = Add(node.context, std::move(work), std::move(after));
  }

  static std::shared_ptr<Work> Marker(const char* what) {
    auto work = NewWork(what, nullptr);
    work->cost_ns = 0;
    return work;
  }

  std::shared_ptr<Work> Add(const std::shared_ptr<Context>& context, std::shared_ptr<Work> work,
                            std::vector<std::shared_ptr<Work>> after) {
    std::shared_ptr<Stream> chain;
    // The only thing it waits for is the end of a chain of the same context: it goes on there.
    if (after.size() == 1) {
      const auto found = chains_.find(after[0].get());
      if (found != chains_.end() && found->second->context == context.get()) chain = found->second;
      if (chain) chains_.erase(found);
    }
    if (!chain) chain = NewChain(context);
    work->after = std::move(after);
    chains_[work.get()] = chain;
    return State::Get().engine.Enqueue(chain, std::move(work));
  }

  // In the list of its context, so that waiting for the context waits for it; gone with its last piece.
  std::shared_ptr<Stream> NewChain(const std::shared_ptr<Context>& context) const {
    auto chain = std::make_shared<Stream>();
    chain->id = State::Get().next_stream_id++;
    chain->context = context.get();
    chain->owner = context;
    chain->flags = CU_STREAM_NON_BLOCKING;
    chain->destroyed = true;
    chain->clock_ns = stream_->clock_ns;
    context->streams.push_back(chain);
    return chain;
  }

  const std::shared_ptr<Stream>& stream_;
  std::unordered_map<const Work*, std::shared_ptr<Stream>> chains_;  // by the last piece in each
};

void CollectMemory(const Graph& graph, GraphExec* exec) {
  for (const auto& node : graph.nodes) {
    if (const auto* child = node->As<ChildNode>()) CollectMemory(*child->graph, exec);
    if (const auto* made = node->As<AllocationNode>()) exec->allocations.push_back(made->allocation);
    if (const auto* freed = node->As<FreeNode>()) exec->frees.push_back(freed->allocation);
  }
}

bool ContextsAlive(const Graph& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    const auto* child = node->template As<ChildNode>();
    return (!node->context || node->context->active) && (child == nullptr || ContextsAlive(*child->graph));
  });
}

bool OwnedHere(const GraphExec& exec, const std::shared_ptr<GraphAllocation>& allocation) {
  return std::find(exec.allocations.begin(), exec.allocations.end(), allocation) != exec.allocations.end();
}

// What the launch in flight refers to, child graphs included.
void CollectReferences(const Graph& graph, std::vector<std::shared_ptr<UserObjectReferences>>* references) {
  references->push_back(graph.user_objects);
  for (const auto& node : graph.nodes) {
    if (const auto* child = node->As<ChildNode>()) CollectReferences(*child->graph, references);
  }
}

// "The references in the new source graph are cloned and replace the references in the target graph." Source: CUDA C++
// Programming Guide, "CUDA User Objects"; launches in flight keep the old ones.
void ReplaceReferences(Graph& old, const Graph& graph) {
  old.user_objects = std::make_shared<UserObjectReferences>(*graph.user_objects);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto* child = graph.nodes[i]->As<ChildNode>();
    if (child != nullptr) ReplaceReferences(*old.nodes[i]->As<ChildNode>()->graph, *child->graph);
  }
}

// What a launch does to the books of allocations, and physical memory for them.
CUresult PrepareMemory(GraphExec& exec, const std::shared_ptr<Stream>& stream) {
  GraphMemory& memory = State::Get().graphs.memory;
  for (const auto& allocation : exec.allocations) {
    if (!allocation->outstanding) continue;
    if ((exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) == 0) return CUDA_ERROR_INVALID_VALUE;
    FreeGraphAllocation(allocation->range->address, stream);
  }
  for (const auto& freed : exec.frees) {
    if (OwnedHere(exec, freed)) continue;
    if (!freed->outstanding) return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& allocation : exec.allocations) {
    if (const CUresult result = BackGraphRange(*allocation->range)) return result;
  }
  for (const auto& freed : exec.frees) {
    if (OwnedHere(exec, freed)) continue;
    freed->outstanding = false;
    memory.outstanding.erase(freed->range->address);
  }
  for (const auto& allocation : exec.allocations) {
    ++allocation->range->in_flight;
    if (allocation->freed_in_owner) continue;
    allocation->outstanding = true;
    memory.outstanding[allocation->range->address] = allocation;
  }
  return CUDA_SUCCESS;
}

Node* FindCopy(const Graph& graph, uint64_t id) {
  for (const auto& node : graph.nodes) {
    if (node->copied_from == id) return node.get();
    if (const auto* child = node->As<ChildNode>()) {
      if (Node* inner = FindCopy(*child->graph, id)) return inner;
    }
  }
  return nullptr;
}

}  // namespace

GraphExec::~GraphExec() {
  for (const auto& allocation : allocations) {
    if (!allocation->outstanding) UnbackGraphRange(*allocation->range);
  }
}

CUresult Instantiate(const std::shared_ptr<Graph>& graph, cuuint64_t flags, std::shared_ptr<GraphExec>* exec,
                     CUgraphNode* error_node, CUgraphInstantiateResult* why) {
  State& state = State::Get();
  *error_node = nullptr;
  *why = CUDA_GRAPH_INSTANTIATE_ERROR;
  constexpr cuuint64_t kKnown = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  // A child graph belongs to its node; a graph that is captured into "will not be instantiable until the user calls
  // cuStreamEndCapture"; one with memory nodes has one executable graph at a time.
  if (graph->is_child || graph->captures > 0) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<GraphExec> other = graph->exec.lock();
  if (graph->HasMemoryNodes() && other && !other->destroyed) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Node*> sorted;
  if (!SortNodes(*graph, &sorted)) {
    *why = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    for (const auto& node : graph->nodes) {
      if (std::find(sorted.begin(), sorted.end(), node.get()) == sorted.end()) *error_node = node->handle;
    }
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto made = std::make_shared<GraphExec>();
  made->flags = flags;
  made->source_id = graph->id;
  made->copy = CopyGraph(*graph, false);
  CollectMemory(*made->copy, made.get());
  made->handle = state.graphs.execs.Add(made);
  graph->exec = made;
  *why = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  *exec = std::move(made);
  return CUDA_SUCCESS;
}

CUresult LaunchGraph(const std::shared_ptr<GraphExec>& exec, const std::shared_ptr<Stream>& stream) {
  if (!ContextsAlive(*exec->copy)) return CUDA_ERROR_INVALID_CONTEXT;
  if (stream->capture) {
    // A launch that is captured becomes a child graph. Graphs with memory nodes cannot be copied.
    if (exec->copy->HasMemoryNodes()) return CUDA_ERROR_NOT_SUPPORTED;
    const std::shared_ptr<Graph> inner = CopyGraph(*exec->copy, true);
    inner->is_child = true;
    std::shared_ptr<Node> node;
    return CaptureNode(*stream, NewDetails(CU_GRAPH_NODE_TYPE_GRAPH, ChildNode{inner}), nullptr, &node);
  }
  if (const CUresult result = PrepareMemory(*exec, stream)) return result;
  Engine& engine = State::Get().engine;
  auto begin = NewWork("graph", nullptr);
  begin->cost_ns = 0;
  // "Each launch is ordered behind both any previous work in hStream and any previous launches of hGraphExec."
  if (const auto last = exec->last_launch.lock()) begin->after.push_back(last);
  engine.Enqueue(stream, begin);
  Launcher launcher(stream);
  std::vector<std::shared_ptr<Work>> last = launcher.Queue(*exec->copy, begin);
  // Keeps the graph's memory and user objects: "if the executable graph is in-flight, it will ... be freed
  // asynchronously on completion".
  std::vector<std::shared_ptr<UserObjectReferences>> references;
  CollectReferences(*exec->copy, &references);
  auto end = NewWork("graph_end", [exec, references] {
    for (const auto& allocation : exec->allocations) --allocation->range->in_flight;
    return Outcome::kDone;
  });
  end->cost_ns = 0;
  end->after = std::move(last);
  exec->last_launch = engine.Enqueue(stream, end);
  return CUDA_SUCCESS;
}

Node* NodeOfExec(const GraphExec& exec, const Node& node) { return FindCopy(*exec.copy, node.id); }

namespace {

CUresult Mismatch(CUgraphExecUpdateResultInfo* info, CUgraphExecUpdateResult result, const Node* node,
                  const Node* from = nullptr) {
  info->result = result;
  info->errorNode = node == nullptr ? nullptr : node->handle;
  info->errorFromNode = from == nullptr ? nullptr : from->handle;
  return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

// Pairs the nodes in the order in which they were added, which is how both a repeated capture and a repeated
// construction give them; the reference pairs by edge order.
CUresult Pair(const Graph& old, const Graph& graph, std::vector<std::pair<Node*, const Node*>>* pairs,
              CUgraphExecUpdateResultInfo* info) {
  if (old.nodes.size() != graph.nodes.size()) {
    return Mismatch(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
  }
  std::unordered_map<const Node*, size_t> place, old_place;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node* before = old.nodes[i].get();
    const Node* after = graph.nodes[i].get();
    old_place[before] = i;
    place[after] = i;
    if (before->type() != after->type()) return Mismatch(info, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, after);
    if (before->dependencies.size() != after->dependencies.size()) {
      return Mismatch(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, after);
    }
    for (size_t j = 0; j < after->dependencies.size(); ++j) {
      if (old_place.count(before->dependencies[j].node) == 0 || place.count(after->dependencies[j].node) == 0 ||
          old_place[before->dependencies[j].node] != place[after->dependencies[j].node]) {
        return Mismatch(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, after, after->dependencies[j].node);
      }
    }
    if (const auto* child = after->As<ChildNode>()) {
      if (const CUresult result = Pair(*before->As<ChildNode>()->graph, *child->graph, pairs, info)) return result;
    } else if (after->type() == CU_GRAPH_NODE_TYPE_MEM_ALLOC || after->type() == CU_GRAPH_NODE_TYPE_MEM_FREE) {
      return Mismatch(info, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, after);
    } else {
      pairs->emplace_back(before, after);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult UpdateNodes(Graph& old, const Graph& graph, CUgraphExecUpdateResultInfo* info) {
  std::vector<std::pair<Node*, const Node*>> pairs;
  *info = {};
  if (const CUresult result = Pair(old, graph, &pairs, info)) return result;
  for (const auto& [before, after] : pairs) {
    // "The owning context of the function cannot change"; memory must be of the same contexts.
    if (before->context != after->context) {
      return Mismatch(info, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, after);
    }
    const auto* old_launch = before->As<LaunchDetails>();
    const auto* launch = after->As<LaunchDetails>();
    if (old_launch != nullptr && launch != nullptr && old_launch->cooperative != launch->cooperative) {
      return Mismatch(info, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED, after);
    }
    const auto* old_fill = before->As<CUDA_MEMSET_NODE_PARAMS>();
    const auto* fill = after->As<CUDA_MEMSET_NODE_PARAMS>();
    // "For 2d memsets, only address and assigned value may be updated."
    if (old_fill != nullptr && fill != nullptr && (old_fill->height > 1 || fill->height > 1) &&
        (old_fill->height != fill->height || old_fill->width != fill->width || old_fill->pitch != fill->pitch)) {
      return Mismatch(info, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, after);
    }
  }
  for (const auto& [before, after] : pairs) {
    before->work = after->work;
    before->details = after->details;
  }
  ReplaceReferences(old, graph);
  info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
