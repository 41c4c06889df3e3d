// The live table: what the program (and our pool) holds right now, in slots of the journal, with an index by address in
// this process's own memory. The slots alone say what is live; see the publication rules in interpose/journal/format.h.
//
// Sharded by address: one lock, one index and one stock of free slots per shard. Locks are held over memory writes, and
// over the growth of the file when a shard runs out of slots; never over a call of anything but ours.
#ifndef CUHEAP_INTERPOSE_RECORDER_LIVE_TABLE_H_
#define CUHEAP_INTERPOSE_RECORDER_LIVE_TABLE_H_

#include <cstdint>
#include <mutex>

#include "interpose/journal/format.h"
#include "interpose/recorder/journal_file.h"
#include "interpose/recorder/own_memory.h"

namespace cuheap::recorder {

// What a slot holds.
struct LiveBlock {
  std::uint64_t allocation_id = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t stream = 0;
  std::uint64_t context = 0;
  std::uint32_t stack = 0;
  std::uint32_t thread = 0;
  journal::AllocationKind kind = journal::AllocationKind::kNone;
  std::uint16_t device = 0xFFFF;
  std::uint16_t flags = 0;
};

// Addresses of different spaces may be equal without meaning the same thing: handles, registrations, our own segments
// and tensors (the first block of a segment has the segment's address).
enum class AddressSpace : std::uint8_t { kMemory, kArray, kVirtual, kRegistered, kSegment, kTensor };
AddressSpace SpaceOf(journal::AllocationKind kind);

// Address -> slot: open addressing, linear probing, deletion by shifting back. Not locked by itself.
class AddressIndex {
 public:
  constexpr AddressIndex() = default;
  // The slot of (address, space), or nullptr. address != 0.
  journal::LiveSlot* Find(std::uint64_t address, AddressSpace space) const;
  // Precondition: not in it. False, and unchanged, when there is no memory.
  bool Insert(std::uint64_t address, AddressSpace space, journal::LiveSlot* slot);
  void Erase(std::uint64_t address, AddressSpace space);
  std::uint64_t size() const { return size_; }

  template <typename Function>
  void ForEach(Function function) const {
    for (std::uint64_t i = 0; i < capacity_; ++i) {
      if (entries_[i].address != 0) function(SlotOf(entries_[i]));
    }
  }

 private:
  struct Entry {
    std::uint64_t address;  // 0: free
    std::uint64_t tagged;   // the slot's address, which ends in zeros, plus the space
  };
  static constexpr std::uint64_t kTagMask = 7;
  static journal::LiveSlot* SlotOf(const Entry& entry) {
    return reinterpret_cast<journal::LiveSlot*>(entry.tagged & ~kTagMask);
  }
  std::uint64_t Position(std::uint64_t address, AddressSpace space) const;
  bool Grow();

  Entry* entries_ = nullptr;
  std::uint64_t capacity_ = 0;  // a power of two
  std::uint64_t size_ = 0;
};

class LiveTable {
 public:
  constexpr LiveTable() = default;
  void Init(JournalFile* file) { file_ = file; }

  struct InsertResult {
    bool stored = false;    // false: no slot to be had
    bool replaced = false;  // the address was live already; `old` says as what
    LiveBlock old;
  };
  InsertResult Insert(const LiveBlock& block);

  // Removes the block and tells what it was; false if there is none.
  bool Remove(std::uint64_t address, AddressSpace space, LiveBlock& removed);

  // Writes down where the block is mapped (0: nowhere) and tells which it is; false if there is none.
  bool SetMapping(std::uint64_t address, AddressSpace space, std::uint64_t mapped_address, LiveBlock& block);

  // Removes blocks that die with this context and copies them to `out`, at most `limit`; returns how many. Fewer than
  // `limit`: none is left.
  std::uint64_t RemoveOfContext(std::uint64_t context, LiveBlock* out, std::uint64_t limit);

 private:
  static constexpr unsigned kShards = 16;
  struct alignas(64) Shard {
    std::mutex mutex;
    AddressIndex index;
    GrowingArray<journal::LiveSlot*> free_slots;
  };

  Shard& ShardOf(std::uint64_t address);
  bool Restock(Shard& shard);
  static void RemoveLocked(Shard& shard, journal::LiveSlot* slot, AddressSpace space, LiveBlock& removed);

  JournalFile* file_ = nullptr;
  std::mutex stock_mutex_;  // after a shard's
  journal::LiveSlot* stock_next_ = nullptr;
  journal::LiveSlot* stock_end_ = nullptr;
  std::uint64_t next_extent_bytes_ = 64 * 1024;
  Shard shards_[kShards];
};

}  // namespace cuheap::recorder

#endif  // CUHEAP_INTERPOSE_RECORDER_LIVE_TABLE_H_
