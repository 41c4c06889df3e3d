// Memory Management (Driver API reference 6.13): page-locked host memory. With unified addressing the device address of
// a host block is its host address.
#include "entry_points.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/memory_calls.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

Block* FindHost(const void* p) {
  Block* block = State::Get().memory.Find(reinterpret_cast<uint64_t>(p));
  return block != nullptr && (block->kind == Kind::kHost || block->kind == Kind::kRegistered) ? block : nullptr;
}

}  // namespace

CUresult impl::cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  SIMCUDA_CURRENT(context);
  constexpr unsigned kKnown = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (pp == nullptr || bytesize == 0 || (Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  Block* block = nullptr;
  if (const CUresult result = State::Get().memory.AllocateShared(*context, bytesize, Kind::kHost, Flags, &block))
    return result;
  *pp = reinterpret_cast<void*>(block->base);
  return CUDA_SUCCESS;
}

CUresult impl::cuMemAllocHost_v2(void** pp, size_t bytesize) { return impl::cuMemHostAlloc(pp, bytesize, 0); }

CUresult impl::cuMemFreeHost(void* p) {
  SIMCUDA_CURRENT(context);
  if (p == nullptr) return CUDA_SUCCESS;
  const CUresult result = FreeBlock(reinterpret_cast<uint64_t>(p), [](Kind kind) { return kind == Kind::kHost; });
  return result == CUDA_SUCCESS ? context->sticky : result;
}

CUresult impl::cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  SIMCUDA_CURRENT(context);
  constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
  if (p == nullptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if ((Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  Block* block = nullptr;
  return State::Get().memory.RegisterHost(*context, reinterpret_cast<uint64_t>(p), bytesize, Flags, &block);
}

CUresult impl::cuMemHostUnregister(void* p) {
  SIMCUDA_CURRENT(context);
  const Block* block = FindHost(p);
  if (block == nullptr || block->kind != Kind::kRegistered || block->base != reinterpret_cast<uint64_t>(p)) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  return FreeBlock(block->base, [](Kind kind) { return kind == Kind::kRegistered; });
}

CUresult impl::cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  SIMCUDA_CURRENT(context);
  if (pdptr == nullptr || Flags != 0 || FindHost(p) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pdptr = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}

CUresult impl::cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  SIMCUDA_CURRENT(context);
  const Block* block = FindHost(p);
  if (pFlags == nullptr || block == nullptr || block->kind != Kind::kHost) return CUDA_ERROR_INVALID_VALUE;
  // On devices with unified addressing all host allocations are portable and mapped.
  *pFlags = block->flags | CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
