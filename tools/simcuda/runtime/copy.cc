// CUDA Runtime API, "Memory Management": copies of linear memory, and of three dimensions (array_copy.cc has the
// others).
#include "tools/simcuda/runtime/array.h"
#include "tools/simcuda/runtime/stream_variants.h"

using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::ElementOf;
using cuheap::simcudart::Runtime;
using cuheap::simcudart::StreamCalls;
using cuheap::simcudart::ToDevice;
using cuheap::simcudart::ToDriver;
using cuheap::simcudart::ToRuntime;

namespace {

// Every copy is one driver call, chosen by the direction the program states.
cudaError_t Copy(const StreamCalls& calls, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return ToRuntime(calls.MemcpyHtoD(ToDevice(to), from, bytes));
    case cudaMemcpyDeviceToHost:
      return ToRuntime(calls.MemcpyDtoH(to, ToDevice(from), bytes));
    case cudaMemcpyDeviceToDevice:
      return ToRuntime(calls.MemcpyDtoD(ToDevice(to), ToDevice(from), bytes));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return ToRuntime(calls.Memcpy(ToDevice(to), ToDevice(from), bytes));
  }
  return cudaErrorInvalidMemcpyDirection;
}

cudaError_t CopyAsync(const StreamCalls& calls, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                      cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return ToRuntime(calls.MemcpyHtoDAsync(ToDevice(to), from, bytes, stream));
    case cudaMemcpyDeviceToHost:
      return ToRuntime(calls.MemcpyDtoHAsync(to, ToDevice(from), bytes, stream));
    case cudaMemcpyDeviceToDevice:
      return ToRuntime(calls.MemcpyDtoDAsync(ToDevice(to), ToDevice(from), bytes, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return ToRuntime(calls.MemcpyAsync(ToDevice(to), ToDevice(from), bytes, stream));
  }
  return cudaErrorInvalidMemcpyDirection;
}

// Memory types of the two ends of a copy, by its stated direction.
bool Ends(cudaMemcpyKind kind, CUmemorytype& from, CUmemorytype& to) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      from = to = CU_MEMORYTYPE_HOST;
      return true;
    case cudaMemcpyHostToDevice:
      from = CU_MEMORYTYPE_HOST;
      to = CU_MEMORYTYPE_DEVICE;
      return true;
    case cudaMemcpyDeviceToHost:
      from = CU_MEMORYTYPE_DEVICE;
      to = CU_MEMORYTYPE_HOST;
      return true;
    case cudaMemcpyDeviceToDevice:
      from = to = CU_MEMORYTYPE_DEVICE;
      return true;
    case cudaMemcpyDefault:
      from = to = CU_MEMORYTYPE_UNIFIED;
      return true;
  }
  return false;
}

// Fields of CUDA_MEMCPY2D and CUDA_MEMCPY3D that both have.
template <typename Description>
void Place(Description& copy, CUmemorytype from_type, const void* from, std::size_t from_pitch, CUmemorytype to_type,
           void* to, std::size_t to_pitch) {
  copy.srcMemoryType = from_type;
  copy.dstMemoryType = to_type;
  if (from_type == CU_MEMORYTYPE_HOST) {
    copy.srcHost = from;
  } else {
    copy.srcDevice = ToDevice(from);
  }
  if (to_type == CU_MEMORYTYPE_HOST) {
    copy.dstHost = to;
  } else {
    copy.dstDevice = ToDevice(to);
  }
  copy.srcPitch = from_pitch;
  copy.dstPitch = to_pitch;
}

cudaError_t Describe2D(CUDA_MEMCPY2D& copy, void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                       std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
  CUmemorytype from_type;
  CUmemorytype to_type;
  if (!Ends(kind, from_type, to_type)) return cudaErrorInvalidMemcpyDirection;
  Place(copy, from_type, from, from_pitch, to_type, to, to_pitch);
  copy.WidthInBytes = width;
  copy.Height = height;
  return cudaSuccess;
}

cudaError_t Copy2D(const StreamCalls& calls, void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                   std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  CUDA_MEMCPY2D copy = {};
  cudaError_t error = Describe2D(copy, to, to_pitch, from, from_pitch, width, height, kind);
  if (error != cudaSuccess || width == 0 || height == 0) return error;
  return ToRuntime(calls.Memcpy2DUnaligned(&copy));
}

cudaError_t Copy2DAsync(const StreamCalls& calls, void* to, std::size_t to_pitch, const void* from,
                        std::size_t from_pitch, std::size_t width, std::size_t height, cudaMemcpyKind kind,
                        cudaStream_t stream) {
  CUDA_MEMCPY2D copy = {};
  cudaError_t error = Describe2D(copy, to, to_pitch, from, from_pitch, width, height, kind);
  if (error != cudaSuccess || width == 0 || height == 0) return error;
  return ToRuntime(calls.Memcpy2DAsync(&copy, stream));
}

// One end of a three-dimensional copy: an array, or memory of the kind that the direction states.
void PlaceArray(cudaArray_t array, CUmemorytype* type, CUarray* handle) {
  if (array == nullptr) return;
  *type = CU_MEMORYTYPE_ARRAY;
  *handle = ToDriver(array);
}

// "If a CUDA array is participating in the copy, the extent is defined in terms of that array's elements. If no CUDA
// array is participating in the copy then the extents are defined in elements of unsigned char." Positions count
// elements of the object that they are in.
cudaError_t Describe3D(CUDA_MEMCPY3D& copy, const cudaMemcpy3DParms* parameters) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  const cudaPitchedPtr& from = parameters->srcPtr;
  const cudaPitchedPtr& to = parameters->dstPtr;
  // "Passing both an array and a pointer for one end is an error."
  if ((parameters->srcArray != nullptr && from.ptr != nullptr) ||
      (parameters->dstArray != nullptr && to.ptr != nullptr))
    return cudaErrorInvalidValue;
  CUmemorytype from_type;
  CUmemorytype to_type;
  if (!Ends(parameters->kind, from_type, to_type)) return cudaErrorInvalidMemcpyDirection;
  Place(copy, from_type, from.ptr, from.pitch, to_type, to.ptr, to.pitch);
  PlaceArray(parameters->srcArray, &copy.srcMemoryType, &copy.srcArray);
  PlaceArray(parameters->dstArray, &copy.dstMemoryType, &copy.dstArray);
  std::size_t from_element = 1, to_element = 1, row = 0;
  const DriverCalls& driver = Runtime::Get().driver();
  if (parameters->srcArray != nullptr && ElementOf(driver, parameters->srcArray, &from_element, &row) != CUDA_SUCCESS)
    return cudaErrorInvalidValue;
  if (parameters->dstArray != nullptr && ElementOf(driver, parameters->dstArray, &to_element, &row) != CUDA_SUCCESS)
    return cudaErrorInvalidValue;
  copy.srcHeight = from.ysize;
  copy.dstHeight = to.ysize;
  copy.srcXInBytes = parameters->srcPos.x * from_element;
  copy.srcY = parameters->srcPos.y;
  copy.srcZ = parameters->srcPos.z;
  copy.dstXInBytes = parameters->dstPos.x * to_element;
  copy.dstY = parameters->dstPos.y;
  copy.dstZ = parameters->dstPos.z;
  copy.WidthInBytes = parameters->extent.width * (parameters->srcArray != nullptr ? from_element : to_element);
  copy.Height = parameters->extent.height;
  copy.Depth = parameters->extent.depth;
  return cudaSuccess;
}

bool Empty(const CUDA_MEMCPY3D& copy) { return copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0; }

cudaError_t Copy3D(const StreamCalls& calls, const cudaMemcpy3DParms* parameters) {
  CUDA_MEMCPY3D copy = {};
  cudaError_t error = Describe3D(copy, parameters);
  if (error != cudaSuccess || Empty(copy)) return error;
  return ToRuntime(calls.Memcpy3D(&copy));
}

cudaError_t Copy3DAsync(const StreamCalls& calls, const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
  CUDA_MEMCPY3D copy = {};
  cudaError_t error = Describe3D(copy, parameters);
  if (error != cudaSuccess || Empty(copy)) return error;
  return ToRuntime(calls.Memcpy3DAsync(&copy, stream));
}

// Both devices' primary contexts, for copies between devices.
cudaError_t PeerContexts(int to, int from, CUcontext& to_context, CUcontext& from_context) {
  Runtime& runtime = Runtime::Get();
  if (!runtime.HasDevice(to) || !runtime.HasDevice(from)) return cudaErrorInvalidDevice;
  if (CUresult result = runtime.PrimaryContext(to, &to_context); result != CUDA_SUCCESS) return ToRuntime(result);
  return ToRuntime(runtime.PrimaryContext(from, &from_context));
}

cudaError_t CopyPeer(const StreamCalls& calls, void* to, int to_device, const void* from, int from_device,
                     std::size_t bytes) {
  CUcontext to_context = nullptr;
  CUcontext from_context = nullptr;
  cudaError_t error = PeerContexts(to_device, from_device, to_context, from_context);
  if (error != cudaSuccess || bytes == 0) return error;
  return ToRuntime(calls.MemcpyPeer(ToDevice(to), to_context, ToDevice(from), from_context, bytes));
}

cudaError_t CopyPeerAsync(const StreamCalls& calls, void* to, int to_device, const void* from, int from_device,
                          std::size_t bytes, cudaStream_t stream) {
  CUcontext to_context = nullptr;
  CUcontext from_context = nullptr;
  cudaError_t error = PeerContexts(to_device, from_device, to_context, from_context);
  if (error != cudaSuccess || bytes == 0) return error;
  return ToRuntime(calls.MemcpyPeerAsync(ToDevice(to), to_context, ToDevice(from), from_context, bytes, stream));
}

}  // namespace

SIMCUDART_VARIANTS(cudaMemcpy, _ptds, (void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind), Copy, to,
                   from, bytes, kind)

SIMCUDART_VARIANTS(cudaMemcpyAsync, _ptsz,
                   (void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream), CopyAsync,
                   to, from, bytes, kind, stream)

SIMCUDART_VARIANTS(cudaMemcpy2D, _ptds,
                   (void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                    std::size_t height, cudaMemcpyKind kind),
                   Copy2D, to, to_pitch, from, from_pitch, width, height, kind)

SIMCUDART_VARIANTS(cudaMemcpy2DAsync, _ptsz,
                   (void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                    std::size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                   Copy2DAsync, to, to_pitch, from, from_pitch, width, height, kind, stream)

SIMCUDART_VARIANTS(cudaMemcpy3D, _ptds, (const cudaMemcpy3DParms* parameters), Copy3D, parameters)

SIMCUDART_VARIANTS(cudaMemcpy3DAsync, _ptsz, (const cudaMemcpy3DParms* parameters, cudaStream_t stream), Copy3DAsync,
                   parameters, stream)

// Copies between devices have no per-thread variant in the runtime.
SIMCUDART_EXPORT cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                                            std::size_t bytes) {
  return cuheap::simcudart::InContext([&](const cuheap::simcudart::DriverCalls& driver) {
    return CopyPeer(driver.legacy, to, to_device, from, from_device, bytes);
  });
}

SIMCUDART_EXPORT cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                                 std::size_t bytes, cudaStream_t stream) {
  return cuheap::simcudart::InContext([&](const cuheap::simcudart::DriverCalls& driver) {
    return CopyPeerAsync(driver.legacy, to, to_device, from, from_device, bytes, stream);
  });
}
