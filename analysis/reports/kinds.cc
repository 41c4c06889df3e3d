#include "analysis/reports/kinds.h"

#include <algorithm>
#include <map>

#include "analysis/reports/block_changes.h"

namespace cuheap::analysis {
namespace {

bool Ordinary(AllocationKind kind) {
  return kind == AllocationKind::kDevice || kind == AllocationKind::kStreamOrdered ||
         kind == AllocationKind::kFromPool || kind == AllocationKind::kHostPinned;
}

}  // namespace

std::vector<KindUse> CountKinds(const Blocks& blocks) {
  std::map<AllocationKind, KindUse> uses;
  for (const Block& block : blocks.program) {
    if (block.kind == AllocationKind::kNone || block.is_tensor()) continue;
    KindUse& use = uses[block.kind];
    use.kind = block.kind;
    ++use.blocks;
    if (!block.live) continue;
    ++use.live_blocks;
    use.live_bytes += block.bytes;
    if (block.bytes == 0) ++use.live_blocks_without_size;
  }
  std::map<AllocationKind, std::uint64_t> now;
  const auto counts = [&](const Block& block) { return uses.contains(block.kind); };
  ForEachChange(blocks.program, counts, [&](const Block& block, bool allocation) {
    std::uint64_t& bytes = now[block.kind];
    bytes = allocation ? bytes + block.bytes : bytes - std::min(bytes, block.bytes);
    std::uint64_t& peak = uses[block.kind].peak_bytes;
    peak = std::max(peak, bytes);
  });
  std::vector<KindUse> result;
  for (const auto& [kind, use] : uses) result.push_back(use);
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
