#include "tools/simcuda/driver/ipc.h"

#include <unistd.h>

#include <bit>
#include <cstring>
#include <iterator>

#include "entry_points.h"
#include "tools/simcuda/driver/contexts.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {

ImportedMemory::Ranges::iterator ImportedMemory::FindRange(const SharedKey& key, const Context& context) {
  auto range = ranges_.begin();
  while (range != ranges_.end() && !(range->second.file->facts().key == key && range->second.context == &context)) {
    ++range;
  }
  return range;
}

ImportedMemory::Ranges::iterator ImportedMemory::RangeAt(uint64_t address) {
  const auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return ranges_.end();
  const auto range = std::prev(next);
  return address - range->first < range->second.file->bytes() ? range : ranges_.end();
}

CUresult ImportedMemory::MapRange(Context& context, const MemoryHandle& handle, Ranges::iterator* range) {
  const auto file =
      SharedFile::FromProcess(handle.process, handle.descriptor, handle.key, SharedKind::kMemory);
  if (!file || file->bytes() % kPageBytes != 0) return CUDA_ERROR_INVALID_HANDLE;
  Device* device = nullptr;
  for (const auto& each : State::Get().devices) {
    if (each->physical == file->facts().device) device = each.get();
  }
  if (device == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (device != context.device && !PeersPossible(*context.device, *device)) return CUDA_ERROR_MAP_FAILED;
  // "CUipcMemHandles from each CUdevice in a given process may only be opened by one CUcontext per CUdevice per other
  // process."
  for (const auto& [address, other] : ranges_) {
    if (other.exporter == handle.process && other.device == device && other.context != &context &&
        other.context->device == context.device) {
      return CUDA_ERROR_INVALID_CONTEXT;
    }
  }
  Area& area = State::Get().memory.DeviceArea(*device);
  const uint64_t address = area.Take(file->bytes());
  if (address == 0) return CUDA_ERROR_MAP_FAILED;
  if (!file->MapAt(address, file->bytes(), 0, true)) {
    area.Release(address, file->bytes());
    return CUDA_ERROR_MAP_FAILED;
  }
  *range = ranges_.emplace(address, Range{file, &context, device, handle.process, {}}).first;
  return CUDA_SUCCESS;
}

CUresult ImportedMemory::Open(Context& context, const MemoryHandle& handle, CUdeviceptr* address) {
  if (handle.magic != MemoryHandle::kMagic) return CUDA_ERROR_INVALID_HANDLE;
  // Not documented in words; what programs see that try.
  if (handle.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  auto range = FindRange(handle.key, context);
  if (range == ranges_.end()) {
    if (const CUresult result = MapRange(context, handle, &range)) return result;
  }
  Range& found = range->second;
  const size_t all = found.file->bytes();
  const uint64_t unit = handle.offset / kSmallUnit;
  const bool fits = handle.offset < all && handle.bytes != 0 && handle.bytes <= all - handle.offset &&
                    handle.offset % kSmallUnit == 0 && unit < SharedFacts::kLive;
  if (!fits || handle.block_id == 0 || found.file->facts().live[unit] != handle.block_id) {
    UnmapIfUnused(range);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *address = range->first + handle.offset;
  if (found.opened[handle.offset]++ == 0) {
    State::Get().memory.AddImported(context, *found.device, *address, handle.bytes);
  }
  return CUDA_SUCCESS;
}

CUresult ImportedMemory::Close(CUdeviceptr address) {
  State& state = State::Get();
  const auto opened = [&]() -> unsigned* {
    const auto range = RangeAt(address);
    if (range == ranges_.end()) return nullptr;
    const auto block = range->second.opened.find(address - range->first);
    return block == range->second.opened.end() ? nullptr : &block->second;
  };
  unsigned* count = opened();
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (*count == 1 && state.config.free_sync) {
    // Unmapping waits as freeing does; the lock is free meanwhile.
    state.engine.WaitContext(*RangeAt(address)->second.context);
    count = opened();
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  if (--*count == 0) state.memory.Release(address);
  return CUDA_SUCCESS;
}

void ImportedMemory::BlockGone(uint64_t address) {
  const auto range = RangeAt(address);
  if (range == ranges_.end()) return;
  range->second.opened.erase(address - range->first);
  UnmapIfUnused(range);
}

void ImportedMemory::UnmapIfUnused(Ranges::iterator range) {
  if (!range->second.opened.empty()) return;
  const size_t bytes = range->second.file->bytes();
  ResetPages(range->first, bytes);
  State::Get().memory.DeviceArea(*range->second.device).Release(range->first, bytes);
  ranges_.erase(range);
}

CUresult impl::cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  SIMCUDA_CURRENT(context);
  State& state = State::Get();
  const Block* block = state.memory.Find(dptr);
  // Only memory "created with cuMemAlloc" has such handles. Of an address inside a block it is the block's.
  if (pHandle == nullptr || block == nullptr || block->freeing || block->kind != Kind::kDevice) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  MemoryHandle handle;
  const std::shared_ptr<SharedFile> file = state.memory.Share(*block, &handle.offset);
  if (!file) return CUDA_ERROR_OUT_OF_MEMORY;
  handle.key = file->facts().key;
  handle.process = getpid();
  handle.descriptor = file->descriptor();
  handle.block_id = block->buffer_id;
  handle.bytes = block->size;
  std::memcpy(pHandle, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

CUresult impl::cuIpcOpenMemHandle_v2(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  SIMCUDA_CURRENT(context);
  if (pdptr == nullptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  const auto opened = std::bit_cast<MemoryHandle>(handle);
  return State::Get().ipc.Open(*context, opened, pdptr);
}

CUresult impl::cuIpcCloseMemHandle(CUdeviceptr dptr) {
  SIMCUDA_CURRENT(context);
  const CUresult result = State::Get().ipc.Close(dptr);
  return result == CUDA_SUCCESS ? context->sticky : result;
}

}  // namespace simcuda
