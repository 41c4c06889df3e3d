#include "analysis/journal_live.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "analysis/journal_events.h"
#include "analysis/journal_scan.h"

namespace cuheap::analysis {
namespace {

using journal::LiveSlot;

Allocator AllocatorOf(AllocationKind kind, std::uint16_t flags) {
  if (kind == AllocationKind::kPoolSegment) return Allocator::kCuheap;
  return (flags & journal::kCallerIsPyTorch) != 0 ? Allocator::kPyTorch : Allocator::kProgram;
}

LiveAllocation FromSlot(const LiveSlot& slot, std::uint64_t start_ns) {
  LiveAllocation allocation;
  allocation.id = slot.allocation_id;
  allocation.address = slot.address;
  allocation.bytes = slot.bytes;
  allocation.reserved_bytes = slot.reserved_bytes;
  allocation.stream = slot.stream;
  allocation.context = slot.context;
  allocation.time_ns = static_cast<std::int64_t>(slot.time_ns - start_ns);
  allocation.stack = slot.stack;
  allocation.thread = slot.thread;
  allocation.device = slot.device;
  allocation.mapped_address = slot.mapped_address;
  allocation.kind = FromJournal(static_cast<journal::AllocationKind>(slot.kind));
  allocation.allocator = AllocatorOf(allocation.kind, slot.flags);
  allocation.served = (slot.flags & journal::kServedFromPool) != 0;
  return allocation;
}

// The slot was read while it was whole: the sequence is even and the same before and after.
bool IsWhole(const LiveSlot& before, const LiveSlot& after) {
  const std::uint32_t sequence = before.sequence.load();
  return sequence % 2 == 0 && sequence == after.sequence.load();
}

class LiveTable {
 public:
  LiveTable(std::uint64_t start_ns, Snapshot& snapshot) : start_ns_(start_ns), snapshot_(snapshot) {}

  void Add(const LiveSlot& slot) {
    if (slot.state == 0) return;
    if (slot.state != 1) {
      ++damaged_;
      return;
    }
    const LiveAllocation allocation = FromSlot(slot, start_ns_);
    (allocation.kind == AllocationKind::kPoolSegment ? snapshot_.segments : snapshot_.live).push_back(allocation);
  }
  std::uint64_t damaged() const { return damaged_; }

 private:
  std::uint64_t start_ns_;
  Snapshot& snapshot_;
  std::uint64_t damaged_ = 0;
};

void SortByAddress(std::vector<LiveAllocation>& table) {
  std::sort(table.begin(), table.end(), [](const LiveAllocation& a, const LiveAllocation& b) {
    return std::pair(a.address, a.id) < std::pair(b.address, b.id);
  });
}

// Reads one slot again until it is whole. A writer holds a slot for some ten nanoseconds.
bool RetrySlot(const JournalBytes& bytes, std::uint64_t offset, LiveTable& table) {
  constexpr int kTries = 1000;
  bool done = false;
  for (int i = 0; i < kTries && !done; ++i) {
    const bool readable =
        ScanExtent<LiveSlot>(bytes, {offset, sizeof(LiveSlot), sizeof(LiveSlot)}, true,
                             [&](const LiveSlot& before, const LiveSlot& slot, const LiveSlot& after, std::uint64_t) {
                               if (!IsWhole(before, after)) return;
                               table.Add(slot);
                               done = true;
                             });
    if (!readable) return false;
  }
  return done;
}

LiveAllocation FromEvent(const Events& events, std::size_t i) {
  LiveAllocation allocation;
  allocation.id = events.id[i];
  allocation.address = events.address[i];
  allocation.bytes = allocation.reserved_bytes = events.bytes[i];
  allocation.stream = events.stream[i];
  allocation.time_ns = events.time_ns[i];
  allocation.stack = events.stack[i];
  allocation.thread = events.thread[i];
  allocation.device = events.device[i];
  allocation.kind = events.kind[i];
  allocation.allocator = AllocatorOf(allocation.kind, events.flags[i]);
  allocation.served = (events.flags[i] & journal::kServedFromPool) != 0;
  return allocation;
}

}  // namespace

void ReadLiveTable(const JournalBytes& bytes, const JournalLayout& layout, bool live, Snapshot& snapshot,
                   JournalDamage& damage) {
  LiveTable table(layout.header.get().start_monotonic_ns, snapshot);
  std::uint64_t in_motion = 0;
  for (const ExtentPlace& extent : layout.live) {
    const bool whole = ScanExtent<LiveSlot>(
        bytes, extent, live,
        [&](const LiveSlot& before, const LiveSlot& slot, const LiveSlot& after, std::uint64_t index) {
          if (IsWhole(before, after)) return table.Add(slot);
          if (!live || !RetrySlot(bytes, extent.offset + index * sizeof(LiveSlot), table)) ++in_motion;
        });
    if (!whole) damage.Add("live table: the file could not be read to the end of an extent");
  }
  if (table.damaged() > 0)
    damage.Add("live table: " + std::to_string(table.damaged()) + " slots are damaged, left out");
  if (in_motion > 0) {
    snapshot.notes.push_back({"journal_in_motion",
                              "blocks whose allocation or free had not returned when the record ends: not counted", 0,
                              in_motion, 0});
  }
  SortByAddress(snapshot.live);
  SortByAddress(snapshot.segments);
}

void SettleLiveTable(std::int64_t since_ns, Snapshot& snapshot) {
  const Events& events = snapshot.events;
  struct Fate {
    std::size_t allocated_at = SIZE_MAX;  // event
    std::int64_t frees = 0;               // less those that failed
    std::optional<std::uint64_t> mapped_address;
  };
  std::map<std::uint64_t, Fate> fates;  // ordered: the same journal gives the same snapshot
  const auto first = std::lower_bound(events.time_ns.begin(), events.time_ns.end(), since_ns);
  for (auto i = static_cast<std::size_t>(first - events.time_ns.begin()); i < events.size(); ++i) {
    if (events.id[i] == 0) continue;
    switch (events.type[i]) {
      case EventType::kAllocate:
      case EventType::kSegmentAllocate:
        fates[events.id[i]].allocated_at = i;
        break;
      case EventType::kFree:
      case EventType::kSegmentFree:
        ++fates[events.id[i]].frees;
        break;
      case EventType::kFreeFailed:
        --fates[events.id[i]].frees;
        break;
      case EventType::kMap:
        fates[events.id[i]].mapped_address = events.address[i];
        break;
      case EventType::kUnmap:
        fates[events.id[i]].mapped_address = 0;
        break;
      default:
        break;
    }
  }
  absl::flat_hash_set<std::uint64_t> listed;
  for (auto* table : {&snapshot.live, &snapshot.segments}) {
    std::erase_if(*table, [&](const LiveAllocation& allocation) {
      const auto fate = fates.find(allocation.id);
      if (fate == fates.end()) return false;
      listed.insert(allocation.id);
      return fate->second.frees > 0;
    });
    for (LiveAllocation& allocation : *table) {
      const auto fate = fates.find(allocation.id);
      if (fate != fates.end()) allocation.mapped_address = fate->second.mapped_address.value_or(allocation.mapped_address);
    }
  }
  for (const auto& [id, fate] : fates) {
    if (fate.frees > 0 || fate.allocated_at == SIZE_MAX || listed.contains(id)) continue;
    LiveAllocation allocation = FromEvent(events, fate.allocated_at);
    allocation.mapped_address = fate.mapped_address.value_or(0);
    (allocation.kind == AllocationKind::kPoolSegment ? snapshot.segments : snapshot.live).push_back(allocation);
  }
  SortByAddress(snapshot.live);
  SortByAddress(snapshot.segments);
}

}  // namespace cuheap::analysis
