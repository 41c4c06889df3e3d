#include "analysis/html/segment_map.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "analysis/reports/framework_cache.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kMostSingleBlocks = 64;  // a map
constexpr std::size_t kMostParts = 6'000;      // a map, about: more than that no screen shows
constexpr std::size_t kFinePart = 1'500;       // a segment's share of bytes that is still drawn by itself

struct Placed {
  std::uint64_t address = 0, bytes = 0;
  std::uint32_t block = MappedPart::kIdle;
};

// Blocks by address, which lie in a segment: what is between them is idle. Small ones side by side become one part.
MappedSegment Fill(SegmentOwner owner, std::uint64_t address, std::uint64_t bytes, const std::vector<Placed>& placed,
                   std::uint64_t fine) {
  MappedSegment segment{owner, address, bytes, 0, 0, {}};
  std::uint64_t at = 0;  // offset up to which parts are told
  // Whether what comes next, if it is small, becomes one part with what came last.
  const auto joins = [&](std::uint64_t size) {
    return size < fine && !segment.parts.empty() && segment.parts.back().block != MappedPart::kIdle &&
           segment.parts.back().bytes < fine;
  };
  const auto idle = [&](std::uint64_t until) {
    if (until <= at) return;
    if (joins(until - at)) {
      segment.parts.back().block = MappedPart::kSeveral;
      segment.parts.back().bytes += until - at;
    } else {
      segment.parts.push_back({at, until - at, MappedPart::kIdle, 0, 0});
    }
    at = until;
  };
  for (const Placed& piece : placed) {
    if (piece.address + piece.bytes <= address || piece.address >= address + bytes) continue;
    const std::uint64_t begin = piece.address < address ? 0 : piece.address - address;
    if (begin < at) continue;  // damaged: blocks that overlap
    const std::uint64_t size = std::min(piece.address + piece.bytes - address, bytes) - begin;
    idle(begin);
    segment.used += size;
    ++segment.blocks;
    if (!joins(size)) {
      segment.parts.push_back({begin, size, piece.block, size, 1});
    } else {
      MappedPart& last = segment.parts.back();
      last.block = MappedPart::kSeveral;
      last.bytes += size;
      last.used += size;
      ++last.blocks;
    }
    at = begin + size;
  }
  idle(bytes);
  return segment;
}

class Drawer {
 public:
  Drawer(const Blocks& blocks, const FrameworkCaches& caches, const std::vector<MemoryHistory>& histories)
      : blocks_(blocks), caches_(caches) {
    const auto drawn = [&](const Block& block) {
      return std::any_of(histories.begin(), histories.end(), [&](const MemoryHistory& history) {
        return std::any_of(history.named.begin(), history.named.end(), [&](const NamedInstant& named) {
          return HeldAfter(block, history.position[named.instant]);
        });
      });
    };
    for (std::size_t i = 0; i < blocks.program.size(); ++i) {
      const Block& block = blocks.program[i];
      if (block.is_tensor() && drawn(block)) tensor_by_id_.emplace(block.id, static_cast<std::uint32_t>(i));
    }
  }

  SegmentMap Draw(const MemoryHistory& history, const NamedInstant& named) const {
    SegmentMap map;
    map.device = history.device;
    map.moment = named.name;
    map.time_ns = history.time_ns[named.instant];
    const std::uint64_t position = history.position[named.instant];
    if (history.tensors) Caches(map, position);
    Pool(map, position);
    Single(map, position, history.tensors);
    return map;
  }

 private:
  static std::uint64_t Fine(std::uint64_t bytes, std::uint64_t all_bytes, std::size_t all_parts) {
    const std::uint64_t of_segment = bytes / kFinePart;
    return all_parts <= kMostParts ? 0 : std::max(of_segment, 2 * all_bytes / kMostParts);
  }

  void Caches(SegmentMap& map, std::uint64_t position) const {
    const CacheState state = caches_.At(map.device, position);
    std::size_t parts = 0;
    for (const CacheSegment& segment : state.segments) parts += segment.blocks.size();
    for (const CacheSegment& segment : state.segments) {
      std::vector<Placed> placed;
      for (const CacheBlock& block : segment.blocks) {
        if (block.idle()) continue;
        const auto found = tensor_by_id_.find(block.tensor);
        placed.push_back(
            {block.address, block.bytes, found == tensor_by_id_.end() ? MappedPart::kSeveral : found->second});
      }
      map.segments.push_back(Fill(segment.expandable ? SegmentOwner::kPyTorchExpandable : SegmentOwner::kPyTorch,
                                  segment.address, segment.bytes, placed, Fine(segment.bytes, state.reserved, parts)));
    }
  }

  void Pool(SegmentMap& map, std::uint64_t position) const {
    std::vector<Placed> served;
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < blocks_.program.size(); ++i) {
      const Block& block = blocks_.program[i];
      if (!block.served || block.device != map.device || !HeldAfter(block, position)) continue;
      served.push_back({block.address, std::max(block.bytes, block.reserved_bytes), static_cast<std::uint32_t>(i)});
    }
    std::sort(served.begin(), served.end(), [](const Placed& a, const Placed& b) {
      return std::tie(a.address, a.block) < std::tie(b.address, b.block);
    });
    for (const Block& segment : blocks_.segments) {
      if (segment.device == map.device && HeldAfter(segment, position)) all += segment.bytes;
    }
    std::vector<const Block*> segments;
    for (const Block& segment : blocks_.segments) {
      if (segment.device == map.device && HeldAfter(segment, position)) segments.push_back(&segment);
    }
    std::sort(segments.begin(), segments.end(), [](const Block* a, const Block* b) { return a->address < b->address; });
    std::size_t next = 0;
    for (const Block* segment : segments) {
      // Stream-ordered blocks may begin in the segment before.
      while (next < served.size() && served[next].address + served[next].bytes <= segment->address) ++next;
      std::vector<Placed> placed;
      for (std::size_t i = next; i < served.size() && served[i].address < segment->address + segment->bytes; ++i)
        placed.push_back(served[i]);
      map.segments.push_back(Fill(SegmentOwner::kPool, segment->address, segment->bytes, placed,
                                  Fine(segment->bytes, all, served.size() + segments.size())));
    }
  }

  // Blocks that are a driver's allocation each. Segments of a cache whose tensors were not observed are such.
  void Single(SegmentMap& map, std::uint64_t position, bool tensors) const {
    std::vector<std::uint32_t> single;
    for (std::size_t i = 0; i < blocks_.program.size(); ++i) {
      const Block& block = blocks_.program[i];
      if (block.served || block.is_tensor() || block.device != map.device || !Blocks::OnDevice(block.kind) ||
          block.bytes == 0 || (tensors && block.in_framework_cache()) || !HeldAfter(block, position))
        continue;
      single.push_back(static_cast<std::uint32_t>(i));
    }
    std::sort(single.begin(), single.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::tie(blocks_.program[b].bytes, a) < std::tie(blocks_.program[a].bytes, b);
    });
    for (std::size_t i = kMostSingleBlocks; i < single.size(); ++i) {
      ++map.left_out_blocks;
      map.left_out_bytes += blocks_.program[single[i]].bytes;
    }
    single.resize(std::min(single.size(), kMostSingleBlocks));
    std::sort(single.begin(), single.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::tie(blocks_.program[a].address, a) < std::tie(blocks_.program[b].address, b);
    });
    for (const std::uint32_t index : single) {
      const Block& block = blocks_.program[index];
      map.segments.push_back(
          Fill(SegmentOwner::kDriver, block.address, block.bytes, {{block.address, block.bytes, index}}, 0));
    }
  }

  const Blocks& blocks_;
  const FrameworkCaches& caches_;
  // Of the tensors that any map may show.
  std::unordered_map<std::uint64_t, std::uint32_t> tensor_by_id_;
};

}  // namespace

std::vector<SegmentMap> DrawSegmentMaps(const Report& report, const Blocks& blocks,
                                        const std::vector<MemoryHistory>& histories) {
  const FrameworkCaches caches(*report.snapshot, blocks);
  const Drawer drawer(blocks, caches, histories);
  std::vector<SegmentMap> maps;
  for (const MemoryHistory& history : histories) {
    if (history.host) continue;
    for (const NamedInstant& named : history.named) {
      SegmentMap map = drawer.Draw(history, named);
      if (!map.segments.empty()) maps.push_back(std::move(map));
    }
  }
  return maps;
}

}  // namespace cuheap::analysis
