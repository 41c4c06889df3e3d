// Handlers of stream-ordered allocation: allocations and frees in streams, memory pools, and waits for single streams.
#ifndef CUHEAP_INTERPOSE_HANDLERS_STREAMS_H_
#define CUHEAP_INTERPOSE_HANDLERS_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "interpose/handlers.h"
#include "interpose/handlers_work.h"
#include "interpose/stream_service.h"

namespace cuheap {

// Served, or forwarded; recorded either way. pool: the one named by the call; empty: the device's current one.
template <class Forward>
CUresult AllocateInStream(Router& router, HookId id, journal::AllocationKind kind, CUdeviceptr* out, std::size_t bytes,
                          std::optional<CUmemoryPool> pool, CUstream stream, Forward&& forward) {
  const Place place = router.Where();
  router.DeviceSeen(place.device);
  const recorder::CapturedStack stack = recorder::CaptureStack(true);
  recorder::Allocation allocation;
  allocation.kind = kind;
  allocation.bytes = bytes;
  allocation.stream = AsNumber(stream);
  allocation.stack = stack.id;
  if (stack.caller_is_pytorch) allocation.flags |= journal::kCallerIsPyTorch;
  std::optional<CUresult> served;
  if (out != nullptr && bytes != 0) served = router.ServeInStream(id, place, pool, stream, out, bytes, allocation);
  const CUresult result = served ? *served : Timed(journal::DriverCall::kAllocate, forward);
  if (result == CUDA_SUCCESS && out != nullptr) allocation.address = *out;
  router.RecordAllocation(result, allocation, place);
  return result;
}

template <>
struct Handler<Effect::kAllocateAsync> {
  template <class Real>
  static CUresult Call(Router& router, HookId id, Real real, CUdeviceptr* out, std::size_t bytes, CUstream stream) {
    return AllocateInStream(router, id, journal::AllocationKind::kStreamOrdered, out, bytes, std::nullopt, stream,
                            [&] { return router.ForwardWithRescue(real, out, bytes, stream); });
  }
};

template <>
struct Handler<Effect::kAllocateFromPool> {
  template <class Real>
  static CUresult Call(Router& router, HookId id, Real real, CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool,
                       CUstream stream) {
    return AllocateInStream(router, id, journal::AllocationKind::kFromPool, out, bytes, pool, stream,
                            [&] { return router.ForwardWithRescue(real, out, bytes, pool, stream); });
  }
};

// A stream-ordered free of memory from cuMemAlloc is legal: quarantine covers it, since only a synchronisation of the
// whole context that begins later makes the block reusable. Inside a capture the driver refuses such memory.
template <>
struct Handler<Effect::kFreeAsync> {
  template <class Real>
  static CUresult Call(Router& router, HookId id, Real real, CUdeviceptr address, CUstream stream) {
    if (const auto answer = router.FreeInStream(id, address, stream)) return *answer;
    if (router.pool() != nullptr && router.pool()->Owns(address)) {
      CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
      const CUresult asked = router.CaptureStatus(id, stream, &status);  // also tells an invalid stream
      if (asked != CUDA_SUCCESS) return asked;
      if (status != CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_INVALID_VALUE;
    }
    if (const auto answer = router.FreePoolBlock(address, AsNumber(stream), false)) return *answer;
    return router.ForwardFree(address, journal::AllocationKind::kNone, AsNumber(stream), real, address, stream);
  }
};

// ---- pools: the driver first, so that errors are its own ----

// Pools of places: only pinned memory of a device is what cuMemAllocAsync takes. The host reads that of others as it
// lies, and their allocations are not told apart from a device's.
inline bool IsPinnedDevice(const CUmemLocation* place, CUmemAllocationType type) {
  return place != nullptr && place->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

template <>
struct Handler<Effect::kCreatePool> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemoryPool* pool, const CUmemPoolProps* properties) {
    const CUresult result = router.ForwardWithRescue(real, pool, properties);
    if (result != CUDA_SUCCESS) return result;
    if (!IsPinnedDevice(&properties->location, properties->allocType)) router.barrier().LastingHostMemoryFound();
    if (router.streams() != nullptr) router.streams()->PoolCreated(*pool, *properties);
    return result;
  }
};

template <>
struct Handler<Effect::kDestroyPool> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemoryPool pool) {
    if (router.streams() == nullptr) return router.Forward(real, pool);
    // Before the call: once it returns, another thread may be given the same handle for a new pool.
    const std::optional<StreamPoolId> known = router.streams()->PoolGoing(pool);
    const CUresult result = router.Forward(real, pool);
    if (known) router.streams()->PoolWent(pool, *known, result == CUDA_SUCCESS);
    return result;
  }
};

template <>
struct Handler<Effect::kTrimPool> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemoryPool pool, std::size_t keep) {
    const CUresult result = router.Forward(real, pool, keep);
    if (result == CUDA_SUCCESS && router.streams() != nullptr && !router.captures().AnyOpen()) {
      router.streams()->pool().TrimTo(router.streams()->PoolOf(pool), keep);
    }
    return result;
  }
};

template <>
struct Handler<Effect::kSetPoolAttribute> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemoryPool pool, CUmemPool_attribute attribute,
                       void* value) {
    const CUresult result = router.Forward(real, pool, attribute, value);
    if (result == CUDA_SUCCESS && router.streams() != nullptr) router.streams()->AttributeSet(pool, attribute, value);
    return result;
  }
};

template <>
struct Handler<Effect::kGetPoolAttribute> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemoryPool pool, CUmemPool_attribute attribute,
                       void* value) {
    const CUresult result = router.Forward(real, pool, attribute, value);
    if (result == CUDA_SUCCESS && router.streams() != nullptr) {
      router.streams()->CorrectAttribute(pool, attribute, value);
    }
    return result;
  }
};

template <>
struct Handler<Effect::kSetPoolAccess> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemoryPool pool, const CUmemAccessDesc* map,
                       std::size_t count) {
    const CUresult result = router.ForwardWithRescue(real, pool, map, count);
    if (result != CUDA_SUCCESS || router.streams() == nullptr) return result;
    return router.Observe(router.streams()->AccessSet(pool, map, count));
  }
};

template <>
struct Handler<Effect::kGetPool> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemoryPool* out, CUdevice device) {
    const CUresult result = router.Forward(real, out, device);
    if (result == CUDA_SUCCESS && router.streams() != nullptr) router.streams()->PoolSeen(*out, device);
    return result;
  }
};

template <>
struct Handler<Effect::kSetPool> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUdevice device, CUmemoryPool pool) {
    const CUresult result = router.Forward(real, device, pool);
    if (result == CUDA_SUCCESS && router.streams() != nullptr) router.streams()->PoolMadeCurrent(pool, device);
    return result;
  }
};

template <>
struct Handler<Effect::kGetPoolOfPlace> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemoryPool* out, CUmemLocation* place,
                       CUmemAllocationType type) {
    const CUresult result = router.Forward(real, out, place, type);
    if (result == CUDA_SUCCESS && !IsPinnedDevice(place, type)) router.barrier().LastingHostMemoryFound();
    if (result == CUDA_SUCCESS && router.streams() != nullptr && IsPinnedDevice(place, type)) {
      router.streams()->PoolSeen(*out, place->id);
    }
    return result;
  }
};

template <>
struct Handler<Effect::kSetPoolOfPlace> {
  template <class Real>
  static CUresult Call(Router& router, HookId, Real real, CUmemLocation* place, CUmemAllocationType type,
                       CUmemoryPool pool) {
    const CUresult result = router.Forward(real, place, type, pool);
    if (result == CUDA_SUCCESS && router.streams() != nullptr && IsPinnedDevice(place, type)) {
      router.streams()->PoolMadeCurrent(pool, place->id);
    }
    return result;
  }
};

// ---- streams ----

template <>
struct Handler<Effect::kWaitForStream> {
  template <class Real>
  static CUresult Call(Router& router, HookId id, Real real, CUstream stream) {
    const std::optional<Router::StreamWait> wait = router.BeginStreamWait(id, stream);
    const CUresult result = router.Forward(real, stream);
    if (wait && result == CUDA_SUCCESS) router.StreamWaitCompleted(*wait);
    return result;
  }
};

template <>
struct Handler<Effect::kDestroyStream> {
  template <class Real>
  static CUresult Call(Router& router, HookId id, Real real, CUstream stream) {
    const std::optional<Router::StreamWait> known = router.BeginStreamWait(id, stream);
    if (known) router.streams()->pool().StreamDestroying(known->stream);
    const CUresult result = router.Forward(real, stream);
    if (result == CUDA_SUCCESS) {
      recorder::Count(journal::Counter::kStreamsDestroyed);
      router.CaptureOver(CaptureKey(id, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, nullptr);
    }
    if (known) router.StreamWent(known->stream, result == CUDA_SUCCESS);
    return result;
  }
};

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_HANDLERS_STREAMS_H_
