#include "allocator/stream_books.h"

#include <algorithm>

namespace cuheap {
namespace {

// Marks kept in a stream at a time: one that was recorded at an earlier miss, and a newer one.
constexpr std::size_t kMarks = 2;

}  // namespace

StreamPoolStats StreamPoolRecord::Stats() const {
  StreamPoolStats stats = small.usage();
  stats += large.usage();
  stats.reserved_high = reserved_high;
  stats.used_high = used_high;
  stats.hits = hits;
  stats.misses = misses;
  return stats;
}

void StreamPoolRecord::NotePeaks() {
  reserved_high = std::max(reserved_high, small.reserved() + large.reserved());
  used_high = std::max(used_high, small.used() + large.used());
}

// ---- pools ----

std::size_t StreamPoolRecord::NextRegionBytes(bool for_small, std::size_t bytes,
                                              const StreamPoolOptions& options) const {
  std::size_t next = expects_much ? options.region_bytes : options.first_region_bytes;
  const std::size_t before = (for_small ? small : large).regions().size();
  for (std::size_t i = 0; i < before && next < options.region_bytes; ++i) next *= 4;
  next = std::min(next, options.region_bytes);
  if (for_small) next /= 16;
  const std::size_t least = (bytes + kStreamPage - 1) / kStreamPage * kStreamPage;
  return std::max(least, next / kStreamPage * kStreamPage);
}

StreamPoolId StreamBooks::AddPool(int device, std::size_t max_bytes, bool expects_much) {
  auto pool = std::make_unique<StreamPoolRecord>(next_pool_, device, &live_, options_.stream_rule);
  pool->max_bytes = max_bytes;
  pool->expects_much = expects_much;
  pools_.emplace(next_pool_, std::move(pool));
  return next_pool_++;
}

StreamPoolRecord* StreamBooks::FindPool(StreamPoolId id) const {
  if (last_pool_ != nullptr && last_pool_->id == id) return last_pool_;
  const auto found = pools_.find(id);
  return found == pools_.end() ? nullptr : last_pool_ = found->second.get();
}

bool StreamBooks::AnyWatched() const {
  return std::any_of(pools_.begin(), pools_.end(), [](const auto& entry) {
    if (!entry.second->watched()) return false;
    const StreamPoolStats stats = entry.second->Stats();
    return stats.reserved == 0 || (stats.free != 0 && stats.reserved > entry.second->release_threshold.value_or(0));
  });
}

void StreamBooks::TakeEmptyRegions(std::vector<std::pair<DeviceAddress, std::size_t>>* regions) {
  ForPools(std::nullopt, [regions](StreamPoolRecord& pool) {
    for (StreamArena* arena : {&pool.small, &pool.large}) {
      const auto taken = arena->TakeEmptyRegions();
      regions->insert(regions->end(), taken.begin(), taken.end());
    }
  });
}

void StreamBooks::TakeDeadPools(std::vector<std::pair<DeviceAddress, std::size_t>>* regions) {
  std::erase_if(pools_, [&](const auto& entry) {
    StreamPoolRecord& pool = *entry.second;
    if (!pool.destroyed || pool.Stats().reserved != 0) return false;
    for (StreamArena* arena : {&pool.small, &pool.large}) {
      const auto taken = arena->TakeEmptyRegions();
      regions->insert(regions->end(), taken.begin(), taken.end());
      arena->DropAllLanes();
    }
    if (last_pool_ == &pool) last_pool_ = nullptr;
    return true;
  });
}

// ---- blocks ----

StreamPoolBlock StreamBooks::Describe(const StreamBlock& block) const {
  const StreamArena& arena = *block.region->arena;
  return {.address = block.address,
          .bytes = block.requested,
          .block_bytes = block.bytes,
          .incarnation = block.incarnation,
          .pool = arena.pool(),
          .device = arena.device()};
}

std::optional<StreamPoolBlock> StreamBooks::TryTake(const StreamRequest& request, bool drain) {
  StreamPoolRecord* pool = FindPool(request.pool);
  if (pool == nullptr) return std::nullopt;
  StreamArena& arena = ArenaOf(*pool, request.small);
  if (drain) arena.Drain();
  const StreamBlock* block =
      arena.Take(LaneOf(arena, request.stream), request.rounded, request.bytes, incarnation_ + 1);
  if (block == nullptr) return std::nullopt;
  ++incarnation_;
  pool->NotePeaks();
  return Describe(*block);
}

std::optional<StreamPoolBlock> StreamBooks::TryTakeElsewhere(const StreamRequest& request) {
  StreamRequest other = request;
  other.small = !request.small;
  return TryTake(other, /*drain=*/true);
}

StreamFreeOutcome StreamBooks::Free(DeviceAddress address, const StreamRef* stream) {
  StreamFreeOutcome outcome;
  StreamBlock* block = live_.Erase(address);
  if (block == nullptr) {
    if (Owns(address)) outcome.status = StreamFreeStatus::kInvalid;
    return outcome;
  }
  outcome.status = StreamFreeStatus::kFreed;
  outcome.block = Describe(*block);
  StreamArena& arena = *block->region->arena;
  StreamLane* lane = nullptr;
  if (stream != nullptr) {
    lane = LaneOf(arena, *stream);
    lane->stream->last_free = ++point_;
  }
  arena.Free(block, lane);
  return outcome;
}

bool StreamBooks::Owns(DeviceAddress address) const {
  if (live_.Find(address) != nullptr) return true;  // what a program frees, nearly always
  for (const auto& [id, pool] : pools_) {
    if (pool->small.FindRegion(address) != nullptr || pool->large.FindRegion(address) != nullptr) return true;
  }
  return false;
}

std::optional<StreamPoolBlock> StreamBooks::Find(DeviceAddress address) const {
  if (const StreamBlock* block = live_.Find(address)) return Describe(*block);
  for (const auto& [id, pool] : pools_) {
    for (const StreamArena* arena : {&pool->small, &pool->large}) {
      if (const StreamBlock* block = arena->FindLive(address)) return Describe(*block);
    }
  }
  return std::nullopt;
}

StreamBlock* StreamBooks::FindBlock(DeviceAddress address, bool live) const {
  for (const auto& [id, pool] : pools_) {
    for (const StreamArena* arena : {&pool->small, &pool->large}) {
      if (StreamBlock* block = live ? arena->FindLive(address) : arena->FindPinned(address)) return block;
    }
  }
  return nullptr;
}

bool StreamBooks::Pin(DeviceAddress address) {
  StreamBlock* block = FindBlock(address, true);
  if (block == nullptr) return false;
  return block->pin = true;
}

std::uint64_t StreamBooks::PinForNow(DeviceAddress address) {
  StreamBlock* block = FindBlock(address, true);
  if (block == nullptr || block->address != address || block->pin) return 0;
  block->pin = true;
  return block->incarnation;
}

bool StreamBooks::Unpin(DeviceAddress address, std::uint64_t incarnation, ContextId context) {
  if (StreamBlock* live = FindBlock(address, true)) {
    if (live->address != address || live->incarnation != incarnation) return false;
    live->pin = false;
    return true;
  }
  StreamBlock* block = FindBlock(address, false);
  if (block == nullptr || block->incarnation != incarnation) return false;
  StreamArena& arena = *block->region->arena;
  if (context == 0) {
    arena.Unpin(block, nullptr);
    return true;
  }
  // A stream of no program, dead from the start: only the end of a synchronisation of the context proves what is freed
  // in it. The driver's ids count from 1, so they never come here.
  StreamRef nobody;
  nobody.id = ~context;
  nobody.context = context;
  StreamState* stream = Stream(nobody);
  stream->alive = false;
  stream->last_free = ++point_;
  arena.Unpin(block, arena.Lane(stream));
  return true;
}

// ---- streams ----

StreamState* StreamBooks::FindStream(StreamId id) const {
  if (last_stream_ != nullptr && last_stream_->ref.id == id) return last_stream_;
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : last_stream_ = found->second.get();
}

StreamState* StreamBooks::Stream(const StreamRef& ref) {
  if (StreamState* known = FindStream(ref.id)) return known;
  auto stream = std::make_unique<StreamState>();
  stream->ref = ref;
  return last_stream_ = (streams_[ref.id] = std::move(stream)).get();
}

void StreamBooks::StreamProven(StreamState* stream, std::uint64_t point) {
  stream->proven = std::max(stream->proven, point);
}

void StreamBooks::ContextProven(ContextId context, std::uint64_t point) {
  for (const auto& [id, stream] : streams_) {
    if (stream->ref.context == context) StreamProven(stream.get(), point);
  }
}

void StreamBooks::ContextGone(ContextId context) {
  for (const auto& [id, stream] : streams_) {
    if (stream->ref.context != context) continue;
    StreamProven(stream.get(), stream->last_free);
    stream->alive = false;
    stream->context_gone = true;
    stream->marks.clear();
  }
}

std::vector<StreamId> StreamBooks::StreamsOf(ContextId context) const {
  std::vector<StreamId> ids;
  for (const auto& [id, stream] : streams_) {
    if (stream->ref.context == context) ids.push_back(id);
  }
  return ids;
}

void StreamBooks::DropDeadStreams(std::vector<std::uint64_t>* done) {
  ForPools(std::nullopt, [](StreamPoolRecord& pool) {
    for (StreamArena* arena : {&pool.small, &pool.large}) {
      arena->Drain();
      arena->DropDeadLanes();
    }
  });
  std::erase_if(streams_, [&](const auto& entry) {
    const StreamState& stream = *entry.second;
    if (stream.alive || stream.lanes != 0 || stream.probed) return false;
    for (const StreamState::Mark& mark : stream.marks) done->push_back(mark.event);
    if (last_stream_ == &stream) last_stream_ = nullptr;
    return true;
  });
}

// ---- proof ----

std::vector<StreamProbe> StreamBooks::BeginProbes(const StreamRequest& request) {
  std::vector<StreamProbe> probes;
  StreamPoolRecord* pool = FindPool(request.pool);
  if (pool == nullptr) return probes;
  for (StreamLane* lane : ArenaOf(*pool, request.small).Waiting()) {
    StreamState* stream = lane->stream;
    if (stream->ref.id == request.stream.id || stream->probed) continue;
    const bool ordinary = stream->ref.kind == StreamKind::kOrdinary;
    StreamProbe probe;
    probe.wants_mark = stream->alive && ordinary && stream->marks.size() < kMarks &&
                       (stream->marks.empty() || stream->marks.back().point < stream->last_free);
    const bool can_be_asked = stream->alive && stream->ref.kind == StreamKind::kLegacy;
    if (!probe.wants_mark && !can_be_asked && stream->marks.empty()) continue;
    if (!gates_.Enter(stream->ref.id)) continue;
    stream->probed = true;
    probe.stream = stream;
    probe.ref = stream->ref;
    probe.alive = stream->alive;
    probe.marks = stream->marks;
    probe.point = stream->last_free;
    probes.push_back(std::move(probe));
  }
  return probes;
}

bool StreamBooks::EndProbes(std::vector<StreamProbe>* probes, std::vector<std::uint64_t>* done) {
  bool news = false;
  for (StreamProbe& probe : *probes) {
    StreamState* stream = probe.stream;
    const std::uint64_t before = stream->proven;
    if (probe.passed) StreamProven(stream, probe.point);
    if (probe.made.event != 0 && !stream->context_gone) {
      probe.marks.push_back(probe.made);
      probe.reached.push_back(probe.made_reached);
      stream->marks.push_back(probe.made);
    }
    for (std::size_t i = 0; i < probe.reached.size(); ++i) {
      if (!probe.reached[i]) continue;
      StreamProven(stream, probe.marks[i].point);
    }
    std::erase_if(stream->marks, [&](const StreamState::Mark& mark) {
      if (mark.point > stream->proven) return false;
      done->push_back(mark.event);
      return true;
    });
    news |= stream->proven > before;
    stream->probed = false;
    gates_.Leave(stream->ref.id);
  }
  return news;
}

std::vector<ContextId> StreamBooks::WaitingContexts(int device) const {
  std::vector<ContextId> contexts;
  ForPools(device, [&contexts](const StreamPoolRecord& pool) {
    for (const StreamArena* arena : {&pool.small, &pool.large}) {
      for (const StreamLane* lane : arena->Waiting()) contexts.push_back(lane->stream->ref.context);
    }
  });
  std::sort(contexts.begin(), contexts.end());
  contexts.erase(std::unique(contexts.begin(), contexts.end()), contexts.end());
  return contexts;
}

StreamPoolStats StreamBooks::Stats(std::optional<int> device) const {
  StreamPoolStats stats;
  ForPools(device, [&stats](const StreamPoolRecord& pool) { stats += pool.Stats(); });
  for (const auto& [ordinal, count] : synchronizations_) {
    if (!device.has_value() || *device == ordinal) stats.synchronizations += count;
  }
  return stats;
}

}  // namespace cuheap
