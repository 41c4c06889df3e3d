// Contexts, memory, pools and virtual memory.
#include <array>

#include "tests/campaigns/random/machine.h"

namespace cuheap::campaigns {

// ---- contexts ----

// Makes the context current, whose kernels are loaded into it.
CUresult Machine::EnterContext(std::int64_t number) {
  Context& context = contexts_[number];
  const CUresult result = cuCtxSetCurrent(context.handle);
  if (result == CUDA_SUCCESS) context.kernels = LoadKernels();
  return result;
}

CUresult Machine::DoContext(const Op& op) {
  Context& context = contexts_[op.args[0]];
  CUresult result = CUDA_SUCCESS;
  switch (op.kind) {
    case OpKind::kRetainPrimary:
      context.device = static_cast<int>(op.args[1]);
      result = cuDevicePrimaryCtxRetain(&context.handle, context.device);
      context.retained = 1;
      return result == CUDA_SUCCESS ? EnterContext(op.args[0]) : result;
    case OpKind::kCreateContext:
      context.device = static_cast<int>(op.args[1]);
      result = cuCtxCreate(&context.handle, nullptr, 0, context.device);
      return result == CUDA_SUCCESS ? EnterContext(op.args[0]) : result;
    case OpKind::kSetCurrent:
      return cuCtxSetCurrent(context.handle);
    case OpKind::kEnablePeer:
      return cuCtxEnablePeerAccess(context.handle, 0);
    case OpKind::kDestroyContext:
      context.destroyed = true;
      result = cuCtxDestroy(context.handle);
      break;
    default:
      result = cuDevicePrimaryCtxReset(context.device);
      if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context.handle, context.device);
      ++context.retained;
      if (result == CUDA_SUCCESS) result = EnterContext(op.args[0]);
      break;
  }
  for (auto& [number, block] : blocks_.all()) {
    if (block.context == op.args[0]) block.live = false;
  }
  for (auto& [number, graph] : graphs_.all()) {
    if (graph.context == op.args[0]) graph.handle = nullptr;  // gone with it
  }
  return result;
}

// ---- memory ----

CUresult Machine::DoMemory(const Op& op) {
  Block& block = blocks_[op.args[0]];
  if (op.kind <= OpKind::kHostRegister || op.kind == OpKind::kAllocateAsync || op.kind == OpKind::kAllocateFromPool) {
    block.bytes = static_cast<std::size_t>(op.args[1]);
    block.made_by = op.kind;
    block.live = true;
    for (auto& [number, context] : contexts_.all()) {
      if (&context == &Current() && op.kind <= OpKind::kHostRegister) block.context = number;
    }
  } else {
    block.live = false;
  }
  void* host = nullptr;
  CUresult result = CUDA_SUCCESS;
  switch (op.kind) {
    case OpKind::kAllocate:
      return cuMemAlloc(&block.address, block.bytes);
    case OpKind::kAllocatePitch: {
      std::size_t pitch = 0;
      block.bytes *= static_cast<std::size_t>(op.args[2]);
      return cuMemAllocPitch(&block.address, &pitch, static_cast<std::size_t>(op.args[1]),
                             static_cast<std::size_t>(op.args[2]), 4);
    }
    case OpKind::kAllocateManaged:
      return cuMemAllocManaged(&block.address, block.bytes, CU_MEM_ATTACH_GLOBAL);
    case OpKind::kHostAllocate:
      result = cuMemHostAlloc(&host, block.bytes, CU_MEMHOSTALLOC_PORTABLE);
      block.address = reinterpret_cast<CUdeviceptr>(host);
      return result;
    case OpKind::kHostRegister:
      block.registered = std::make_unique<unsigned char[]>(block.bytes);
      result = cuMemHostRegister(block.registered.get(), block.bytes,
                                 CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
      if (result == CUDA_SUCCESS) result = cuMemHostGetDevicePointer(&block.address, block.registered.get(), 0);
      return result;
    case OpKind::kFree:
      return cuMemFree(block.address);
    case OpKind::kFreeHost:
      return cuMemFreeHost(reinterpret_cast<void*>(block.address));
    case OpKind::kHostUnregister:
      return cuMemHostUnregister(block.registered.get());
    case OpKind::kAllocateAsync: {
      const Where where = At(op.args[2]);
      return where.calls->allocate_async(&block.address, block.bytes, where.stream);
    }
    case OpKind::kAllocateFromPool: {
      const Where where = At(op.args[3]);
      return where.calls->allocate_from_pool(&block.address, block.bytes, pools_[op.args[2]].handle, where.stream);
    }
    default: {
      const Where where = At(op.args[1]);
      return where.calls->free_async(block.address, where.stream);
    }
  }
}

// ---- pools ----

CUresult Machine::DoPool(const Op& op, std::ostream& out) {
  Pool& pool = pools_[op.args[0]];
  std::uint64_t number = static_cast<std::uint64_t>(op.args[1]);
  switch (op.kind) {
    case OpKind::kDefaultPool:
      pool.device = static_cast<int>(op.args[1]);
      pool.by_default = pool.live = true;
      return cuDeviceGetDefaultMemPool(&pool.handle, pool.device);
    case OpKind::kCreatePool: {
      pool.device = static_cast<int>(op.args[1]);
      pool.live = true;
      CUmemPoolProps properties = {};
      properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {pool.device}};
      return cuMemPoolCreate(&pool.handle, &properties);
    }
    case OpKind::kSetPool:
      return cuDeviceSetMemPool(pool.device, pool.handle);
    case OpKind::kTrimPool:
      return cuMemPoolTrimTo(pool.handle, number);
    case OpKind::kPoolThreshold:
      return cuMemPoolSetAttribute(pool.handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &number);
    case OpKind::kPoolReuse: {
      int on = op.args[1] != 0 ? 1 : 0;
      for (const auto attribute :
           {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
            CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
        if (const CUresult result = cuMemPoolSetAttribute(pool.handle, attribute, &on); result != CUDA_SUCCESS)
          return result;
      }
      return CUDA_SUCCESS;
    }
    case OpKind::kPoolAccess: {
      const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {static_cast<int>(op.args[1])}},
                                   CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
      return cuMemPoolSetAccess(pool.handle, &access, 1);
    }
    case OpKind::kPoolFacts:
      PoolFacts(op, out);
      return CUDA_SUCCESS;
    default:
      pool.live = false;
      return cuMemPoolDestroy(pool.handle);
  }
}

// How the driver rounds is not documented: only what holds of every rounding is printed.
void Machine::PoolFacts(const Op& op, std::ostream& out) {
  const CUmemoryPool pool = pools_[op.args[0]].handle;
  const auto live = static_cast<std::uint64_t>(op.args[1]);
  const CUresult synchronized = cuCtxSynchronize();
  std::uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
  cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
  cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used_high);
  cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
  cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &reserved_high);
  out << "pool " << synchronized << ' ' << (used >= live) << (live != 0 || used == 0) << (reserved >= used)
      << (used_high >= used) << (reserved_high >= reserved);
  if (live != 0) return;
  const CUresult trimmed = cuMemPoolTrimTo(pool, 0);
  cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
  out << " trimmed " << trimmed << ' ' << reserved;
}

// ---- virtual memory ----

CUresult Machine::DoVirtual(const Op& op) {
  switch (op.kind) {
    case OpKind::kReserve: {
      Reservation& reservation = reservations_[op.args[0]];
      reservation.bytes = static_cast<std::size_t>(op.args[1]);
      reservation.live = true;
      return cuMemAddressReserve(&reservation.address, reservation.bytes, 0, 0, 0);
    }
    case OpKind::kCreatePhysical: {
      Physical& physical = physicals_[op.args[0]];
      physical.live = true;
      CUmemAllocationProp properties = {};
      properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
      properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {static_cast<int>(op.args[2])}};
      physical.bytes = static_cast<std::size_t>(op.args[1]);
      return cuMemCreate(&physical.handle, physical.bytes, &properties, 0);
    }
    case OpKind::kMap: {
      Block& block = blocks_[op.args[0]];
      Physical& physical = physicals_[op.args[3]];
      block.address = reservations_[op.args[1]].address + static_cast<CUdeviceptr>(op.args[2]);
      block.bytes = physical.bytes;
      block.made_by = op.kind;
      block.live = true;
      if (const CUresult result = cuMemMap(block.address, block.bytes, 0, physical.handle, 0); result != CUDA_SUCCESS)
        return result;
      std::array<CUmemAccessDesc, 32> access{};
      std::size_t count = 0;
      for (int device = 0; device < program_.devices; ++device) {
        if ((op.args[4] >> device & 1) == 0) continue;
        access[count++] = {{CU_MEM_LOCATION_TYPE_DEVICE, {device}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
      }
      return cuMemSetAccess(block.address, block.bytes, access.data(), count);
    }
    case OpKind::kUnmap: {
      Block& block = blocks_[op.args[0]];
      block.live = false;
      return cuMemUnmap(block.address, block.bytes);
    }
    case OpKind::kReleasePhysical: {
      Physical& physical = physicals_[op.args[0]];
      physical.live = false;
      return cuMemRelease(physical.handle);
    }
    default: {
      Reservation& reservation = reservations_[op.args[0]];
      reservation.live = false;
      return cuMemAddressFree(reservation.address, reservation.bytes);
    }
  }
}

}  // namespace cuheap::campaigns
