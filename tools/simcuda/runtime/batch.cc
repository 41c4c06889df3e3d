// CUDA Runtime API, "Memory Management": batches of copies, prefetches and discards (CUDA 13). The structures are the
// driver's under other names.
#include <cstdint>

#include "tools/simcuda/runtime/stream_variants.h"

#if SIMCUDART_MAJOR >= 13

using cuheap::simcudart::StreamCalls;

namespace {

static_assert(sizeof(cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes));
static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));

template <typename Pointer>
CUdeviceptr* Addresses(Pointer* pointers) {
  static_assert(sizeof(Pointer) == sizeof(CUdeviceptr));
  return reinterpret_cast<CUdeviceptr*>(reinterpret_cast<std::uintptr_t>(pointers));  // the driver only reads them
}

CUresult CopyBatch(const StreamCalls& calls, void* const* to, const void* const* from, const std::size_t* sizes,
                   std::size_t count, cudaMemcpyAttributes* attributes, std::size_t* indexes,
                   std::size_t attribute_count, cudaStream_t stream) {
  return calls.MemcpyBatchAsync(Addresses(to), Addresses(from), const_cast<std::size_t*>(sizes), count,
                                reinterpret_cast<CUmemcpyAttributes*>(attributes), indexes, attribute_count, stream);
}

CUresult PrefetchBatch(const StreamCalls& calls, void** pointers, std::size_t* sizes, std::size_t count,
                       cudaMemLocation* places, std::size_t* indexes, std::size_t place_count, unsigned long long flags,
                       cudaStream_t stream) {
  return calls.MemPrefetchBatchAsync(Addresses(pointers), sizes, count, reinterpret_cast<CUmemLocation*>(places),
                                     indexes, place_count, flags, stream);
}

CUresult DiscardBatch(const StreamCalls& calls, void** pointers, std::size_t* sizes, std::size_t count,
                      unsigned long long flags, cudaStream_t stream) {
  return calls.MemDiscardBatchAsync(Addresses(pointers), sizes, count, flags, stream);
}

CUresult DiscardAndPrefetchBatch(const StreamCalls& calls, void** pointers, std::size_t* sizes, std::size_t count,
                                 cudaMemLocation* places, std::size_t* indexes, std::size_t place_count,
                                 unsigned long long flags, cudaStream_t stream) {
  return calls.MemDiscardAndPrefetchBatchAsync(
      Addresses(pointers), sizes, count, reinterpret_cast<CUmemLocation*>(places), indexes, place_count, flags, stream);
}

}  // namespace

SIMCUDART_VARIANTS(cudaMemcpyBatchAsync, _ptsz,
                   (void* const* to, const void* const* from, const std::size_t* sizes, std::size_t count,
                    cudaMemcpyAttributes* attributes, std::size_t* indexes, std::size_t attribute_count,
                    cudaStream_t stream),
                   CopyBatch, to, from, sizes, count, attributes, indexes, attribute_count, stream)

SIMCUDART_VARIANTS(cudaMemPrefetchBatchAsync, _ptsz,
                   (void** pointers, std::size_t* sizes, std::size_t count, cudaMemLocation* places,
                    std::size_t* indexes, std::size_t place_count, unsigned long long flags, cudaStream_t stream),
                   PrefetchBatch, pointers, sizes, count, places, indexes, place_count, flags, stream)

SIMCUDART_VARIANTS(cudaMemDiscardBatchAsync, _ptsz,
                   (void** pointers, std::size_t* sizes, std::size_t count, unsigned long long flags,
                    cudaStream_t stream),
                   DiscardBatch, pointers, sizes, count, flags, stream)

SIMCUDART_VARIANTS(cudaMemDiscardAndPrefetchBatchAsync, _ptsz,
                   (void** pointers, std::size_t* sizes, std::size_t count, cudaMemLocation* places,
                    std::size_t* indexes, std::size_t place_count, unsigned long long flags, cudaStream_t stream),
                   DiscardAndPrefetchBatch, pointers, sizes, count, places, indexes, place_count, flags, stream)

#endif
