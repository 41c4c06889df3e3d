// Memory Management (Driver API reference 6.13): device memory and queries.
#include "tools/simcuda/driver/memory_calls.h"

#include <algorithm>

#include "entry_points.h"
#include "tools/simcuda/driver/contexts.h"
#include "tools/simcuda/driver/pool.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {

void FillNow(const Block& block) {
  State& state = State::Get();
  if (state.config.fill >= 0) {
    FillBytes(block.base, state.config.fill, block.size, state.memory.FileBacked(block.base));
  }
}

CUresult AllocateWithRetry(Context& context, size_t bytes, Kind kind, Block** block) {
  State& state = State::Get();
  CUresult result = state.memory.AllocateDevice(context, bytes, kind, block);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  // Pools give back what they only cache before anybody is told that memory is out.
  TrimPoolsUnderPressure(*context.device);
  return state.memory.AllocateDevice(context, bytes, kind, block);
}

CUresult FreeBlock(uint64_t base, bool (*of_kind)(Kind)) {
  State& state = State::Get();
  const auto find = [&] {
    Block* block = state.memory.Find(base);
    return block != nullptr && block->base == base && !block->freeing && of_kind(block->kind) ? block : nullptr;
  };
  Block* block = find();
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (block->kind == Kind::kGraph) {
    if (Context* context = CurrentContextOrNull(); context != nullptr && state.config.free_sync) {
      state.engine.WaitContext(*context);
    }
    return FreeGraphAllocation(base, nullptr);
  }
  if (block->kind == Kind::kPool) {
    // Not stream-ordered and no barrier: the program has made sure that nothing uses it.
    const Block freed = *block;
    state.memory.Forget(base);
    PoolFree(freed, nullptr, nullptr);
    return CUDA_SUCCESS;
  }
  if (state.config.free_sync && block->context != nullptr) {
    const uint64_t id = block->buffer_id;
    state.engine.WaitContext(*block->context);
    // The lock was free meanwhile: another thread may have freed it.
    block = find();
    if (block == nullptr || block->buffer_id != id) return CUDA_ERROR_INVALID_VALUE;
  }
  state.memory.Release(base);
  return CUDA_SUCCESS;
}

CUresult impl::cuMemGetInfo_v2(size_t* free, size_t* total) {
  SIMCUDA_CURRENT(context);
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *total = context->device->total_bytes;
  *free = context->device->total_bytes - context->device->used_bytes;
  return CUDA_SUCCESS;
}

CUresult impl::cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  SIMCUDA_CURRENT(context);
  if (dptr == nullptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  Block* block = nullptr;
  if (const CUresult result = AllocateWithRetry(*context, bytesize, Kind::kDevice, &block)) return result;
  FillNow(*block);
  *dptr = block->base;
  return CUDA_SUCCESS;
}

CUresult impl::cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                                  unsigned int ElementSizeBytes) {
  SIMCUDA_CURRENT(context);
  if (dptr == nullptr || pPitch == nullptr || WidthInBytes == 0 || Height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) return CUDA_ERROR_INVALID_VALUE;
  const size_t pitch = RoundUp(WidthInBytes, kSmallUnit);
  if (pitch < WidthInBytes || pitch > SIZE_MAX / Height) return CUDA_ERROR_OUT_OF_MEMORY;
  Block* block = nullptr;
  if (const CUresult result = AllocateWithRetry(*context, pitch * Height, Kind::kDevice, &block)) return result;
  FillNow(*block);
  *dptr = block->base;
  *pPitch = pitch;
  return CUDA_SUCCESS;
}

CUresult impl::cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  SIMCUDA_CURRENT(context);
  if (dptr == nullptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  Block* block = nullptr;
  if (const CUresult result = State::Get().memory.AllocateShared(*context, bytesize, Kind::kManaged, flags, &block)) {
    return result;
  }
  FillNow(*block);
  *dptr = block->base;
  return CUDA_SUCCESS;
}

CUresult impl::cuMemFree_v2(CUdeviceptr dptr) {
  SIMCUDA_CURRENT(context);
  if (dptr == 0) return CUDA_SUCCESS;
  const CUresult result =
      FreeBlock(dptr, [](Kind kind) { return kind == Kind::kDevice || kind == Kind::kManaged || kind == Kind::kPool ||
                                        kind == Kind::kGraph; });
  return result == CUDA_SUCCESS ? context->sticky : result;
}

CUresult impl::cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  SIMCUDA_CURRENT(context);
  const Block* block = State::Get().memory.Find(dptr);
  if (block == nullptr || block->kind == Kind::kHost || block->kind == Kind::kRegistered) return CUDA_ERROR_NOT_FOUND;
  if (pbase != nullptr) *pbase = block->base;
  if (psize != nullptr) *psize = block->size;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
