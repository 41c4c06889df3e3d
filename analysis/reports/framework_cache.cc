#include "analysis/reports/framework_cache.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "interpose/journal/format.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kSmallRequest = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmallSegment = std::uint64_t{2} << 20;
constexpr std::size_t kPoints = 240;

bool HeldAt(const Block& block, std::uint64_t position) {
  return block.allocated_at <= position && (block.freed_at > position || block.freed_with_context);
}

// Fills the segment's blocks from its tensors (by address) and what lies between.
void Lay(CacheSegment& segment, const std::vector<const Block*>& tensors) {
  std::uint64_t at = segment.address;
  const std::uint64_t end = segment.address + segment.bytes;
  const auto idle_until = [&](std::uint64_t until) {
    if (until <= at) return;
    segment.blocks.push_back({at, until - at});
    segment.largest_idle = std::max(segment.largest_idle, until - at);
  };
  for (const Block* tensor : tensors) {
    idle_until(tensor->address);
    segment.blocks.push_back({tensor->address, tensor->bytes, tensor->id, tensor->stack, tensor->freed_at});
    at = std::max(at, tensor->address + tensor->bytes);
    segment.used += tensor->bytes;
  }
  idle_until(end);
  segment.used = std::min(segment.used, segment.bytes);  // damaged records may overlap
}

// The tensors of each line, and what they keep from going back.
std::vector<CacheShare> SharesOf(const CacheState& state, const LineTable& lines) {
  std::map<std::uint32_t, CacheShare> shares;
  for (const CacheSegment& segment : state.segments) {
    std::set<std::uint32_t> here;
    for (const CacheBlock& block : segment.blocks) {
      if (block.idle()) continue;
      const std::uint32_t line = lines.OfStack(block.stack);
      CacheShare& share = shares[line];
      share.line = line;
      ++share.tensors;
      share.bytes += block.bytes;
      if (here.insert(line).second) share.idle += segment.idle();
    }
  }
  std::vector<CacheShare> result;
  for (const auto& [line, share] : shares) result.push_back(share);
  return result;
}

std::vector<CacheShare> PinsOf(const CacheState& state, const LineTable& lines) {
  std::vector<CacheShare> pins = SharesOf(state, lines);
  std::erase_if(pins, [](const CacheShare& share) { return share.idle == 0; });
  std::sort(pins.begin(), pins.end(), [](const CacheShare& a, const CacheShare& b) {
    return std::tie(b.idle, a.bytes, a.line) < std::tie(a.idle, b.bytes, b.line);
  });
  return pins;
}

// The most of both values in each slot of time.
class Curve {
 public:
  Curve(std::int64_t begin_ns, std::int64_t end_ns)
      : begin_ns_(begin_ns),
        width_ns_(std::max<std::int64_t>(1, (end_ns - begin_ns) / static_cast<std::int64_t>(kPoints) + 1)) {}
  void Add(std::int64_t time_ns, std::uint64_t tensors, std::uint64_t reserved) {
    const auto slot = static_cast<std::size_t>(std::max<std::int64_t>(0, time_ns - begin_ns_) / width_ns_);
    while (points_.size() <= std::min(slot, kPoints - 1)) {
      points_.push_back({begin_ns_ + static_cast<std::int64_t>(points_.size()) * width_ns_, tensors_, reserved_});
    }
    points_.back().tensors = std::max(points_.back().tensors, tensors);
    points_.back().reserved = std::max(points_.back().reserved, reserved);
    tensors_ = tensors;
    reserved_ = reserved;
  }
  std::vector<CachePoint> Finish(std::int64_t end_ns) {
    Add(end_ns, tensors_, reserved_);
    return std::move(points_);
  }

 private:
  std::int64_t begin_ns_, width_ns_;
  std::uint64_t tensors_ = 0, reserved_ = 0;
  std::vector<CachePoint> points_;
};

}  // namespace

std::uint64_t CacheState::IdleUnusable(std::uint64_t request) const {
  std::uint64_t unusable = 0;
  for (const CacheSegment& segment : segments) {
    const bool other_sort = segment.small != (request <= kSmallRequest);
    for (const CacheBlock& block : segment.blocks) {
      if (block.idle() && (other_sort || block.bytes < request)) unusable += block.bytes;
    }
  }
  return unusable;
}

struct FrameworkCaches::Change {
  std::int64_t time_ns;
  std::uint64_t at;
  bool added, tensor;
  std::uint64_t bytes;
};

FrameworkCaches::FrameworkCaches(const Snapshot& snapshot, const Blocks& blocks)
    : snapshot_(snapshot), blocks_(blocks) {
  std::set<std::uint32_t> devices;
  for (const Block& block : blocks.program) {
    if (block.is_tensor()) {
      tensors_.push_back(&block);
      devices.insert(block.device);
    } else if (block.in_framework_cache() && Blocks::OnDevice(block.kind)) {
      devices.insert(block.device);
      if (block.kind == AllocationKind::kVirtual) continue;  // its mappings count
      Range range{block.address, block.bytes, block.device, false, block.stream, block.allocated_at};
      range.from_ns = block.allocated_ns;
      if (!block.never_freed()) {
        range.until = block.freed_at;
        range.until_ns = block.freed_ns;
      }
      ranges_.push_back(range);
    }
  }
  AddMappings();
  for (std::size_t i = 0; i < snapshot.events.size(); ++i) {
    if (snapshot.events.type[i] == EventType::kFrameworkOutOfMemory) devices.insert(snapshot.events.device[i]);
  }
  devices_.assign(devices.begin(), devices.end());
  const auto by_address = [](const auto* a, const auto* b) { return a->address < b->address; };
  std::sort(tensors_.begin(), tensors_.end(), by_address);
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return std::tie(a.address, a.from) < std::tie(b.address, b.from); });
}

void FrameworkCaches::AddMappings() {
  const Events& events = snapshot_.events;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> open;  // (id, address) -> index into ranges_
  std::set<std::uint64_t> seen;                                         // ids whose mapping is in the window
  for (std::size_t i = 0; i < events.size(); ++i) {
    const bool map = events.type[i] == EventType::kMap, unmap = events.type[i] == EventType::kUnmap;
    if ((!map && !unmap) || (events.flags[i] & journal::kCallerIsPyTorch) == 0) continue;
    const std::pair key(events.id[i], events.address[i]);
    seen.insert(events.id[i]);
    if (map || !open.contains(key)) {
      // In our recorder's events of mappings `stream` is the handle: whose the memory is, is not known.
      const std::uint64_t stream = snapshot_.recorder == "pytorch" ? events.stream[i] : 0;
      Range range{events.address[i], events.bytes[i], events.device[i], true, stream, map ? i + 1 : 0};
      if (map) range.from_ns = events.time_ns[i];
      open[key] = ranges_.size();
      ranges_.push_back(range);
    }
    if (unmap) {
      Range& range = ranges_[open[key]];
      range.until = i + 1;
      range.until_ns = events.time_ns[i];
      open.erase(key);
    }
  }
  for (const LiveAllocation& live : snapshot_.live) {
    if (live.kind != AllocationKind::kVirtual || live.allocator != Allocator::kPyTorch || live.mapped_address == 0 ||
        seen.contains(live.id)) {
      continue;
    }
    ranges_.push_back({live.mapped_address, live.bytes, live.device, true, live.stream});
  }
}

CacheState FrameworkCaches::At(std::uint32_t device, std::uint64_t position) const {
  CacheState state;
  if (position > 0 && position <= snapshot_.events.size()) state.time_ns = snapshot_.events.time_ns[position - 1];
  bool joined = false;
  for (const Range& range : ranges_) {
    if (range.device != device || !range.HeldAt(position)) continue;
    CacheSegment* last = state.segments.empty() ? nullptr : &state.segments.back();
    joined = last != nullptr && range.mapped && last->expandable && last->address + last->bytes == range.address;
    if (joined) {
      last->bytes += range.bytes;
    } else {
      state.segments.emplace_back();
      state.segments.back().address = range.address;
      state.segments.back().bytes = range.bytes;
      state.segments.back().expandable = range.mapped;
      state.segments.back().small = range.bytes == kSmallSegment;
      state.segments.back().stream = range.stream;
      state.segments.back().from = range.from;
    }
    state.reserved += range.bytes;
  }
  auto segment = state.segments.begin();
  std::vector<const Block*> inside;
  const auto finish = [&] {
    Lay(*segment, inside);
    inside.clear();
    state.largest_idle = std::max(state.largest_idle, segment->largest_idle);
    state.used += segment->used;
    if (segment->used == 0) {
      state.idle_whole += segment->bytes;
      ++state.idle_whole_segments;
    }
    ++segment;
  };
  for (const Block* tensor : tensors_) {
    if (tensor->device != device || !HeldAt(*tensor, position)) continue;
    ++state.tensors;
    while (segment != state.segments.end() && segment->address + segment->bytes <= tensor->address) finish();
    if (segment == state.segments.end() || tensor->address < segment->address) {
      state.outside += tensor->bytes;
    } else {
      inside.push_back(tensor);
    }
  }
  while (segment != state.segments.end()) finish();
  return state;
}

std::vector<FrameworkCaches::Change> FrameworkCaches::ChangesOf(std::uint32_t device) const {
  std::vector<Change> changes;
  for (const Range& range : ranges_) {
    if (range.device != device) continue;
    changes.push_back({range.from_ns, range.from, true, false, range.bytes});
    if (range.until != kNoPosition) changes.push_back({range.until_ns, range.until, false, false, range.bytes});
  }
  for (const Block* tensor : tensors_) {
    if (tensor->device != device) continue;
    changes.push_back({tensor->allocated_ns, tensor->allocated_at, true, true, tensor->bytes});
    if (tensor->freed_at != kNoPosition) changes.push_back({tensor->freed_ns, tensor->freed_at, false, true, tensor->bytes});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tuple(a.at, a.time_ns, !a.added) < std::tuple(b.at, b.time_ns, !b.added);
  });
  return changes;
}

void FrameworkCaches::Replay(FrameworkCache& cache) const {
  const auto [begin_ns, end_ns] = ActiveSpan(snapshot_, blocks_);
  Curve curve(begin_ns, end_ns);
  std::uint64_t tensors = 0, reserved = 0, peak_at = 0, last_at = 0;
  for (const Change& change : ChangesOf(cache.device)) {
    std::uint64_t& sum = change.tensor ? tensors : reserved;
    sum = change.added ? sum + change.bytes : sum - std::min(sum, change.bytes);
    curve.Add(std::max(change.time_ns, begin_ns), tensors, reserved);
    if (change.tensor && change.added) {
      cache.tensors_seen = true;
      last_at = change.at;
    }
    if (change.tensor && change.at != 0) ++(change.added ? cache.allocations : cache.frees);
    const std::int64_t time_ns = std::max<std::int64_t>(change.time_ns, 0);
    if (tensors > cache.tensor_peak_bytes) {
      cache.tensor_peak_bytes = tensors;
      cache.tensor_peak_ns = time_ns;
      peak_at = change.at;
    }
    if (reserved > cache.reserved_peak_bytes) {
      cache.reserved_peak_bytes = reserved;
      cache.reserved_peak_ns = time_ns;
      cache.reserved_peak_at = change.at;
    }
  }
  cache.curve = curve.Finish(end_ns);
  cache.at_peak = At(cache.device, peak_at);
  cache.at_last = At(cache.device, last_at);
  cache.last_at = last_at;
}

void FrameworkCaches::FindRefusals(FrameworkCache& cache, const LineTable& lines) const {
  const Events& events = snapshot_.events;
  const std::uint32_t device = cache.device;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.type[i] != EventType::kFrameworkOutOfMemory || events.device[i] != device) continue;
    if (++cache.refusal_count > kMaxRefusals) continue;
    const CacheState state = At(device, i + 1);
    FrameworkRefusal refusal;
    refusal.device = device;
    refusal.stack = events.stack[i];
    refusal.time_ns = events.time_ns[i];
    refusal.position = i + 1;
    refusal.request = events.bytes[i];
    refusal.told_tensors = events.address[i];
    refusal.told_reserved = events.stream[i];
    refusal.idle = state.idle();
    refusal.largest_idle = state.largest_idle;
    refusal.unusable = state.IdleUnusable(refusal.request);
    refusal.tensors = state.tensors;
    refusal.lines = SharesOf(state, lines);
    std::sort(refusal.lines.begin(), refusal.lines.end(), [](const CacheShare& a, const CacheShare& b) {
      return std::tie(b.bytes, a.line) < std::tie(a.bytes, b.line);
    });
    if (refusal.lines.size() > kMaxShares) refusal.lines.resize(kMaxShares);
    cache.refusals.push_back(std::move(refusal));
  }
}

FrameworkCache FrameworkCaches::Describe(std::uint32_t device, const LineTable& lines) const {
  FrameworkCache cache;
  cache.device = device;
  Replay(cache);
  cache.at_end = At(device, snapshot_.events.size());
  cache.at_end.time_ns = snapshot_.process.duration_ns;
  cache.pins = PinsOf(cache.at_last, lines);
  FindRefusals(cache, lines);
  for (const Device& known : snapshot_.devices) {
    if (known.ordinal != device) continue;
    if (known.tensor_peak_bytes > cache.tensor_peak_bytes) {
      cache.tensor_peak_bytes = known.tensor_peak_bytes;
      cache.tensor_peak_ns = known.tensor_peak_ns;
      cache.peak_exact = false;
    }
    // It counts memory that was made but not mapped, too: only if events are missing it knows better.
    if (!snapshot_.completeness.events_complete()) {
      cache.reserved_peak_bytes = std::max(cache.reserved_peak_bytes, known.framework_held_peak_bytes);
    }
  }
  return cache;
}

std::vector<FrameworkCache> DescribeFrameworkCaches(const FrameworkCaches& caches, const LineTable& lines) {
  std::vector<FrameworkCache> result;
  for (const std::uint32_t device : caches.devices()) result.push_back(caches.Describe(device, lines));
  return result;
}

}  // namespace cuheap::analysis
