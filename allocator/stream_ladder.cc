#include "allocator/stream_ladder.h"

#include <algorithm>
#include <utility>

namespace cuheap {
namespace {

// How often a request tries again after memory went back: each time another thread may have been faster.
constexpr int kReleaseAttempts = 100;
constexpr std::uint64_t kLegacyHandle = 1;              // CU_STREAM_LEGACY
constexpr std::size_t kLargest = std::size_t{1} << 47;  // bytes: more than any device has

constexpr std::size_t RoundUp(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

// ---- allocating ----

StreamAllocateOutcome StreamLadder::Allocate(StreamPoolId id, const StreamRef& stream, std::size_t bytes) {
  if (bytes == 0) return {kDriverInvalidValue, {}, StreamSource::kReady};
  if (bytes > kLargest) return {kDriverOutOfMemory, {}, StreamSource::kReady};
  const StreamRequest request{id, stream, bytes, RoundUp(bytes, kStreamGranule), bytes < options_.small_bytes};
  int device = -1;
  std::optional<StreamPoolBlock> block = Locked([&](StreamBooks& books) -> std::optional<StreamPoolBlock> {
    StreamPoolRecord* pool = books.FindPool(id);
    if (pool == nullptr || pool->destroyed) return std::nullopt;
    device = pool->device;
    std::optional<StreamPoolBlock> taken = books.TryTake(request, /*drain=*/false);
    if (!taken.has_value()) taken = books.TryTake(request, /*drain=*/true);
    ++(taken.has_value() ? pool->hits : pool->misses);
    return taken;
  });
  if (block.has_value()) return {kDriverSuccess, *block, StreamSource::kReady};
  if (device < 0) return {kDriverInvalidValue, {}, StreamSource::kReady};
  if (ProbeOthers(request)) {
    block = Locked([&](StreamBooks& books) { return books.TryTake(request, /*drain=*/true); });
    if (block.has_value()) return {kDriverSuccess, *block, StreamSource::kProven};
  }
  const StreamAllocateOutcome grown = Grow(request);
  return grown.result == kDriverOutOfMemory ? AllocateAfterOutOfMemory(request, device, grown) : grown;
}

StreamAllocateOutcome StreamLadder::AllocateAfterOutOfMemory(const StreamRequest& request, int device,
                                                             StreamAllocateOutcome outcome) {
  const std::size_t wanted = RoundUp(request.rounded, kStreamPage);
  const auto take = [&](bool elsewhere) {
    return Locked([&](StreamBooks& books) {
      return elsewhere ? books.TryTakeElsewhere(request) : books.TryTake(request, /*drain=*/true);
    });
  };
  std::uint64_t releases = 0;  // whether memory has come back since the refusal is not known: one more try at least
  for (const bool waited : {false, true}) {
    if (waited && WaitForContexts(device)) {
      if (const auto block = take(false)) return {kDriverSuccess, *block, StreamSource::kAfterWait};
    }
    // First only as much as is asked for: what stays saves later driver calls. What goes back may be another thread's
    // before it is ours, so this ends when there is nothing left to give back, not after one try.
    for (int attempt = 0; attempt < kReleaseAttempts; ++attempt) {
      if (ReleaseIdle(device, attempt == 0 ? wanted : 0) == 0) {
        if (attempt == 0) continue;
        // What a synchronisation asks for, a release threshold for example, may have given memory back before we can.
        if (!watch_.ChangedSince(releases)) break;
      }
      releases = watch_.ended();
      outcome = Grow(request);
      if (outcome.result != kDriverOutOfMemory) return outcome;
    }
  }
  if (const auto block = take(true)) return {kDriverSuccess, *block, StreamSource::kReady};
  return outcome;
}

// Asks the driver how far other streams are whose freed memory could serve the request. True if anything new is proven.
bool StreamLadder::ProbeOthers(const StreamRequest& request) {
  std::vector<StreamProbe> probes = Locked([&](StreamBooks& books) { return books.BeginProbes(request); });
  if (probes.empty()) return false;
  for (StreamProbe& probe : probes) Ask(&probe);
  std::vector<std::uint64_t> done;
  const bool news = Locked([&](StreamBooks& books) {
    const bool proven = books.EndProbes(&probes, &done);
    books.DropDeadStreams(&done);
    return proven;
  });
  left_.notify_all();
  Destroy(done);
  return news;
}

void StreamLadder::Ask(StreamProbe* probe) {
  for (const StreamState::Mark& mark : probe->marks) probe->reached.push_back(memory_.QueryEvent(mark.event).ok());
  if (probe->wants_mark) {
    std::uint64_t event = 0;
    if (memory_.RecordEvent(probe->ref, &event).ok()) {
      probe->made = {event, probe->point};
      probe->made_reached = memory_.QueryEvent(event).ok();
    }
  } else if (probe->alive && probe->ref.kind == StreamKind::kLegacy) {
    probe->passed = memory_.QueryStream(probe->ref).ok();
  }
}

// New pages, as few as make room for the request, and a block of them.
StreamAllocateOutcome StreamLadder::Grow(const StreamRequest& request) {
  const auto failed = [](DriverResult result) { return StreamAllocateOutcome{result, {}, StreamSource::kDriver}; };
  for (;;) {
    StreamGrowth growth;
    StreamArena* arena = nullptr;
    int device = 0;
    bool full = false, gone = false;
    std::optional<StreamPoolBlock> block = Locked([&](StreamBooks& books) -> std::optional<StreamPoolBlock> {
      StreamPoolRecord* record = books.FindPool(request.pool);
      gone = record == nullptr;  // destroyed meanwhile
      if (gone) return std::nullopt;
      StreamPoolRecord& pool = *record;
      device = pool.device;
      StreamArena& found = books.ArenaOf(pool, request.small);
      if (auto taken = books.TryTake(request, /*drain=*/true)) return taken;  // freed meanwhile
      if (!found.ClaimGrowth(books.LaneOf(found, request.stream), request.rounded, &growth)) return std::nullopt;
      arena = &found;
      full = pool.max_bytes != 0 && pool.small.reserved() + pool.large.reserved() > pool.max_bytes;
      if (full) arena->AbortGrowth(growth);
      return std::nullopt;
    });
    if (block.has_value()) return {kDriverSuccess, *block, StreamSource::kReady};
    if (full) return failed(kDriverOutOfMemory);
    if (gone) return failed(kDriverInvalidValue);
    if (arena == nullptr) {
      if (const DriverResult added = AddRegion(request); !added.ok()) {
        StreamAllocateOutcome outcome = failed(added);
        outcome.no_address_space = true;
        return outcome;
      }
      continue;
    }
    std::vector<StreamChunk> chunks;
    bool stuck = false;
    if (const DriverResult mapped = MapPages(request.pool, device, *growth.space, &chunks, &stuck); !mapped.ok()) {
      Locked([&](StreamBooks&) { arena->AbortGrowth(growth, stuck); });
      return failed(mapped);
    }
    block = Locked([&](StreamBooks& books) {
      arena->CommitGrowth(growth, chunks);
      return books.TryTake(request, /*drain=*/false);
    });
    if (block.has_value()) return {kDriverSuccess, *block, StreamSource::kDriver};
  }
}

DriverResult StreamLadder::AddRegion(const StreamRequest& request) {
  const std::size_t least = RoundUp(request.rounded, kStreamPage);
  std::size_t bytes = Locked([&](StreamBooks& books) {
    const StreamPoolRecord* pool = books.FindPool(request.pool);
    return pool == nullptr ? least : pool->NextRegionBytes(request.small, request.rounded, options_);
  });
  DeviceAddress base = 0;
  DriverResult result = memory_.Reserve(bytes, &base);
  // Address space may be short, too: then what holds nothing goes back, and if that is not enough, less is taken.
  if (!result.ok() && FreeAddressSpace()) result = memory_.Reserve(bytes, &base);
  while (!result.ok() && bytes > least) {
    bytes = std::max(least, bytes / 4 / kStreamPage * kStreamPage);
    result = memory_.Reserve(bytes, &base);
  }
  if (!result.ok()) return result;
  for (DeviceAddress low = low_.load(); base < low && !low_.compare_exchange_weak(low, base);) {
  }
  for (DeviceAddress high = high_.load(); base + bytes > high && !high_.compare_exchange_weak(high, base + bytes);) {
  }
  const bool added = Locked([&](StreamBooks& books) {
    StreamPoolRecord* pool = books.FindPool(request.pool);
    if (pool != nullptr) books.ArenaOf(*pool, request.small).AddRegion(base, bytes);
    return pool != nullptr;
  });
  if (!added) memory_.Unreserve(base, bytes);
  return added ? kDriverSuccess : kDriverInvalidValue;
}

// True if any address space went back to the driver. Another thread that just took a region may have to take it again.
bool StreamLadder::FreeAddressSpace() {
  std::vector<std::pair<DeviceAddress, std::size_t>> regions;
  Locked([&](StreamBooks& books) {
    books.TakeDeadPools(&regions);
    books.TakeEmptyRegions(&regions);
  });
  for (const auto& [address, bytes] : regions) memory_.Unreserve(address, bytes);
  return !regions.empty();
}

// Physical memory behind the whole range, usable by all who may use the pool. After a failure nothing is left of it,
// unless it is stuck.
DriverResult StreamLadder::MapPages(StreamPoolId pool, int device, const StreamBlock& space,
                                    std::vector<StreamChunk>* chunks, bool* stuck) {
  DeviceAddress at = space.address;
  DriverResult result = kDriverSuccess;
  while (at < space.end() && result.ok()) {
    StreamChunk chunk{std::min<std::size_t>(space.end() - at, options_.chunk_bytes), 0};
    result = MapChunk(device, at, &chunk);
    if (!result.ok()) break;
    chunks->push_back(chunk);
    at += chunk.bytes;
  }
  if (result.ok()) result = Grant(pool, device, space.address, space.bytes);
  at = space.address;
  if (!result.ok()) watch_.Begin(chunks->size());
  for (const StreamChunk& chunk : *chunks) {
    if (!result.ok()) {
      *stuck |= !UnmapChunk(at, chunk);
      watch_.End();
    } else if (observer_ != nullptr) {
      observer_->StreamSegmentAllocated(device, at, chunk.bytes);
    }
    at += chunk.bytes;
  }
  return result;
}

DriverResult StreamLadder::MapChunk(int device, DeviceAddress address, StreamChunk* chunk) {
  const DriverResult created = memory_.Create(device, chunk->bytes, &chunk->handle);
  if (!created.ok()) return created;
  const DriverResult mapped = memory_.Map(address, chunk->bytes, chunk->handle);
  if (!mapped.ok()) memory_.Release(chunk->handle);
  return mapped;
}

bool StreamLadder::UnmapChunk(DeviceAddress address, const StreamChunk& chunk) {
  const bool unmapped = memory_.Unmap(address, chunk.bytes).ok();
  memory_.Release(chunk.handle);  // what is still mapped stays until it is not
  return unmapped;
}

// Opens the range to all who may use the pool, also to those who were added while the driver was at it.
DriverResult StreamLadder::Grant(StreamPoolId id, int device, DeviceAddress address, std::size_t bytes) {
  for (std::uint64_t version = 0, seen = ~std::uint64_t{0};; seen = version) {
    std::vector<AccessGrant> grants;
    const bool known = Locked([&](StreamBooks& books) {
      const StreamPoolRecord* pool = books.FindPool(id);
      if (pool == nullptr) return false;
      version = pool->access_version;
      grants = pool->access;
      return true;
    });
    if (!known) return kDriverInvalidValue;
    if (version == seen) return kDriverSuccess;
    grants.push_back({device, 3});
    if (const DriverResult set = memory_.SetAccess(address, bytes, grants.data(), grants.size()); !set.ok()) return set;
  }
}

bool StreamLadder::WaitForContexts(int device) {
  bool any = false;
  for (const ContextId context : Locked([&](StreamBooks& books) { return books.WaitingContexts(device); })) {
    const std::uint64_t point = Locked([&](StreamBooks& books) {
      books.CountSynchronization(device);
      return books.Point();
    });
    if (!memory_.Synchronize(context).ok()) continue;
    Locked([&](StreamBooks& books) { books.ContextProven(context, point); });
    any = true;
  }
  return any;
}

// ---- giving back ----

std::size_t StreamLadder::ReleaseIdle(std::optional<int> device, std::size_t wanted) {
  std::vector<StreamDetached> detached;
  Locked([&](StreamBooks& books) {
    std::size_t sum = 0;
    books.ForPools(device, [&](StreamPoolRecord& pool) {
      for (StreamArena* arena : {&pool.large, &pool.small}) {
        if (wanted != 0 && sum >= wanted) return;
        const std::size_t from = detached.size();
        arena->Drain();
        arena->DetachIdle(wanted == 0 ? 0 : wanted - sum, &detached);
        for (std::size_t i = from; i < detached.size(); ++i) sum += detached[i].chunk.bytes;
      }
    });
    watch_.Begin(detached.size());
  });
  return GiveBack(detached);
}

std::size_t StreamLadder::TrimTo(StreamPoolId id, std::size_t keep) {
  std::vector<StreamDetached> detached;
  Locked([&](StreamBooks& books) {
    StreamPoolRecord* pool = books.FindPool(id);
    if (pool == nullptr) return;
    for (StreamArena* arena : {&pool->large, &pool->small}) {
      arena->Drain();
      // What is on its way already does not count as held.
      const StreamPoolStats stats = pool->Stats();
      const std::size_t held = stats.reserved - stats.moving;
      if (held > keep) arena->DetachIdle(held - keep, &detached);
    }
    watch_.Begin(detached.size());
  });
  return GiveBack(detached);
}

std::size_t StreamLadder::GiveBack(const std::vector<StreamDetached>& detached) {
  std::size_t sum = 0;
  for (const StreamDetached& item : detached) {
    const DeviceAddress address = item.block->address;
    const int device = item.arena->device();
    if (observer_ != nullptr) observer_->StreamSegmentFreeing(device, address, item.chunk.bytes);
    const bool unmapped = memory_.Unmap(address, item.chunk.bytes).ok();
    if (unmapped) {
      memory_.Release(item.chunk.handle);
      sum += item.chunk.bytes;
    } else if (observer_ != nullptr) {
      observer_->StreamSegmentAllocated(device, address, item.chunk.bytes);
    }
    Locked([&](StreamBooks&) { item.arena->FinishDetach(item, unmapped); });
    watch_.End();
  }
  return sum;
}

void StreamLadder::TrimAfterSynchronization() {
  std::vector<std::pair<StreamPoolId, std::size_t>> pools;
  Locked([&](StreamBooks& books) {
    books.ForPools(std::nullopt, [&pools](const StreamPoolRecord& pool) {
      if (pool.watched()) pools.emplace_back(pool.id, pool.destroyed ? 0 : *pool.release_threshold);
    });
  });
  for (const auto& [id, keep] : pools) TrimTo(id, keep);
  TakeDead();
}

void StreamLadder::TakeDead() {
  std::vector<std::pair<DeviceAddress, std::size_t>> regions;
  std::vector<std::uint64_t> done;
  Locked([&](StreamBooks& books) {
    books.TakeDeadPools(&regions);
    books.DropDeadStreams(&done);
  });
  for (const auto& [address, bytes] : regions) memory_.Unreserve(address, bytes);
  Destroy(done);
}

DriverResult StreamLadder::SetAccess(StreamPoolId id, const AccessGrant* grants, std::size_t count) {
  std::vector<std::pair<DeviceAddress, std::size_t>> chunks;
  const bool known = Locked([&](StreamBooks& books) {
    StreamPoolRecord* pool = books.FindPool(id);
    if (pool == nullptr) return false;
    ++pool->access_version;
    for (std::size_t i = 0; i < count; ++i) {
      if (grants[i].device == pool->device) continue;
      std::erase_if(pool->access, [&](const AccessGrant& old) { return old.device == grants[i].device; });
      pool->access.push_back(grants[i]);
    }
    for (const StreamArena* arena : {&pool->small, &pool->large}) {
      for (const auto& region : arena->regions()) {
        for (const auto& [address, chunk] : region->chunks) chunks.emplace_back(address, chunk.bytes);
      }
    }
    return true;
  });
  if (!known) return kDriverInvalidValue;
  DriverResult result = kDriverSuccess;
  for (const auto& [address, bytes] : chunks) {
    const DriverResult set = memory_.SetAccess(address, bytes, grants, count);
    // Invalid value: the chunk has gone back to the driver meanwhile.
    if (!set.ok() && set != kDriverInvalidValue) result = set;
  }
  return result;
}

// ---- streams and contexts that end ----

bool StreamLadder::StreamCompleted(StreamId id, std::uint64_t point) {
  StreamRef legacy{0, kLegacyHandle, 0, StreamKind::kLegacy};
  bool ask = false;
  const auto prove = [&](StreamBooks& books, bool proven) {
    StreamState* stream = books.FindStream(id);
    if (proven && stream != nullptr) books.StreamProven(stream, point);
    return books.AnyWatched();
  };
  const bool watched = Locked([&](StreamBooks& books) {
    const StreamState* stream = books.FindStream(id);
    const bool follows = stream != nullptr && stream->ref.behind_legacy && stream->ref.kind != StreamKind::kLegacy;
    if (!follows || stream->proven >= std::min(point, stream->last_free)) return prove(books, true);
    legacy.context = stream->ref.context;
    ask = stream->alive && books.gates().Enter(id);
    return false;
  });
  if (!ask) return watched;
  const bool proven = memory_.QueryStream(legacy).ok();
  const bool watched_now = Locked([&](StreamBooks& books) {
    books.gates().Leave(id);
    return prove(books, proven);
  });
  left_.notify_all();
  return watched_now;
}

void StreamLadder::StreamDestroying(StreamId id) {
  StreamState* stream = nullptr;
  StreamRef ref;
  std::uint64_t point = 0;
  {
    std::unique_lock lock(mutex_);
    // Another thread may be ending the stream or its context at this moment: then no new call may name the stream.
    const bool ending = books_.gates().Closed(id);
    books_.gates().Close(id);
    left_.wait(lock, [&] { return books_.Quiet(id); });
    stream = books_.FindStream(id);
    if (ending || stream == nullptr || !stream->alive || stream->last_free <= stream->proven) return;
    if (stream->ref.kind != StreamKind::kOrdinary) return;
    stream->probed = true;  // so that it stays in the books
    ref = stream->ref;
    point = stream->last_free;
  }
  // The last chance to learn when its frees are reached.
  std::uint64_t event = 0;
  const bool recorded = memory_.RecordEvent(ref, &event).ok();
  Locked([&](StreamBooks&) {
    if (recorded && !stream->context_gone) stream->marks.push_back({event, point});
    stream->probed = false;
  });
  left_.notify_all();
}

void StreamLadder::StreamDestroyed(StreamId id) {
  std::vector<std::uint64_t> done;
  Locked([&](StreamBooks& books) {
    books.gates().Open(id);
    StreamState* stream = books.FindStream(id);
    if (stream == nullptr) return;
    stream->alive = false;
    books.DropDeadStreams(&done);
  });
  Destroy(done);
}

void StreamLadder::CloseContext(ContextId context) {
  std::unique_lock lock(mutex_);
  const std::vector<StreamId> streams = books_.StreamsOf(context);
  for (const StreamId id : streams) books_.gates().Close(id);
  left_.wait(
      lock, [&] { return std::all_of(streams.begin(), streams.end(), [&](StreamId id) { return books_.Quiet(id); }); });
}

void StreamLadder::OpenContext(ContextId context) {
  Locked([&](StreamBooks& books) {
    for (const StreamId id : books.StreamsOf(context)) books.gates().Open(id);
  });
}

void StreamLadder::ContextDestroyed(ContextId context) {
  Locked([&](StreamBooks& books) {
    const std::vector<StreamId> streams = books.StreamsOf(context);
    books.ContextGone(context);
    for (const StreamId id : streams) books.gates().Open(id);
    std::vector<std::uint64_t> none;  // its events went with it
    books.DropDeadStreams(&none);
  });
}

bool StreamLadder::Owns(DeviceAddress address) {
  if (address < low_.load(std::memory_order_relaxed) || address >= high_.load(std::memory_order_relaxed)) return false;
  return Locked([&](StreamBooks& books) { return books.Owns(address); });
}

}  // namespace cuheap
