#include "analysis/journal_events.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "analysis/journal_scan.h"

namespace cuheap::analysis {
namespace {

using journal::Event;
using journal::EventExtentHeader;

// Where an event belongs among those of the same time.
struct Place {
  std::uint32_t chain;
  std::uint64_t sequence;
};

// Sequence numbers seen of one chain.
struct ChainCount {
  std::uint64_t highest = 0;
  std::uint64_t count = 0;
};

class EventCollector {
 public:
  EventCollector(std::uint64_t start_ns, std::uint64_t until_ns) : start_ns_(start_ns), until_ns_(until_ns) {}

  void Add(const Event& event, std::uint32_t chain, std::uint64_t sequence) {
    ChainCount& seen = chains_[chain];
    seen.highest = std::max(seen.highest, sequence);
    ++seen.count;
    if (event.time_ns > until_ns_) return;
    const EventType type = FromJournal(static_cast<journal::EventType>(event.type));
    if (type == EventType::kNone) {
      ++result_.damaged;
      return;
    }
    Events& events = result_.events;
    events.type.push_back(type);
    events.time_ns.push_back(static_cast<std::int64_t>(event.time_ns - start_ns_));
    events.id.push_back(event.allocation_id);
    events.address.push_back(event.address);
    events.bytes.push_back(event.bytes);
    events.stream.push_back(event.stream);
    events.stack.push_back(event.stack);
    events.thread.push_back(event.thread);
    events.device.push_back(event.device);
    events.kind.push_back(FromJournal(static_cast<journal::AllocationKind>(event.kind)));
    events.flags.push_back(event.flags);
    events.result.push_back(event.result);
    places_.push_back({chain, sequence});
  }

  JournalEvents Finish() {
    Sort();
    for (const auto& [chain, seen] : chains_) result_.missing += seen.highest - std::min(seen.highest, seen.count);
    return std::move(result_);
  }

 private:
  // Column by column, so that at most one column exists twice.
  void Sort() {
    Events& events = result_.events;
    const auto earlier = [&](std::uint32_t a, std::uint32_t b) {
      if (events.time_ns[a] != events.time_ns[b]) return events.time_ns[a] < events.time_ns[b];
      if (places_[a].chain != places_[b].chain) return places_[a].chain < places_[b].chain;
      return places_[a].sequence < places_[b].sequence;
    };
    std::vector<std::uint32_t> order(events.size());
    std::iota(order.begin(), order.end(), 0u);
    if (std::is_sorted(order.begin(), order.end(), earlier)) return;
    std::sort(order.begin(), order.end(), earlier);
    places_ = std::vector<Place>();
    const auto permute = [&](auto& column) {
      std::remove_reference_t<decltype(column)> sorted;
      for (const std::uint32_t i : order) sorted.push_back(column[i]);
      column.swap(sorted);
    };
    permute(events.type);
    permute(events.time_ns);
    permute(events.id);
    permute(events.address);
    permute(events.bytes);
    permute(events.stream);
    permute(events.stack);
    permute(events.thread);
    permute(events.device);
    permute(events.kind);
    permute(events.flags);
    permute(events.result);
  }

  std::uint64_t start_ns_, until_ns_;
  JournalEvents result_;
  std::vector<Place> places_;
  std::map<std::uint32_t, ChainCount> chains_;
};

struct ChainPart {
  std::uint64_t first_sequence = 0;
  std::uint32_t chain = 0;
};

bool ReadPart(const JournalBytes& bytes, const ExtentPlace& extent, ChainPart& part) {
  alignas(EventExtentHeader) unsigned char raw[sizeof(EventExtentHeader)];
  if (extent.bytes < sizeof(raw) || !bytes.Read(extent.offset, raw, sizeof(raw))) return false;
  const auto& header = *reinterpret_cast<const EventExtentHeader*>(raw);
  part = {header.first_sequence.load(), header.chain.load()};
  return true;
}

}  // namespace

JournalEvents ReadJournalEvents(const JournalBytes& bytes, const JournalLayout& layout, bool live,
                                std::uint64_t until_ns, JournalDamage& damage) {
  // Indices of events are 32 bits wide while sorting; a journal's cap is a thousandth of that.
  constexpr std::uint64_t kMaxEvents = UINT32_MAX;
  EventCollector collector(layout.header.get().start_monotonic_ns, until_ns);
  std::uint64_t total = 0;
  for (const ExtentPlace& extent : layout.events) {
    ChainPart part;
    if (!ReadPart(bytes, extent, part) || part.first_sequence == 0) continue;
    ExtentPlace records{extent.offset + sizeof(EventExtentHeader), extent.bytes - sizeof(EventExtentHeader), 0};
    total += records.bytes / sizeof(Event);
    if (total > kMaxEvents) {
      damage.Add("more event records than a journal can hold, the rest is left out");
      break;
    }
    // While the writer lives, the extent may be recycled under our hands: collect first, keep if it was not.
    std::vector<std::uint64_t> kept;  // the words of whole events, the first of each its sequence number
    constexpr std::size_t kWords = sizeof(Event) / sizeof(std::uint64_t);
    const bool whole = ScanExtent<Event>(
        bytes, records, live, [&](const Event& before, const Event& event, const Event&, std::uint64_t index) {
          const std::uint64_t sequence = part.first_sequence + index;
          if (before.commit.load() != sequence) return;
          if (!live) return collector.Add(event, part.chain, sequence);
          const auto* words = reinterpret_cast<const std::uint64_t*>(&event);
          kept.push_back(sequence);
          kept.insert(kept.end(), words + 1, words + kWords);
        });
    if (!whole) damage.Add("events: the file could not be read to the end of an extent");
    if (!live) continue;
    ChainPart after;
    if (!ReadPart(bytes, extent, after) || after.first_sequence != part.first_sequence || after.chain != part.chain) {
      continue;
    }
    for (std::size_t at = 0; at < kept.size(); at += kWords) {
      collector.Add(*reinterpret_cast<const Event*>(&kept[at]), part.chain, kept[at]);
    }
  }
  return collector.Finish();
}

AllocationKind FromJournal(journal::AllocationKind kind) {
  using From = journal::AllocationKind;
  switch (kind) {
    case From::kNone:
      return AllocationKind::kNone;
    case From::kDevice:
      return AllocationKind::kDevice;
    case From::kPitched:
      return AllocationKind::kPitched;
    case From::kManaged:
      return AllocationKind::kManaged;
    case From::kStreamOrdered:
      return AllocationKind::kStreamOrdered;
    case From::kFromPool:
      return AllocationKind::kFromPool;
    case From::kArray:
      return AllocationKind::kArray;
    case From::kMipmappedArray:
      return AllocationKind::kMipmappedArray;
    case From::kVirtual:
      return AllocationKind::kVirtual;
    case From::kImported:
      return AllocationKind::kImported;
    case From::kModuleData:
      return AllocationKind::kModuleData;
    case From::kPoolSegment:
      return AllocationKind::kPoolSegment;
    case From::kTensor:
      return AllocationKind::kTensor;
    case From::kMulticast:
      return AllocationKind::kMulticast;
    case From::kExternal:
      return AllocationKind::kExternal;
    case From::kExternalArray:
      return AllocationKind::kExternalArray;
    case From::kImportedVirtual:
      return AllocationKind::kImportedVirtual;
    case From::kHostPinned:
      return AllocationKind::kHostPinned;
    case From::kHostRegistered:
      return AllocationKind::kHostRegistered;
    case From::kHostVirtual:
      return AllocationKind::kHostVirtual;
  }
  return AllocationKind::kNone;
}

EventType FromJournal(journal::EventType type) {
  // The two enums have the same values in the same order.
  static_assert(static_cast<int>(journal::EventType::kDriverCall) == static_cast<int>(EventType::kDriverCall));
  return type <= journal::EventType::kDriverCall ? static_cast<EventType>(type) : EventType::kNone;
}

}  // namespace cuheap::analysis
