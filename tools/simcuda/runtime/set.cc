// CUDA Runtime API, "Memory Management": cudaMemset and its relatives, prefetching.
#include "tools/simcuda/runtime/stream_variants.h"

using cuheap::simcudart::StreamCalls;
using cuheap::simcudart::ToDevice;
using cuheap::simcudart::ToRuntime;

namespace {

// The runtime sets bytes only: the value is converted to unsigned char, as memset's is.
unsigned char Byte(int value) { return static_cast<unsigned char>(value); }

cudaError_t Set(const StreamCalls& calls, void* pointer, int value, std::size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  return ToRuntime(calls.MemsetD8(ToDevice(pointer), Byte(value), bytes));
}

cudaError_t SetAsync(const StreamCalls& calls, void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  return ToRuntime(calls.MemsetD8Async(ToDevice(pointer), Byte(value), bytes, stream));
}

cudaError_t Set2D(const StreamCalls& calls, void* pointer, std::size_t pitch, int value, std::size_t width,
                  std::size_t height) {
  if (width == 0 || height == 0) return cudaSuccess;
  return ToRuntime(calls.MemsetD2D8(ToDevice(pointer), pitch, Byte(value), width, height));
}

cudaError_t Set2DAsync(const StreamCalls& calls, void* pointer, std::size_t pitch, int value, std::size_t width,
                       std::size_t height, cudaStream_t stream) {
  if (width == 0 || height == 0) return cudaSuccess;
  return ToRuntime(calls.MemsetD2D8Async(ToDevice(pointer), pitch, Byte(value), width, height, stream));
}

// `set_rows(address, rows)` for a box: in one piece if its rows are the allocation's, else a slice at a time.
template <typename SetRows>
cudaError_t SetBox(const cudaPitchedPtr& to, const cudaExtent& extent, SetRows&& set_rows) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return cudaSuccess;
  if (extent.height == to.ysize || extent.depth == 1) return set_rows(to.ptr, extent.height * extent.depth);
  for (std::size_t slice = 0; slice < extent.depth; ++slice) {
    void* begin = static_cast<char*>(to.ptr) + slice * to.pitch * to.ysize;
    if (cudaError_t error = set_rows(begin, extent.height); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t Set3D(const StreamCalls& calls, const cudaPitchedPtr& to, int value, const cudaExtent& extent) {
  return SetBox(to, extent, [&](void* begin, std::size_t rows) {
    return Set2D(calls, begin, to.pitch, value, extent.width, rows);
  });
}

cudaError_t Set3DAsync(const StreamCalls& calls, const cudaPitchedPtr& to, int value, const cudaExtent& extent,
                       cudaStream_t stream) {
  return SetBox(to, extent, [&](void* begin, std::size_t rows) {
    return Set2DAsync(calls, begin, to.pitch, value, extent.width, rows, stream);
  });
}

}  // namespace

SIMCUDART_VARIANTS(cudaMemset, _ptds, (void* pointer, int value, std::size_t bytes), Set, pointer, value, bytes)

SIMCUDART_VARIANTS(cudaMemsetAsync, _ptsz, (void* pointer, int value, std::size_t bytes, cudaStream_t stream), SetAsync,
                   pointer, value, bytes, stream)

SIMCUDART_VARIANTS(cudaMemset2D, _ptds,
                   (void* pointer, std::size_t pitch, int value, std::size_t width, std::size_t height), Set2D, pointer,
                   pitch, value, width, height)

SIMCUDART_VARIANTS(cudaMemset2DAsync, _ptsz,
                   (void* pointer, std::size_t pitch, int value, std::size_t width, std::size_t height,
                    cudaStream_t stream),
                   Set2DAsync, pointer, pitch, value, width, height, stream)

SIMCUDART_VARIANTS(cudaMemset3D, _ptds, (cudaPitchedPtr to, int value, cudaExtent extent), Set3D, to, value, extent)

SIMCUDART_VARIANTS(cudaMemset3DAsync, _ptsz, (cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream),
                   Set3DAsync, to, value, extent, stream)

#if SIMCUDART_MAJOR >= 13
namespace {

CUresult Prefetch(const StreamCalls& calls, const void* pointer, std::size_t count, cudaMemLocation location,
                  unsigned int flags, cudaStream_t stream) {
  CUmemLocation where = {};
  where.type = static_cast<CUmemLocationType>(location.type);
  where.id = location.id;
  return calls.MemPrefetchAsync(ToDevice(pointer), count, where, flags, stream);
}

}  // namespace

SIMCUDART_VARIANTS(cudaMemPrefetchAsync, _ptsz,
                   (const void* pointer, std::size_t count, cudaMemLocation location, unsigned int flags,
                    cudaStream_t stream),
                   Prefetch, pointer, count, location, flags, stream)
#endif
