// The rules of work: reads and writes in streams and by the host.
#include <limits>

#include "tests/campaigns/random/model.h"

namespace cuheap::campaigns {
namespace {

constexpr std::uint64_t kTooMuch = std::uint64_t{1} << 42;  // bytes that no device has

std::uint64_t Unsigned(std::int64_t value) { return static_cast<std::uint64_t>(value); }

}  // namespace

void Model::Access(Memory& memory, Moment moment, bool writes) {
  if (!writes) {
    memory.readers.push_back(moment);
    return;
  }
  memory.readers.clear();
  memory.writers = {moment};
}

std::string Model::CheckUse(const Op& op, std::int64_t stream, const Use& use, bool between_devices) const {
  const auto found = memories_.find(use.block);
  if (found == memories_.end() || !Free(found->second, op.thread)) return "no such block";
  const Memory& memory = found->second;
  const std::int64_t context = View(op.thread).current;
  if (between_devices ? memory.kind != MemoryKind::kDevice : !Accessible(memory, context))
    return "out of the stream's reach";
  if (use.bytes == 0 || use.offset + use.bytes > memory.bytes) return "outside of the block";
  const bool whole = use.offset == 0 && use.bytes == memory.bytes;
  if (!memory.defined && (use.reads || !whole)) return "bytes that nobody has written";
  if (!Unordered(op.thread, stream, memory, use.writes).empty()) return "in no order with other work";
  return {};
}

std::string Model::UseInStream(const Op& op, std::int64_t stream, const std::vector<Use>& uses, bool between_devices) {
  if (std::string reason = CheckStream(op.thread, stream, true); !reason.empty()) return reason;
  for (const Use& use : uses) {
    if (std::string reason = CheckUse(op, stream, use, between_devices); !reason.empty()) return reason;
  }
  const Moment moment = Enqueue(op.thread, stream);
  for (const Use& use : uses) {
    Memory& memory = memories_.at(use.block);
    Access(memory, moment, use.writes);
    if (use.writes && use.offset == 0 && use.bytes == memory.bytes) memory.defined = true;
    Touch(memory, op.thread);
  }
  if (stream >= 0) Touch(streams_.at(stream), op.thread);
  return {};
}

std::string Model::NewHostBytes(const Op& op, std::int64_t number, std::int64_t stream, std::uint64_t bytes,
                                bool pinned) {
  HostBytes made;
  if (pinned) made.context = View(op.thread).current;
  made.live = true;
  made.bytes = bytes;
  // What the stream did last is what writes them.
  made.writer = Enqueue(op.thread, stream);
  Touch(made, op.thread);
  host_[number] = made;
  return {};
}

std::optional<Model::Described> Model::Describe(const Op& op) {
  const auto& a = op.args;
  const auto use = [&](std::size_t block, std::size_t offset, std::size_t bytes, bool reads) {
    return Use{a[block], Unsigned(a[offset]), Unsigned(a[bytes]), reads, true};
  };
  switch (op.kind) {
    case OpKind::kMemset:
      return Described{a[4], {use(0, 1, 3, false)}};
    case OpKind::kDeviceToDevice:
      if (a[0] == a[1]) return std::nullopt;
      return Described{a[3], {{a[1], 0, Unsigned(a[2]), true, false}, {a[0], 0, Unsigned(a[2]), false, true}}};
    case OpKind::kFill:
    case OpKind::kAdd:
      if (a[2] % 4 != 0 || a[4] % 4 != 0) return std::nullopt;
      return Described{a[0], {use(1, 2, 4, op.kind == OpKind::kAdd)}};
    case OpKind::kSum: {
      const std::uint64_t bytes = Unsigned(a[4]);
      if (a[1] == a[2] || a[1] == a[3] || bytes % 4 != 0) return std::nullopt;
      return Described{a[0],
                       {{a[2], 0, bytes, true, false}, {a[3], 0, bytes, true, false}, {a[1], 0, bytes, false, true}}};
    }
    default:
      return std::nullopt;
  }
}

std::string Model::ApplyWork(const Op& op) {
  const auto& a = op.args;
  const auto written = [&](std::size_t block, std::size_t offset, std::size_t bytes, bool reads) {
    return std::vector<Use>{{a[block], Unsigned(a[offset]), Unsigned(a[bytes]), reads, true}};
  };
  const auto is_default = [](std::int64_t stream) { return stream == kNullStream || stream == kNullPtsz; };
  switch (op.kind) {
    case OpKind::kMemsetNow:
      return is_default(a[4]) ? UseInStream(op, a[4], written(0, 1, 3, false)) : "no default stream";
    case OpKind::kHostToDevice:
      return UseInStream(op, a[5], written(0, 1, 4, false));
    case OpKind::kHostToDeviceNow:
      return is_default(a[5]) ? UseInStream(op, a[5], written(0, 1, 4, false)) : "no default stream";
    case OpKind::kPeerCopy:
      if (a[0] == a[1]) return "onto itself";
      return UseInStream(op, a[3], {{a[1], 0, Unsigned(a[2]), true, false}, {a[0], 0, Unsigned(a[2]), false, true}},
                         /*between_devices=*/true);
    case OpKind::kDeviceToHost:
    case OpKind::kDeviceToHostNow: {
      const bool waits = op.kind == OpKind::kDeviceToHostNow;
      if (host_.contains(a[0])) return "the number is taken";
      if (waits && !is_default(a[5])) return "no default stream";
      const Use read{a[2], Unsigned(a[3]), Unsigned(a[4]), true, false};
      if (std::string reason = UseInStream(op, a[5], {read}); !reason.empty()) return reason;
      NewHostBytes(op, a[0], a[5], read.bytes, a[1] != 0);
      if (waits) HostWaits(op.thread, a[5]);
      return {};
    }
    case OpKind::kHiddenAdd:
      if (a[2] % 4 != 0 || a[4] % 4 != 0) return "no words";
      return UseInStream(op, a[0], written(1, 2, 4, true));
    case OpKind::kHostFunction: {
      if (host_.contains(a[1])) return "the number is taken";
      if (std::string reason = CheckStream(op.thread, a[0], true); !reason.empty()) return reason;
      if (a[0] >= 0) Touch(streams_.at(a[0]), op.thread);
      return NewHostBytes(op, a[1], a[0], 4, false);
    }
    default: {
      const std::optional<Described> work = Describe(op);
      return work ? UseInStream(op, work->stream, work->uses) : "onto itself, or no words";
    }
  }
}

// ---- the host ----

std::string Model::UseByHost(const Op& op, const Use& use) {
  const auto found = memories_.find(use.block);
  if (found == memories_.end() || !Free(found->second, op.thread)) return "no such block";
  Memory& memory = found->second;
  if (memory.kind == MemoryKind::kDevice || memory.kind == MemoryKind::kStreamOrdered ||
      memory.kind == MemoryKind::kVirtual) {
    return "out of the host's reach";
  }
  if (use.offset + use.bytes > memory.bytes || use.bytes == 0) return "outside of the block";
  if (use.reads && !memory.defined) return "bytes that nobody has written";
  if (!UnorderedForHost(op.thread, memory, use.writes).empty()) return "in no order with the device's work";
  // Managed memory may not be touched by the host while the device works at all, where it has no concurrent access.
  Access(memory, View(op.thread).host.Tick(Agent(std::numeric_limits<std::int64_t>::min(), op.thread)), use.writes);
  if (use.writes) memory.defined = true;
  Touch(memory, op.thread);
  return {};
}

std::string Model::ApplyHost(const Op& op) {
  if (op.kind == OpKind::kRead) {
    const auto found = host_.find(op.args[0]);
    if (found == host_.end() || !Free(found->second, op.thread)) return "nothing was copied there";
    if (!HostMayRead(op.thread, found->second.writer)) return "the copy may still be under way";
    Touch(found->second, op.thread);
    return {};
  }
  if (op.kind == OpKind::kHostReads)
    return UseByHost(op, {op.args[0], Unsigned(op.args[1]), Unsigned(op.args[2]), true, false});
  const auto found = memories_.find(op.args[0]);
  return UseByHost(op, {op.args[0], 0, found == memories_.end() ? 0 : found->second.bytes, false, true});
}

// ---- another process ----

// For the device's order its work is the host's: it waits, and it is asked only when nothing is under way.
std::string Model::ApplyElsewhere(const Op& op) {
  constexpr std::uint64_t kWhole = 2u << 20;  // blocks from here on are a driver allocation of their own
  const auto found = memories_.find(op.args[0]);
  if (found == memories_.end() || !Free(found->second, op.thread)) return "no such block";
  Memory& memory = found->second;
  if (memory.kind != MemoryKind::kDevice) return "another kind";
  if (op.kind == OpKind::kOpenElsewhere) {
    if (memory.elsewhere >= 0) return "open already";
    // cuheap's handles of smaller blocks mean nothing without it.
    if (op.args[1] == 0 && memory.bytes < kWhole) return "too small to be shared with whom it does not know";
    memory.elsewhere = op.args[1] == 0 ? 0 : 1;
  } else if (memory.elsewhere < 0) {
    return "not open";
  } else if (op.kind == OpKind::kCloseElsewhere) {
    memory.elsewhere = -1;
  } else {
    if (!memory.defined) return "bytes that nobody has written";
    if (!UnorderedForHost(op.thread, memory, true).empty()) return "in use";
    Access(memory, View(op.thread).host.Tick(Agent(std::numeric_limits<std::int64_t>::min(), op.thread)), true);
  }
  Touch(memory, op.thread);
  return {};
}

// ---- answers ----

std::string Model::ApplyAnswers(const Op& op) {
  if (op.kind == OpKind::kTooMuch || op.kind == OpKind::kTooMuchAsync) {
    if (!Alone(op.thread)) return "other threads are at work";
    const std::uint64_t bytes = Unsigned(op.args[0]);
    const auto device = static_cast<std::size_t>(contexts_.at(View(op.thread).current).device);
    if (header_.memory == 0 ? bytes < kTooMuch : held_[device] + bytes <= header_.memory) return "it may fit";
    if (op.kind == OpKind::kTooMuchAsync) {
      if (std::string reason = CheckStream(op.thread, op.args[1], true); !reason.empty()) return reason;
    }
    alone_ = op.thread;
    return {};
  }
  if (op.kind == OpKind::kIllegalAccess) {
    if (!Alone(op.thread)) return "other threads are at work";
    if (std::string reason = CheckStream(op.thread, op.args[0], true); !reason.empty()) return reason;
    lost_ = true;
    alone_ = op.thread;
    return {};
  }
  const auto found = memories_.find(op.args[0]);
  if (found == memories_.end() || !Free(found->second, op.thread)) return "no such block";
  if (op.kind == OpKind::kCodes) {
    if (!lost_) return "no error yet";
    return CheckStream(op.thread, op.args[1], true);
  }
  if (op.kind == OpKind::kBadCalls) {
    if (!Alone(op.thread)) return "other threads are at work";
    if (found->second.kind != MemoryKind::kDevice && found->second.kind != MemoryKind::kStreamOrdered)
      return "another kind";
    FreeWaitsForContext(op.thread, View(op.thread).current);
    alone_ = op.thread;
  }
  Touch(found->second, op.thread);
  return {};
}

}  // namespace cuheap::campaigns
