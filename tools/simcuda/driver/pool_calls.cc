// Stream Ordered Memory Allocator (Driver API reference 6.17).
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "entry_points.h"
#include "tools/simcuda/driver/contexts.h"
#include "tools/simcuda/driver/graph_node.h"
#include "tools/simcuda/driver/pool.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/shared_file.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

constexpr size_t kPoolFileBytes = size_t{1} << 44;  // sparse: only what is written takes memory

// What the 64 bytes of a CUmemPoolPtrExportData hold.
struct PointerData {
  static constexpr uint64_t kMagic = 0x504f4f4c53494d31;

  uint64_t magic = kMagic;
  SharedKey key;  // of the pool
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t reserved[3] = {};
};
static_assert(sizeof(PointerData) == sizeof(CUmemPoolPtrExportData));

CUresult FindPool(CUmemoryPool handle, std::shared_ptr<Pool>* pool) {
  *pool = State::Get().pools.Find(handle);
  return *pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// SIMCUDA_FILL, in stream order: what used the memory before may still be queued. Skipped when the block is gone again
// by then (freed without a look at it): its memory may be another's, or unmapped.
void QueueFill(const std::shared_ptr<Stream>& stream, const Block& block) {
  State& state = State::Get();
  if (state.config.fill < 0) return;
  std::shared_ptr<Work> work = NewWork("fill", [base = block.base, id = block.buffer_id, byte = state.config.fill] {
    Memory& memory = State::Get().memory;
    const Block* current = memory.Find(base);
    if (current != nullptr && current->buffer_id == id) FillBytes(base, byte, current->size, memory.FileBacked(base));
    return Outcome::kDone;
  });
  work->cost_ns = 0;
  state.engine.Enqueue(stream, work);
}

CUresult AllocateInStream(const std::shared_ptr<Pool>& pool, const std::shared_ptr<Stream>& stream, size_t bytes,
                          CUdeviceptr* dptr) {
  if (bytes == 0) {
    *dptr = 0;  // "a size of 0 returns a null pointer" is what the runtime's cudaMallocAsync(0) shows; the driver
                // accepts it
    return CUDA_SUCCESS;
  }
  if (pool->imported) return CUDA_ERROR_INVALID_VALUE;  // "do not support creating new allocations"
  if (stream->capture) return CaptureAllocation(*stream, *pool->device, bytes, dptr);
  Block* block = nullptr;
  if (const CUresult result = PoolAllocate(pool, *stream, bytes, &block)) return result;
  *dptr = block->base;
  QueueFill(stream, *block);
  return CUDA_SUCCESS;
}

// Pools of device memory only: Errors: NOT_SUPPORTED for host pools, INVALID_VALUE, INVALID_DEVICE.
CUresult DeviceOfLocation(const CUmemLocation& location, Device** device) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return FindDevice(location.id, device);
  return location.type == CU_MEM_LOCATION_TYPE_INVALID ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

CUresult impl::cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Pool> found;
  std::shared_ptr<Stream> stream;
  if (dptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindPool(pool, &found)) return result;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  return AllocateInStream(found, stream, bytesize, dptr);
}

CUresult impl::cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Stream> stream;
  if (dptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  return AllocateInStream(stream->context->device->current_pool, stream, bytesize, dptr);
}

CUresult impl::cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  State& state = State::Get();
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  if (dptr == 0) return CUDA_SUCCESS;
  if (stream->capture) return CaptureFree(*stream, dptr);
  Block* block = state.memory.Find(dptr);
  if (block == nullptr || block->base != dptr || block->freeing) return CUDA_ERROR_INVALID_VALUE;
  if (block->kind == Kind::kGraph) return FreeGraphAllocation(dptr, stream);
  if (block->kind == Kind::kPool) {
    const Block freed = *block;
    state.memory.Forget(dptr);
    std::shared_ptr<Work> work = NewWork("free", nullptr);
    work->cost_ns = 0;
    PoolFree(freed, stream, state.engine.Enqueue(stream, work));
    return CUDA_SUCCESS;
  }
  if (block->kind != Kind::kDevice && block->kind != Kind::kManaged) return CUDA_ERROR_INVALID_VALUE;
  // Memory from cuMemAlloc may be freed in stream order too.
  block->freeing = true;
  const uint64_t id = block->buffer_id;
  state.engine.Enqueue(stream, NewWork("free", [dptr, id] {
                         Memory& memory = State::Get().memory;
                         const Block* current = memory.Find(dptr);
                         if (current != nullptr && current->buffer_id == id) memory.Release(dptr);
                         return Outcome::kDone;
                       }));
  return CUDA_SUCCESS;
}

CUresult impl::cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  if (pool == nullptr || poolProps == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  if (const CUresult result = DeviceOfLocation(poolProps->location, &device)) return result;
  if (poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return poolProps->allocType == CU_MEM_ALLOCATION_TYPE_INVALID ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
  }
  const unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if ((static_cast<unsigned>(poolProps->handleTypes) & ~known) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  auto made = std::make_shared<Pool>();
  if (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    made->file = SharedFile::Create(SharedKind::kPool, device->physical, kPoolFileBytes);
    if (!made->file) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  made->device = device;
  made->max_bytes = RoundUp(poolProps->maxSize, kPageBytes);
  made->access[device->ordinal] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  State& state = State::Get();
  state.all_pools.push_back(made);
  *pool = made->handle = state.pools.Add(made);
  return CUDA_SUCCESS;
}

// "If any pointers obtained from this pool haven't been freed or the pool has free operations that haven't completed,
// the function will return immediately and the resources will be released automatically once there are no more
// outstanding allocations."
CUresult impl::cuMemPoolDestroy(CUmemoryPool pool) {
  std::shared_ptr<Pool> found;
  if (const CUresult result = FindPool(pool, &found)) return result;
  if (found->is_default) return CUDA_ERROR_INVALID_VALUE;
  if (found->device->current_pool == found) found->device->current_pool = found->device->default_pool;
  State::Get().pools.Remove(pool);
  found->destroyed = true;
  found->release_threshold = 0;
  PoolTrim(*found, 0);
  DropEmptyPools();
  return CUDA_SUCCESS;
}

CUresult impl::cuMemPoolExportToShareableHandle(void* handle_out, CUmemoryPool pool,
                                                CUmemAllocationHandleType handleType, unsigned long long flags) {
  std::shared_ptr<Pool> found;
  if (const CUresult result = FindPool(pool, &found)) return result;
  if (handle_out == nullptr || flags != 0 || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      !found->file || found->imported) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int descriptor = found->file->Duplicate();
  if (descriptor < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(handle_out) = descriptor;
  return CUDA_SUCCESS;
}

CUresult impl::cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle,
                                                  CUmemAllocationHandleType handleType, unsigned long long flags) {
  if (pool_out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return handleType == CU_MEM_HANDLE_TYPE_FABRIC ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  }
  auto made = std::make_shared<Pool>();
  made->file = SharedFile::FromDescriptor(static_cast<int>(reinterpret_cast<intptr_t>(handle)), SharedKind::kPool);
  if (!made->file || made->file->bytes() % kPageBytes != 0) return CUDA_ERROR_INVALID_VALUE;
  State& state = State::Get();
  for (const auto& device : state.devices) {
    if (device->physical == made->file->facts().device) made->device = device.get();
  }
  if (made->device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  made->imported = true;
  made->access[made->device->ordinal] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  state.all_pools.push_back(made);
  *pool_out = made->handle = state.pools.Add(made);
  return CUDA_SUCCESS;
}

CUresult impl::cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr) {
  const Block* block = State::Get().memory.Find(ptr);
  if (shareData_out == nullptr || block == nullptr || block->base != ptr || block->kind != Kind::kPool ||
      !block->pool->file || block->pool->imported) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  PointerData data;
  data.key = block->pool->file->facts().key;
  data.offset = OffsetInFile(*block->pool, *block);
  data.bytes = block->size;
  std::memcpy(shareData_out, &data, sizeof data);
  return CUDA_SUCCESS;
}

CUresult impl::cuMemPoolImportPointer(CUdeviceptr* ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData* shareData) {
  std::shared_ptr<Pool> found;
  if (const CUresult result = FindPool(pool, &found)) return result;
  if (ptr_out == nullptr || shareData == nullptr || !found->imported) return CUDA_ERROR_INVALID_VALUE;
  const auto data = std::bit_cast<PointerData>(*shareData);
  if (data.magic != PointerData::kMagic || data.key != found->file->facts().key) return CUDA_ERROR_INVALID_VALUE;
  Block* block = nullptr;
  if (const CUresult result = MapImported(found, data.offset, data.bytes, &block)) return result;
  *ptr_out = block->base;
  return CUDA_SUCCESS;
}

CUresult impl::cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  std::shared_ptr<Pool> found;
  if (const CUresult result = FindPool(pool, &found)) return result;
  PoolTrim(*found, minBytesToKeep);
  return CUDA_SUCCESS;
}

CUresult impl::cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  std::shared_ptr<Pool> found;
  if (const CUresult result = FindPool(pool, &found)) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto flag = [&](int on) {
    std::memcpy(value, &on, sizeof on);
    return CUDA_SUCCESS;
  };
  const auto bytes = [&](uint64_t number) {
    std::memcpy(value, &number, sizeof number);
    return CUDA_SUCCESS;
  };
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return flag(found->reuse_event_dependencies);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return flag(found->reuse_opportunistic);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return flag(found->reuse_internal_dependencies);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return bytes(found->release_threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return bytes(found->reserved);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return bytes(found->reserved_high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return bytes(found->used);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return bytes(found->used_high);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult impl::cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  std::shared_ptr<Pool> found;
  if (const CUresult result = FindPool(pool, &found)) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  int flag = 0;
  uint64_t bytes = 0;
  std::memcpy(&flag, value, sizeof flag);
  const bool wide = attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD || attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ||
                    attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
  if (wide) std::memcpy(&bytes, value, sizeof bytes);
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      found->reuse_event_dependencies = flag != 0;
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      found->reuse_opportunistic = flag != 0;
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      found->reuse_internal_dependencies = flag != 0;
      break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      found->release_threshold = bytes;
      break;
    // The high watermarks can only be reset, by setting 0: to the current value.
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      if (bytes != 0) return CUDA_ERROR_INVALID_VALUE;
      found->reserved_high = found->reserved;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (bytes != 0) return CUDA_ERROR_INVALID_VALUE;
      found->used_high = found->used;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult impl::cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  std::shared_ptr<Pool> found;
  if (const CUresult result = FindPool(pool, &found)) return result;
  if (map == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    Device* device = nullptr;
    if (const CUresult result = DeviceOfLocation(map[i].location, &device)) return result;
    // "Memory can't be made inaccessible to the pool's own device"; other devices must be peers.
    if (device == found->device && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
    if (device != found->device && !PeersPossible(*device, *found->device)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  }
  for (size_t i = 0; i < count; ++i) found->access[map[i].location.id] = map[i].flags;
  return CUDA_SUCCESS;
}

CUresult impl::cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool, CUmemLocation* location) {
  std::shared_ptr<Pool> found;
  if (const CUresult result = FindPool(memPool, &found)) return result;
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  if (const CUresult result = DeviceOfLocation(*location, &device)) return result;
  const auto known = found->access.find(device->ordinal);
  *flags = known == found->access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : known->second;
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (pool_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool_out = device->default_pool->handle;
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool = device->current_pool->handle;
  return CUDA_SUCCESS;
}

CUresult impl::cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  Device* device = nullptr;
  std::shared_ptr<Pool> found;
  if (const CUresult result = FindDevice(dev, &device)) return result;
  if (const CUresult result = FindPool(pool, &found)) return result;
  // "The memory pool must be local to the specified device."
  if (found->device != device || found->imported) return CUDA_ERROR_INVALID_VALUE;
  device->current_pool = found;
  return CUDA_SUCCESS;
}

CUresult impl::cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location, CUmemAllocationType type) {
  Device* device = nullptr;
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = DeviceOfLocation(*location, &device)) return result;
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
  return impl::cuDeviceGetDefaultMemPool(pool_out, device->ordinal);
}

CUresult impl::cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  Device* device = nullptr;
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = DeviceOfLocation(*location, &device)) return result;
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
  return impl::cuDeviceGetMemPool(pool, device->ordinal);
}

CUresult impl::cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  Device* device = nullptr;
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = DeviceOfLocation(*location, &device)) return result;
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
  return impl::cuDeviceSetMemPool(device->ordinal, pool);
}

}  // namespace simcuda
