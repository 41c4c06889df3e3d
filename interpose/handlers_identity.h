// Handlers of what memory says about itself: the program must see its own block, not the segment that it lies in.
//
// An address that the pool holds but the program does not own any more is unknown to the program. What the driver says
// of an unknown address is asked of the driver itself, with the address of a local variable.
#ifndef CUHEAP_INTERPOSE_HANDLERS_IDENTITY_H_
#define CUHEAP_INTERPOSE_HANDLERS_IDENTITY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "interpose/handlers.h"

namespace cuheap {

// Set in the BUFFER_ID of a block of a pool: the driver's is the segment's, which outlives its blocks. No driver has
// handed out that many.
inline constexpr unsigned long long kOurBufferId = 1ull << 63;
inline constexpr unsigned long long kStreamBufferId = 1ull << 62;    // and this in that of a stream-ordered one
inline constexpr unsigned long long kImportedBufferId = 1ull << 61;  // or of a packed one of another process

// The program's block at an address of the pool, for queries.
struct Identity {
  bool pooled = false;                          // the address lies in memory that a pool holds, or has given away, or
                                                // in another process's pool
  bool pooled_by_streams = false;               // that of the stream-ordered one, which has no handles to share
  std::optional<PoolBlock> block;               // the live block there, if any
  std::optional<StreamPoolBlock> stream_block;  // or this one

  Identity(Router& router, CUdeviceptr address) {
    if (router.streams() != nullptr && router.streams()->pool().Owns(address)) {
      stream_block = router.streams()->pool().Find(address);
      pooled = pooled_by_streams = true;
      return;
    }
    if (const ImportBook::Place place = router.imports().Find(address); place.inside) {
      pooled = true;
      if (place.block) {
        block.emplace();
        block->address = place.block->address;
        block->bytes = place.block->bytes;
        block->incarnation = kImportedBufferId | place.block->serial;
      }
      return;
    }
    if (router.pool() == nullptr) return;
    if (!router.pool()->Owns(address)) {
      block = router.exposed().Find(address);
      pooled = block.has_value();
      return;
    }
    block = router.pool()->Find(address);
    pooled = true;
  }
  bool live() const { return block.has_value() || stream_block.has_value(); }
  bool unknown() const { return pooled && !live(); }
  CUdeviceptr begin() const { return block ? block->address : stream_block->address; }
  std::size_t bytes() const { return block ? block->bytes : stream_block->bytes; }
};

// Writes the block's own value over the driver's where the driver can only speak of the segment.
inline void CorrectAttribute(Router& router, CUpointer_attribute attribute, const PoolBlock& block, void* value) {
  if (value == nullptr) return;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(value) = block.address;
      return;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(value) = block.bytes;
      return;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(value) = kOurBufferId | block.incarnation;
      return;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      if (block.packed) *static_cast<int*>(value) = router.exposed().SyncMemops(block) ? 1 : 0;
      return;
    default:
      return;
  }
}

// The same for a stream-ordered block, which natively belongs to a pool and to no context, and cannot be shared.
// Source: CUDA Driver API, Unified Addressing, cuPointerGetAttribute. True if nothing is left for the driver to say.
inline bool CorrectStreamAttribute(Router& router, CUpointer_attribute attribute, const StreamPoolBlock& block,
                                   void* value) {
  if (value == nullptr) return false;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(value) = nullptr;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      *static_cast<CUdeviceptr*>(value) = block.address;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(value) = block.bytes;
      return true;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      *static_cast<std::size_t*>(value) = block.block_bytes;
      return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      *static_cast<unsigned long long*>(value) = kOurBufferId | kStreamBufferId | block.incarnation;
      return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<int*>(value) = 0;
      return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *static_cast<unsigned long long*>(value) = 0;
      return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<CUmemoryPool*>(value) = router.streams()->HandleOf(block.pool);
      return true;
    default:
      return false;
  }
}

template <>
struct Handler<Effect::kMemoryInfo> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, std::size_t* free_bytes, std::size_t* total_bytes) {
    // Whether an output may be missing is the driver's to say; what it accepts is answered.
    std::size_t free_now = 0;
    std::size_t total = 0;
    const CUresult result =
        router.Forward(real, free_bytes != nullptr ? &free_now : nullptr, total_bytes != nullptr ? &total : nullptr);
    if (result != CUDA_SUCCESS) return result;
    if (total_bytes != nullptr) *total_bytes = total;
    if (free_bytes == nullptr) return result;
    // What the pool would give back to any call that needs it is as good as free.
    const Place place = router.Where();
    const std::size_t idle = place.valid() ? router.IdleBytes(place.device) : 0;
    *free_bytes = total_bytes != nullptr ? std::min(free_now + idle, total) : free_now + idle;
    return result;
  }
};

template <>
struct Handler<Effect::kAddressRange> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
    const Identity identity(router, address);
    if (!identity.pooled) return router.Forward(real, base, bytes, address);
    CUdeviceptr driver_base = 0;
    std::size_t driver_bytes = 0;
    if (identity.unknown()) return router.Forward(real, &driver_base, &driver_bytes, AsNumber(&driver_base));
    const CUresult result = router.Forward(real, &driver_base, &driver_bytes, address);
    if (result != CUDA_SUCCESS) return result;
    if (base != nullptr) *base = identity.begin();
    if (bytes != nullptr) *bytes = identity.bytes();
    return result;
  }
};

template <>
struct Handler<Effect::kPointerAttribute> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, void* value, CUpointer_attribute attribute,
                       CUdeviceptr address) {
    const Identity identity(router, address);
    const int local = 0;
    const CUresult result = router.Forward(real, value, attribute, identity.unknown() ? AsNumber(&local) : address);
    if (result == CUDA_SUCCESS && identity.block) CorrectAttribute(router, attribute, *identity.block, value);
    // The driver may not know the attribute of mapped memory, though it does of a pool's.
    const bool answered =
        identity.stream_block && CorrectStreamAttribute(router, attribute, *identity.stream_block, value);
    return answered && result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result;
  }
};

template <>
struct Handler<Effect::kPointerAttributes> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, unsigned int count, CUpointer_attribute* attributes,
                       void** values, CUdeviceptr address) {
    const Identity identity(router, address);
    const int local = 0;
    const CUresult result =
        router.Forward(real, count, attributes, values, identity.unknown() ? AsNumber(&local) : address);
    if (result == CUDA_SUCCESS && identity.block) {
      for (unsigned int i = 0; i < count; ++i) CorrectAttribute(router, attributes[i], *identity.block, values[i]);
    }
    if (result == CUDA_SUCCESS && identity.stream_block) {
      for (unsigned int i = 0; i < count; ++i)
        CorrectStreamAttribute(router, attributes[i], *identity.stream_block, values[i]);
    }
    return result;
  }
};

// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is the only one that can be set. A block that has it leaves the pool once the driver
// has accepted it, so that the next one at its place does not; a slab has it if one of its blocks has.
template <>
struct Handler<Effect::kSetPointerAttribute> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, const void* value, CUpointer_attribute attribute,
                       CUdeviceptr address) {
    const int local = 0;
    const Identity identity(router, address);
    if (identity.unknown()) return router.Forward(real, value, attribute, AsNumber(&local));
    if (!identity.block || value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
      return router.Forward(real, value, attribute, address);
    }
    int on = 0;
    std::memcpy(&on, value, sizeof(on));
    if (!identity.block->packed) {
      const CUresult result = router.Forward(real, value, attribute, address);
      if (result == CUDA_SUCCESS) router.Expose(address, /*refuse_packed=*/false);
      return result;
    }
    const bool before = router.exposed().SyncMemops(*identity.block);
    const int slab = router.exposed().SetSyncMemops(*identity.block, on != 0) ? 1 : 0;
    const CUresult result = router.Forward(real, static_cast<const void*>(&slab), attribute, address);
    if (result != CUDA_SUCCESS) {
      router.exposed().SetSyncMemops(*identity.block, before);
    } else if (on != 0) {
      router.Expose(address, /*refuse_packed=*/false);
    }
    return result;
  }
};

template <>
struct Handler<Effect::kGetIpcHandle> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUipcMemHandle* handle, CUdeviceptr address) {
    const int local = 0;
    if (const Identity identity(router, address); identity.pooled_by_streams) {
      // The driver refuses memory of pools and mapped memory alike.
      return router.Forward(real, handle, identity.live() ? address : AsNumber(&local));
    }
    if (handle == nullptr) return router.Forward(real, handle, address);  // an error that exposes nothing
    if (const std::optional<PoolBlock> packed = router.PackedBlock(address)) {
      CUipcMemHandle of_slab = {};
      const CUresult result = router.Forward(real, &of_slab, packed->segment);
      return result == CUDA_SUCCESS ? router.Share(packed->address, of_slab, handle) : result;
    }
    switch (router.Expose(address, /*refuse_packed=*/true)) {
      case Exposure::kRefused:
        return CUDA_ERROR_NOT_SUPPORTED;
      case Exposure::kNoLiveBlock:
        return router.Forward(real, handle, AsNumber(&local));
      case Exposure::kNotOurs:
        break;
    }
    return router.Forward(real, handle, address);
  }
};

template <>
struct Handler<Effect::kRangeHandle> {
  template <class Real, class... Rest>
  static CUresult Call(Router& router, HookId, Real real, void* handle, CUdeviceptr address, std::size_t bytes,
                       Rest... rest) {
    const int local = 0;
    if (Identity(router, address).pooled_by_streams)
      return router.Forward(real, handle, AsNumber(&local), bytes, rest...);
    switch (router.Expose(address, /*refuse_packed=*/true)) {
      case Exposure::kRefused:
        return CUDA_ERROR_NOT_SUPPORTED;
      case Exposure::kNoLiveBlock:
        return router.Forward(real, handle, AsNumber(&local), bytes, rest...);
      case Exposure::kNotOurs:
        break;
    }
    return router.Forward(real, handle, address, bytes, rest...);
  }
};

// Only mapped memory has a handle, and the driver's own word on memory of cuMemAlloc comes first: where it refuses, so
// do we; where it gives one, a packed block's would be its neighbours' too.
template <>
struct Handler<Effect::kRetainPhysical> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemGenericAllocationHandle* handle, void* address) {
    int local = 0;
    const Identity identity(router, AsNumber(address));
    if (identity.pooled_by_streams || identity.unknown()) {
      return router.Forward(real, handle, static_cast<void*>(&local));
    }
    const CUresult result = router.Forward(real, handle, address);
    if (result != CUDA_SUCCESS) return result;
    if (router.Expose(AsNumber(address), /*refuse_packed=*/true) == Exposure::kRefused) {
      if (router.driver().cuMemRelease != nullptr) router.driver().cuMemRelease(*handle);
      *handle = 0;
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    router.physical().Retained(*handle);
    return result;
  }
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_HANDLERS_IDENTITY_H_
