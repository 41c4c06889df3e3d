// CUDA Runtime API, "Memory Management": CUDA arrays and mipmapped arrays.
#include "tools/simcuda/runtime/array.h"

#include <algorithm>

using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::FromFormat;
using cuheap::simcudart::InContext;
using cuheap::simcudart::ToDriver;
using cuheap::simcudart::ToFormat;
using cuheap::simcudart::ToRuntime;

namespace cuheap::simcudart {
namespace {

struct Format {
  CUarray_format format;
  int bits;
  cudaChannelFormatKind kind;
};
constexpr Format kFormats[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, 8, cudaChannelFormatKindUnsigned},
    {CU_AD_FORMAT_UNSIGNED_INT16, 16, cudaChannelFormatKindUnsigned},
    {CU_AD_FORMAT_UNSIGNED_INT32, 32, cudaChannelFormatKindUnsigned},
    {CU_AD_FORMAT_SIGNED_INT8, 8, cudaChannelFormatKindSigned},
    {CU_AD_FORMAT_SIGNED_INT16, 16, cudaChannelFormatKindSigned},
    {CU_AD_FORMAT_SIGNED_INT32, 32, cudaChannelFormatKindSigned},
    {CU_AD_FORMAT_HALF, 16, cudaChannelFormatKindFloat},
    {CU_AD_FORMAT_FLOAT, 32, cudaChannelFormatKindFloat},
};

}  // namespace

bool ToFormat(const cudaChannelFormatDesc& description, CUarray_format* format, unsigned int* channels) {
  const int bits[] = {description.x, description.y, description.z, description.w};
  unsigned int count = 0;
  while (count < 4 && bits[count] != 0) ++count;
  for (unsigned int i = 0; i < 4; ++i) {
    if (bits[i] != (i < count ? bits[0] : 0)) return false;
  }
  if (count == 0 || count == 3) return false;
  for (const Format& known : kFormats) {
    if (known.bits != bits[0] || known.kind != description.f) continue;
    *format = known.format;
    *channels = count;
    return true;
  }
  return false;
}

cudaChannelFormatDesc FromFormat(CUarray_format format, unsigned int channels) {
  cudaChannelFormatDesc description = {0, 0, 0, 0, cudaChannelFormatKindNone};
  for (const Format& known : kFormats) {
    if (known.format != format) continue;
    description.f = known.kind;
    int* const components[] = {&description.x, &description.y, &description.z, &description.w};
    for (unsigned int i = 0; i < std::min(channels, 4u); ++i) *components[i] = known.bits;
  }
  return description;
}

CUresult ElementOf(const DriverCalls& driver, cudaArray_const_t array, std::size_t* element, std::size_t* row) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  if (const CUresult result = driver.Array3DGetDescriptor(&descriptor, ToDriver(array)); result != CUDA_SUCCESS) {
    return result;
  }
  const cudaChannelFormatDesc description = FromFormat(descriptor.Format, descriptor.NumChannels);
  *element = static_cast<std::size_t>(description.x + description.y + description.z + description.w) / 8;
  *row = *element * descriptor.Width;
  return *element == 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

}  // namespace cuheap::simcudart

namespace {

cudaError_t Describe(const cudaChannelFormatDesc* description, const cudaExtent& extent, unsigned int flags,
                     CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  if (description == nullptr) return cudaErrorInvalidValue;
  if (!ToFormat(*description, &descriptor->Format, &descriptor->NumChannels)) return cudaErrorInvalidChannelDescriptor;
  descriptor->Width = extent.width;
  descriptor->Height = extent.height;
  descriptor->Depth = extent.depth;
  descriptor->Flags = flags;  // the flags have the same numbers
  return cudaSuccess;
}

cudaError_t CreateArray(cudaArray_t* array, const cudaChannelFormatDesc* description, const cudaExtent& extent,
                        unsigned int flags) {
  return InContext([&](const DriverCalls& driver) {
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
    if (array == nullptr) return cudaErrorInvalidValue;
    if (cudaError_t error = Describe(description, extent, flags, &descriptor); error != cudaSuccess) return error;
    CUarray made = nullptr;
    const CUresult result = driver.Array3DCreate(&made, &descriptor);
    if (result == CUDA_SUCCESS) *array = reinterpret_cast<cudaArray_t>(made);
    return ToRuntime(result);
  });
}

// The runtime's documentation names no invalid handles: an array that is none is an invalid value.
cudaError_t OfHandle(CUresult result) {
  return result == CUDA_ERROR_INVALID_HANDLE ? cudaErrorInvalidValue : ToRuntime(result);
}

}  // namespace

SIMCUDART_EXPORT cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* description,
                                             std::size_t width, std::size_t height, unsigned int flags) {
  return CreateArray(array, description, {width, height, 0}, flags);
}

SIMCUDART_EXPORT cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* description,
                                               cudaExtent extent, unsigned int flags) {
  return CreateArray(array, description, extent, flags);
}

SIMCUDART_EXPORT cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* array,
                                                      const cudaChannelFormatDesc* description, cudaExtent extent,
                                                      unsigned int levels, unsigned int flags) {
  return InContext([&](const DriverCalls& driver) {
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
    if (array == nullptr) return cudaErrorInvalidValue;
    if (cudaError_t error = Describe(description, extent, flags, &descriptor); error != cudaSuccess) return error;
    CUmipmappedArray made = nullptr;
    const CUresult result = driver.MipmappedArrayCreate(&made, &descriptor, levels);
    if (result == CUDA_SUCCESS) *array = reinterpret_cast<cudaMipmappedArray_t>(made);
    return ToRuntime(result);
  });
}

SIMCUDART_EXPORT cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t* level_array, cudaMipmappedArray_const_t array,
                                                        unsigned int level) {
  return InContext([&](const DriverCalls& driver) {
    CUarray found = nullptr;
    const CUresult result = driver.MipmappedArrayGetLevel(&found, ToDriver(array), level);
    if (result == CUDA_SUCCESS) *level_array = reinterpret_cast<cudaArray_t>(found);
    return OfHandle(result);
  });
}

// "If array is 0, no operation is performed."
SIMCUDART_EXPORT cudaError_t cudaFreeArray(cudaArray_t array) {
  return InContext([&](const DriverCalls& driver) {
    return array == nullptr ? cudaSuccess : OfHandle(driver.ArrayDestroy(ToDriver(array)));
  });
}

SIMCUDART_EXPORT cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  return InContext([&](const DriverCalls& driver) {
    return array == nullptr ? cudaSuccess : OfHandle(driver.MipmappedArrayDestroy(ToDriver(array)));
  });
}

SIMCUDART_EXPORT cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* description, cudaExtent* extent,
                                              unsigned int* flags, cudaArray_t array) {
  return InContext([&](const DriverCalls& driver) {
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
    const CUresult result = driver.Array3DGetDescriptor(&descriptor, ToDriver(array));
    if (result != CUDA_SUCCESS) return OfHandle(result);
    if (description != nullptr) *description = FromFormat(descriptor.Format, descriptor.NumChannels);
    if (extent != nullptr) *extent = {descriptor.Width, descriptor.Height, descriptor.Depth};
    if (flags != nullptr) *flags = descriptor.Flags;
    return cudaSuccess;
  });
}

SIMCUDART_EXPORT cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* description, cudaArray_const_t array) {
  return cudaArrayGetInfo(description, nullptr, nullptr, const_cast<cudaArray_t>(array));
}

SIMCUDART_EXPORT cudaError_t cudaArrayGetPlane(cudaArray_t* plane, cudaArray_t array, unsigned int index) {
  return InContext([&](const DriverCalls& driver) {
    CUarray found = nullptr;
    const CUresult result = driver.ArrayGetPlane(&found, ToDriver(array), index);
    if (result == CUDA_SUCCESS) *plane = reinterpret_cast<cudaArray_t>(found);
    return OfHandle(result);
  });
}

SIMCUDART_EXPORT cudaError_t cudaArrayGetMemoryRequirements(cudaArrayMemoryRequirements* requirements,
                                                            cudaArray_t array, int device) {
  return InContext([&](const DriverCalls& driver) {
    CUDA_ARRAY_MEMORY_REQUIREMENTS found = {};
    const CUresult result = driver.ArrayGetMemoryRequirements(&found, ToDriver(array), device);
    if (result == CUDA_SUCCESS) *requirements = {found.size, found.alignment, {}};
    return OfHandle(result);
  });
}

SIMCUDART_EXPORT cudaError_t cudaMipmappedArrayGetMemoryRequirements(cudaArrayMemoryRequirements* requirements,
                                                                     cudaMipmappedArray_t array, int device) {
  return InContext([&](const DriverCalls& driver) {
    CUDA_ARRAY_MEMORY_REQUIREMENTS found = {};
    const CUresult result = driver.MipmappedArrayGetMemoryRequirements(&found, ToDriver(array), device);
    if (result == CUDA_SUCCESS) *requirements = {found.size, found.alignment, {}};
    return OfHandle(result);
  });
}
