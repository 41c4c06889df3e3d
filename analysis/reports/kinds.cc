#include "analysis/reports/kinds.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace cuheap::analysis {
namespace {

// A change of the live bytes of one kind.
struct Change {
  std::int64_t time_ns;
  std::uint64_t at;  // position, see blocks.h
  bool allocation;
  std::uint64_t bytes;
};

std::uint64_t PeakOf(std::vector<Change>& changes) {
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tuple(a.time_ns, a.at, !a.allocation) < std::tuple(b.time_ns, b.at, !b.allocation);
  });
  std::uint64_t bytes = 0;
  std::uint64_t peak = 0;
  for (const Change& change : changes) {
    bytes = change.allocation ? bytes + change.bytes : bytes - std::min(bytes, change.bytes);
    peak = std::max(peak, bytes);
  }
  return peak;
}

bool Ordinary(AllocationKind kind) {
  return kind == AllocationKind::kDevice || kind == AllocationKind::kStreamOrdered ||
         kind == AllocationKind::kFromPool || kind == AllocationKind::kHostPinned;
}

}  // namespace

std::vector<KindUse> CountKinds(const Blocks& blocks) {
  std::map<AllocationKind, KindUse> uses;
  std::map<AllocationKind, std::vector<Change>> changes;
  for (const Block& block : blocks.program) {
    if (block.kind == AllocationKind::kNone || block.is_tensor()) continue;
    KindUse& use = uses[block.kind];
    use.kind = block.kind;
    ++use.blocks;
    changes[block.kind].push_back({block.allocated_ns, block.allocated_at, true, block.bytes});
    if (block.freed_at != kNoPosition)
      changes[block.kind].push_back({block.freed_ns, block.freed_at, false, block.bytes});
    if (!block.live) continue;
    ++use.live_blocks;
    use.live_bytes += block.bytes;
    if (block.bytes == 0) ++use.live_blocks_without_size;
  }
  std::vector<KindUse> result;
  for (auto& [kind, use] : uses) {
    use.peak_bytes = PeakOf(changes[kind]);
    result.push_back(use);
  }
  return result;
}

std::string_view KindPhrase(AllocationKind kind) {
  switch (kind) {
    case AllocationKind::kDevice:
      return "device memory";
    case AllocationKind::kPitched:
      return "pitched device memory";
    case AllocationKind::kManaged:
      return "managed memory";
    case AllocationKind::kStreamOrdered:
      return "stream-ordered memory";
    case AllocationKind::kFromPool:
      return "memory of explicit pools";
    case AllocationKind::kArray:
      return "arrays";
    case AllocationKind::kMipmappedArray:
      return "mipmapped arrays";
    case AllocationKind::kVirtual:
      return "physical memory (cuMemCreate)";
    case AllocationKind::kImported:
      return "imported from another process";
    case AllocationKind::kImportedVirtual:
      return "imported physical memory";
    case AllocationKind::kExternal:
      return "external memory";
    case AllocationKind::kExternalArray:
      return "external mipmapped arrays";
    case AllocationKind::kMulticast:
      return "multicast objects";
    case AllocationKind::kModuleData:
      return "data of modules";
    case AllocationKind::kHostPinned:
      return "pinned host memory";
    case AllocationKind::kHostRegistered:
      return "registered host memory";
    case AllocationKind::kHostVirtual:
      return "physical host memory (cuMemCreate)";
    default:
      return "other memory";
  }
}

bool WorthTelling(const std::vector<KindUse>& kinds) {
  return std::any_of(kinds.begin(), kinds.end(), [](const KindUse& use) { return !Ordinary(use.kind); });
}

}  // namespace cuheap::analysis
