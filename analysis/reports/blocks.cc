#include "analysis/reports/blocks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "interpose/journal/format.h"

namespace cuheap::analysis {
namespace {

// Walks back over what the destruction of contexts leaves at the end of a run; see Note [The end].
std::size_t TeardownBegin(const Events& events) {
  std::size_t begin = events.size();
  bool destroyed = false;
  while (begin > 0) {
    const EventType type = events.type[begin - 1];
    if (type == EventType::kDriverCall) {  // a slow free of the pool's segments
      --begin;
      continue;
    }
    const bool with_context = type == EventType::kFree && (events.flags[begin - 1] & journal::kFreedWithContext) != 0;
    if (!with_context && type != EventType::kContextDestroyed && type != EventType::kSegmentFree) break;
    destroyed = destroyed || with_context || type == EventType::kContextDestroyed;
    --begin;
  }
  return destroyed ? begin : events.size();
}

constexpr std::uint64_t kPyTorchSegmentUnit = std::uint64_t{2} << 20;

// See Note [PyTorch's cache]; decided device by device. Pinned memory has a cache of its own.
void MarkUncached(std::vector<Block>& blocks) {
  struct Sum {
    std::uint64_t blocks = 0, odd = 0;
  };
  std::map<std::uint32_t, Sum> sums;
  const auto wanted = [](const Block& block) {
    return block.allocator == Allocator::kPyTorch && Blocks::OnDevice(block.kind);
  };
  const auto by_tensor = [](const Block& block) {
    return block.kind == AllocationKind::kStreamOrdered || block.kind == AllocationKind::kFromPool;
  };
  for (const Block& block : blocks) {
    if (!wanted(block)) continue;
    Sum& sum = sums[block.device];
    ++sum.blocks;
    if (by_tensor(block) || block.bytes % kPyTorchSegmentUnit != 0) ++sum.odd;
  }
  for (Block& block : blocks) {
    if (!wanted(block)) continue;
    const Sum& sum = sums[block.device];
    block.uncached = by_tensor(block) || 2 * sum.odd >= sum.blocks;
  }
}

class Joiner {
 public:
  explicit Joiner(const Snapshot& snapshot) : snapshot_(snapshot), teardown_begin_(TeardownBegin(snapshot.events)) {
    std::size_t allocations = 0;
    for (std::size_t i = 0; i < snapshot.events.size(); ++i) {
      const EventType type = snapshot.events.type[i];
      allocations += type == EventType::kAllocate || type == EventType::kSegmentAllocate ? 1 : 0;
      if (type == EventType::kFreeFailed) returning_.insert(snapshot.events.id[i]);
    }
    for (const LiveAllocation& live : snapshot.live) returning_.insert(live.id);
    for (const LiveAllocation& segment : snapshot.segments) returning_.insert(segment.id);
    blocks_.reserve(allocations + snapshot.live.size() + snapshot.segments.size());
  }

  Blocks Join() {
    for (std::size_t i = 0; i < snapshot_.events.size(); ++i) Apply(i);
    for (const LiveAllocation& live : snapshot_.live) Settle(live, false);
    for (const LiveAllocation& segment : snapshot_.segments) Settle(segment, true);
    by_id_ = {}, segment_by_id_ = {}, returning_ = {};
    Blocks result;
    if (snapshot_.completeness.events_overwritten != 0)
      result.window_begin_ns = snapshot_.events.size() == 0 ? 0 : snapshot_.events.time_ns.front();
    result.still_running = snapshot_.completeness.end == "running";
    // Never seen live and never freed: its end was lost, or the id is damaged. It cannot be called live.
    std::erase_if(blocks_, [](const Block& block) { return !block.live && block.freed_at == kNoPosition; });
    const auto is_segment = [](const Block& block) { return block.kind == AllocationKind::kPoolSegment; };
    std::copy_if(blocks_.begin(), blocks_.end(), std::back_inserter(result.segments), is_segment);
    std::erase_if(blocks_, is_segment);
    result.program = std::move(blocks_);
    for (Block& block : result.program) {
      if (block.kind == AllocationKind::kHostPinned && FromHostCache(block.stack))
        block.allocator = Allocator::kPyTorch;
    }
    MarkUncached(result.program);
    const auto earlier = [](const Block& a, const Block& b) {
      return std::tie(a.allocated_ns, a.allocated_at, a.id) < std::tie(b.allocated_ns, b.allocated_at, b.id);
    };
    for (auto* list : {&result.program, &result.segments}) {
      if (!std::is_sorted(list->begin(), list->end(), earlier)) std::sort(list->begin(), list->end(), earlier);
    }
    return result;
  }

 private:
  // PyTorch's cache of pinned memory asks for it through the runtime, so that only the stack tells.
  bool FromHostCache(std::uint32_t stack) const {
    if (stack >= snapshot_.stacks.size()) return false;
    const std::vector<std::uint32_t>& frames = snapshot_.stacks[stack].frames;
    return std::any_of(frames.begin(), frames.end(), [&](std::uint32_t frame) {
      if (frame >= snapshot_.frames.size() || snapshot_.frames[frame].kind != FrameKind::kNative) return false;
      const std::uint32_t function = snapshot_.frames[frame].function;
      return function < snapshot_.strings.size() && snapshot_.strings[function].starts_with("at::CachingHostAllocator");
    });
  }

  Block& Of(std::uint64_t id, bool segment) {
    auto& index = segment ? segment_by_id_ : by_id_;
    const auto [entry, added] = index.try_emplace(id, static_cast<std::uint32_t>(blocks_.size()));
    if (added) {
      blocks_.emplace_back();
      blocks_.back().id = id;
    }
    return blocks_[entry->second];
  }

  // Nothing more comes of a block that was freed, so that what is known by id is what is live: but for those whose free
  // turns out to have failed, or that are live after all (the record is damaged, or goes on).
  void Forget(std::uint64_t id, bool segment) {
    if (!returning_.contains(id)) (segment ? segment_by_id_ : by_id_).erase(id);
  }

  void Apply(std::size_t i) {
    const Events& events = snapshot_.events;
    const EventType type = events.type[i];
    const bool segment = type == EventType::kSegmentAllocate || type == EventType::kSegmentFree;
    if (type == EventType::kAllocate || type == EventType::kSegmentAllocate) {
      Block& block = Of(events.id[i], segment);
      Describe(block, i, segment);
      block.allocated_ns = events.time_ns[i];
      block.allocated_at = static_cast<std::uint32_t>(i + 1);
      block.stack = events.stack[i];
      block.thread = events.thread[i];
    } else if (type == EventType::kFree || type == EventType::kSegmentFree) {
      Block& block = Of(events.id[i], segment);
      if (block.allocated_at == 0) Describe(block, i, segment);
      if (i >= teardown_begin_) {
        block.live = true;
        return;
      }
      block.freed_ns = events.time_ns[i];
      block.freed_at = static_cast<std::uint32_t>(i + 1);
      block.freed_with_context = (events.flags[i] & journal::kFreedWithContext) != 0;
      block.context_end = block.freed_with_context ? ContextEnd(i) : kNoPosition;
      block.freed_at_shutdown = (events.flags[i] & journal::kFreedAtShutdown) != 0;
      Forget(events.id[i], segment);
    } else if (type == EventType::kFreeFailed) {
      Block& block = Of(events.id[i], false);
      block.freed_ns = kNotFreed;
      block.freed_at = kNoPosition;
      block.freed_with_context = block.freed_at_shutdown = false;
      block.context_end = kNoPosition;
    }
  }

  // A context's end frees its blocks in a row, at one time.
  std::uint32_t ContextEnd(std::size_t i) {
    if (last_with_context_ == 0 || last_with_context_ != i) context_end_ = static_cast<std::uint32_t>(i + 1);
    last_with_context_ = static_cast<std::uint32_t>(i + 1);
    return context_end_;
  }

  void Describe(Block& block, std::size_t i, bool segment) {
    const Events& events = snapshot_.events;
    block.address = events.address[i];
    block.bytes = block.reserved_bytes = events.bytes[i];
    block.stream = events.stream[i];
    block.device = events.device[i];
    block.kind = segment ? AllocationKind::kPoolSegment : events.kind[i];
    block.served = (events.flags[i] & journal::kServedFromPool) != 0;
    if ((events.flags[i] & journal::kCallerIsPyTorch) != 0) block.allocator = Allocator::kPyTorch;
  }

  void Settle(const LiveAllocation& live, bool segment) {
    Block& block = Of(live.id, segment);
    block.live = true;
    block.address = live.address;
    block.bytes = live.bytes;
    block.reserved_bytes = std::max(live.reserved_bytes, live.bytes);
    block.stream = live.stream;
    block.device = live.device;
    block.kind = segment ? AllocationKind::kPoolSegment : live.kind;
    block.allocator = live.allocator;
    block.served = live.served;
    block.stack = live.stack;
    block.thread = live.thread;
    block.allocated_ns = live.time_ns;
    block.freed_ns = kNotFreed;
    block.freed_at = kNoPosition;
    block.freed_with_context = block.freed_at_shutdown = false;
    block.context_end = kNoPosition;
  }

  const Snapshot& snapshot_;
  std::size_t teardown_begin_;                             // index of the first event of the end, see Note [The end]
  std::uint32_t context_end_ = 0, last_with_context_ = 0;  // positions
  std::vector<Block> blocks_;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> by_id_, segment_by_id_;  // indices; of blocks not freed yet
  absl::flat_hash_set<std::uint64_t> returning_;                             // ids that are not forgotten, see Forget
};

}  // namespace

bool Blocks::OnHost(AllocationKind kind) {
  return kind == AllocationKind::kHostPinned || kind == AllocationKind::kHostRegistered ||
         kind == AllocationKind::kHostVirtual;
}

bool Blocks::OnDevice(AllocationKind kind) { return IsDeviceMemory(kind); }

bool Blocks::OfOthers(AllocationKind kind) {
  return kind == AllocationKind::kImported || kind == AllocationKind::kImportedVirtual ||
         kind == AllocationKind::kExternal || kind == AllocationKind::kExternalArray ||
         kind == AllocationKind::kMulticast;
}

Blocks JoinBlocks(const Snapshot& snapshot) { return Joiner(snapshot).Join(); }

Span ActiveSpan(const Snapshot& snapshot, const Blocks& blocks) {
  const std::int64_t duration_ns = std::max<std::int64_t>(0, snapshot.process.duration_ns);
  Span span{kNotFreed, 0};
  if (!snapshot.completeness.events_complete() && snapshot.events.size() != 0)
    span.begin_ns = std::max<std::int64_t>(0, snapshot.events.time_ns.front());
  const bool from_first = span.begin_ns == kNotFreed;
  for (const Block& block : blocks.program) {
    if (block.allocated_ns != kBeforeWindow) {
      if (from_first) span.begin_ns = std::min(span.begin_ns, std::max<std::int64_t>(0, block.allocated_ns));
      span.end_ns = std::max(span.end_ns, block.allocated_ns);
    }
    if (block.freed_ns != kNotFreed && !block.freed_at_shutdown) span.end_ns = std::max(span.end_ns, block.freed_ns);
  }
  if (span.begin_ns == kNotFreed) span = {0, duration_ns};
  span.end_ns = std::max(span.begin_ns, span.end_ns);
  return span;
}

}  // namespace cuheap::analysis
