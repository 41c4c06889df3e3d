#include "tools/simcuda/driver/pool.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "tools/simcuda/driver/shared_file.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

void InsertRange(std::map<uint64_t, size_t>* ranges, uint64_t address, size_t bytes) {
  auto next = ranges->lower_bound(address);
  if (next != ranges->end() && next->first == address + bytes) {
    bytes += next->second;
    next = ranges->erase(next);
  }
  if (next != ranges->begin() && std::prev(next)->first + std::prev(next)->second == address) {
    std::prev(next)->second += bytes;
  } else {
    ranges->emplace(address, bytes);
  }
}

void RemoveRange(std::map<uint64_t, size_t>* ranges, uint64_t address, size_t bytes) {
  const auto range = std::prev(ranges->upper_bound(address));
  const uint64_t start = range->first, end = start + range->second;
  ranges->erase(range);
  if (address > start) ranges->emplace(start, address - start);
  if (address + bytes < end) ranges->emplace(address + bytes, end - address - bytes);
}

// What has been freed and whose free has run is free for all.
void Promote(Pool& pool) {
  for (auto freed = pool.freed.begin(); freed != pool.freed.end();) {
    if (freed->free_work->done) {
      InsertRange(&pool.free, freed->address, freed->bytes);
      freed = pool.freed.erase(freed);
    } else {
      ++freed;
    }
  }
}

uint64_t TakeFreedOfStream(Pool& pool, uint64_t stream_id, size_t bytes) {
  auto best = pool.freed.end();
  for (auto freed = pool.freed.begin(); freed != pool.freed.end(); ++freed) {
    if (freed->stream_id != stream_id || freed->bytes < bytes) continue;
    if (best == pool.freed.end() || freed->bytes < best->bytes) best = freed;
  }
  if (best == pool.freed.end()) return 0;
  const uint64_t address = best->address;
  best->address += bytes;
  best->bytes -= bytes;
  if (best->bytes == 0) pool.freed.erase(best);
  return address;
}

uint64_t TakeFree(Pool& pool, size_t bytes) {
  auto best = pool.free.end();
  for (auto range = pool.free.begin(); range != pool.free.end(); ++range) {
    if (range->second >= bytes && (best == pool.free.end() || range->second < best->second)) best = range;
  }
  if (best == pool.free.end()) return 0;
  const uint64_t address = best->first;
  RemoveRange(&pool.free, address, bytes);
  return address;
}

bool Grow(Pool& pool, size_t bytes) {
  const size_t mapped = RoundUp(bytes, kPageBytes);
  if (pool.max_bytes != 0 && pool.reserved + mapped > pool.max_bytes) return false;
  uint64_t address = 0;
  if (State::Get().memory.MapDevicePages(*pool.device, mapped, &address) != CUDA_SUCCESS) return false;
  if (pool.file) {
    if (mapped > pool.file->bytes() - pool.file_used || !pool.file->MapAt(address, mapped, pool.file_used, true)) {
      State::Get().memory.UnmapDevicePages(*pool.device, address, mapped);
      return false;
    }
    pool.file_offsets[address] = pool.file_used;
    pool.file_used += mapped;
  }
  InsertRange(&pool.pages, address, mapped);
  InsertRange(&pool.free, address, mapped);
  pool.reserved += mapped;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  return true;
}

// The last resort before out of memory: every free that is queued runs, then unused pages of all pools go back.
void WaitForFrees(Pool& pool) {
  std::vector<std::shared_ptr<Work>> works;
  for (const auto& freed : pool.freed) works.push_back(freed.free_work);
  State::Get().engine.WaitAll(works);
}

void EndIfUnused(Pool& pool) {
  if (pool.destroyed && pool.used == 0 && pool.freed.empty()) PoolTrim(pool, 0);
}

}  // namespace

CUresult PoolAllocate(const std::shared_ptr<Pool>& pool, Stream& stream, size_t bytes, Block** block) {
  if (bytes > pool->device->total_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t reserved = RoundUp(bytes, kSmallUnit);
  Promote(*pool);
  uint64_t address = TakeFreedOfStream(*pool, stream.id, reserved);
  if (address == 0) address = TakeFree(*pool, reserved);
  if (address == 0 && Grow(*pool, reserved)) address = TakeFree(*pool, reserved);
  if (address == 0 && pool->reuse_internal_dependencies != 0) {
    WaitForFrees(*pool);
    Promote(*pool);
    address = TakeFree(*pool, reserved);
  }
  if (address == 0) {
    TrimPoolsUnderPressure(*pool->device);
    if (Grow(*pool, reserved)) address = TakeFree(*pool, reserved);
  }
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  pool->used += reserved;
  pool->used_high = std::max(pool->used_high, pool->used);
  *block = State::Get().memory.AddPoolBlock(pool, *pool->device, address, bytes, reserved);
  return CUDA_SUCCESS;
}

void PoolFree(const Block& block, const std::shared_ptr<Stream>& stream, const std::shared_ptr<Work>& free_work) {
  Pool& pool = *block.pool;
  if (pool.imported) {
    if (!free_work) return UnmapImported(pool, block);
    free_work->run = [block] {
      UnmapImported(*block.pool, block);
      return Outcome::kDone;
    };
    return;
  }
  pool.used -= block.reserved;
  if (free_work && !free_work->done) {
    pool.freed.push_back({block.base, block.reserved, stream->id, free_work});
  } else {
    InsertRange(&pool.free, block.base, block.reserved);
  }
  EndIfUnused(pool);
}

void PoolTrim(Pool& pool, uint64_t keep) {
  Promote(pool);
  // "IPC pools currently do not support releasing physical blocks back to the OS", so that trimming "acts as a no-op"
  // (CUDA programming guide, Stream Ordered Memory Allocator).
  if (pool.file && !pool.destroyed) return;
  std::vector<std::pair<uint64_t, size_t>> unused;
  for (const auto& [address, bytes] : pool.free) {
    const uint64_t first = RoundUp(address, kPageBytes), last = (address + bytes) / kPageBytes * kPageBytes;
    if (last > first) unused.emplace_back(first, last - first);
  }
  // The highest addresses first, so that what stays is compact.
  for (auto range = unused.rbegin(); range != unused.rend() && pool.reserved > keep; ++range) {
    const size_t surplus = RoundUp(static_cast<size_t>(pool.reserved - keep), kPageBytes);
    const size_t bytes = std::min(range->second, surplus);
    const uint64_t address = range->first + range->second - bytes;
    RemoveRange(&pool.free, address, bytes);
    RemoveRange(&pool.pages, address, bytes);
    pool.reserved -= bytes;
    if (pool.file) ResetPages(address, bytes);
    State::Get().memory.UnmapDevicePages(*pool.device, address, bytes);
  }
}

uint64_t OffsetInFile(const Pool& pool, const Block& block) {
  const auto& [address, offset] = *std::prev(pool.file_offsets.upper_bound(block.base));
  return offset + (block.base - address);
}

CUresult MapImported(const std::shared_ptr<Pool>& pool, uint64_t offset, size_t bytes, Block** block) {
  const size_t all = pool->file->bytes();
  if (bytes == 0 || offset >= all || bytes > all - offset) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t first = offset / kPageBytes * kPageBytes;
  const size_t mapped = std::min(RoundUp(offset + bytes, kPageBytes), all) - first;
  Memory& memory = State::Get().memory;
  Area& area = memory.DeviceArea(*pool->device);
  const uint64_t address = area.Take(mapped);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!pool->file->MapAt(address, mapped, first, true)) {
    area.Release(address, mapped);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  pool->pages.emplace(address, mapped);
  pool->reserved += mapped;
  pool->used += mapped;
  *block = memory.AddPoolBlock(pool, *pool->device, address + (offset - first), bytes, mapped);
  return CUDA_SUCCESS;
}

void UnmapImported(Pool& pool, const Block& block) {
  const uint64_t address = block.base / kPageBytes * kPageBytes;
  pool.pages.erase(address);
  pool.reserved -= block.reserved;
  pool.used -= block.reserved;
  ResetPages(address, block.reserved);
  State::Get().memory.DeviceArea(*pool.device).Release(address, block.reserved);
}

void DropEmptyPools() {
  std::erase_if(State::Get().all_pools, [](const auto& pool) { return pool->destroyed && pool->reserved == 0; });
}

void MakeDefaultPool(Device& device) {
  auto pool = std::make_shared<Pool>();
  pool->device = &device;
  pool->is_default = true;
  pool->access[device.ordinal] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  pool->handle = State::Get().pools.Add(pool);
  State::Get().all_pools.push_back(pool);
  device.default_pool = device.current_pool = pool;
}

void TrimPoolsAfterSynchronization() {
  State& state = State::Get();
  DropEmptyPools();
  for (const auto& pool : state.all_pools) {
    if (pool->reserved > pool->release_threshold && pool->reserved > 0) PoolTrim(*pool, pool->release_threshold);
  }
}

void TrimPoolsUnderPressure(Device& device) {
  for (const auto& pool : State::Get().all_pools) {
    if (pool->device == &device) PoolTrim(*pool, 0);
  }
}

bool InPoolPages(uint64_t address, size_t bytes) {
  for (const auto& pool : State::Get().all_pools) {
    const auto next = pool->pages.upper_bound(address);
    if (next == pool->pages.begin()) continue;
    const auto& [start, mapped] = *std::prev(next);
    if (address - start < mapped && bytes <= mapped - (address - start)) return true;
  }
  return false;
}

}  // namespace simcuda
