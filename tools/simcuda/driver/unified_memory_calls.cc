// Hints about managed memory (Driver API reference 6.16), the profiler's switches, batches of
// copies.
#include <cstring>
#include <map>
#include <memory>

#include "entry_points.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/copy.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

CUresult ManagedRange(CUdeviceptr ptr, size_t count) {
  const Block* block = State::Get().memory.Find(ptr);
  if (count == 0 || block == nullptr || block->kind != Kind::kManaged) return CUDA_ERROR_INVALID_VALUE;
  return count <= block->size - (ptr - block->base) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Managed memory is host memory here, so moving it changes nothing but the order of things in the stream.
CUresult QueuePrefetch(CUdeviceptr ptr, size_t count, CUstream handle) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(handle, &stream)) return result;
  if (const CUresult result = ManagedRange(ptr, count)) return result;
  State::Get().engine.Enqueue(stream, NewWork("prefetch", nullptr));
  return CUDA_SUCCESS;
}

// A place that memory can be at. Errors: INVALID_DEVICE, INVALID_VALUE (no such kind of place).
CUresult CheckPlace(const CUmemLocation& place) {
  Device* device = nullptr;
  switch (place.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return FindDevice(place.id, &device);
    case CU_MEM_LOCATION_TYPE_HOST:  // "id will be ignored"
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return place.id >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUmemLocation PlaceOf(CUdevice device) {
  CUmemLocation place = {};
  place.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  place.id = device == CU_DEVICE_CPU ? 0 : device;
  return place;
}

// Advice changes nothing here: managed memory is host memory.
CUresult Advise(CUdeviceptr ptr, size_t count, CUmem_advise advice, const CUmemLocation& place) {
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      break;  // "the argument device is ignored for this advice"
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      if (const CUresult result = CheckPlace(place)) return result;
      break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      // "location must be a device or the host": a NUMA node is an error.
      if (place.type != CU_MEM_LOCATION_TYPE_DEVICE && place.type != CU_MEM_LOCATION_TYPE_HOST) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      if (const CUresult result = CheckPlace(place)) return result;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return ManagedRange(ptr, count);
}

}  // namespace

CUresult impl::cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
  if (const CUresult result = CheckPlace(PlaceOf(dstDevice))) return result;
  return QueuePrefetch(devPtr, count, hStream);
}

CUresult impl::cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                                     CUstream hStream) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = CheckPlace(location)) return result;
  return QueuePrefetch(devPtr, count, hStream);
}

CUresult impl::cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
  return Advise(devPtr, count, advice, PlaceOf(device));
}

CUresult impl::cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
  return Advise(devPtr, count, advice, location);
}

CUresult impl::cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  const Block* block = State::Get().memory.Find(dptr);
  if (block == nullptr || block->kind != Kind::kManaged || block->base != dptr) return CUDA_ERROR_INVALID_VALUE;
  if (length != 0 && length != block->size) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // "The NULL stream is a virtual global stream and not a specific stream": nothing can be attached to it alone.
  if (flags == CU_MEM_ATTACH_SINGLE && stream->legacy) return CUDA_ERROR_INVALID_VALUE;
  State::Get().engine.Enqueue(stream, NewWork("attach", nullptr));
  return CUDA_SUCCESS;
}

namespace {

// What prefetches and discards of a batch have in common. indexes: which operations a location is for; null for
// discards.
CUresult CheckBatch(const CUdeviceptr* dptrs, const size_t* sizes, size_t count, const CUmemLocation* locations,
                    const size_t* indexes, size_t location_count, unsigned long long flags, bool located) {
  if (dptrs == nullptr || sizes == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (const CUresult result = ManagedRange(dptrs[i], sizes[i])) return result;
  }
  if (!located) return CUDA_SUCCESS;
  if (locations == nullptr || indexes == nullptr || location_count == 0 || location_count > count || indexes[0] != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < location_count; ++i) {
    if (indexes[i] >= count || (i > 0 && indexes[i] <= indexes[i - 1])) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = CheckPlace(locations[i])) return result;
  }
  return CUDA_SUCCESS;
}

// "Reading from a discarded range will return an indeterminate value": it is another one than before.
CUresult QueueDiscards(const std::shared_ptr<Stream>& stream, const CUdeviceptr* dptrs, const size_t* sizes,
                       size_t count) {
  Context* context = stream->context;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t address = dptrs[i];
    const size_t bytes = sizes[i];
    State::Get().engine.Enqueue(stream, NewWork("discard", [address, bytes, context] {
                                  if (CheckAccess(*context, address, bytes)) FillBytes(address, 0xA5, bytes, false);
                                  return Outcome::kDone;
                                }));
  }
  return CUDA_SUCCESS;
}

// "The stream to enqueue the operations in. Must not be legacy NULL stream."
CUresult BatchStream(CUstream handle, std::shared_ptr<Stream>* stream) {
  if (const CUresult result = FindStream(handle, stream)) return result;
  return (*stream)->legacy ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

CUresult impl::cuMemPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count, CUmemLocation* prefetchLocs,
                                       size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
                                       CUstream hStream) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = BatchStream(hStream, &stream)) return result;
  if (const CUresult result =
          CheckBatch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, true)) {
    return result;
  }
  State::Get().engine.Enqueue(stream, NewWork("prefetch", nullptr));
  return CUDA_SUCCESS;
}

CUresult impl::cuMemDiscardBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count, unsigned long long flags,
                                      CUstream hStream) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = BatchStream(hStream, &stream)) return result;
  if (const CUresult result = CheckBatch(dptrs, sizes, count, nullptr, nullptr, 0, flags, false)) return result;
  return QueueDiscards(stream, dptrs, sizes, count);
}

CUresult impl::cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                                 CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
                                                 size_t numPrefetchLocs, unsigned long long flags, CUstream hStream) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = BatchStream(hStream, &stream)) return result;
  if (const CUresult result =
          CheckBatch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, true)) {
    return result;
  }
  return QueueDiscards(stream, dptrs, sizes, count);
}

// A program may call them whether or not a profiler is attached; none ever is.
CUresult impl::cuProfilerStart() {
  SIMCUDA_CURRENT(context);
  return CUDA_SUCCESS;
}

CUresult impl::cuProfilerStop() {
  SIMCUDA_CURRENT(context);
  return CUDA_SUCCESS;
}

// Copies of one batch are not ordered with each other; each is queued by itself.
CUresult impl::cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                     CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, CUstream hStream) {
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(hStream, &stream)) return result;
  // "The stream must not be the legacy NULL stream."
  if (stream->legacy) return CUDA_ERROR_INVALID_VALUE;
  if (dsts == nullptr || srcs == nullptr || sizes == nullptr || count == 0 || numAttrs > count)
    return CUDA_ERROR_INVALID_VALUE;
  if (numAttrs == 0 || attrs == nullptr || attrsIdxs == nullptr || attrsIdxs[0] != 0) return CUDA_ERROR_INVALID_VALUE;
  size_t attribute = 0;
  for (size_t i = 0; i < count; ++i) {
    while (attribute + 1 < numAttrs && attrsIdxs[attribute + 1] <= i) ++attribute;
    const bool during_call = attrs[attribute].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    Copy copy;
    copy.to = {dsts[i], sizes[i], sizes[i], Expected::kAny};
    copy.from = {srcs[i], sizes[i], sizes[i], Expected::kAny};
    copy.width = sizes[i];
    const Timing timing = during_call ? Timing::kAsynchronousCapturing : Timing::kAsynchronous;
    if (const CUresult result = QueueCopy(stream, copy, timing)) return result;
  }
  return CUDA_SUCCESS;
}

CUresult impl::cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                  CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, size_t* failIdx,
                                  CUstream hStream) {
  if (failIdx != nullptr) *failIdx = SIZE_MAX;
  return impl::cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
}

CUresult impl::cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = FindKernel(func, &kernel)) return result;
  const auto& registered = State::Get().modules.registered;
  const auto found = registered.find(kernel->name);
  // Images are not read: only registered kernels have known parameters.
  if (found == registered.end()) return CUDA_ERROR_NOT_SUPPORTED;
  if (paramOffset == nullptr || paramIndex >= found->second.parameter_bytes.size()) return CUDA_ERROR_INVALID_VALUE;
  *paramOffset = ParameterOffsets(found->second)[paramIndex];
  if (paramSize != nullptr) *paramSize = found->second.parameter_bytes[paramIndex];
  return CUDA_SUCCESS;
}

CUresult impl::cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  return impl::cuFuncGetParamInfo(reinterpret_cast<CUfunction>(kernel), paramIndex, paramOffset, paramSize);
}

}  // namespace simcuda
