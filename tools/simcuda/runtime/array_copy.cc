// CUDA Runtime API, "Memory Management": copies from and to CUDA arrays.
#include <algorithm>

#include "tools/simcuda/runtime/array.h"
#include "tools/simcuda/runtime/stream_variants.h"

using cuheap::simcudart::ElementOf;
using cuheap::simcudart::Runtime;
using cuheap::simcudart::StreamCalls;
using cuheap::simcudart::ToDevice;
using cuheap::simcudart::ToDriver;
using cuheap::simcudart::ToRuntime;

namespace {

// The memory type of the end that is no array; false for a direction that such a copy cannot have.
bool OtherEnd(cudaMemcpyKind kind, bool to_array, CUmemorytype* type) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      *type = CU_MEMORYTYPE_HOST;
      return to_array;
    case cudaMemcpyDeviceToHost:
      *type = CU_MEMORYTYPE_HOST;
      return !to_array;
    case cudaMemcpyDeviceToDevice:
      *type = CU_MEMORYTYPE_DEVICE;
      return true;
    case cudaMemcpyDefault:
      *type = CU_MEMORYTYPE_UNIFIED;
      return true;
    default:
      return false;
  }
}

// stream: null for the synchronous copy.
cudaError_t Run(const StreamCalls& calls, const CUDA_MEMCPY2D& copy, const cudaStream_t* stream) {
  if (copy.WidthInBytes == 0 || copy.Height == 0) return cudaSuccess;
  const CUresult result = stream == nullptr ? calls.Memcpy2DUnaligned(&copy) : calls.Memcpy2DAsync(&copy, *stream);
  return result == CUDA_ERROR_INVALID_HANDLE ? cudaErrorInvalidValue : ToRuntime(result);
}

cudaError_t ToArray(const StreamCalls& calls, cudaArray_t to, std::size_t x, std::size_t y, const void* from,
                    std::size_t pitch, std::size_t width, std::size_t height, cudaMemcpyKind kind,
                    const cudaStream_t* stream) {
  CUDA_MEMCPY2D copy = {};
  if (!OtherEnd(kind, true, &copy.srcMemoryType)) return cudaErrorInvalidMemcpyDirection;
  if (height > 1 && width > pitch) return cudaErrorInvalidPitchValue;
  copy.srcHost = from;
  copy.srcDevice = ToDevice(from);
  copy.srcPitch = pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = ToDriver(to);
  copy.dstXInBytes = x;
  copy.dstY = y;
  copy.WidthInBytes = width;
  copy.Height = height;
  return Run(calls, copy, stream);
}

cudaError_t FromArray(const StreamCalls& calls, void* to, std::size_t pitch, cudaArray_const_t from, std::size_t x,
                      std::size_t y, std::size_t width, std::size_t height, cudaMemcpyKind kind,
                      const cudaStream_t* stream) {
  CUDA_MEMCPY2D copy = {};
  if (!OtherEnd(kind, false, &copy.dstMemoryType)) return cudaErrorInvalidMemcpyDirection;
  if (height > 1 && width > pitch) return cudaErrorInvalidPitchValue;
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = ToDriver(from);
  copy.srcXInBytes = x;
  copy.srcY = y;
  copy.dstHost = to;
  copy.dstDevice = ToDevice(to);
  copy.dstPitch = pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return Run(calls, copy, stream);
}

cudaError_t Across(const StreamCalls& calls, cudaArray_t to, std::size_t to_x, std::size_t to_y, cudaArray_const_t from,
                   std::size_t from_x, std::size_t from_y, std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  if (kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = ToDriver(from);
  copy.srcXInBytes = from_x;
  copy.srcY = from_y;
  copy.dstArray = ToDriver(to);
  copy.dstXInBytes = to_x;
  copy.dstY = to_y;
  copy.WidthInBytes = width;
  copy.Height = height;
  return Run(calls, copy, nullptr);
}

// The deprecated copies by a count of bytes run over the ends of rows: rest of the first row, whole rows, what is left.
// copy_rows(x, y, done, width, height) makes one piece; done: bytes before it.
template <typename CopyRows>
cudaError_t ByCount(cudaArray_const_t array, std::size_t x, std::size_t y, std::size_t count, CopyRows&& copy_rows) {
  std::size_t element = 0, row = 0;
  if (const CUresult result = ElementOf(Runtime::Get().driver(), array, &element, &row); result != CUDA_SUCCESS) {
    return result == CUDA_ERROR_INVALID_HANDLE ? cudaErrorInvalidValue : ToRuntime(result);
  }
  if (x >= row) return cudaErrorInvalidValue;
  std::size_t done = 0;
  while (done < count) {
    const bool whole = x == 0 && count - done >= row;
    const std::size_t width = whole ? row : std::min(row - x, count - done);
    const std::size_t height = whole ? (count - done) / row : 1;
    if (cudaError_t error = copy_rows(x, y, done, width, height); error != cudaSuccess) return error;
    done += width * height;
    y += height;
    x = 0;
  }
  return cudaSuccess;
}

cudaError_t ToArrayByCount(const StreamCalls& calls, cudaArray_t to, std::size_t x, std::size_t y, const void* from,
                           std::size_t count, cudaMemcpyKind kind, const cudaStream_t* stream) {
  const auto piece = [&](std::size_t at_x, std::size_t at_y, std::size_t done, std::size_t width, std::size_t height) {
    return ToArray(calls, to, at_x, at_y, static_cast<const char*>(from) + done, width, width, height, kind, stream);
  };
  return ByCount(to, x, y, count, piece);
}

cudaError_t FromArrayByCount(const StreamCalls& calls, void* to, cudaArray_const_t from, std::size_t x, std::size_t y,
                             std::size_t count, cudaMemcpyKind kind, const cudaStream_t* stream) {
  const auto piece = [&](std::size_t at_x, std::size_t at_y, std::size_t done, std::size_t width, std::size_t height) {
    return FromArray(calls, static_cast<char*>(to) + done, width, from, at_x, at_y, width, height, kind, stream);
  };
  return ByCount(from, x, y, count, piece);
}

}  // namespace

SIMCUDART_VARIANTS(cudaMemcpy2DToArray, _ptds,
                   (cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t pitch,
                    std::size_t width, std::size_t height, cudaMemcpyKind kind),
                   ToArray, to, x, y, from, pitch, width, height, kind, nullptr)

SIMCUDART_VARIANTS(cudaMemcpy2DToArrayAsync, _ptsz,
                   (cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t pitch,
                    std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                   ToArray, to, x, y, from, pitch, width, height, kind, &stream)

SIMCUDART_VARIANTS(cudaMemcpy2DFromArray, _ptds,
                   (void* to, std::size_t pitch, cudaArray_const_t from, std::size_t x, std::size_t y,
                    std::size_t width, std::size_t height, cudaMemcpyKind kind),
                   FromArray, to, pitch, from, x, y, width, height, kind, nullptr)

SIMCUDART_VARIANTS(cudaMemcpy2DFromArrayAsync, _ptsz,
                   (void* to, std::size_t pitch, cudaArray_const_t from, std::size_t x, std::size_t y,
                    std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                   FromArray, to, pitch, from, x, y, width, height, kind, &stream)

SIMCUDART_VARIANTS(cudaMemcpy2DArrayToArray, _ptds,
                   (cudaArray_t to, std::size_t to_x, std::size_t to_y, cudaArray_const_t from, std::size_t from_x,
                    std::size_t from_y, std::size_t width, std::size_t height, cudaMemcpyKind kind),
                   Across, to, to_x, to_y, from, from_x, from_y, width, height, kind)

SIMCUDART_VARIANTS(cudaMemcpyToArray, _ptds,
                   (cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t count,
                    cudaMemcpyKind kind),
                   ToArrayByCount, to, x, y, from, count, kind, nullptr)

SIMCUDART_VARIANTS(cudaMemcpyToArrayAsync, _ptsz,
                   (cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t count,
                    cudaMemcpyKind kind, cudaStream_t stream),
                   ToArrayByCount, to, x, y, from, count, kind, &stream)

SIMCUDART_VARIANTS(cudaMemcpyFromArray, _ptds,
                   (void* to, cudaArray_const_t from, std::size_t x, std::size_t y, std::size_t count,
                    cudaMemcpyKind kind),
                   FromArrayByCount, to, from, x, y, count, kind, nullptr)

SIMCUDART_VARIANTS(cudaMemcpyFromArrayAsync, _ptsz,
                   (void* to, cudaArray_const_t from, std::size_t x, std::size_t y, std::size_t count,
                    cudaMemcpyKind kind, cudaStream_t stream),
                   FromArrayByCount, to, from, x, y, count, kind, &stream)
