#include "analysis/reports/pool_use.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "analysis/reports/block_changes.h"

namespace cuheap::analysis {
namespace {

// The most that the blocks held at once.
template <typename Wanted>
std::uint64_t PeakOf(const std::vector<Block>& blocks, Wanted wanted) {
  std::uint64_t now = 0, peak = 0;
  ForEachChange(blocks, wanted, [&](const Block& block, bool allocation) {
    now = allocation ? now + block.bytes : now - std::min(now, block.bytes);
    peak = std::max(peak, now);
  });
  return peak;
}

SegmentUse MapSegment(const Block& segment, const std::vector<const Block*>& served) {
  SegmentUse use;
  use.address = segment.address;
  use.bytes = segment.bytes;
  const std::uint64_t end = segment.address + segment.bytes;
  std::uint64_t position = segment.address;
  auto block =
      std::lower_bound(served.begin(), served.end(), segment.address,
                       [](const Block* candidate, std::uint64_t address) { return candidate->address < address; });
  // A stream-ordered block may reach over several segments.
  if (block != served.begin()) {
    const Block& before = **std::prev(block);
    const std::uint64_t reach = std::min(end, before.address + before.reserved_bytes);
    if (reach > position) {
      use.used_bytes += reach - position;
      position = reach;
      use.blocks = use.reaching = 1;
    }
  }
  for (; block != served.end() && (*block)->address < end; ++block) {
    if ((*block)->address > position) use.largest_idle = std::max(use.largest_idle, (*block)->address - position);
    const std::uint64_t block_end = std::min(end, (*block)->address + (*block)->reserved_bytes);
    if (block_end > position) use.used_bytes += block_end - std::max(position, (*block)->address);
    position = std::max(position, block_end);
    ++use.blocks;
  }
  use.largest_idle = std::max(use.largest_idle, end - position);
  return use;
}

PoolUse MeasurePool(const Snapshot& snapshot, const Blocks& blocks, std::uint32_t device) {
  PoolUse pool;
  pool.device = device;
  std::vector<const Block*> served;
  for (const Block& block : blocks.program) {
    if (!block.live || !block.served || block.device != device) continue;
    served.push_back(&block);
    pool.requested_bytes += block.bytes;
  }
  std::sort(served.begin(), served.end(),
            [](const Block* a, const Block* b) { return std::tie(a->address, a->id) < std::tie(b->address, b->id); });
  for (const Block& segment : blocks.segments) {
    if (segment.live && segment.device == device) pool.map.push_back(MapSegment(segment, served));
  }
  std::sort(pool.map.begin(), pool.map.end(),
            [](const SegmentUse& a, const SegmentUse& b) { return a.address < b.address; });
  for (const SegmentUse& segment : pool.map) {
    pool.reserved_bytes += segment.bytes;
    pool.used_bytes += segment.used_bytes;
    pool.blocks += segment.blocks - segment.reaching;
    (segment.blocks == 0 ? pool.idle_whole_bytes : pool.idle_pinned_bytes) += segment.bytes - segment.used_bytes;
    pool.largest_idle = std::max(pool.largest_idle, segment.largest_idle);
    if (segment.blocks != 0) pool.largest_hole = std::max(pool.largest_hole, segment.largest_idle);
  }
  pool.segments = pool.map.size();
  pool.used_bytes = std::max(pool.used_bytes, pool.requested_bytes);  // a damaged table must not give negative rounding
  for (const Device& facts : snapshot.devices) {
    if (facts.ordinal != device) continue;
    pool.peak_reserved_bytes = facts.reserved_peak_bytes;
    pool.quarantined_bytes = std::min(facts.quarantined_bytes, pool.idle_bytes());
    const std::uint64_t from_whole = std::min(pool.quarantined_bytes, pool.idle_whole_bytes);
    pool.idle_whole_bytes -= from_whole;
    pool.idle_pinned_bytes -= pool.quarantined_bytes - from_whole;
    pool.largest_idle = std::min(pool.largest_idle, pool.idle_bytes());
    pool.largest_hole = std::min(pool.largest_hole, pool.idle_pinned_bytes);
  }
  const auto on_device = [&](const Block& block) { return block.device == device; };
  pool.peak_reserved_bytes =
      std::max({pool.peak_reserved_bytes, pool.reserved_bytes, PeakOf(blocks.segments, on_device)});
  pool.peak_active_bytes =
      PeakOf(blocks.program, [&](const Block& block) { return block.served && block.device == device; });
  pool.peak_active_exact = snapshot.completeness.events_complete();
  if (pool.peak_reserved_bytes != 0) {
    pool.utilisation = static_cast<double>(pool.peak_active_bytes) / static_cast<double>(pool.peak_reserved_bytes);
  }
  return pool;
}

}  // namespace

double PoolUse::fragmentation() const {
  return reserved_bytes == 0 ? 0 : static_cast<double>(idle_pinned_bytes) / static_cast<double>(reserved_bytes);
}

std::vector<PoolUse> MeasurePools(const Snapshot& snapshot, const Blocks& blocks) {
  std::set<std::uint32_t> devices;
  for (const Block& segment : blocks.segments) devices.insert(segment.device);
  for (const Block& block : blocks.program) {
    if (block.served) devices.insert(block.device);
  }
  for (const Device& device : snapshot.devices) {
    if (device.reserved_peak_bytes != 0) devices.insert(device.ordinal);
  }
  std::vector<PoolUse> pools;
  pools.reserve(devices.size());
  for (const std::uint32_t device : devices) pools.push_back(MeasurePool(snapshot, blocks, device));
  return pools;
}

}  // namespace cuheap::analysis
