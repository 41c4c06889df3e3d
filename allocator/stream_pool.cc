#include "allocator/stream_pool.h"

#include "allocator/stream_ladder.h"

namespace cuheap {

class StreamPool::Impl : public StreamLadder {
 public:
  using StreamLadder::StreamLadder;
};

StreamPool::StreamPool(StreamMemoryRef memory, StreamPoolObserver* observer, StreamPoolOptions options)
    : impl_(std::make_unique<Impl>(memory, observer, options)) {}

StreamPool::~StreamPool() = default;

StreamPoolId StreamPool::AddPool(int device, std::size_t max_bytes, bool expects_much) {
  if (impl_->disabled()) return 0;
  return impl_->Locked([&](StreamBooks& books) { return books.AddPool(device, max_bytes, expects_much); });
}

void StreamPool::DestroyPool(StreamPoolId pool) {
  if (impl_->disabled()) return;
  impl_->Locked([&](StreamBooks& books) {
    if (StreamPoolRecord* found = books.FindPool(pool)) found->destroyed = true;
  });
  impl_->TrimAfterSynchronization();
}

DriverResult StreamPool::SetAccess(StreamPoolId pool, const AccessGrant* grants, std::size_t count) {
  return impl_->disabled() ? kDriverInvalidValue : impl_->SetAccess(pool, grants, count);
}

void StreamPool::SetReleaseThreshold(StreamPoolId pool, std::size_t bytes) {
  if (impl_->disabled()) return;
  impl_->Locked([&](StreamBooks& books) {
    if (StreamPoolRecord* found = books.FindPool(pool)) found->release_threshold = bytes;
  });
}

void StreamPool::ResetReservedHigh(StreamPoolId pool) {
  if (impl_->disabled()) return;
  impl_->Locked([&](StreamBooks& books) {
    if (StreamPoolRecord* found = books.FindPool(pool)) found->reserved_high = found->Stats().reserved;
  });
}

void StreamPool::ResetUsedHigh(StreamPoolId pool) {
  if (impl_->disabled()) return;
  impl_->Locked([&](StreamBooks& books) {
    if (StreamPoolRecord* found = books.FindPool(pool)) found->used_high = found->Stats().used;
  });
}

std::size_t StreamPool::TrimTo(StreamPoolId pool, std::size_t keep) {
  return impl_->disabled() ? 0 : impl_->TrimTo(pool, keep);
}

StreamPoolStats StreamPool::Stats(StreamPoolId pool) const {
  if (impl_->disabled()) return {};
  return impl_->Locked([&](StreamBooks& books) {
    const StreamPoolRecord* found = books.FindPool(pool);
    return found == nullptr ? StreamPoolStats() : found->Stats();
  });
}

StreamAllocateOutcome StreamPool::Allocate(StreamPoolId pool, const StreamRef& stream, std::size_t bytes) {
  if (impl_->disabled()) return {kDriverInvalidValue, {}, StreamSource::kReady};
  return impl_->Allocate(pool, stream, bytes);
}

StreamFreeOutcome StreamPool::Free(DeviceAddress address, const StreamRef* stream) {
  if (impl_->disabled()) return {};
  return impl_->Locked([&](StreamBooks& books) { return books.Free(address, stream); });
}

std::optional<StreamPoolBlock> StreamPool::Find(DeviceAddress address) const {
  if (impl_->disabled()) return std::nullopt;
  return impl_->Locked([&](StreamBooks& books) { return books.Find(address); });
}

bool StreamPool::Owns(DeviceAddress address) const { return !impl_->disabled() && impl_->Owns(address); }

bool StreamPool::Pin(DeviceAddress address) {
  if (impl_->disabled()) return false;
  return impl_->Locked([&](StreamBooks& books) { return books.Pin(address); });
}

std::uint64_t StreamPool::PinForNow(DeviceAddress address) {
  if (impl_->disabled()) return 0;
  return impl_->Locked([&](StreamBooks& books) { return books.PinForNow(address); });
}

bool StreamPool::Unpin(DeviceAddress address, std::uint64_t incarnation, ContextId context) {
  if (impl_->disabled()) return false;
  return impl_->Locked([&](StreamBooks& books) { return books.Unpin(address, incarnation, context); });
}

std::uint64_t StreamPool::BeginSynchronize() const {
  if (impl_->disabled()) return 0;
  return impl_->Locked([](StreamBooks& books) { return books.Point(); });
}

bool StreamPool::StreamCompleted(StreamId stream, std::uint64_t point) {
  return !impl_->disabled() && impl_->StreamCompleted(stream, point);
}

bool StreamPool::ContextCompleted(ContextId context, std::uint64_t point) {
  if (impl_->disabled()) return false;
  return impl_->Locked([&](StreamBooks& books) {
    books.ContextProven(context, point);
    return books.AnyWatched();
  });
}

void StreamPool::TrimAfterSynchronization() {
  if (!impl_->disabled()) impl_->TrimAfterSynchronization();
}

void StreamPool::StreamDestroying(StreamId stream) {
  if (!impl_->disabled()) impl_->StreamDestroying(stream);
}

void StreamPool::StreamDestroyed(StreamId stream) {
  if (!impl_->disabled()) impl_->StreamDestroyed(stream);
}

void StreamPool::StreamKept(StreamId stream) {
  if (impl_->disabled()) return;
  impl_->Locked([&](StreamBooks& books) { books.gates().Open(stream); });
}

void StreamPool::ContextDestroying(ContextId context) {
  if (!impl_->disabled()) impl_->CloseContext(context);
}

void StreamPool::ContextDestroyed(ContextId context) {
  if (!impl_->disabled()) impl_->ContextDestroyed(context);
}

void StreamPool::ContextKept(ContextId context) {
  if (!impl_->disabled()) impl_->OpenContext(context);
}

std::size_t StreamPool::ReleaseIdle(std::optional<int> device, std::size_t wanted) {
  return impl_->disabled() ? 0 : impl_->ReleaseIdle(device, wanted);
}

ReleaseWatch& StreamPool::releases() { return impl_->watch(); }

bool StreamPool::FreeAddressSpace() { return !impl_->disabled() && impl_->FreeAddressSpace(); }

std::size_t StreamPool::IdleBytes(int device) const {
  if (impl_->disabled()) return 0;
  return impl_->Locked([&](StreamBooks& books) {
    std::size_t sum = 0;
    books.ForPools(device, [&sum](StreamPoolRecord& pool) {
      for (StreamArena* arena : {&pool.small, &pool.large}) {
        arena->Drain();
        sum += arena->IdleBytes();
      }
    });
    return sum;
  });
}

StreamPoolStats StreamPool::DeviceStats(std::optional<int> device) const {
  if (impl_->disabled()) return {};
  return impl_->Locked([&](StreamBooks& books) { return books.Stats(device); });
}

void StreamPool::DisableInChild() { impl_->Disable(); }

const char* StreamPool::CheckInvariants() const {
  return impl_->Locked([](StreamBooks& books) {
    const char* broken = nullptr;
    books.ForPools(std::nullopt, [&broken](const StreamPoolRecord& pool) {
      for (const StreamArena* arena : {&pool.small, &pool.large}) {
        if (broken == nullptr) broken = arena->CheckInvariants();
      }
    });
    return broken;
  });
}

}  // namespace cuheap
