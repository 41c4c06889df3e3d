#include "allocator/pool_state.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "allocator/size_classes.h"

namespace cuheap {
namespace {

SegmentNotice NoticeOf(const Segment& segment) {
  return {segment.context->id, segment.context->device, segment.base(), segment.bytes()};
}

}  // namespace

SyncPoolStats PoolTotals::ToStats() const {
  SyncPoolStats stats;
  stats.reserved = usage.reserved;
  stats.active = usage.active;
  stats.requested = usage.requested;
  stats.quarantined = usage.quarantined;
  stats.ready = usage.ready;
  stats.pinned = usage.pinned;
  stats.tail = usage.tail;
  stats.reserved_peak = reserved_peak;
  stats.active_peak = active_peak;
  stats.segments = segments;
  stats.hits = hits;
  stats.misses = misses;
  stats.synchronizations = synchronizations;
  stats.lost_segments = lost_segments;
  return stats;
}

PoolState::PoolState(const SyncPoolOptions& options) : options_(options) {
  // A class is packed if at least two of its blocks share a slab: alone in one, a block is better served dedicated.
  while (options_.pack && classes_ < kSizeClasses && SizeClassBytes(classes_) <= options_.slab_bytes / 2 &&
         SizeClassBytes(classes_) < options_.dedicated_bytes) {
    ++classes_;
  }
}

PoolState::~PoolState() {
  for (auto& [id, context] : contexts_) {
    for (Segment* segment = context->segments.front(); segment != nullptr;) {
      Segment* next = segment->context_link.next;
      delete segment;
      segment = next;
    }
  }
}

PoolRequest PoolState::Plan(ContextId context, int device, std::size_t bytes, bool exact) const {
  PoolRequest request{context, device, bytes, bytes, bytes, false, 0};
  if (exact || classes_ == 0 || bytes > SizeClassBytes(classes_ - 1)) return request;
  request.packed = true;
  request.size_class = SizeClassOf(bytes);
  request.segment_bytes = options_.slab_bytes;
  request.block_bytes = SizeClassBytes(request.size_class);
  return request;
}

PoolContext* PoolState::FindContext(ContextId context) const {
  if (last_context_ != nullptr && last_context_->id == context) return last_context_;
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return nullptr;
  return last_context_ = found->second.get();
}

PoolTotals& PoolState::Totals(int device) {
  for (auto& [id, totals] : devices_) {
    if (id == device) return *totals;
  }
  return *devices_.emplace_back(device, std::make_unique<PoolTotals>()).second;
}

std::uint64_t PoolState::EnsureContext(ContextId id, int device) {
  if (const PoolContext* known = FindContext(id)) return known->serial;
  clock_.Register(id);
  auto context = std::make_unique<PoolContext>();
  context->id = id;
  context->device = device;
  context->serial = next_serial_++;
  context->device_totals = &Totals(device);
  context->bins.resize(classes_);
  return (contexts_[id] = std::move(context))->serial;
}

void PoolState::Apply(PoolContext* context, const SegmentUsage& before, const SegmentUsage& after) {
  SegmentUsage difference = after;
  difference -= before;
  context->usage += difference;
  for (PoolTotals* totals : {&total_, context->device_totals}) {
    totals->usage += difference;
    totals->reserved_peak = std::max(totals->reserved_peak, totals->usage.reserved);
    totals->active_peak = std::max(totals->active_peak, totals->usage.active);
  }
}

template <class Change>
void PoolState::Mutate(Segment* segment, Change change) {
  const SegmentUsage before = segment->Usage();
  change();
  Apply(segment->context, before, segment->Usage());
  if (segment->packed()) segment->context->bins[segment->size_class()].Update(segment);
}

PoolBlock PoolState::Describe(const Segment& segment, std::uint32_t index) const {
  const BlockRecord& record = segment.block(index);
  return {.address = segment.BlockAddress(index),
          .bytes = record.requested,
          .block_bytes = segment.block_bytes(),
          .segment = segment.base(),
          .segment_bytes = segment.bytes(),
          .packed = segment.packed(),
          .incarnation = record.incarnation,
          .context = segment.context->id,
          .device = segment.context->device};
}

PoolBlock PoolState::TakeFrom(Segment* segment, std::size_t requested) {
  std::uint32_t index = 0;
  Mutate(segment, [&] { index = segment->Take(requested, next_incarnation_++); });
  return Describe(*segment, index);
}

std::optional<PoolBlock> PoolState::TryTake(const PoolRequest& request) {
  PoolContext* context = FindContext(request.context);
  if (context == nullptr) return std::nullopt;
  if (request.packed) {
    if (Segment* slab = context->bins[request.size_class].Fullest()) return TakeFrom(slab, request.bytes);
  }
  // Small requests too: segments of exact size, from when no slab could be had.
  Segment* segment = context->cache.FindFit(request.bytes);
  if (segment == nullptr) return std::nullopt;
  context->cache.Remove(segment);
  return TakeFrom(segment, request.bytes);
}

std::unique_ptr<Segment> PoolState::CreateSegment(const PoolRequest& request) {
  auto segment = Segment::Create(0, request.segment_bytes, request.block_bytes, request.packed, request.size_class);
  if (segment == nullptr || request.packed) return segment;
  try {
    DedicatedCache::Adopt(segment.get());
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return segment;
}

void PoolState::Link(Segment* segment, PoolContext* context) {
  segment->context = context;
  context->segments.PushBack(segment);
  if (segment->packed()) context->slab_blocks += segment->capacity();
  ++total_.segments;
  ++context->device_totals->segments;
  Apply(context, SegmentUsage{}, segment->Usage());
}

// Takes the segment out of everything that knows it, whatever state its blocks are in.
std::unique_ptr<Segment> PoolState::Unlink(Segment* segment) {
  PoolContext* context = segment->context;
  map_.Erase(segment);
  if (segment->packed()) {
    context->bins[segment->size_class()].Remove(segment);
    if (segment->quarantined() > 0) context->quarantine.ForgetSlab(segment);
    context->slab_blocks -= segment->capacity();
  } else if (segment->quarantined() > 0) {
    context->quarantine.RemoveSegment(segment);
  } else if (segment->ready() > 0) {
    context->cache.Remove(segment);
  }
  context->segments.Remove(segment);
  --total_.segments;
  --context->device_totals->segments;
  Apply(context, segment->Usage(), SegmentUsage{});
  return std::unique_ptr<Segment>(segment);
}

SegmentNotice PoolState::Drop(Segment* segment) {
  const SegmentNotice notice = NoticeOf(*segment);
  Unlink(segment);
  return notice;
}

void PoolState::DropStale(DeviceAddress base, std::size_t bytes, std::vector<SegmentNotice>* dropped) {
  while (Segment* stale = map_.FindOverlap(base, bytes)) {
    CountLost(stale->context->device);
    dropped->push_back(Drop(stale));
  }
}

std::optional<PoolBlock> PoolState::Add(const PoolRequest& request, std::uint64_t context_serial,
                                        std::unique_ptr<Segment> segment) {
  PoolContext* context = FindContext(request.context);
  if (context == nullptr || context->serial != context_serial) return std::nullopt;
  try {
    if (request.packed) context->quarantine.Reserve(context->slab_blocks + segment->capacity());
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
  if (!map_.Insert(segment.get())) return std::nullopt;
  Segment* added = segment.release();
  Link(added, context);
  return TakeFrom(added, request.bytes);
}

FreeOutcome PoolState::Free(DeviceAddress address) {
  FreeOutcome outcome;
  Segment* segment = map_.Find(address);
  if (segment == nullptr) return outcome;
  outcome.status = FreeStatus::kInvalid;
  const std::uint32_t index = segment->IndexOf(address);
  if (index == segment->capacity() || segment->BlockAddress(index) != address) return outcome;
  const BlockRecord& record = segment->block(index);
  if (record.state != BlockState::kLive) return outcome;

  outcome.status = FreeStatus::kFreed;
  outcome.block = Describe(*segment, index);
  PoolContext* context = segment->context;
  if (record.pinned) {
    Mutate(segment, [&] { segment->MakePinned(index); });
  } else if (!options_.quarantine) {
    Mutate(segment, [&] { segment->MakeReady(index); });
    if (!segment->packed()) context->cache.Insert(segment);
  } else {
    Mutate(segment, [&] { segment->Quarantine(index); });
    PushIntoQuarantine(segment, index);
    outcome.wants_barrier = context->usage.quarantined > options_.quarantine_limit_bytes;
  }
  return outcome;
}

void PoolState::PushIntoQuarantine(Segment* segment, std::uint32_t index) {
  Quarantine& quarantine = segment->context->quarantine;
  if (segment->packed()) {
    quarantine.PushBlock(segment, index, clock_.Stamp());
  } else {
    quarantine.PushSegment(segment, clock_.Stamp());
  }
}

std::optional<PoolBlock> PoolState::Find(DeviceAddress address) const {
  const Segment* segment = map_.Find(address);
  if (segment == nullptr) return std::nullopt;
  const std::uint32_t index = segment->IndexOf(address);
  if (index == segment->capacity() || segment->block(index).state != BlockState::kLive) return std::nullopt;
  if (address - segment->BlockAddress(index) >= segment->block(index).requested) return std::nullopt;
  return Describe(*segment, index);
}

bool PoolState::Pin(DeviceAddress address) {
  if (!Find(address).has_value()) return false;
  Segment* segment = map_.Find(address);
  segment->Pin(segment->IndexOf(address));
  return true;
}

std::optional<PoolBlock> PoolState::Export(DeviceAddress address) {
  const std::optional<PoolBlock> block = Find(address);
  if (!block.has_value() || !block->packed) return std::nullopt;
  Segment* segment = map_.Find(address);
  segment->Export(segment->IndexOf(address));
  return block;
}

std::uint64_t PoolState::PinForNow(DeviceAddress address) {
  const std::optional<PoolBlock> block = Find(address);
  if (!block.has_value() || block->address != address) return 0;
  Segment* segment = map_.Find(address);
  const std::uint32_t index = segment->IndexOf(address);
  if (segment->block(index).pinned) return 0;
  segment->Pin(index);
  return block->incarnation;
}

bool PoolState::Unpin(DeviceAddress address, std::uint64_t incarnation) {
  Segment* segment = map_.Find(address);
  if (segment == nullptr) return false;
  const std::uint32_t index = segment->IndexOf(address);
  if (index == segment->capacity() || segment->BlockAddress(index) != address) return false;
  const BlockRecord& record = segment->block(index);
  if (record.incarnation != incarnation) return false;
  if (record.state == BlockState::kLive) {
    segment->Pin(index, false);
    return true;
  }
  if (record.state != BlockState::kPinned) return false;
  Mutate(segment, [&] { segment->Unpin(index); });
  if (options_.quarantine) {
    PushIntoQuarantine(segment, index);
  } else {
    Mutate(segment, [&] { segment->MakeReady(index); });
    if (!segment->packed()) segment->context->cache.Insert(segment);
  }
  return true;
}

std::optional<PoolBlock> PoolState::Disown(DeviceAddress address, std::vector<SegmentNotice>* dropped) {
  const std::optional<PoolBlock> block = Find(address);
  if (!block.has_value() || block->packed || block->address != address) return std::nullopt;
  dropped->push_back(Drop(map_.Find(address)));
  return block;
}

void PoolState::DrainContext(PoolContext* context) {
  context->quarantine.Drain(clock_.Proven(context->id), [&](Segment* segment, std::uint32_t index) {
    Mutate(segment, [&] { segment->MakeReady(index); });
    if (!segment->packed()) context->cache.Insert(segment);
  });
}

void PoolState::EndSynchronize(ContextId id, SyncTicket ticket, bool success) {
  if (!clock_.End(id, ticket, success)) return;
  if (!clock_.peers()) {
    if (PoolContext* context = FindContext(id)) DrainContext(context);
    return;
  }
  for (auto& [other, context] : contexts_) DrainContext(context.get());
}

void PoolState::ContextDestroyed(ContextId id, std::vector<SegmentNotice>* dropped) {
  clock_.Forget(id);
  const auto found = contexts_.find(id);
  if (found != contexts_.end()) {
    PoolContext* context = found->second.get();
    context->quarantine.ForgetAllBlocks();  // or every slab would look for its own
    for (Segment* segment = context->segments.front(); segment != nullptr;) {
      Segment* next = segment->context_link.next;
      dropped->push_back(Drop(segment));
      segment = next;
    }
    if (last_context_ == context) last_context_ = nullptr;
    contexts_.erase(found);
  }
  // With peers, blocks of other contexts may have waited for this one only.
  if (clock_.peers()) {
    for (auto& [other, context] : contexts_) DrainContext(context.get());
  }
}

std::vector<ContextId> PoolState::ContextsWorthSynchronizing(const PoolRequest& request) const {
  std::vector<ContextId> worth;
  for (const auto& [id, context] : contexts_) {
    const bool own = id == request.context && !context->quarantine.empty();
    const bool neighbour = context->device == request.device && context->quarantine.waiting_blocks() > 0;
    if (own || neighbour) worth.push_back(id);
  }
  if (!worth.empty() && clock_.peers()) return clock_.Contexts();
  std::sort(worth.begin(), worth.end());
  return worth;
}

std::vector<DetachedSegment> PoolState::TakeIdle(std::optional<int> device, std::size_t wanted) {
  std::vector<Segment*> idle;
  for (const auto& [id, context] : contexts_) {
    if (device.has_value() && context->device != *device) continue;
    if (context->usage.idle == 0 || gates_.Closed(id)) continue;
    for (Segment* s = context->quarantine.FirstSegment(); s != nullptr; s = Quarantine::Next(s)) idle.push_back(s);
    idle.insert(idle.end(), context->cache.begin(), context->cache.end());
    for (const SlabBins& bins : context->bins) {
      for (Segment* s = bins.FirstEmpty(); s != nullptr; s = SlabBins::Next(s)) idle.push_back(s);
      for (Segment* s = bins.FirstSpent(); s != nullptr; s = SlabBins::Next(s)) idle.push_back(s);
    }
  }
  std::sort(idle.begin(), idle.end(), [](const Segment* a, const Segment* b) { return SegmentOrder()(b, a); });
  if (wanted != 0) {
    // Largest first. The last one that suffices alone is the smallest such.
    const auto too_small =
        std::partition_point(idle.begin(), idle.end(), [wanted](const Segment* s) { return s->bytes() >= wanted; });
    if (too_small != idle.begin()) {
      idle = {*(too_small - 1)};
    } else {
      std::size_t sum = 0, count = 0;
      while (count < idle.size() && sum < wanted) sum += idle[count++]->bytes();
      idle.resize(count);
    }
  }
  return Detach(idle);
}

std::vector<DetachedSegment> PoolState::TakeUsedUp(int device, std::size_t keep) {
  std::vector<Segment*> used_up;
  for (const auto& [id, context] : contexts_) {
    if (context->device != device || context->usage.idle == 0 || gates_.Closed(id)) continue;
    for (const SlabBins& bins : context->bins) {
      Segment* slab = bins.LastSpent();
      for (; slab != nullptr && slab->ready() == 0; slab = SlabBins::Previous(slab)) used_up.push_back(slab);
    }
  }
  if (used_up.size() <= keep) return {};
  return Detach(used_up);
}

std::vector<DetachedSegment> PoolState::Detach(const std::vector<Segment*>& segments) {
  std::vector<DetachedSegment> detached;
  detached.reserve(segments.size());
  for (Segment* segment : segments) {
    gates_.Enter(segment->context->id);
    DetachedSegment item{nullptr, NoticeOf(*segment), segment->context->serial};
    item.segment = Unlink(segment);
    detached.push_back(std::move(item));
  }
  return detached;
}

bool PoolState::PutBack(DetachedSegment detached) {
  Segment* segment = detached.segment.get();
  PoolContext* context = FindContext(detached.notice.context);
  if (context == nullptr || context->serial != detached.context_serial) return false;
  if (map_.FindOverlap(segment->base(), segment->bytes()) != nullptr) {
    CountLost(context->device);
    return false;
  }
  try {
    if (segment->packed()) context->quarantine.Reserve(context->slab_blocks + segment->capacity());
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (!map_.Insert(segment)) return false;
  Link(detached.segment.release(), context);
  if (segment->packed()) {
    context->bins[segment->size_class()].Update(segment);
  } else if (segment->quarantined() > 0) {
    // A later stamp than the true one: it waits longer than it must, and stamps stay in order.
    context->quarantine.PushSegment(segment, clock_.Stamp());
  } else {
    context->cache.Insert(segment);
  }
  return true;
}

SyncPoolStats PoolState::Stats(int device) const {
  for (const auto& [id, totals] : devices_) {
    if (id == device) return totals->ToStats();
  }
  return {};
}

std::size_t PoolState::IdleBytes(int device) const {
  for (const auto& [id, totals] : devices_) {
    if (id == device) return totals->usage.idle;
  }
  return 0;
}

std::size_t PoolState::WaitingBytes(int device) const {
  for (const auto& [id, totals] : devices_) {
    if (id == device) return totals->usage.waiting;
  }
  return 0;
}

std::vector<ContextId> PoolState::ContextsWithWaitingSlabs(std::optional<int> device) const {
  std::vector<ContextId> waiting;
  for (const auto& [id, context] : contexts_) {
    if (device.has_value() && context->device != *device) continue;
    if (context->usage.waiting != 0) waiting.push_back(id);
  }
  if (!waiting.empty() && clock_.peers()) return clock_.Contexts();
  std::sort(waiting.begin(), waiting.end());
  return waiting;
}

}  // namespace cuheap
