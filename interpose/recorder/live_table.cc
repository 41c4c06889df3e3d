#include "interpose/recorder/live_table.h"

#include <algorithm>

#include "interpose/recorder/store_order.h"

namespace cuheap::recorder {
namespace {

using journal::AllocationKind;
using journal::LiveSlot;

constexpr std::uint64_t kLeastExtentBytes = 64 * 1024;
constexpr std::uint64_t kLargestExtentBytes = 4 * 1024 * 1024;
constexpr unsigned kSlotsPerRestock = 32;

std::uint64_t Hash(std::uint64_t address, AddressSpace space) {
  std::uint64_t hash = (address + static_cast<std::uint64_t>(space)) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 29);
}

// A seqlock with one writer (the shard's lock): odd while the fields are not whole.
class SlotWriter {
 public:
  explicit SlotWriter(LiveSlot* slot) : slot_(slot), sequence_(slot->sequence.load(std::memory_order_relaxed)) {
    slot_->sequence.store(sequence_ + 1, std::memory_order_relaxed);
    OrderStores();
  }
  ~SlotWriter() { slot_->sequence.store(sequence_ + 2, std::memory_order_release); }
  SlotWriter(const SlotWriter&) = delete;
  SlotWriter& operator=(const SlotWriter&) = delete;

 private:
  LiveSlot* slot_;
  std::uint32_t sequence_;
};

void Fill(LiveSlot* slot, const LiveBlock& block) {
  SlotWriter writer(slot);
  slot->allocation_id = block.allocation_id;
  slot->address = block.address;
  slot->bytes = block.bytes;
  slot->reserved_bytes = block.reserved_bytes;
  slot->time_ns = block.time_ns;
  slot->stream = block.stream;
  slot->context = block.context;
  slot->stack = block.stack;
  slot->thread = block.thread;
  slot->kind = static_cast<std::uint8_t>(block.kind);
  slot->device = block.device;
  slot->flags = block.flags;
  slot->mapped_address = 0;
  slot->state = 1;
}

void Empty(LiveSlot* slot) {
  SlotWriter writer(slot);
  slot->state = 0;
}

void Read(const LiveSlot* slot, LiveBlock& block) {
  block.allocation_id = slot->allocation_id;
  block.address = slot->address;
  block.bytes = slot->bytes;
  block.reserved_bytes = slot->reserved_bytes;
  block.time_ns = slot->time_ns;
  block.stream = slot->stream;
  block.context = slot->context;
  block.stack = slot->stack;
  block.thread = slot->thread;
  block.kind = static_cast<AllocationKind>(slot->kind);
  block.device = slot->device;
  block.flags = slot->flags;
}

// Stream-ordered and physical memory belongs to a device or a pool, not to a context. Source: CUDA Driver API, Stream
// Ordered Memory Allocator ("cuMemPoolDestroy"), Virtual Memory Management ("cuMemRelease"), cuCtxDestroy.
bool DiesWithContext(AllocationKind kind) {
  switch (kind) {
    case AllocationKind::kStreamOrdered:
    case AllocationKind::kFromPool:
    case AllocationKind::kVirtual:
    case AllocationKind::kHostVirtual:
    case AllocationKind::kTensor:  // its framework frees it, or nobody does
      return false;
    default:
      return true;
  }
}

}  // namespace

AddressSpace SpaceOf(AllocationKind kind) {
  switch (kind) {
    case AllocationKind::kArray:
    case AllocationKind::kMipmappedArray:
      return AddressSpace::kArray;
    case AllocationKind::kVirtual:
    case AllocationKind::kHostVirtual:
      return AddressSpace::kVirtual;
    case AllocationKind::kHostRegistered:
      return AddressSpace::kRegistered;
    case AllocationKind::kPoolSegment:
      return AddressSpace::kSegment;
    case AllocationKind::kTensor:
      return AddressSpace::kTensor;
    default:
      return AddressSpace::kMemory;
  }
}

std::uint64_t AddressIndex::Position(std::uint64_t address, AddressSpace space) const {
  return Hash(address, space) & (capacity_ - 1);
}

LiveSlot* AddressIndex::Find(std::uint64_t address, AddressSpace space) const {
  if (capacity_ == 0) return nullptr;
  for (std::uint64_t i = Position(address, space); entries_[i].address != 0; i = (i + 1) & (capacity_ - 1)) {
    if (entries_[i].address == address && (entries_[i].tagged & kTagMask) == static_cast<std::uint64_t>(space)) {
      return SlotOf(entries_[i]);
    }
  }
  return nullptr;
}

bool AddressIndex::Grow() {
  const std::uint64_t capacity = capacity_ == 0 ? 256 : capacity_ * 2;
  Entry* entries = static_cast<Entry*>(MapMemory(capacity * sizeof(Entry)));
  if (entries == nullptr) return false;
  Entry* old = entries_;
  const std::uint64_t old_capacity = capacity_;
  entries_ = entries;
  capacity_ = capacity;
  for (std::uint64_t i = 0; i < old_capacity; ++i) {
    if (old[i].address == 0) continue;
    std::uint64_t to = Position(old[i].address, static_cast<AddressSpace>(old[i].tagged & kTagMask));
    while (entries_[to].address != 0) to = (to + 1) & (capacity_ - 1);
    entries_[to] = old[i];
  }
  if (old != nullptr) UnmapMemory(old, old_capacity * sizeof(Entry));
  return true;
}

bool AddressIndex::Insert(std::uint64_t address, AddressSpace space, LiveSlot* slot) {
  // At three quarters, so that a probe ends soon.
  if ((size_ + 1) * 4 > capacity_ * 3 && !Grow()) return false;
  std::uint64_t i = Position(address, space);
  while (entries_[i].address != 0) i = (i + 1) & (capacity_ - 1);
  entries_[i] = Entry{address, reinterpret_cast<std::uint64_t>(slot) | static_cast<std::uint64_t>(space)};
  ++size_;
  return true;
}

void AddressIndex::Erase(std::uint64_t address, AddressSpace space) {
  if (capacity_ == 0) return;
  const std::uint64_t mask = capacity_ - 1;
  std::uint64_t hole = Position(address, space);
  while (entries_[hole].address != address || (entries_[hole].tagged & kTagMask) != static_cast<std::uint64_t>(space)) {
    if (entries_[hole].address == 0) return;
    hole = (hole + 1) & mask;
  }
  for (std::uint64_t i = (hole + 1) & mask; entries_[i].address != 0; i = (i + 1) & mask) {
    // An entry may move into the hole unless its home lies after the hole (cyclically).
    const std::uint64_t home = Position(entries_[i].address, static_cast<AddressSpace>(entries_[i].tagged & kTagMask));
    if (((i - home) & mask) >= ((i - hole) & mask)) {
      entries_[hole] = entries_[i];
      hole = i;
    }
  }
  entries_[hole] = Entry{};
  --size_;
}

LiveTable::Shard& LiveTable::ShardOf(std::uint64_t address) { return shards_[(address * 0x9E3779B97F4A7C15) >> 60]; }

bool LiveTable::Restock(Shard& shard) {
  if (!shard.free_slots.Reserve(kSlotsPerRestock)) return false;
  std::lock_guard<std::mutex> lock(stock_mutex_);
  if (stock_next_ == stock_end_) {
    const auto added = file_->AddExtent(journal::ExtentKind::kLive, 0, next_extent_bytes_, kLeastExtentBytes);
    if (added.memory == nullptr) return false;
    stock_next_ = static_cast<LiveSlot*>(added.memory);
    stock_end_ = stock_next_ + added.bytes / sizeof(LiveSlot);
    next_extent_bytes_ = std::min(next_extent_bytes_ * 2, kLargestExtentBytes);
  }
  // Backwards, so that the lowest slot is used first.
  const auto count = std::min<std::uint64_t>(kSlotsPerRestock, static_cast<std::uint64_t>(stock_end_ - stock_next_));
  for (std::uint64_t i = count; i > 0; --i) shard.free_slots.PushBack(stock_next_ + i - 1);
  stock_next_ += count;
  return true;
}

LiveTable::InsertResult LiveTable::Insert(const LiveBlock& block) {
  InsertResult result;
  if (block.address == 0) return result;
  const AddressSpace space = SpaceOf(block.kind);
  Shard& shard = ShardOf(block.address);
  std::lock_guard<std::mutex> lock(shard.mutex);
  if (LiveSlot* slot = shard.index.Find(block.address, space); slot != nullptr) {
    result.replaced = true;
    Read(slot, result.old);
    Fill(slot, block);
    result.stored = true;
    return result;
  }
  if (shard.free_slots.size() == 0 && !Restock(shard)) return result;
  LiveSlot* slot = shard.free_slots[shard.free_slots.size() - 1];
  if (!shard.index.Insert(block.address, space, slot)) return result;
  shard.free_slots.PopBack();
  Fill(slot, block);
  result.stored = true;
  return result;
}

void LiveTable::RemoveLocked(Shard& shard, LiveSlot* slot, AddressSpace space, LiveBlock& removed) {
  Read(slot, removed);
  Empty(slot);
  shard.index.Erase(removed.address, space);
  // Without memory for the stock the slot is lost until the process ends: better than losing the truth about it.
  shard.free_slots.PushBack(slot);
}

bool LiveTable::Remove(std::uint64_t address, AddressSpace space, LiveBlock& removed) {
  if (address == 0) return false;
  Shard& shard = ShardOf(address);
  std::lock_guard<std::mutex> lock(shard.mutex);
  LiveSlot* slot = shard.index.Find(address, space);
  if (slot == nullptr) return false;
  RemoveLocked(shard, slot, space, removed);
  return true;
}

bool LiveTable::SetMapping(std::uint64_t address, AddressSpace space, std::uint64_t mapped_address, LiveBlock& block) {
  if (address == 0) return false;
  Shard& shard = ShardOf(address);
  std::lock_guard<std::mutex> lock(shard.mutex);
  LiveSlot* slot = shard.index.Find(address, space);
  if (slot == nullptr) return false;
  Read(slot, block);
  SlotWriter writer(slot);
  slot->mapped_address = mapped_address;
  return true;
}

std::uint64_t LiveTable::RemoveOfContext(std::uint64_t context, LiveBlock* out, std::uint64_t limit) {
  std::uint64_t count = 0;
  for (Shard& shard : shards_) {
    std::lock_guard<std::mutex> lock(shard.mutex);
    const std::uint64_t first = count;
    shard.index.ForEach([&](const LiveSlot* slot) {
      if (count < limit && slot->context == context && DiesWithContext(static_cast<AllocationKind>(slot->kind))) {
        Read(slot, out[count++]);
      }
    });
    for (std::uint64_t i = first; i < count; ++i) {
      const AddressSpace space = SpaceOf(out[i].kind);
      RemoveLocked(shard, shard.index.Find(out[i].address, space), space, out[i]);
    }
  }
  return count;
}

}  // namespace cuheap::recorder
