#include "allocator/stream_arena.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

namespace cuheap {
namespace {

constexpr std::size_t kBlocksASlab = 128;

constexpr std::size_t RoundToPages(std::size_t bytes) { return (bytes + kStreamPage - 1) / kStreamPage * kStreamPage; }

bool IsFree(const StreamBlock* block) { return block != nullptr && block->state == StreamBlock::State::kFree; }

}  // namespace

StreamArena::~StreamArena() = default;

StreamPoolStats StreamArena::usage() const {
  StreamPoolStats stats;
  stats.used = used_;
  stats.requested = requested_;
  stats.free = free_;
  stats.pinned = pinned_;
  stats.moving = moving_;
  stats.reserved = reserved();
  return stats;
}

void StreamArena::Count(State state, std::size_t bytes, bool add) {
  std::size_t* const counter = state == State::kFree     ? &free_
                               : state == State::kLive   ? &used_
                               : state == State::kPinned ? &pinned_
                               : state == State::kMoving ? &moving_
                                                         : nullptr;
  if (counter != nullptr) *counter += add ? bytes : std::size_t{0} - bytes;
}

// ---- block records ----

StreamBlock* StreamArena::NewBlock() {
  if (spare_ == nullptr) {
    slabs_.push_back(std::make_unique<StreamBlock[]>(kBlocksASlab));
    for (std::size_t i = 0; i < kBlocksASlab; ++i) Recycle(&slabs_.back()[i]);
  }
  StreamBlock* block = spare_;
  spare_ = block->next;
  *block = StreamBlock();
  return block;
}

void StreamArena::Recycle(StreamBlock* block) {
  block->next = spare_;
  spare_ = block;
}

// Cuts the block in two; the new, right part is in the same state and, if the block is in its owner's order, follows it
// there. REQUIRES: not in an index.
StreamBlock* StreamArena::SplitAfter(StreamBlock* block, std::size_t bytes) {
  assert(bytes > 0 && bytes < block->bytes && bytes % kStreamGranule == 0);
  StreamBlock* right = NewBlock();
  right->address = block->address + bytes;
  right->bytes = block->bytes - bytes;
  right->region = block->region;
  right->state = block->state;
  right->previous = block;
  right->next = block->next;
  if (right->next != nullptr) right->next->previous = right;
  block->next = right;
  block->bytes = bytes;
  block->region->starts.Set(block->region->Place(right->address));
  if (block->owner == nullptr) return right;
  right->owner = block->owner;
  right->point = block->point;
  right->dirty_begin = block->dirty_begin;
  right->dirty_end = block->dirty_end;
  block->owner->order.InsertAfter(block, right);
  ClipDirt(block);
  ClipDirt(right);
  return right;
}

// Makes the dirty part lie within the block; without one the block leaves its owner.
void StreamArena::ClipDirt(StreamBlock* block) {
  block->dirty_begin = std::max(block->dirty_begin, block->address);
  block->dirty_end = std::min(block->dirty_end, block->end());
  if (block->dirty_begin < block->dirty_end) return;
  block->owner->order.Remove(block);
  DropOwner(block);
}

// The survivor grows over its neighbour. REQUIRES: `other` is in no index and no order; if it has an owner, so has the
// survivor, the same one.
void StreamArena::Absorb(StreamBlock* survivor, StreamBlock* other) {
  if (other->owner != nullptr) {
    assert(survivor->owner == other->owner);
    survivor->dirty_begin = std::min(survivor->dirty_begin, other->dirty_begin);
    survivor->dirty_end = std::max(survivor->dirty_end, other->dirty_end);
    survivor->point = std::max(survivor->point, other->point);
  }
  StreamRegion& region = *survivor->region;
  const bool leftward = other->next == survivor;
  region.starts.Clear(region.Place(leftward ? survivor->address : other->address));
  if (leftward) {
    survivor->address = other->address;
    survivor->previous = other->previous;
    (other->previous != nullptr ? other->previous->next : region.first) = survivor;
  } else {
    survivor->next = other->next;
    if (other->next != nullptr) other->next->previous = survivor;
  }
  survivor->bytes += other->bytes;
}

// ---- free blocks ----

bool StreamArena::Clean(const StreamBlock& block) {
  return block.owner == nullptr || block.point <= block.owner->stream->proven;
}

std::size_t StreamArena::CleanEnd(const StreamBlock& block) {
  if (block.owner == nullptr) return block.bytes;
  return std::max(block.dirty_begin - block.address, block.end() - block.dirty_end);
}

void StreamArena::Index(StreamBlock* block) {
  if (block->owner != nullptr) block->owner->index.Insert(block, block->bytes);
  if (const std::size_t clean = CleanEnd(*block); clean != 0) shared_.Insert(block, clean);
}

void StreamArena::Unindex(StreamBlock* block) {
  if (block->owner != nullptr) block->owner->index.Remove(block);
  shared_.Remove(block);
}

// Out of its owner's order. A block that is clean by now also loses its owner.
void StreamArena::Leave(StreamBlock* block) {
  if (block->owner == nullptr) return;
  block->owner->order.Remove(block);
  if (Clean(*block)) DropOwner(block);
}

// Merges *block with its free neighbour on the side, if their owners allow; *block is what they make. in_order: whether
// *block is in its owner's order. False if nothing was done.
bool StreamArena::MergeSide(StreamBlock** block, bool* in_order, bool left) {
  StreamBlock* neighbour = left ? (*block)->previous : (*block)->next;
  if (!IsFree(neighbour)) return false;
  const bool same = neighbour->owner == (*block)->owner;
  if (!same && !Clean(*neighbour) && (*block)->owner != nullptr) return false;
  Unindex(neighbour);
  if (Clean(*neighbour)) Leave(neighbour);
  const bool keep_neighbour =
      neighbour->owner != nullptr && ((*block)->owner == nullptr || neighbour->point > (*block)->point);
  StreamBlock* other = keep_neighbour ? *block : neighbour;
  const bool other_in_order = keep_neighbour ? *in_order : neighbour->owner != nullptr;
  if (other_in_order) other->owner->order.Remove(other);
  *in_order = keep_neighbour || *in_order;
  *block = keep_neighbour ? neighbour : *block;
  Absorb(*block, other);
  Recycle(other);
  return true;
}

// Merges a free block with its neighbours and enters what they make. REQUIRES: in no index, in no order; if it has an
// owner, its point is not below any of that lane.
StreamBlock* StreamArena::PutFree(StreamBlock* block) {
  if (Clean(*block)) DropOwner(block);
  bool in_order = false;
  for (bool merged = true; merged;) {
    merged = MergeSide(&block, &in_order, /*left=*/true);
    merged |= MergeSide(&block, &in_order, /*left=*/false);
  }
  Index(block);
  if (block->owner != nullptr && !in_order) block->owner->order.PushBack(block);
  return block;
}

// Enters what is left of a block that was carved from, still in its owner's order if it has one.
void StreamArena::Settle(StreamBlock* block) {
  if (block->owner != nullptr) return Index(block);
  PutFree(block);
}

// Clean blocks that were left beside free ones join them.
void StreamArena::MergeClean(StreamRegion* region) {
  for (StreamBlock* block = region->first; block != nullptr; block = block->next) {
    if (!IsFree(block) || block->owner != nullptr || (!IsFree(block->previous) && !IsFree(block->next))) continue;
    Unindex(block);
    block = PutFree(block);
  }
}

void StreamArena::PutGap(StreamBlock* block) {
  block->state = State::kGap;
  for (StreamBlock* neighbour : {block->previous, block->next}) {
    if (neighbour == nullptr || neighbour->state != State::kGap) continue;
    gaps_.Remove(neighbour);
    Absorb(block, neighbour);
    Recycle(neighbour);
  }
  gaps_.PushBack(block);
}

// Takes [from, from + bytes) out of a free block that holds it: a block of its own, kMoving, in no index and no order,
// as dirty as it was. What is left on its sides stays free; without merge_rest the left one keeps its record.
StreamBlock* StreamArena::Carve(StreamBlock* free, DeviceAddress from, std::size_t bytes, bool merge_rest) {
  Unindex(free);
  StreamBlock* piece = free;
  StreamBlock* rest = nullptr;
  if (from > free->address) piece = SplitAfter(free, from - free->address);
  if (piece->bytes > bytes) rest = SplitAfter(piece, bytes);
  Leave(piece);
  Count(State::kFree, bytes, false);
  piece->state = State::kMoving;
  Count(State::kMoving, bytes, true);
  if (piece != free) merge_rest ? Settle(free) : Index(free);
  if (rest != nullptr) merge_rest ? Settle(rest) : Index(rest);
  return piece;
}

StreamBlock* StreamArena::MakeLive(StreamBlock* block, std::size_t requested, std::uint64_t incarnation) {
  Count(block->state, block->bytes, false);
  block->state = State::kLive;
  Count(State::kLive, block->bytes, true);
  requested_ += requested;
  block->requested = requested;
  block->incarnation = incarnation;
  block->pin = false;
  if (block->owner != nullptr) ++block->owner->live;
  live_->Insert(block->address, block);
  return block;
}

StreamBlock* StreamArena::Take(StreamLane* lane, std::size_t bytes, std::size_t requested, std::uint64_t incarnation) {
  live_->Reserve();
  if (StreamBlock* own = lane->index.Find(bytes)) {
    return MakeLive(Carve(own, own->address, bytes), requested, incarnation);
  }
  StreamBlock* shared = shared_.Find(bytes);
  if (shared == nullptr) return nullptr;
  const bool at_front = shared->owner == nullptr || shared->dirty_begin - shared->address >= bytes;
  return MakeLive(Carve(shared, at_front ? shared->address : shared->dirty_end, bytes), requested, incarnation);
}

void StreamArena::Free(StreamBlock* block, StreamLane* lane) {
  Count(State::kLive, block->bytes, false);
  requested_ -= block->requested;
  block->requested = 0;
  if (block->owner != nullptr) --block->owner->live;
  if (block->pin) {
    DropOwner(block);
    block->state = State::kPinned;
    Count(State::kPinned, block->bytes, true);
    return;
  }
  BecomeFree(block, lane);
}

void StreamArena::Unpin(StreamBlock* block, StreamLane* lane) {
  Count(State::kPinned, block->bytes, false);
  block->pin = false;
  BecomeFree(block, lane);
}

void StreamArena::BecomeFree(StreamBlock* block, StreamLane* lane) {
  block->dirty_begin = block->address;
  block->dirty_end = block->end();
  if (!stream_rule_) {
    DropOwner(block);
  } else if (lane != nullptr) {
    block->owner = lane;
    block->point = lane->stream->last_free;
  } else if (block->owner != nullptr) {
    block->point = block->owner->stream->last_free;  // not below any of the lane
  }
  block->state = State::kFree;
  Count(State::kFree, block->bytes, true);
  PutFree(block);
}

// ---- lanes ----

StreamLane* StreamArena::Lane(StreamState* stream) {
  if (last_lane_ != nullptr && last_lane_->stream == stream) return last_lane_;
  std::unique_ptr<StreamLane>& lane = lanes_[stream];
  if (lane == nullptr) {
    lane = std::make_unique<StreamLane>();
    lane->stream = stream;
    ++stream->lanes;
  }
  return last_lane_ = lane.get();
}

void StreamArena::Drain() {
  for (const auto& [stream, lane] : lanes_) {
    while (StreamBlock* block = lane->order.front()) {
      if (!Clean(*block)) break;
      Unindex(block);
      Leave(block);
      PutFree(block);
    }
  }
}

std::vector<StreamLane*> StreamArena::Waiting() const {
  std::vector<StreamLane*> waiting;
  for (const auto& [stream, lane] : lanes_) {
    if (!lane->order.empty() && lane->order.back()->point > stream->proven) waiting.push_back(lane.get());
  }
  return waiting;
}

void StreamArena::DropDeadLanes() {
  std::erase_if(lanes_, [this](const auto& entry) {
    const StreamLane& lane = *entry.second;
    if (entry.first->alive || lane.live != 0 || !lane.order.empty()) return false;
    if (last_lane_ == &lane) last_lane_ = nullptr;
    --entry.first->lanes;
    return true;
  });
}

void StreamArena::DropAllLanes() {
  for (const auto& [stream, lane] : lanes_) --stream->lanes;
  lanes_.clear();
  last_lane_ = nullptr;
}

// ---- growing ----

std::size_t StreamArena::UsableBefore(const StreamBlock& gap, const StreamLane* lane) {
  const StreamBlock* block = gap.previous;
  if (!IsFree(block)) return 0;
  return Clean(*block) || block->owner == lane ? block->bytes : block->end() - block->dirty_end;
}

std::size_t StreamArena::UsableAfter(const StreamBlock& gap, const StreamLane* lane) {
  const StreamBlock* block = gap.next;
  if (!IsFree(block)) return 0;
  return Clean(*block) || block->owner == lane ? block->bytes : block->dirty_begin - block->address;
}

bool StreamArena::ClaimGrowth(StreamLane* lane, std::size_t bytes, StreamGrowth* growth) {
  StreamBlock* best = nullptr;
  std::size_t best_need = 0;
  bool best_fills = false;
  for (StreamBlock* gap = gaps_.front(); gap != nullptr; gap = gap->own_link.next) {
    const std::size_t before = UsableBefore(*gap, lane);
    std::size_t need = std::max(RoundToPages(bytes - std::min(bytes, before)), kStreamPage);
    bool fills = false;
    if (need > gap->bytes) {
      if (before + gap->bytes + UsableAfter(*gap, lane) < bytes) continue;
      need = gap->bytes;
      fills = true;
    }
    if (best != nullptr && (need > best_need || (need == best_need && gap->address > best->address))) continue;
    best = gap;
    best_need = need;
    best_fills = fills;
  }
  if (best == nullptr) return false;
  const std::size_t before = UsableBefore(*best, lane);
  const std::size_t after = best_fills ? UsableAfter(*best, lane) : 0;
  growth->before = before == 0 ? nullptr : Carve(best->previous, best->address - before, before);
  growth->after = after == 0 ? nullptr : Carve(best->next, best->end(), after);
  gaps_.Remove(best);
  if (best->bytes > best_need) gaps_.PushBack(SplitAfter(best, best_need));
  best->state = State::kMoving;
  Count(State::kMoving, best->bytes, true);
  growth->space = best;
  growth->lane = lane;
  ++lane->live;
  return true;
}

void StreamArena::CommitGrowth(const StreamGrowth& growth, const std::vector<StreamChunk>& chunks) {
  StreamBlock* space = growth.space;
  --growth.lane->live;
  DeviceAddress at = space->address;
  for (const StreamChunk& chunk : chunks) {
    space->region->chunks.emplace(at, chunk);
    at += chunk.bytes;
  }
  // The parts are clean or the same lane's, so they are one block before anything else may join.
  for (StreamBlock* part : {growth.before, growth.after}) {
    if (part == nullptr) continue;
    if (part->owner != nullptr && space->owner == nullptr) {
      space->owner = part->owner;
      space->point = part->owner->stream->last_free;
      space->dirty_begin = part->dirty_begin;
      space->dirty_end = part->dirty_end;
    }
    Absorb(space, part);
    Recycle(part);
  }
  Count(State::kMoving, space->bytes, false);
  space->state = State::kFree;
  Count(State::kFree, space->bytes, true);
  PutFree(space);
}

void StreamArena::AbortGrowth(const StreamGrowth& growth, bool stuck) {
  --growth.lane->live;
  for (StreamBlock* part : {growth.before, growth.after}) {
    if (part == nullptr) continue;
    if (part->owner != nullptr) part->point = part->owner->stream->last_free;
    Count(State::kMoving, part->bytes, false);
    part->state = State::kFree;
    Count(State::kFree, part->bytes, true);
    PutFree(part);
  }
  Count(State::kMoving, growth.space->bytes, false);
  if (!stuck) return PutGap(growth.space);
  growth.space->state = State::kPinned;
  Count(State::kPinned, growth.space->bytes, true);
}

void StreamArena::AddRegion(DeviceAddress base, std::size_t bytes) {
  auto region = std::make_unique<StreamRegion>(this, base, bytes);
  StreamBlock* block = NewBlock();
  block->address = base;
  block->bytes = bytes;
  block->region = region.get();
  region->first = block;
  region->starts.Set(0);
  regions_.push_back(std::move(region));
  PutGap(block);
}

// ---- shrinking ----

namespace {

// Calls visit(address, chunk) for the chunks that lie within [begin, end).
template <class Visit>
void ForChunksIn(const StreamRegion& region, DeviceAddress begin, DeviceAddress end, Visit visit) {
  for (auto chunk = region.chunks.lower_bound(begin); chunk != region.chunks.end(); ++chunk) {
    if (chunk->first + chunk->second.bytes > end) return;
    visit(chunk->first, chunk->second);
  }
}

// Calls visit(block, address, chunk) for every chunk in the clean part of a free block, addresses rising.
template <class Visit>
void ForIdleChunks(const StreamRegion& region, Visit visit) {
  for (StreamBlock* block = region.first; block != nullptr; block = block->next) {
    if (!IsFree(block) || block->bytes < kStreamPage) continue;
    const auto each = [&](DeviceAddress address, const StreamChunk& chunk) { visit(block, address, chunk); };
    const bool clean = block->owner == nullptr;
    ForChunksIn(region, block->address, clean ? block->end() : block->dirty_begin, each);
    if (!clean) ForChunksIn(region, block->dirty_end, block->end(), each);
  }
}

}  // namespace

void StreamArena::DetachIdle(std::size_t wanted, std::vector<StreamDetached>* detached) {
  struct Candidate {
    StreamBlock* block;
    DeviceAddress address;
    StreamChunk chunk;
  };
  std::size_t sum = 0;
  for (auto region = regions_.rbegin(); region != regions_.rend(); ++region) {
    std::vector<Candidate> candidates;
    ForIdleChunks(**region, [&](StreamBlock* block, DeviceAddress address, const StreamChunk& chunk) {
      candidates.push_back({block, address, chunk});
    });
    // From the top: carving leaves what lies below in the same record.
    for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
      if (wanted != 0 && sum >= wanted) break;
      sum += candidate->chunk.bytes;
      StreamBlock* piece = Carve(candidate->block, candidate->address, candidate->chunk.bytes, /*merge_rest=*/false);
      (*region)->chunks.erase(candidate->address);
      detached->push_back({this, piece, candidate->chunk});
    }
    if (!candidates.empty()) MergeClean(region->get());
  }
}

std::size_t StreamArena::IdleBytes() const {
  std::size_t sum = 0;
  for (const auto& region : regions_) {
    ForIdleChunks(*region, [&sum](StreamBlock*, DeviceAddress, const StreamChunk& chunk) { sum += chunk.bytes; });
  }
  return sum;
}

void StreamArena::FinishDetach(const StreamDetached& detached, bool released) {
  StreamBlock* block = detached.block;
  Count(State::kMoving, block->bytes, false);
  if (released) return PutGap(block);
  block->region->chunks.emplace(block->address, detached.chunk);
  block->state = State::kFree;
  Count(State::kFree, block->bytes, true);
  PutFree(block);
}

std::vector<std::pair<DeviceAddress, std::size_t>> StreamArena::TakeEmptyRegions() {
  std::vector<std::pair<DeviceAddress, std::size_t>> taken;
  std::erase_if(regions_, [&](const std::unique_ptr<StreamRegion>& region) {
    StreamBlock* only = region->first;
    if (only->next != nullptr || only->state != State::kGap) return false;
    gaps_.Remove(only);
    Recycle(only);
    taken.emplace_back(region->base, region->bytes);
    return true;
  });
  return taken;
}

// ---- looking up ----

StreamRegion* StreamArena::FindRegion(DeviceAddress address) const {
  for (const auto& region : regions_) {
    if (region->Contains(address)) return region.get();
  }
  return nullptr;
}

StreamBlock* StreamArena::FindLive(DeviceAddress address) const {
  const StreamRegion* region = FindRegion(address);
  if (region == nullptr) return nullptr;
  const std::optional<std::size_t> place = region->starts.AtOrBelow(region->Place(address));
  if (!place.has_value()) return nullptr;
  StreamBlock* block = live_->Find(region->base + *place * kStreamGranule);
  return block != nullptr && address - block->address < block->requested ? block : nullptr;
}

StreamBlock* StreamArena::FindPinned(DeviceAddress address) const {
  StreamRegion* region = FindRegion(address);
  if (region == nullptr) return nullptr;
  StreamBlock* block = region->first;
  while (block != nullptr && block->address < address) block = block->next;
  return block != nullptr && block->address == address && block->state == State::kPinned ? block : nullptr;
}

const char* StreamArena::CheckInvariants() const {
  std::size_t free = 0, used = 0, pinned = 0, moving = 0, mapped = 0;
  for (const auto& region : regions_) {
    DeviceAddress at = region->base;
    const StreamBlock* previous = nullptr;
    for (const StreamBlock* block = region->first; block != nullptr; previous = block, block = block->next) {
      if (block->address != at || block->previous != previous || block->region != region.get())
        return "hole or bad link";
      if (!region->starts.Has(region->Place(at))) return "a block's start is not in the map";
      if (block->bytes == 0 || block->bytes % kStreamGranule != 0) return "odd size";
      at = block->end();
      std::size_t* const sum = block->state == State::kFree     ? &free
                               : block->state == State::kLive   ? &used
                               : block->state == State::kPinned ? &pinned
                                                                : &moving;
      if (block->state != State::kGap) *sum += block->bytes;
      const bool indexed = block->own_key != 0 || block->shared_key != 0;
      if (indexed != (block->state == State::kFree)) return "indexed, but not free, or the other way round";
      if (block->state == State::kLive && live_->Find(block->address) != block)
        return "a live block is not in the table";
      if (block->state != State::kFree) continue;
      if (block->shared_key != CleanEnd(*block)) return "entered under another clean size";
      if (block->owner != nullptr && block->own_key != block->bytes) return "entered under another size";
      if (IsFree(previous) && previous->owner == nullptr && block->owner == nullptr) return "free neighbours apart";
    }
    if (at != region->base + region->bytes) return "blocks do not fill the region";
    for (const auto& [address, chunk] : region->chunks) mapped += chunk.bytes;
  }
  if (free != free_ || used != used_ || pinned != pinned_ || moving != moving_) return "sums are off";
  if (moving == 0 && (mapped < free + used || mapped > free + used + pinned)) return "blocks and chunks differ";
  for (const auto& [stream, lane] : lanes_) {
    std::uint64_t point = 0;
    for (const StreamBlock* block = lane->order.front(); block != nullptr; block = block->order_link.next) {
      if (block->point < point) return "points fall";
      point = block->point;
      if (block->owner != lane.get() || block->state != State::kFree) return "a foreign block in the order";
      if (block->dirty_begin < block->address || block->dirty_end > block->end()) return "dirt outside";
    }
    if (point > stream->last_free) return "a point that was never drawn";
  }
  return nullptr;
}

}  // namespace cuheap
