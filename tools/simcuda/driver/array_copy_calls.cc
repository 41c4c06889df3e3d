// Memory Management (Driver API reference 6.13): copies from and to 1D CUDA arrays, by an offset in bytes.
#include "entry_points.h"
#include "tools/simcuda/driver/array.h"
#include "tools/simcuda/driver/copy.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

size_t ElementOf(CUarray handle) {
  const std::shared_ptr<Array> array = State::Get().arrays.arrays.Find(handle);
  return array ? array->element : 0;
}

// Errors: those of ArraySide; INVALID_VALUE for an array of more dimensions, whose bytes have no order that is
// documented.
CUresult OneRow(CUarray handle, size_t offset, size_t bytes, Copy* copy, CopySide* side) {
  const std::shared_ptr<Array> array = State::Get().arrays.arrays.Find(handle);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  if (array->descriptor.Height > 1 || array->descriptor.Depth > 1) return CUDA_ERROR_INVALID_VALUE;
  copy->width = bytes;
  return ArraySide(handle, offset, 0, 0, *copy, side);
}

CopySide Linear(uint64_t address, size_t bytes, Expected expected) { return {address, bytes, bytes, expected}; }
uint64_t Address(const void* host) { return reinterpret_cast<uint64_t>(host); }

// stream: null for the synchronous functions, which work in the default stream of their variant.
CUresult Run(const Copy& copy, const CUstream* handle) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Stream> stream;
  if (const CUresult result = FindStream(handle == nullptr ? nullptr : *handle, &stream)) return result;
  return QueueCopy(stream, copy, handle == nullptr ? Timing::kSynchronous : Timing::kAsynchronous);
}

CUresult ToArray(CUarray array, size_t offset, const CopySide& from, size_t bytes, const CUstream* stream) {
  Copy copy;
  copy.from = from;
  if (const CUresult result = OneRow(array, offset, bytes, &copy, &copy.to)) return result;
  return Run(copy, stream);
}

CUresult FromArray(const CopySide& to, CUarray array, size_t offset, size_t bytes, const CUstream* stream) {
  Copy copy;
  copy.to = to;
  if (const CUresult result = OneRow(array, offset, bytes, &copy, &copy.from)) return result;
  return Run(copy, stream);
}

// "ByteCount specifies the number of bytes to copy and must be evenly divisible by the array element size."
bool WholeElements(CUarray array, size_t bytes) {
  const size_t element = ElementOf(array);
  return element == 0 || bytes % element == 0;
}

}  // namespace

CUresult impl::cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount) {
  return ToArray(dstArray, dstOffset, Linear(Address(srcHost), ByteCount, Expected::kHost), ByteCount, nullptr);
}

CUresult impl::cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount,
                                    CUstream hStream) {
  return ToArray(dstArray, dstOffset, Linear(Address(srcHost), ByteCount, Expected::kHost), ByteCount, &hStream);
}

CUresult impl::cuMemcpyAtoH_v2(void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
  return FromArray(Linear(Address(dstHost), ByteCount, Expected::kHost), srcArray, srcOffset, ByteCount, nullptr);
}

CUresult impl::cuMemcpyAtoHAsync_v2(void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
                                    CUstream hStream) {
  return FromArray(Linear(Address(dstHost), ByteCount, Expected::kHost), srcArray, srcOffset, ByteCount, &hStream);
}

CUresult impl::cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) {
  if (!WholeElements(dstArray, ByteCount)) return CUDA_ERROR_INVALID_VALUE;
  return ToArray(dstArray, dstOffset, Linear(srcDevice, ByteCount, Expected::kDevice), ByteCount, nullptr);
}

CUresult impl::cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
  if (!WholeElements(srcArray, ByteCount)) return CUDA_ERROR_INVALID_VALUE;
  return FromArray(Linear(dstDevice, ByteCount, Expected::kDevice), srcArray, srcOffset, ByteCount, nullptr);
}

// "The size of the elements in the CUDA arrays need not be the same format, but the elements must be the same size; and
// count must be evenly divisible by that size."
CUresult impl::cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
                               size_t ByteCount) {
  if (ElementOf(srcArray) != ElementOf(dstArray) || !WholeElements(srcArray, ByteCount))
    return CUDA_ERROR_INVALID_VALUE;
  Copy copy;
  if (const CUresult result = OneRow(srcArray, srcOffset, ByteCount, &copy, &copy.from)) return result;
  if (const CUresult result = OneRow(dstArray, dstOffset, ByteCount, &copy, &copy.to)) return result;
  return Run(copy, nullptr);
}

}  // namespace simcuda
