#include "analysis/exports/torch_layout.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

namespace cuheap::analysis {
namespace {

void PutIdle(LaidSegment& segment, std::uint64_t from, std::uint64_t to) {
  if (from < to) segment.blocks.push_back({from, to - from, 0, 0, false});
}

LaidSegment SegmentOf(const Block& block, std::uint64_t address) {
  LaidSegment segment;
  segment.device = block.device;
  segment.stack = block.stack;
  segment.address = address;
  segment.bytes = std::max(block.bytes, block.reserved_bytes);
  segment.stream = block.stream;
  return segment;
}

LaidSegment SegmentOfOneBlock(const Block& block, std::uint64_t address) {
  LaidSegment segment = SegmentOf(block, address);
  segment.blocks.push_back({address, segment.bytes, block.bytes, block.stack, true});
  return segment;
}

// Mapped pieces of one expandable segment lie side by side.
void JoinPieces(std::vector<LaidSegment>& segments) {
  std::size_t last = 0;
  for (std::size_t i = 1; i < segments.size(); ++i) {
    LaidSegment& before = segments[last];
    const bool joins = before.expandable && segments[i].expandable && before.device == segments[i].device &&
                       before.stream == segments[i].stream && before.address + before.bytes == segments[i].address;
    if (joins)
      before.bytes += segments[i].bytes;
    else if (++last != i)
      segments[last] = std::move(segments[i]);
  }
  if (!segments.empty()) segments.resize(last + 1);
}

bool ByPlace(const LaidSegment& a, const LaidSegment& b) {
  return std::tie(a.device, a.address) < std::tie(b.device, b.address);
}

}  // namespace

TorchLayout::TorchLayout(const Snapshot& snapshot, const Blocks& blocks) : blocks_(blocks) {
  for (const Block& block : blocks.program) {
    if (block.is_tensor()) with_tensors_.insert(block.device);
  }
  for (const Block& segment : blocks.segments) with_pool_.insert(segment.device);
  for (std::size_t i = 0; i < snapshot.events.size(); ++i) {
    if (snapshot.events.type[i] == EventType::kMap) mapped_address_[snapshot.events.id[i]] = snapshot.events.address[i];
  }
  for (const LiveAllocation& live : snapshot.live) {
    if (live.mapped_address != 0) mapped_address_[live.id] = live.mapped_address;
  }
}

TorchRole TorchLayout::RoleOf(const Block& block) const {
  if (block.device == kUnknownDevice) return TorchRole::kLeftOut;
  if (block.kind == AllocationKind::kPoolSegment) return TorchRole::kSegment;
  if (block.is_tensor()) return TorchRole::kBlock;
  if (!Blocks::OnDevice(block.kind)) return TorchRole::kLeftOut;
  if (block.in_framework_cache() && with_tensors_.contains(block.device)) return TorchRole::kSegment;
  return block.served && with_pool_.contains(block.device) ? TorchRole::kBlock : TorchRole::kBoth;
}

std::uint64_t TorchLayout::AddressOf(const Block& block) const {
  if (block.kind != AllocationKind::kVirtual) return block.address;
  const auto found = mapped_address_.find(block.id);
  return found == mapped_address_.end() ? block.address : found->second;
}

std::vector<LaidSegment> TorchLayout::EmptySegments() const {
  std::vector<LaidSegment> segments;
  for (const std::vector<Block>* list : {&blocks_.program, &blocks_.segments}) {
    for (const Block& block : *list) {
      if (!block.live || RoleOf(block) != TorchRole::kSegment) continue;
      segments.push_back(SegmentOf(block, AddressOf(block)));
      segments.back().expandable = block.kind == AllocationKind::kVirtual;
    }
  }
  std::stable_sort(segments.begin(), segments.end(), ByPlace);
  JoinPieces(segments);
  return segments;
}

std::vector<LaidSegment> TorchLayout::Segments() const {
  std::vector<LaidSegment> segments = EmptySegments(), alone;
  std::vector<const Block*> placed;
  for (const Block& block : blocks_.program) {
    if (!block.live) continue;
    const TorchRole role = RoleOf(block);
    if (role == TorchRole::kBlock) placed.push_back(&block);
    if (role == TorchRole::kBoth) alone.push_back(SegmentOfOneBlock(block, AddressOf(block)));
  }
  std::sort(placed.begin(), placed.end(), [](const Block* a, const Block* b) {
    return std::tie(a->device, a->address, a->id) < std::tie(b->device, b->address, b->id);
  });
  std::size_t next = 0;
  for (LaidSegment& segment : segments) {
    const std::uint64_t end = segment.address + segment.bytes;
    std::uint64_t at = segment.address;
    for (; next < placed.size(); ++next) {
      const Block& block = *placed[next];
      if (std::tie(block.device, block.address) >= std::tie(segment.device, end)) break;
      // What lies in no segment, or in another block, is one of its own: every byte stays.
      const bool fits = block.device == segment.device && block.address >= at && block.bytes <= end - block.address;
      if (!fits) {
        alone.push_back(SegmentOfOneBlock(block, block.address));
        continue;
      }
      std::uint64_t limit = end;
      if (next + 1 < placed.size() && placed[next + 1]->device == block.device)
        limit = std::min(limit, std::max(placed[next + 1]->address, block.address + block.bytes));
      const std::uint64_t bytes = std::min(std::max(block.bytes, block.reserved_bytes), limit - block.address);
      PutIdle(segment, at, block.address);
      segment.blocks.push_back({block.address, bytes, block.bytes, block.stack, true});
      at = block.address + bytes;
    }
    PutIdle(segment, at, end);
  }
  for (; next < placed.size(); ++next) alone.push_back(SegmentOfOneBlock(*placed[next], placed[next]->address));
  segments.insert(segments.end(), alone.begin(), alone.end());
  std::stable_sort(segments.begin(), segments.end(), ByPlace);
  return segments;
}

}  // namespace cuheap::analysis
