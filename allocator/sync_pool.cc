#include "allocator/sync_pool.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "allocator/pool_state.h"

namespace cuheap {
namespace {

// How often a request tries again after memory went back: each time another thread may have been faster.
constexpr int kReleaseAttempts = 100;
// Slabs that nothing can be taken from any more (all of it was exported and freed) are kept up to this number: a miss
// that gives them back waits as the program's frees natively would, so not each of them should.
constexpr std::size_t kUsedUpSlabs = 8;

}  // namespace

// The lock, the driver and the ladder over PoolState. Every member that calls out (memory_, observer_) does so between
// critical sections, never within one: see Note [Who holds an address] for what makes that safe.
class SyncPool::Impl {
 public:
  Impl(DeviceMemoryRef memory, SyncPoolObserver* observer, const SyncPoolOptions& options)
      : memory_(memory), observer_(observer), state_(options), watch_(options.await_releases) {}

  AllocateOutcome Allocate(ContextId context, int device, std::size_t bytes);
  std::size_t ReleaseIdle(std::optional<int> device, std::size_t wanted);
  std::size_t ReleaseAfterWaiting(std::optional<int> device);
  ReleaseWatch& watch() { return watch_; }
  // False without a lock for addresses where no segment has ever been.
  bool MayOwn(DeviceAddress address) const {
    return address >= low_.load(std::memory_order_acquire) && address < high_.load(std::memory_order_acquire);
  }
  std::optional<PoolBlock> Disown(DeviceAddress address);
  void ContextDestroying(ContextId context);
  void ContextDestroyed(ContextId context);

  // Runs f(PoolState&) under the lock. Out of host memory for the books ends the process: no exception may cross the
  // entry points above us.
  template <class F>
  auto Locked(F f) noexcept {
    const std::lock_guard lock(mutex_);
    return f(state_);
  }

  bool disabled() const { return disabled_.load(std::memory_order_relaxed); }
  void Disable() { disabled_.store(true, std::memory_order_relaxed); }

 private:
  AllocateOutcome AllocateAfterOutOfMemory(const PoolRequest& request, DriverResult refusal, std::uint64_t releases);
  AllocateOutcome Grow(const PoolRequest& request);
  template <class Take>
  std::size_t GiveBack(Take take);
  bool Synchronize(const PoolRequest& request);
  bool SynchronizeContext(ContextId context, int device);
  void FreeDetached(DetachedSegment detached, std::size_t* released);
  void Leave(ContextId context);
  void TellFreeing(const std::vector<SegmentNotice>& notices);

  const DeviceMemoryRef memory_;
  SyncPoolObserver* const observer_;
  std::atomic<bool> disabled_{false};
  std::mutex mutex_;
  std::condition_variable left_;  // a driver call of ours in some context is over
  PoolState state_;               // guarded by mutex_
  ReleaseWatch watch_;
  // All segments that ever were lie in [low_, high_).
  std::atomic<DeviceAddress> low_{~DeviceAddress{0}};
  std::atomic<DeviceAddress> high_{0};
};

AllocateOutcome SyncPool::Impl::Allocate(ContextId context, int device, std::size_t bytes) {
  if (bytes == 0) return {kDriverInvalidValue, {}, AllocationSource::kDriver};
  const PoolRequest request = state_.Plan(context, device, bytes, /*exact=*/false);  // reads options only
  const std::optional<PoolBlock> block = Locked([&](PoolState& state) {
    std::optional<PoolBlock> taken = state.TryTake(request);
    taken.has_value() ? state.CountHit(device) : state.CountMiss(device);
    return taken;
  });
  if (block.has_value()) return {kDriverSuccess, *block, AllocationSource::kReady};
  if (request.packed) {
    GiveBack([&](PoolState& state) { return state.TakeUsedUp(device, kUsedUpSlabs); });
  }
  const std::uint64_t releases = watch_.ended();
  const AllocateOutcome grown = Grow(request);
  return grown.result == kDriverOutOfMemory ? AllocateAfterOutOfMemory(request, grown.result, releases) : grown;
}

AllocateOutcome SyncPool::Impl::AllocateAfterOutOfMemory(const PoolRequest& request, DriverResult refusal,
                                                         std::uint64_t releases) {
  AllocateOutcome outcome{refusal, {}, AllocationSource::kDriver};
  if (Synchronize(request)) {
    const std::optional<PoolBlock> block = Locked([&](PoolState& state) { return state.TryTake(request); });
    if (block.has_value()) return {kDriverSuccess, *block, AllocationSource::kAfterSynchronization};
  }
  // First only as much as is asked for: what stays cached saves later driver calls. What goes back may be another
  // thread's before it is ours, so this ends when there is nothing left to give back, not after one try.
  for (int attempt = 0; attempt < kReleaseAttempts; ++attempt) {
    const std::size_t wanted = attempt == 0 ? request.segment_bytes : 0;
    if (ReleaseIdle(request.device, wanted) == 0) {
      if (attempt == 0) continue;
      if (!watch_.ChangedSince(releases)) break;
    }
    releases = watch_.ended();
    outcome = Grow(request);
    if (outcome.result != kDriverOutOfMemory) return outcome;
  }
  // A slab is more than was asked for: the program must get what it would have got without us.
  if (request.packed) return Grow(state_.Plan(request.context, request.device, request.bytes, /*exact=*/true));
  return outcome;
}

// One driver allocation, one block of it taken.
AllocateOutcome SyncPool::Impl::Grow(const PoolRequest& request) {
  std::unique_ptr<Segment> segment = PoolState::CreateSegment(request);
  const std::uint64_t serial =
      Locked([&](PoolState& state) { return state.EnsureContext(request.context, request.device); });
  DeviceAddress address = 0;
  const DriverResult result = memory_.Allocate(request.segment_bytes, &address);
  if (!result.ok()) return {result, {}, AllocationSource::kDriver};
  const DeviceAddress end = address + request.segment_bytes;
  for (DeviceAddress low = low_.load(); address < low && !low_.compare_exchange_weak(low, address);) {
  }
  for (DeviceAddress high = high_.load(); end > high && !high_.compare_exchange_weak(high, end);) {
  }

  std::vector<SegmentNotice> dropped;
  Locked([&](PoolState& state) { state.DropStale(address, request.segment_bytes, &dropped); });
  TellFreeing(dropped);
  if (observer_ != nullptr) {
    observer_->SegmentAllocated(request.context, request.device, address, request.segment_bytes);
  }
  std::optional<PoolBlock> block;
  if (segment != nullptr) {
    segment->set_base(address);
    block = Locked([&](PoolState& state) { return state.Add(request, serial, std::move(segment)); });
  }
  if (block.has_value()) return {kDriverSuccess, *block, AllocationSource::kDriver};

  TellFreeing({{request.context, request.device, address, request.segment_bytes}});
  AllocateOutcome outcome{kDriverSuccess, {}, AllocationSource::kUnpooled};
  outcome.block.address = address;
  outcome.block.bytes = request.bytes;
  outcome.block.block_bytes = request.segment_bytes;
  outcome.block.context = request.context;
  outcome.block.device = request.device;
  return outcome;
}

// One synchronisation of each context that could help. True if any completed.
bool SyncPool::Impl::Synchronize(const PoolRequest& request) {
  const std::vector<ContextId> contexts =
      Locked([&](PoolState& state) { return state.ContextsWorthSynchronizing(request); });
  bool any = false;
  for (const ContextId context : contexts) any |= SynchronizeContext(context, request.device);
  return any;
}

bool SyncPool::Impl::SynchronizeContext(ContextId context, int device) {
  const SyncTicket ticket = Locked([&](PoolState& state) {
    if (!state.gates().Enter(context)) return SyncTicket{0};
    state.CountSynchronization(device);
    return state.BeginSynchronize(context);
  });
  if (ticket == 0) return false;
  const bool completed = memory_.Synchronize(context).ok();
  Locked([&](PoolState& state) { state.EndSynchronize(context, ticket, completed); });
  Leave(context);
  return completed;
}

std::size_t SyncPool::Impl::ReleaseIdle(std::optional<int> device, std::size_t wanted) {
  return GiveBack([&](PoolState& state) { return state.TakeIdle(device, wanted); });
}

// What `take` takes out of the books, to the driver; the bytes.
template <class Take>
std::size_t SyncPool::Impl::GiveBack(Take take) {
  std::vector<DetachedSegment> idle = Locked([&](PoolState& state) {
    std::vector<DetachedSegment> taken = take(state);
    watch_.Begin(taken.size());
    return taken;
  });
  std::size_t released = 0;
  for (DetachedSegment& detached : idle) {
    const ContextId context = detached.notice.context;
    FreeDetached(std::move(detached), &released);
    watch_.End();
    Leave(context);
  }
  return released;
}

std::size_t SyncPool::Impl::ReleaseAfterWaiting(std::optional<int> device) {
  const std::vector<ContextId> contexts =
      Locked([&](PoolState& state) { return state.ContextsWithWaitingSlabs(device); });
  bool any = false;
  for (const ContextId context : contexts) any |= SynchronizeContext(context, device.value_or(0));
  return any ? ReleaseIdle(device, 0) : 0;
}

void SyncPool::Impl::FreeDetached(DetachedSegment detached, std::size_t* released) {
  const SegmentNotice notice = detached.notice;
  if (observer_ != nullptr) observer_->SegmentFreeing(notice.context, notice.device, notice.address, notice.bytes);
  const DriverResult result = memory_.Free(notice.address);
  if (result.ok()) {
    *released += notice.bytes;
    return;
  }
  if (result == kDriverInvalidValue) {  // the driver does not know the address: it isn't ours to hand out any more
    Locked([&](PoolState& state) { state.CountLost(notice.device); });
    return;
  }
  // Still there, unless its context died meanwhile. Told before it is published: after that it may be freed again.
  if (observer_ != nullptr) observer_->SegmentAllocated(notice.context, notice.device, notice.address, notice.bytes);
  if (!Locked([&](PoolState& state) { return state.PutBack(std::move(detached)); })) TellFreeing({notice});
}

void SyncPool::Impl::Leave(ContextId context) {
  Locked([&](PoolState& state) { state.gates().Leave(context); });
  left_.notify_all();
}

std::optional<PoolBlock> SyncPool::Impl::Disown(DeviceAddress address) {
  std::vector<SegmentNotice> dropped;
  const std::optional<PoolBlock> block = Locked([&](PoolState& state) { return state.Disown(address, &dropped); });
  TellFreeing(dropped);
  return block;
}

void SyncPool::Impl::ContextDestroying(ContextId context) {
  std::unique_lock lock(mutex_);
  state_.gates().Close(context);
  left_.wait(lock, [&] { return state_.gates().Quiet(context); });
}

void SyncPool::Impl::ContextDestroyed(ContextId context) {
  std::vector<SegmentNotice> dropped;
  Locked([&](PoolState& state) {
    state.ContextDestroyed(context, &dropped);
    state.gates().Open(context);
  });
  TellFreeing(dropped);
}

void SyncPool::Impl::TellFreeing(const std::vector<SegmentNotice>& notices) {
  if (observer_ == nullptr) return;
  for (const SegmentNotice& notice : notices) {
    observer_->SegmentFreeing(notice.context, notice.device, notice.address, notice.bytes);
  }
}

SyncPool::SyncPool(DeviceMemoryRef memory, SyncPoolObserver* observer, SyncPoolOptions options)
    : impl_(std::make_unique<Impl>(memory, observer, options)) {}

SyncPool::~SyncPool() = default;

AllocateOutcome SyncPool::Allocate(ContextId context, int device, std::size_t bytes) {
  if (impl_->disabled()) return {kDriverInvalidValue, {}, AllocationSource::kDriver};
  return impl_->Allocate(context, device, bytes);
}

FreeOutcome SyncPool::Free(DeviceAddress address) {
  if (impl_->disabled()) return {};
  return impl_->Locked([&](PoolState& state) { return state.Free(address); });
}

SyncTicket SyncPool::BeginSynchronize(ContextId context) {
  if (impl_->disabled()) return 0;
  return impl_->Locked([&](PoolState& state) { return state.BeginSynchronize(context); });
}

void SyncPool::EndSynchronize(ContextId context, SyncTicket ticket, bool success) {
  if (impl_->disabled()) return;
  impl_->Locked([&](PoolState& state) { state.EndSynchronize(context, ticket, success); });
}

std::size_t SyncPool::ReleaseIdle() { return impl_->disabled() ? 0 : impl_->ReleaseIdle(std::nullopt, 0); }

std::size_t SyncPool::ReleaseAfterWaiting(std::optional<int> device) {
  return impl_->disabled() ? 0 : impl_->ReleaseAfterWaiting(device);
}

ReleaseWatch& SyncPool::releases() { return impl_->watch(); }

std::size_t SyncPool::WaitingBytes(int device) const {
  if (impl_->disabled()) return 0;
  return impl_->Locked([&](PoolState& state) { return state.WaitingBytes(device); });
}

std::size_t SyncPool::IdleBytes(int device) const {
  if (impl_->disabled()) return 0;
  return impl_->Locked([&](PoolState& state) { return state.IdleBytes(device); });
}

std::optional<PoolBlock> SyncPool::Find(DeviceAddress address) const {
  if (impl_->disabled()) return std::nullopt;
  return impl_->Locked([&](PoolState& state) { return state.Find(address); });
}

bool SyncPool::Owns(DeviceAddress address) const {
  if (impl_->disabled() || !impl_->MayOwn(address)) return false;
  return impl_->Locked([&](PoolState& state) { return state.Owns(address); });
}

bool SyncPool::Pin(DeviceAddress address) {
  if (impl_->disabled()) return false;
  return impl_->Locked([&](PoolState& state) { return state.Pin(address); });
}

std::optional<PoolBlock> SyncPool::Export(DeviceAddress address) {
  if (impl_->disabled()) return std::nullopt;
  return impl_->Locked([&](PoolState& state) { return state.Export(address); });
}

std::uint64_t SyncPool::PinForNow(DeviceAddress address) {
  if (impl_->disabled()) return 0;
  return impl_->Locked([&](PoolState& state) { return state.PinForNow(address); });
}

bool SyncPool::Unpin(DeviceAddress address, std::uint64_t incarnation) {
  if (impl_->disabled()) return false;
  return impl_->Locked([&](PoolState& state) { return state.Unpin(address, incarnation); });
}

std::optional<PoolBlock> SyncPool::Disown(DeviceAddress address) {
  return impl_->disabled() ? std::nullopt : impl_->Disown(address);
}

void SyncPool::ContextSeen(ContextId context) {
  if (impl_->disabled()) return;
  impl_->Locked([&](PoolState& state) { state.ContextSeen(context); });
}

void SyncPool::PeersEnabled() {
  if (impl_->disabled()) return;
  impl_->Locked([](PoolState& state) { state.PeersEnabled(); });
}

void SyncPool::ContextDestroying(ContextId context) {
  if (!impl_->disabled()) impl_->ContextDestroying(context);
}

void SyncPool::ContextKept(ContextId context) {
  if (impl_->disabled()) return;
  impl_->Locked([&](PoolState& state) { state.gates().Open(context); });
}

void SyncPool::ContextDestroyed(ContextId context) {
  if (!impl_->disabled()) impl_->ContextDestroyed(context);
}

SyncPoolStats SyncPool::Stats() const {
  if (impl_->disabled()) return {};
  return impl_->Locked([](PoolState& state) { return state.Stats(); });
}

SyncPoolStats SyncPool::Stats(int device) const {
  if (impl_->disabled()) return {};
  return impl_->Locked([&](PoolState& state) { return state.Stats(device); });
}

void SyncPool::DisableInChild() { impl_->Disable(); }

}  // namespace cuheap
