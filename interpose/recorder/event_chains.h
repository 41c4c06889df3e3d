// Event chains: each recording thread appends to a chain of its own, without a lock, until its extent is full.
//
//   chain 7:  [extent, full] -> [extent, full] -> [current extent: events 1..412 | free]
//               retired           retired            only its thread writes here
//
// Full extents retire into one queue over all chains, oldest first. When the cap on event bytes is reached (or space
// runs out), the oldest retired extent of any chain is recycled: what is lost is always the oldest. A chain whose
// thread ended keeps its current extent and is taken over by the next new thread, so the number of chains is that of
// threads alive at once. If nothing can be recycled the event is dropped and counted.
//
// Note [The newest event of every thread]
// A chain must never recycle what it has just filled: for a moment the newest events of its thread would be gone, and a
// kill might come then. So there is one extent more than chains that have one, from the first on (the queue is never
// empty), a full extent retires only after its successor was taken from the queue, and the first event goes into the
// successor under the same lock: every chain's newest event lies in its current extent, which nobody else takes.
#ifndef CUHEAP_INTERPOSE_RECORDER_EVENT_CHAINS_H_
#define CUHEAP_INTERPOSE_RECORDER_EVENT_CHAINS_H_

#include <cstdint>
#include <mutex>

#include "interpose/journal/format.h"
#include "interpose/recorder/journal_file.h"
#include "interpose/recorder/own_memory.h"

namespace cuheap::recorder {

// The payload of an event; chain, sequence and commit are the chain's business.
struct EventData {
  std::uint64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t allocation_id = 0;
  std::uint64_t stream = 0;
  std::uint32_t stack = 0;
  std::uint32_t thread = 0;
  journal::EventType type = journal::EventType::kNone;
  journal::AllocationKind kind = journal::AllocationKind::kNone;
  std::uint16_t device = 0xFFFF;
  std::uint16_t flags = 0;
  std::uint16_t result = 0;
};

// An extent of events in this process.
struct EventExtent {
  journal::EventExtentHeader* header = nullptr;
  std::uint64_t capacity = 0;  // records
  std::uint64_t used = 0;      // records in it when it retired
  EventExtent* next_retired = nullptr;

  journal::Event* events() const { return reinterpret_cast<journal::Event*>(header + 1); }
};

// One chain. All members belong to the thread that holds the chain, but for next_idle (the chains' mutex).
struct EventChain {
  std::uint32_t index = 0;  // from 1
  EventExtent* current = nullptr;
  std::uint64_t position = 0;  // next record in current
  std::uint64_t next_sequence = 1;
  std::uint64_t next_allocation = 1;
  std::uint64_t extents_taken = 0;  // for the growth of sizes
  std::uint64_t dropped = 0;        // since the last try to get an extent
  EventChain* next_idle = nullptr;

  std::uint64_t NewAllocationId() { return journal::MakeAllocationId(index, next_allocation++); }
};

class EventChains {
 public:
  constexpr EventChains() = default;

  // max_bytes: cap on all extents; 0 for no events at all, otherwise raised to the least that can work.
  void Init(JournalFile* file, Arena* arena, std::uint64_t max_bytes);

  // A chain for the calling thread, with no extent yet if it is a new one; nullptr when there is no memory.
  EventChain* Acquire();
  // The thread ends; another may go on with the chain.
  void Release(EventChain* chain);

  // Appends; false when the event was dropped (counted here). Only by the chain's holder.
  bool Append(EventChain& chain, const EventData& data) {
    if (chain.current == nullptr || chain.position == chain.current->capacity) {
      return Advance(chain, data);
    }
    Write(chain, data);
    return true;
  }

  // Test access: bytes of all event extents.
  std::uint64_t total_bytes() const { return total_bytes_; }

 private:
  static void Write(EventChain& chain, const EventData& data);
  bool Advance(EventChain& chain, const EventData& data);
  EventExtent* AddExtent(EventChain* chain, std::uint64_t bytes);
  EventExtent* NextExtent(EventChain& chain);
  EventExtent* Recycle(EventChain& chain);
  void Retire(EventExtent* extent, std::uint64_t used);

  JournalFile* file_ = nullptr;
  Arena* arena_ = nullptr;
  std::uint64_t max_bytes_ = 0;
  std::mutex mutex_;
  std::uint64_t total_bytes_ = 0;
  std::uint32_t chains_made_ = 0;
  EventChain* idle_ = nullptr;
  std::uint32_t idle_count_ = 0;
  std::uint32_t retired_count_ = 0;
  void* unused_ = nullptr;  // memory for an EventExtent
  EventExtent* oldest_retired_ = nullptr;
  EventExtent* newest_retired_ = nullptr;
};

}  // namespace cuheap::recorder

#endif  // CUHEAP_INTERPOSE_RECORDER_EVENT_CHAINS_H_
