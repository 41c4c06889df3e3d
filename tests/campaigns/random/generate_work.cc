// Work, the waits that order it, and what is read.
#include <algorithm>
#include <array>

#include "tests/campaigns/random/generator.h"

namespace cuheap::campaigns {

// ---- order ----

// Some live stream of this thread in whose order the moment has happened; kNullStream - 100: none.
std::int64_t Generator::StreamThatKnows(Moment moment) {
  const Model::Source source = model_.SourceOf(moment);
  const bool here = source.context == model_.current(thread_);
  if (source.stream >= 0 && model_.Free(model_.streams().at(source.stream), thread_)) return source.stream;
  if (source.stream == kNullStream && source.context >= 0 && here) return kNullStream;
  if (source.stream == kPerThreadStream && here && source.thread == thread_) return kPerThreadStream;
  for (const auto& [number, stream] : model_.streams()) {
    if (model_.Free(stream, thread_) && stream_owner_.at(number) == thread_ &&
        model_.StreamKnows(thread_, number, moment))
      return number;
  }
  return kNullStream - 100;
}

// Waits in the stream, or of the host, in one of the ways there are.
bool Generator::WaitForMoment(std::int64_t stream, Moment moment) {
  const std::int64_t other = StreamThatKnows(moment);
  if (other == kNullStream - 100) return OrderHostAfter(moment);
  const bool here = model_.ContextOf(thread_, other) == model_.current(thread_);
  if (here && Chance(0.2)) {
    const std::int64_t event = New('e');
    return Emit(OpKind::kRecord, {event, other}) && Emit(OpKind::kWaitEvent, {stream, event});
  }
  return Emit(OpKind::kWait, {stream, other});
}

bool Generator::OrderAfter(std::int64_t stream, std::int64_t block, bool writes) {
  for (int tries = 0; tries < 20; ++tries) {
    const std::vector<Moment> missing = model_.Unordered(thread_, stream, Block(block), writes);
    if (missing.empty()) return true;
    if (!WaitForMoment(stream, missing.front())) return false;
  }
  return false;
}

bool Generator::OrderHostAfter(Moment moment) {
  if (model_.HostKnows(thread_, moment)) return true;
  const std::int64_t other = StreamThatKnows(moment);
  if (other != kNullStream - 100) {
    const int dice = Between(0, 9);
    const bool here = model_.ContextOf(thread_, other) == model_.current(thread_);
    if (dice < 2 && here) {
      const std::int64_t event = New('e');
      if (Emit(OpKind::kRecord, {event, other}))
        Emit(dice == 0 ? OpKind::kPollEvent : OpKind::kEventSynchronize, {event});
    } else {
      Emit(dice == 2 ? OpKind::kPollStream : OpKind::kStreamSynchronize, {other});
    }
    if (model_.HostKnows(thread_, moment)) return true;
  }
  const std::int64_t context = model_.SourceOf(moment).context;
  if (context < 0 || !model_.contexts().at(context).live) return false;
  const std::int64_t before = model_.current(thread_);
  Enter(context);
  Emit(OpKind::kContextSynchronize);
  Enter(before);
  return model_.HostKnows(thread_, moment);
}

bool Generator::OrderHostAfter(std::int64_t block, bool writes) {
  for (int tries = 0; tries < 20; ++tries) {
    const std::vector<Moment> missing = model_.UnorderedForHost(thread_, Block(block), writes);
    if (missing.empty()) return true;
    if (!OrderHostAfter(missing.front())) return false;
  }
  return false;
}

void Generator::Enter(std::int64_t context) {
  if (context >= 0 && model_.current(thread_) != context) Emit(OpKind::kSetCurrent, {context});
}

// Makes a context current whose work may use the block.
bool Generator::EnterFor(std::int64_t block) {
  if (model_.Accessible(Block(block), model_.current(thread_)) && !Chance(0.03)) return true;
  std::vector<std::int64_t> able;
  for (const auto& [number, context] : model_.contexts()) {
    if (context.live && model_.Accessible(Block(block), number)) able.push_back(number);
  }
  if (able.empty()) return false;
  Enter(OneOf(able));
  return true;
}

// ---- work ----

bool Generator::Work() {
  const std::int64_t block = PickBlock();
  return block >= 0 && WorkOn(block);
}

bool Generator::WorkOn(std::int64_t block) {
  if (!EnterFor(block)) return false;
  const int kind = Between(0, 5);
  if (kind == 5) return CopyBetween(block);
  const std::int64_t stream = PickStream(block);
  const auto bytes = static_cast<std::int64_t>(Block(block).bytes);
  const std::int64_t offset = bytes < 64 ? 0 : Between(0, static_cast<int>(bytes / 8)) / 4 * 4;
  const std::int64_t length = bytes - offset;
  OrderAfter(stream, block, true);
  switch (kind) {
    case 0:
      return Emit(OpKind::kMemset, {block, offset, Value() & 0xFF, length, stream});
    case 1: {
      const bool pinned = pinned_ && Chance(0.5);
      return Emit(OpKind::kHostToDevice, {block, offset, Value(), pinned, length, stream});
    }
    case 2:
      return Emit(OpKind::kFill, {stream, block, offset, Value(), length});
    case 3:
      return Emit(OpKind::kAdd, {stream, block, offset, Value(), length});
    default:
      return Emit(OpKind::kHiddenAdd, {stream, block, offset, Value(), length});
  }
}

bool Generator::CopyBetween(std::int64_t from) {
  const std::int64_t to = PickBlock();
  if (to == from) return false;
  const std::int64_t stream = PickStream(from);
  const auto bytes = static_cast<std::int64_t>(std::min(Block(from).bytes, Block(to).bytes));
  OrderAfter(stream, from, false);
  OrderAfter(stream, to, true);
  if (Block(from).device != Block(to).device || Chance(0.1)) {
    if (Emit(OpKind::kPeerCopy, {to, from, bytes, stream})) return true;
  }
  if (Chance(0.3)) {
    const std::int64_t third = PickBlock();
    if (third >= 0 && third != to && Block(third).bytes >= static_cast<std::uint64_t>(bytes)) {
      OrderAfter(stream, third, false);
      if (Emit(OpKind::kSum, {stream, to, from, third, bytes})) return true;
    }
  }
  return Emit(OpKind::kDeviceToDevice, {to, from, bytes, stream});
}

bool Generator::SynchronousWork() {
  const std::int64_t block = PickBlock();
  if (block < 0 || !EnterFor(block)) return false;
  const std::int64_t stream = profile_.default_streams && Chance(0.5) ? kNullPtsz : kNullStream;
  const auto bytes = static_cast<std::int64_t>(Block(block).bytes);
  const int kind = Between(0, quiet_ ? 1 : 2);
  OrderAfter(stream, block, kind != 2);
  if (kind == 0) return Emit(OpKind::kMemsetNow, {block, 0, Value() & 0xFF, bytes, stream});
  if (kind == 1) return Emit(OpKind::kHostToDeviceNow, {block, 0, Value(), pinned_ && Chance(0.5), bytes, stream});
  const std::int64_t host = New('h');
  unread_.insert(host);
  return Emit(OpKind::kDeviceToHostNow, {host, pinned_ && Chance(0.5), block, 0, bytes, stream});
}

// ---- the host ----

bool Generator::HostWork() {
  const std::int64_t block = PickBlock();
  if (block < 0) return false;
  const Memory& memory = Block(block);
  if (memory.kind == MemoryKind::kDevice || memory.kind == MemoryKind::kStreamOrdered ||
      memory.kind == MemoryKind::kVirtual) {
    if (quiet_) return false;
    const std::int64_t host = New('h');
    unread_.insert(host);
    return Emit(OpKind::kHostFunction, {PickStream(), host, Value()});
  }
  const bool writes = Chance(0.3);
  if (!OrderHostAfter(block, writes)) return false;
  if (writes) return Emit(OpKind::kHostWrites, {block, Value()});
  return Emit(OpKind::kHostReads, {block, 0, static_cast<std::int64_t>(memory.bytes)});
}

// A block that another process has open is closed there before it is freed: Free() is refused till then.
bool Generator::Elsewhere() {
  std::vector<std::int64_t> open;
  for (const std::int64_t block : MyBlocks()) {
    if (Block(block).elsewhere >= 0 && !plans_[block].watched) open.push_back(block);
  }
  if (!open.empty() && Chance(0.7)) {
    const std::int64_t block = OneOf(open);
    if (Chance(0.3)) return Emit(OpKind::kCloseElsewhere, {block});
    return OrderHostAfter(block, true) && Emit(OpKind::kAddElsewhere, {block, Value()});
  }
  const std::int64_t block = PickBlock();
  if (block < 0 || Block(block).kind != MemoryKind::kDevice) return false;
  const bool whole = Block(block).bytes >= 2u << 20;
  if (!Emit(OpKind::kOpenElsewhere, {block, whole && Chance(0.5) ? 0 : 1})) return false;
  return OrderHostAfter(block, true) && Emit(OpKind::kAddElsewhere, {block, Value()});
}

bool Generator::CopyOut() {
  const std::int64_t block = PickBlock();
  return block >= 0 && CopyOut(block);
}

bool Generator::CopyOut(std::int64_t block) {
  const Memory& memory = Block(block);
  const auto bytes = static_cast<std::int64_t>(memory.bytes);
  if (memory.kind != MemoryKind::kDevice && memory.kind != MemoryKind::kStreamOrdered &&
      memory.kind != MemoryKind::kVirtual) {
    return OrderHostAfter(block, false) && Emit(OpKind::kHostReads, {block, 0, bytes});
  }
  if (!EnterFor(block)) return false;
  const std::int64_t stream = PickStream(block);
  OrderAfter(stream, block, false);
  const std::int64_t host = New('h');
  const bool pinned = pinned_ && Chance(0.5);
  if (!Emit(OpKind::kDeviceToHost, {host, pinned, block, 0, bytes, stream})) return false;
  unread_.insert(host);
  return true;
}

bool Generator::ReadSome() {
  for (const std::int64_t host : std::set(unread_)) {
    if (!MyHostBytes(host) || Chance(0.5)) continue;
    OrderHostAfter(model_.host().at(host).writer);
    if (!Emit(OpKind::kRead, {host})) continue;
    unread_.erase(host);
    return true;
  }
  return false;
}

bool Generator::Synchronize() {
  // Some programs synchronise often, some hardly ever.
  if (synchronizing_ == 0 && Chance(0.8)) return true;
  if (Chance(0.6)) return Emit(OpKind::kStreamSynchronize, {PickStream()});
  return Emit(OpKind::kContextSynchronize);
}

// What is pending in it is pending in another one from now on, which waits for it.
bool Generator::DestroyStream() {
  const std::vector<std::int64_t> mine = MyStreams();
  if (mine.size() < 2) {
    if (!profile_.stream_ordered && !profile_.contexts) return false;
    const std::int64_t stream = New('s');
    stream_owner_[stream] = thread_;
    return Emit(OpKind::kCreateStream, {stream, Between(0, 1)});
  }
  const std::int64_t stream = OneOf(mine);
  const std::int64_t heir = PickStream();
  if (heir == stream || !Emit(OpKind::kWait, {heir, stream})) return false;
  for (auto& [block, plan] : plans_) {
    if (plan.home == stream) plan.home = heir;
  }
  return Emit(OpKind::kDestroyStream, {stream});
}

// ---- answers ----

bool Generator::Ask() {
  const std::int64_t block = PickBlock();
  if (block < 0) return false;
  const int dice = Between(0, 9);
  if (dice < 6 || !alone()) return Emit(OpKind::kQueries, {block});
  if (dice < 9) return Emit(OpKind::kBadCalls, {block});
  const std::int64_t too_much =
      program_.memory == 0 ? std::int64_t{1} << 43
                           : static_cast<std::int64_t>(program_.memory - LiveBytes() / 2) + Between(0, 1 << 20);
  if (profile_.stream_ordered && Chance(0.5)) return Emit(OpKind::kTooMuchAsync, {too_much, PickStream()});
  return Emit(OpKind::kTooMuch, {too_much});
}

}  // namespace cuheap::campaigns
