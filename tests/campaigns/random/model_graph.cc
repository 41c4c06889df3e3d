// The rules of capture: what may be recorded, what may happen meanwhile, and what a launch does.
#include "tests/campaigns/random/model.h"

namespace cuheap::campaigns {
namespace {

constexpr std::int64_t kRelaxed = 2;

}  // namespace

std::string Model::ApplyGraph(const Op& op) {
  const std::int64_t number = op.args[0];
  if (op.kind == OpKind::kBeginCapture) return BeginCapture(op);
  if (op.kind == OpKind::kEndCapture) return "nothing is captured";
  const auto found = graphs_.find(number);
  if (found == graphs_.end() || !Free(found->second, op.thread)) return "no such graph";
  Graph& graph = found->second;
  if (op.kind == OpKind::kDestroyGraph) {
    for (const Moment launch : graph.launches) {
      if (!HostKnows(op.thread, launch)) return "still running";
    }
    graph.live = false;
    return {};
  }
  const std::int64_t stream = op.args[1];
  if (std::string reason = CheckStream(op.thread, stream, true); !reason.empty()) return reason;
  if (ContextOf(op.thread, stream) != graph.context) return "a graph of another context";
  // Its pieces run one after the other; as a whole it is one more piece of work in the stream.
  std::set<std::int64_t> defined;
  for (const std::vector<Use>& uses : graph.work) {
    for (Use use : uses) {
      use.reads &= !defined.contains(use.block);
      if (defined.contains(use.block)) use = {use.block, 0, memories_.at(use.block).bytes, false, use.writes};
      if (std::string reason = CheckUse(op, stream, use, false); !reason.empty()) return reason;
      if (use.writes && use.offset == 0 && use.bytes == memories_.at(use.block).bytes) defined.insert(use.block);
    }
  }
  const Moment moment = Enqueue(op.thread, stream);
  graph.launches.push_back(moment);
  std::set<std::int64_t> written;
  for (const std::vector<Use>& uses : graph.work) {
    for (const Use& use : uses) {
      Memory& memory = memories_.at(use.block);
      if (!written.contains(use.block)) Access(memory, moment, use.writes);
      if (use.writes) written.insert(use.block);
      memory.defined |= defined.contains(use.block);
      Touch(memory, op.thread);
    }
  }
  Touch(graph, op.thread);
  if (stream >= 0) Touch(streams_.at(stream), op.thread);
  return {};
}

std::string Model::BeginCapture(const Op& op) {
  const std::int64_t stream = op.args[0];
  // A capture in global mode forbids calls of all threads (CUDA Programming Guide, "Prohibited and unhandled
  // operations"), so nobody else is at work.
  if (!Alone(op.thread)) return "other threads are at work";
  if (stream < 0) return "a default stream";
  if (op.args[1] < 0 || op.args[1] > kRelaxed) return "no such mode";
  if (std::string reason = CheckStream(op.thread, stream, true); !reason.empty()) return reason;
  capture_ = std::make_unique<Capture>();
  capture_->stream = stream;
  capture_->mode = op.args[1];
  capture_->graph.live = true;
  capture_->graph.context = View(op.thread).current;
  alone_ = op.thread;
  Touch(streams_.at(stream), op.thread);
  return {};
}

std::string Model::EndCapture(const Op& op) {
  if (op.args[0] != capture_->stream) return "another stream is captured";
  if (graphs_.contains(op.args[1])) return "the graph's number is taken";
  if (!capture_->blocks.empty()) return "a block of the graph's own is left";
  Touch(capture_->graph, op.thread);
  graphs_[op.args[1]] = std::move(capture_->graph);
  capture_.reset();
  return {};
}

// Work in other streams goes on, but for the default streams; calls that allocate or wait only in relaxed mode.
std::string Model::ApplyInCapture(const Op& op) {
  if (op.kind == OpKind::kEndCapture) return EndCapture(op);
  if (op.kind == OpKind::kAllocate || op.kind == OpKind::kAllocatePitch)
    return capture_->mode == kRelaxed ? ApplyMemory(op) : "allocating is forbidden meanwhile";
  if (op.kind == OpKind::kFree) {
    const auto found = memories_.find(op.args[0]);
    if (capture_->mode != kRelaxed) return "freeing is forbidden meanwhile";
    if (found == memories_.end() || found->second.kind != MemoryKind::kDevice) return "another kind";
    if (!UnorderedForHost(op.thread, found->second, true).empty()) return "in use";
    return ApplyFree(op);
  }
  if (op.kind == OpKind::kAllocateAsync && op.args[2] == capture_->stream) {
    Memory memory;
    memory.kind = MemoryKind::kStreamOrdered;
    memory.of_graph = true;
    memory.bytes = static_cast<std::uint64_t>(op.args[1]);
    memory.device = contexts_.at(View(op.thread).current).device;
    if (std::string reason = NewBlock(op, memory); !reason.empty()) return reason;
    capture_->blocks.insert(op.args[0]);
    return {};
  }
  if (op.kind == OpKind::kFreeAsync && op.args[1] == capture_->stream) {
    if (capture_->blocks.erase(op.args[0]) == 0) return "no block of the graph's own";
    Gone(memories_.at(op.args[0]));
    return {};
  }
  const std::optional<Described> work = Describe(op);
  if (!work) return "not while a capture is open";
  if (work->stream == capture_->stream) return ApplyCaptured(op, work->uses);
  if (work->stream < 0) return "a default stream, which would wait for the capture";
  for (const Use& use : work->uses) {
    if (capture_->blocks.contains(use.block)) return "the graph's own block";
  }
  return ApplyWork(op);
}

// Recorded only: whether the bytes are there, and in what order with other work, is asked when the graph is launched.
std::string Model::ApplyCaptured(const Op& op, const std::vector<Use>& uses) {
  std::vector<Use> recorded;
  for (const Use& use : uses) {
    const auto found = memories_.find(use.block);
    if (found == memories_.end() || !Free(found->second, op.thread)) return "no such block";
    const Memory& memory = found->second;
    if (!Accessible(memory, View(op.thread).current)) return "out of the stream's reach";
    if (use.bytes == 0 || use.offset + use.bytes > memory.bytes) return "outside of the block";
    const bool whole = use.offset == 0 && use.bytes == memory.bytes;
    if (memory.of_graph && !memory.defined && (use.reads || !whole)) return "bytes that nobody has written";
    if (!memory.of_graph) recorded.push_back(use);
  }
  for (const Use& use : uses) {
    Memory& memory = memories_.at(use.block);
    if (memory.of_graph && use.writes && use.offset == 0 && use.bytes == memory.bytes) memory.defined = true;
  }
  capture_->graph.work.push_back(std::move(recorded));
  return {};
}

}  // namespace cuheap::campaigns
