#include "analysis/reports/pool_map.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kPage = std::uint64_t{2} << 20;  // our slabs hold blocks below that, see allocator/sync_pool.h

bool HeldAt(const Block& block, std::uint64_t position) {
  return block.allocated_at <= position && block.freed_at > position;
}

// Lays the pieces of `served`, by address, that lie in the segment; the first may begin before it.
void Lay(MapSegment& segment, const std::vector<const Block*>& served) {
  const std::uint64_t end = segment.address + segment.bytes;
  auto block = std::upper_bound(served.begin(), served.end(), segment.address,
                                [](std::uint64_t address, const Block* other) { return address < other->address; });
  if (block != served.begin()) --block;  // a stream-ordered block may reach over several segments
  std::uint64_t at = segment.address;
  bool slab = block != served.end();
  for (; block != served.end() && (*block)->address < end; ++block) {
    const Block& here = **block;
    const std::uint64_t begin = std::max(here.address, at);
    std::uint64_t until = std::min(end, here.address + here.reserved_bytes);
    if (until <= begin) continue;
    if (!here.live) {  // see Note [Rounding of freed blocks]
      const auto next = std::next(block);
      const std::uint64_t limit = next == served.end() ? end : std::min(end, std::max((*next)->address, until));
      if (limit - until < std::min(here.bytes, kPage)) until = limit;
    }
    const std::uint64_t asked_end = std::clamp(here.address + here.bytes, begin, until);
    segment.blocks.push_back({begin, until - begin, asked_end - begin, here.stack, here.freed_at});
    slab = slab && here.kind == AllocationKind::kDevice && here.reserved_bytes < kPage;
    at = until;
  }
  if (slab && !segment.blocks.empty()) segment.part = SegmentPart::kSlab;
}

}  // namespace

std::uint64_t MapSegment::occupied() const {
  std::uint64_t sum = 0;
  for (const MapBlock& block : blocks) sum += block.bytes;
  return sum;
}

std::uint64_t MapSegment::requested() const {
  std::uint64_t sum = 0;
  for (const MapBlock& block : blocks) sum += block.requested;
  return sum;
}

std::uint64_t MapSegment::largest_idle() const {
  std::uint64_t at = address, largest = 0;
  for (const MapBlock& block : blocks) {
    largest = std::max(largest, block.address - at);
    at = block.address + block.bytes;
  }
  return std::max(largest, address + bytes - at);
}

PoolMap MapOfPool(const Blocks& blocks, std::uint32_t device, std::uint64_t position) {
  PoolMap map{MapOwner::kPool, device, position, {}};
  const auto by_address = [](const auto& a, const auto& b) {
    return std::tie(a->address, a->id) < std::tie(b->address, b->id);
  };
  std::vector<const Block*> served, segments;
  for (const Block& block : blocks.program) {
    if (block.served && block.device == device && HeldAt(block, position)) served.push_back(&block);
  }
  for (const Block& segment : blocks.segments) {
    if (segment.device == device && HeldAt(segment, position)) segments.push_back(&segment);
  }
  std::sort(served.begin(), served.end(), by_address);
  std::sort(segments.begin(), segments.end(), by_address);
  for (const Block* segment : segments) {
    map.segments.emplace_back();
    map.segments.back().address = segment->address;
    map.segments.back().bytes = segment->bytes;
    map.segments.back().from = segment->allocated_at;
    Lay(map.segments.back(), served);
  }
  return map;
}

PoolMap MapOfCache(const CacheState& state, std::uint32_t device, std::uint64_t position) {
  PoolMap map{MapOwner::kPyTorch, device, position, {}};
  for (const CacheSegment& segment : state.segments) {
    MapSegment& mapped = map.segments.emplace_back();
    mapped.address = segment.address;
    mapped.bytes = segment.bytes;
    mapped.stream = segment.stream;
    mapped.part = segment.small ? SegmentPart::kSmall : SegmentPart::kAny;
    mapped.expandable = segment.expandable;
    mapped.from = segment.from;
    std::uint64_t at = segment.address;
    const std::uint64_t end = segment.address + segment.bytes;
    for (const CacheBlock& block : segment.blocks) {
      if (block.idle()) continue;
      const std::uint64_t begin = std::max(at, block.address);  // damaged records may overlap
      const std::uint64_t until = std::min(end, block.address + block.bytes);
      if (until <= begin) continue;
      mapped.blocks.push_back({begin, until - begin, until - begin, block.stack, block.until});
      at = until;
    }
  }
  return map;
}

}  // namespace cuheap::analysis
