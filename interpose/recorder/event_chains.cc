#include "interpose/recorder/event_chains.h"

#include <algorithm>
#include <new>

#include "interpose/recorder/store_order.h"

namespace cuheap::recorder {
namespace {

using journal::Counter;

constexpr std::uint64_t kFirstExtentBytes = 64 * 1024;
// A chain that got no extent asks again after this many dropped events: asking takes the lock of all chains.
constexpr std::uint64_t kAskAgainAfter = 256;
// Chains that keep their extent while no thread has them. After a burst of threads the rest of their extents is
// recycled.
constexpr std::uint32_t kIdleChainsWithExtent = 64;
// Allocation ids hold 24 bits of chain.
constexpr std::uint32_t kMaxChains = (1u << 24) - 1;

void Count(JournalFile* file, Counter counter, std::uint64_t by) {
  file->header()->counters[static_cast<std::size_t>(counter)].fetch_add(by, std::memory_order_relaxed);
}

}  // namespace

void EventChains::Init(JournalFile* file, Arena* arena, std::uint64_t max_bytes) {
  file_ = file;
  arena_ = arena;
  max_bytes_ = max_bytes == 0 ? 0 : std::max(max_bytes, 2 * kFirstExtentBytes);
}

EventChain* EventChains::Acquire() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (idle_ != nullptr) {
    EventChain* chain = idle_;
    idle_ = chain->next_idle;
    chain->next_idle = nullptr;
    --idle_count_;
    return chain;
  }
  if (chains_made_ == kMaxChains) return nullptr;
  void* memory = arena_->Allocate(sizeof(EventChain));
  if (memory == nullptr) return nullptr;
  EventChain* chain = new (memory) EventChain;
  chain->index = ++chains_made_;
  return chain;
}

void EventChains::Release(EventChain* chain) {
  std::lock_guard<std::mutex> lock(mutex_);
  chain->next_idle = idle_;
  idle_ = chain;
  if (++idle_count_ > kIdleChainsWithExtent && chain->current != nullptr) {
    Retire(chain->current, chain->position);
    chain->current = nullptr;
  }
}

void EventChains::Write(EventChain& chain, const EventData& data) {
  journal::Event& event = chain.current->events()[chain.position++];
  event.time_ns = data.time_ns;
  event.address = data.address;
  event.bytes = data.bytes;
  event.allocation_id = data.allocation_id;
  event.stream = data.stream;
  event.stack = data.stack;
  event.thread = data.thread;
  event.type = static_cast<std::uint8_t>(data.type);
  event.kind = static_cast<std::uint8_t>(data.kind);
  event.device = data.device;
  event.flags = data.flags;
  event.result = data.result;
  event.commit.store(chain.next_sequence++, std::memory_order_release);
}

bool EventChains::Advance(EventChain& chain, const EventData& data) {
  if (chain.current == nullptr && chain.dropped != 0 && chain.dropped % kAskAgainAfter != 0) {
    ++chain.dropped;
    Count(file_, Counter::kEventsDropped, 1);
    return false;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  EventExtent* next = NextExtent(chain);
  if (next == nullptr) {
    ++chain.dropped;
    Count(file_, Counter::kEventsDropped, 1);
    return false;
  }
  EventExtent* full = chain.current;
  chain.current = next;
  chain.position = 0;
  chain.dropped = 0;
  ++chain.extents_taken;
  Write(chain, data);
  if (full != nullptr) Retire(full, full->capacity);
  return true;
}

EventExtent* EventChains::NextExtent(EventChain& chain) {
  if (total_bytes_ == 0) {
    // See Note [The newest event of every thread].
    EventExtent* spare = AddExtent(nullptr, kFirstExtentBytes);
    if (spare == nullptr) return nullptr;
    Retire(spare, 0);
  }
  // Growing, so that busy threads need few; but never so much of the cap that a new thread finds none left.
  std::uint64_t bytes = kFirstExtentBytes << std::min<std::uint64_t>(chain.extents_taken, 4);
  while (bytes > kFirstExtentBytes && bytes > max_bytes_ / 64) bytes /= 2;
  for (const std::uint64_t size : {bytes, kFirstExtentBytes}) {
    if (total_bytes_ + size > max_bytes_) continue;
    if (EventExtent* added = AddExtent(&chain, size); added != nullptr) return added;
  }
  // One that takes without giving must leave one for those that have theirs.
  return retired_count_ >= (chain.current == nullptr ? 2u : 1u) ? Recycle(chain) : nullptr;
}

// chain: nullptr for a spare extent, with no events.
EventExtent* EventChains::AddExtent(EventChain* chain, std::uint64_t bytes) {
  if (total_bytes_ + bytes > max_bytes_) return nullptr;
  // Kept for the next try if there is no space in the file.
  if (unused_ == nullptr) unused_ = arena_->Allocate(sizeof(EventExtent));
  if (unused_ == nullptr) return nullptr;
  const auto prepare = [](void* mapped, void* argument) {
    auto* header = static_cast<journal::EventExtentHeader*>(mapped);
    const auto* owner = static_cast<const EventChain*>(argument);
    if (owner == nullptr) return;
    header->chain.store(owner->index, std::memory_order_relaxed);
    header->first_sequence.store(owner->next_sequence, std::memory_order_release);
  };
  const auto added = file_->AddExtent(journal::ExtentKind::kEvents, chain == nullptr ? 0 : chain->index, bytes,
                                      kFirstExtentBytes, prepare, chain);
  if (added.memory == nullptr) return nullptr;
  total_bytes_ += added.bytes;
  EventExtent* extent = new (unused_) EventExtent;
  unused_ = nullptr;
  extent->header = static_cast<journal::EventExtentHeader*>(added.memory);
  extent->capacity = (added.bytes - sizeof(journal::EventExtentHeader)) / sizeof(journal::Event);
  return extent;
}

EventExtent* EventChains::Recycle(EventChain& chain) {
  EventExtent* extent = oldest_retired_;
  if (extent == nullptr) return nullptr;
  oldest_retired_ = extent->next_retired;
  if (oldest_retired_ == nullptr) newest_retired_ = nullptr;
  extent->next_retired = nullptr;
  --retired_count_;
  // Counted first: a kill in between must not make events vanish uncounted.
  Count(file_, Counter::kEventsOverwritten, extent->used);
  // A reader must never take a record of the chain before for one of the new: sequences of two chains overlap.
  extent->header->first_sequence.store(0, std::memory_order_release);
  OrderStores();
  for (std::uint64_t i = 0; i < extent->capacity; ++i) extent->events()[i].commit.store(0, std::memory_order_relaxed);
  OrderStores();
  extent->header->chain.store(chain.index, std::memory_order_release);
  extent->header->first_sequence.store(chain.next_sequence, std::memory_order_release);
  return extent;
}

void EventChains::Retire(EventExtent* extent, std::uint64_t used) {
  extent->used = used;
  ++retired_count_;
  if (newest_retired_ == nullptr) {
    oldest_retired_ = extent;
  } else {
    newest_retired_->next_retired = extent;
  }
  newest_retired_ = extent;
}

}  // namespace cuheap::recorder
