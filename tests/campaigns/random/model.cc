#include "tests/campaigns/random/model.h"

#include <limits>
#include <utility>

namespace cuheap::campaigns {
namespace {

// Keys of streams that are no objects of the program's.
constexpr std::int64_t kHostKey = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kLegacyKeys = -1000;     // minus the context
constexpr std::int64_t kPerThreadKeys = -2000;  // minus kThreads * context + thread
constexpr std::int64_t kThreads = 64;

}  // namespace

Model::Model(const Program& header)
    : header_(header),
      views_(static_cast<std::size_t>(header.threads)),
      charged_(static_cast<std::size_t>(header.devices)),
      held_(charged_.size()),
      freed_in_stream_(charged_.size()),
      current_pool_(charged_.size(), -1) {
  header_.ops.clear();
}

std::string Model::Apply(const Op& op) {
  if (op.kind == OpKind::kMeet) {
    if (capture_) return "a capture is open";
    Meet();
    return {};
  }
  if (alone_ >= 0 && alone_ != op.thread) return "another thread must be alone in this phase";
  if (lost_ && op.kind != OpKind::kCodes) return "an error stays";
  std::string reason = Dispatch(op);
  if (reason.empty()) active_.insert(op.thread);
  return reason;
}

std::string Model::Dispatch(const Op& op) {
  if (capture_) return ApplyInCapture(op);
  switch (op.kind) {
    case OpKind::kRetainPrimary:
    case OpKind::kCreateContext:
    case OpKind::kSetCurrent:
    case OpKind::kDestroyContext:
    case OpKind::kResetPrimary:
    case OpKind::kEnablePeer:
      return ApplyContext(op);
    default:
      break;
  }
  const std::int64_t context = View(op.thread).current;
  if (context < 0) return "no context is current";
  if (op.kind <= OpKind::kDestroyStream) return ApplyStream(op);
  if (op.kind <= OpKind::kContextSynchronize) return ApplyWait(op);
  if (op.kind <= OpKind::kHostRegister || op.kind == OpKind::kAllocateAsync || op.kind == OpKind::kAllocateFromPool)
    return ApplyMemory(op);
  if (op.kind <= OpKind::kFreeAsync) return ApplyFree(op);
  if (op.kind <= OpKind::kDestroyPool) return ApplyPool(op);
  if (op.kind <= OpKind::kFreeAddresses) return ApplyVirtual(op);
  if (op.kind <= OpKind::kHostFunction) return ApplyWork(op);
  if (op.kind <= OpKind::kDestroyGraph) return ApplyGraph(op);
  if (op.kind <= OpKind::kDeviceToHostNow) return ApplyWork(op);
  if (op.kind <= OpKind::kHostWrites) return ApplyHost(op);
  if (op.kind <= OpKind::kCloseElsewhere) return ApplyElsewhere(op);
  return ApplyAnswers(op);
}

// All threads know from now on what each of them knew.
void Model::Meet() {
  Knowledge all;
  for (const Knowledge& view : views_) {
    all.host.Join(view.host);
    all.readable.Join(view.readable);
    for (const auto& [key, progress] : view.streams) {
      all.streams[key].tail.Join(progress.tail);
      all.streams[key].work.Join(progress.work);
    }
  }
  for (Knowledge& view : views_) {
    all.current = view.current;
    view = all;
  }
  ++phase_;
  active_.clear();
  alone_ = -1;
}

bool Model::Alone(int thread) const { return active_.empty() || (active_.size() == 1 && *active_.begin() == thread); }

void Model::Touch(Owned& object, int thread) const {
  object.phase = phase_;
  object.thread = thread;
}

// ---- contexts ----

std::string Model::ApplyContext(const Op& op) {
  const std::int64_t number = op.args[0];
  const bool creates = op.kind == OpKind::kRetainPrimary || op.kind == OpKind::kCreateContext;
  const auto found = contexts_.find(number);
  const bool live = found != contexts_.end() && found->second.live;
  if (creates) {
    const auto device = static_cast<int>(op.args[1]);
    if (found != contexts_.end()) return "the context's number is taken";
    if (device < 0 || device >= header_.devices) return "no such device";
    if (!Alone(op.thread)) return "other threads are at work";
    Context context;
    context.live = true;
    context.device = device;
    context.primary = op.kind == OpKind::kRetainPrimary;
    for (const auto& [other, known] : contexts_) {
      if (context.primary && known.primary && known.device == device) return "the primary context has a number";
    }
    contexts_[number] = context;
    View(op.thread).current = number;
    alone_ = op.thread;
    return {};
  }
  if (!live) return "no such context";
  if (op.kind == OpKind::kSetCurrent) {
    View(op.thread).current = number;
    return {};
  }
  if (!Alone(op.thread)) return "other threads are at work";
  if (op.kind == OpKind::kEnablePeer) {
    const std::int64_t current = View(op.thread).current;
    if (current < 0) return "no context is current";
    Context& mine = contexts_.at(current);
    if (mine.device == found->second.device || mine.peers.contains(number)) return "no peer, or enabled already";
    mine.peers.insert(number);
    alone_ = op.thread;
    return {};
  }
  if (found->second.primary != (op.kind == OpKind::kResetPrimary)) return "the other kind of context";
  for (const auto& [block, memory] : memories_) {
    if (!memory.live || memory.context != number) continue;
    if (memory.kind != MemoryKind::kDevice) return "host memory belongs to it";
    if (memory.elsewhere >= 0) return "another process has it open";
    for (const auto* moments : {&memory.writers, &memory.readers}) {
      for (const Moment moment : *moments) {
        if (agent_context_[moment.agent] != number && !HostKnows(op.thread, moment)) return "still in use elsewhere";
      }
    }
  }
  HostWaitsForContext(op.thread, number);
  ContextGone(number);
  if (op.kind == OpKind::kResetPrimary) {
    found->second.peers.clear();
    View(op.thread).current = number;
  } else {
    found->second.live = false;
  }
  alone_ = op.thread;
  return {};
}

void Model::ContextGone(std::int64_t context) {
  for (auto& [number, memory] : memories_) {
    if (memory.live && memory.context == context) Gone(memory);
  }
  for (auto& [number, bytes] : host_) bytes.live &= bytes.context != context;
  for (auto& [number, stream] : streams_) stream.live &= stream.context != context;
  for (auto& [number, graph] : graphs_) graph.live &= graph.context != context;
  for (auto& [number, event] : events_) event.live &= event.context != context;
  for (auto& [number, other] : contexts_) other.peers.erase(context);
  for (Knowledge& view : views_) {
    if (view.current == context) view.current = -1;
  }
}

// ---- streams ----

std::int64_t Model::Key(int thread, std::int64_t stream) const {
  if (stream >= 0) return stream;
  const std::int64_t context = View(thread).current;
  if (stream == kNullStream || stream == kLegacyStream) return kLegacyKeys - context;
  return kPerThreadKeys - (kThreads * context + thread);
}

std::int64_t Model::ContextOfKey(std::int64_t key) const {
  if (key >= 0) return streams_.at(key).context;
  return key > kPerThreadKeys ? kLegacyKeys - key : (kPerThreadKeys - key) / kThreads;
}

std::int64_t Model::ContextOf(int thread, std::int64_t stream) const { return ContextOfKey(Key(thread, stream)); }

bool Model::Blocking(std::int64_t key) const {
  if (key >= 0) return streams_.at(key).blocking;
  return key <= kPerThreadKeys;
}

std::size_t Model::Agent(std::int64_t key, int thread) {
  const auto [found, is_new] = agents_.try_emplace({key, thread}, agents_.size());
  if (is_new) agent_context_.push_back(key == kHostKey ? -1 : ContextOfKey(key));
  return found->second;
}

// What a new piece of work in the stream comes after.
Clock Model::Start(int thread, std::int64_t stream) const {
  const Knowledge& view = View(thread);
  const std::int64_t key = Key(thread, stream);
  const std::int64_t context = ContextOfKey(key);
  const std::int64_t legacy = kLegacyKeys - context;
  Clock start = view.host;
  if (const auto own = view.streams.find(key); own != view.streams.end()) start.Join(own->second.tail);
  for (const auto& [other, progress] : view.streams) {
    if (ContextOfKey(other) != context) continue;
    if ((key == legacy && Blocking(other)) || (other == legacy && Blocking(key))) start.Join(progress.work);
  }
  return start;
}

Moment Model::Enqueue(int thread, std::int64_t stream) {
  Clock start = Start(thread, stream);
  const std::int64_t key = Key(thread, stream);
  const Moment moment = start.Tick(Agent(key, thread));
  View(thread).streams[key] = {start, start};
  return moment;
}

Moment Model::EnqueueQuietly(int thread, std::int64_t stream) {
  Knowledge& view = View(thread);
  const std::int64_t key = Key(thread, stream);
  Clock& tail = view.streams[key].tail;
  tail.Join(view.host);
  return tail.Tick(Agent(key, thread));
}

void Model::HostWaits(int thread, std::int64_t stream) {
  Knowledge& view = View(thread);
  if (const auto own = view.streams.find(Key(thread, stream)); own != view.streams.end())
    view.host.Join(own->second.tail);
}

void Model::HostWaitsForContext(int thread, std::int64_t context) {
  Knowledge& view = View(thread);
  for (const auto& [key, progress] : view.streams) {
    if (ContextOfKey(key) == context) view.host.Join(progress.tail);
  }
  if (views_.size() > 1) return;
  const auto device = static_cast<std::size_t>(contexts_.at(context).device);
  charged_[device] -= std::exchange(freed_in_stream_[device], 0);
}

void Model::FreeWaitsForContext(int thread, std::int64_t context) {
  Knowledge& view = View(thread);
  for (const auto& [key, progress] : view.streams) {
    if (ContextOfKey(key) == context) view.readable.Join(progress.tail);
  }
}

std::string Model::CheckStream(int thread, std::int64_t stream, bool in_current_context) const {
  if (stream < kPerThreadStream) return "no such stream";
  if (stream >= 0) {
    const auto found = streams_.find(stream);
    if (found == streams_.end() || !found->second.live) return "no such stream";
    if (!Free(found->second, thread)) return "another thread's stream";
  }
  if (in_current_context && ContextOf(thread, stream) != View(thread).current) return "a stream of another context";
  return {};
}

std::string Model::ApplyStream(const Op& op) {
  const std::int64_t number = op.args[0];
  if (op.kind == OpKind::kCreateStream) {
    if (streams_.contains(number) || number < 0) return "the stream's number is taken";
    Stream stream;
    stream.live = true;
    stream.context = View(op.thread).current;
    stream.blocking = op.args[1] == 0;
    Touch(stream, op.thread);
    streams_[number] = stream;
    return {};
  }
  if (number < 0) return "a default stream";
  if (std::string reason = CheckStream(op.thread, number, true); !reason.empty()) return reason;
  streams_.at(number).live = false;
  return {};
}

std::string Model::ApplyWait(const Op& op) {
  const std::int64_t first = op.args[0];
  if (op.kind == OpKind::kContextSynchronize) {
    HostWaitsForContext(op.thread, View(op.thread).current);
    return {};
  }
  const bool event_first =
      op.kind == OpKind::kRecord || op.kind == OpKind::kEventSynchronize || op.kind == OpKind::kPollEvent;
  const std::int64_t stream = op.kind == OpKind::kRecord ? op.args[1] : first;
  const bool has_stream = op.kind != OpKind::kEventSynchronize && op.kind != OpKind::kPollEvent;
  if (has_stream) {
    const bool in_current = op.kind == OpKind::kRecord;
    if (std::string reason = CheckStream(op.thread, stream, in_current); !reason.empty()) return reason;
  }
  const auto touch = [&](std::int64_t used) {
    if (used >= 0) Touch(streams_.at(used), op.thread);
  };
  const auto event = events_.find(event_first ? first : op.args[1]);
  const bool known = event != events_.end() && event->second.live && Free(event->second, op.thread);
  switch (op.kind) {
    case OpKind::kRecord: {
      if (event != events_.end() && (!known || event->second.context != View(op.thread).current))
        return "an event of another context or thread";
      Enqueue(op.thread, stream);
      Event& recorded = events_[first];
      recorded.live = true;
      recorded.context = View(op.thread).current;
      recorded.clock = View(op.thread).streams[Key(op.thread, stream)].tail;
      Touch(recorded, op.thread);
      touch(stream);
      return {};
    }
    case OpKind::kWaitEvent:
      if (!known) return "no such event";
      View(op.thread).streams[Key(op.thread, stream)].tail.Join(event->second.clock);
      Touch(event->second, op.thread);
      touch(stream);
      return {};
    case OpKind::kEventSynchronize:
    case OpKind::kPollEvent:
      if (!known) return "no such event";
      View(op.thread).host.Join(event->second.clock);
      Touch(event->second, op.thread);
      return {};
    case OpKind::kWait: {
      const std::int64_t on = op.args[1];
      if (std::string reason = CheckStream(op.thread, on, false); !reason.empty()) return reason;
      Enqueue(op.thread, on);
      const Clock done = View(op.thread).streams[Key(op.thread, on)].tail;
      View(op.thread).streams[Key(op.thread, stream)].tail.Join(done);
      touch(stream);
      touch(on);
      return {};
    }
    default:  // kPollStream, kStreamSynchronize
      HostWaits(op.thread, stream);
      touch(stream);
      return {};
  }
}

// ---- for the generator ----

std::vector<Moment> Model::Unordered(int thread, std::int64_t stream, const Memory& memory, bool writes) const {
  const Clock start = Start(thread, stream);
  std::vector<Moment> missing;
  for (const Moment moment : memory.writers) {
    if (!start.Covers(moment)) missing.push_back(moment);
  }
  for (const Moment moment : memory.readers) {
    if (writes && !start.Covers(moment)) missing.push_back(moment);
  }
  return missing;
}

std::vector<Moment> Model::UnorderedForHost(int thread, const Memory& memory, bool writes) const {
  std::vector<Moment> missing;
  for (const Moment moment : memory.writers) {
    if (writes ? !HostKnows(thread, moment) : !HostMayRead(thread, moment)) missing.push_back(moment);
  }
  for (const Moment moment : memory.readers) {
    if (writes && !HostKnows(thread, moment)) missing.push_back(moment);
  }
  return missing;
}

Model::Source Model::SourceOf(Moment moment) const {
  for (const auto& [who, agent] : agents_) {
    if (agent != moment.agent) continue;
    if (who.first == kHostKey) return {.thread = who.second};
    const std::int64_t stream = who.first >= 0 ? who.first : Blocking(who.first) ? kPerThreadStream : kNullStream;
    return {stream, agent_context_[agent], who.second};
  }
  return {};
}

bool Model::StreamKnows(int thread, std::int64_t stream, Moment moment) const {
  return Start(thread, stream).Covers(moment);
}

Program LegalPart(const Program& program) {
  Model model(program);
  Program legal = program;
  legal.ops.clear();
  for (const Op& op : program.ops) {
    if (model.Apply(op).empty()) legal.ops.push_back(op);
  }
  return legal;
}

}  // namespace cuheap::campaigns
