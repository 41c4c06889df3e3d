// CUDA Runtime API, "Texture Object Management", "Surface Object Management".
#include <cstring>

#include "tools/simcuda/runtime/array.h"

using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::FromFormat;
using cuheap::simcudart::InContext;
using cuheap::simcudart::ToDevice;
using cuheap::simcudart::ToDriver;
using cuheap::simcudart::ToFormat;
using cuheap::simcudart::ToPointer;
using cuheap::simcudart::ToRuntime;

namespace {

cudaError_t ToDriverResource(const cudaResourceDesc& resource, CUDA_RESOURCE_DESC* out) {
  switch (resource.resType) {
    case cudaResourceTypeArray:
      out->resType = CU_RESOURCE_TYPE_ARRAY;
      out->res.array.hArray = ToDriver(resource.res.array.array);
      return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
      out->resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
      out->res.mipmap.hMipmappedArray = ToDriver(resource.res.mipmap.mipmap);
      return cudaSuccess;
    case cudaResourceTypeLinear: {
      const auto& linear = resource.res.linear;
      out->resType = CU_RESOURCE_TYPE_LINEAR;
      out->res.linear.devPtr = ToDevice(linear.devPtr);
      out->res.linear.sizeInBytes = linear.sizeInBytes;
      return ToFormat(linear.desc, &out->res.linear.format, &out->res.linear.numChannels)
                 ? cudaSuccess
                 : cudaErrorInvalidChannelDescriptor;
    }
    case cudaResourceTypePitch2D: {
      const auto& pitched = resource.res.pitch2D;
      out->resType = CU_RESOURCE_TYPE_PITCH2D;
      out->res.pitch2D.devPtr = ToDevice(pitched.devPtr);
      out->res.pitch2D.width = pitched.width;
      out->res.pitch2D.height = pitched.height;
      out->res.pitch2D.pitchInBytes = pitched.pitchInBytes;
      return ToFormat(pitched.desc, &out->res.pitch2D.format, &out->res.pitch2D.numChannels)
                 ? cudaSuccess
                 : cudaErrorInvalidChannelDescriptor;
    }
  }
  return cudaErrorInvalidValue;
}

cudaResourceDesc FromDriverResource(const CUDA_RESOURCE_DESC& resource) {
  cudaResourceDesc out = {};
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      out.resType = cudaResourceTypeArray;
      out.res.array.array = reinterpret_cast<cudaArray_t>(resource.res.array.hArray);
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      out.resType = cudaResourceTypeMipmappedArray;
      out.res.mipmap.mipmap = reinterpret_cast<cudaMipmappedArray_t>(resource.res.mipmap.hMipmappedArray);
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      out.resType = cudaResourceTypeLinear;
      out.res.linear.devPtr = ToPointer(resource.res.linear.devPtr);
      out.res.linear.desc = FromFormat(resource.res.linear.format, resource.res.linear.numChannels);
      out.res.linear.sizeInBytes = resource.res.linear.sizeInBytes;
      break;
    case CU_RESOURCE_TYPE_PITCH2D:
      out.resType = cudaResourceTypePitch2D;
      out.res.pitch2D.devPtr = ToPointer(resource.res.pitch2D.devPtr);
      out.res.pitch2D.desc = FromFormat(resource.res.pitch2D.format, resource.res.pitch2D.numChannels);
      out.res.pitch2D.width = resource.res.pitch2D.width;
      out.res.pitch2D.height = resource.res.pitch2D.height;
      out.res.pitch2D.pitchInBytes = resource.res.pitch2D.pitchInBytes;
      break;
  }
  return out;
}

struct Flag {
  int cudaTextureDesc::* member;
  unsigned int flag;
};
constexpr Flag kFlags[] = {{&cudaTextureDesc::sRGB, CU_TRSF_SRGB},
                           {&cudaTextureDesc::normalizedCoords, CU_TRSF_NORMALIZED_COORDINATES},
                           {&cudaTextureDesc::disableTrilinearOptimization, CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION},
                           {&cudaTextureDesc::seamlessCubemap, CU_TRSF_SEAMLESS_CUBEMAP}};

CUDA_TEXTURE_DESC ToDriverTexture(const cudaTextureDesc& texture) {
  CUDA_TEXTURE_DESC out = {};
  for (int i = 0; i < 3; ++i) out.addressMode[i] = static_cast<CUaddress_mode>(texture.addressMode[i]);
  out.filterMode = static_cast<CUfilter_mode>(texture.filterMode);
  if (texture.readMode == cudaReadModeElementType) out.flags |= CU_TRSF_READ_AS_INTEGER;
  for (const Flag& flag : kFlags) {
    if (texture.*flag.member != 0) out.flags |= flag.flag;
  }
  out.maxAnisotropy = texture.maxAnisotropy;
  out.mipmapFilterMode = static_cast<CUfilter_mode>(texture.mipmapFilterMode);
  out.mipmapLevelBias = texture.mipmapLevelBias;
  out.minMipmapLevelClamp = texture.minMipmapLevelClamp;
  out.maxMipmapLevelClamp = texture.maxMipmapLevelClamp;
  std::memcpy(out.borderColor, texture.borderColor, sizeof(out.borderColor));
  return out;
}

cudaTextureDesc FromDriverTexture(const CUDA_TEXTURE_DESC& texture) {
  cudaTextureDesc out = {};
  for (int i = 0; i < 3; ++i) out.addressMode[i] = static_cast<cudaTextureAddressMode>(texture.addressMode[i]);
  out.filterMode = static_cast<cudaTextureFilterMode>(texture.filterMode);
  const bool elements = (texture.flags & CU_TRSF_READ_AS_INTEGER) != 0;
  out.readMode = elements ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
  for (const Flag& flag : kFlags) out.*flag.member = (texture.flags & flag.flag) != 0 ? 1 : 0;
  out.maxAnisotropy = texture.maxAnisotropy;
  out.mipmapFilterMode = static_cast<cudaTextureFilterMode>(texture.mipmapFilterMode);
  out.mipmapLevelBias = texture.mipmapLevelBias;
  out.minMipmapLevelClamp = texture.minMipmapLevelClamp;
  out.maxMipmapLevelClamp = texture.maxMipmapLevelClamp;
  std::memcpy(out.borderColor, texture.borderColor, sizeof(out.borderColor));
  return out;
}

// The formats have the same numbers.
CUDA_RESOURCE_VIEW_DESC ToDriverView(const cudaResourceViewDesc& view) {
  CUDA_RESOURCE_VIEW_DESC out = {};
  out.format = static_cast<CUresourceViewFormat>(view.format);
  out.width = view.width;
  out.height = view.height;
  out.depth = view.depth;
  out.firstMipmapLevel = view.firstMipmapLevel;
  out.lastMipmapLevel = view.lastMipmapLevel;
  out.firstLayer = view.firstLayer;
  out.lastLayer = view.lastLayer;
  return out;
}

}  // namespace

SIMCUDART_EXPORT cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object, const cudaResourceDesc* resource,
                                                     const cudaTextureDesc* texture, const cudaResourceViewDesc* view) {
  return InContext([&](const DriverCalls& driver) {
    if (object == nullptr || resource == nullptr || texture == nullptr) return cudaErrorInvalidValue;
    CUDA_RESOURCE_DESC driver_resource = {};
    if (cudaError_t error = ToDriverResource(*resource, &driver_resource); error != cudaSuccess) return error;
    const CUDA_TEXTURE_DESC driver_texture = ToDriverTexture(*texture);
    CUDA_RESOURCE_VIEW_DESC driver_view = {};
    if (view != nullptr) driver_view = ToDriverView(*view);
    return ToRuntime(
        driver.TexObjectCreate(object, &driver_resource, &driver_texture, view == nullptr ? nullptr : &driver_view));
  });
}

SIMCUDART_EXPORT cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
  return InContext([&](const DriverCalls& driver) { return driver.TexObjectDestroy(object); });
}

SIMCUDART_EXPORT cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource, cudaTextureObject_t object) {
  return InContext([&](const DriverCalls& driver) {
    CUDA_RESOURCE_DESC found = {};
    const CUresult result = driver.TexObjectGetResourceDesc(&found, object);
    if (result == CUDA_SUCCESS) *resource = FromDriverResource(found);
    return result;
  });
}

SIMCUDART_EXPORT cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* texture, cudaTextureObject_t object) {
  return InContext([&](const DriverCalls& driver) {
    CUDA_TEXTURE_DESC found = {};
    const CUresult result = driver.TexObjectGetTextureDesc(&found, object);
    if (result == CUDA_SUCCESS) *texture = FromDriverTexture(found);
    return result;
  });
}

SIMCUDART_EXPORT cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc* view,
                                                                  cudaTextureObject_t object) {
  return InContext([&](const DriverCalls& driver) {
    CUDA_RESOURCE_VIEW_DESC found = {};
    const CUresult result = driver.TexObjectGetResourceViewDesc(&found, object);
    if (result != CUDA_SUCCESS) return result;
    *view = {};
    view->format = static_cast<cudaResourceViewFormat>(found.format);
    view->width = found.width;
    view->height = found.height;
    view->depth = found.depth;
    view->firstMipmapLevel = found.firstMipmapLevel;
    view->lastMipmapLevel = found.lastMipmapLevel;
    view->firstLayer = found.firstLayer;
    view->lastLayer = found.lastLayer;
    return result;
  });
}

SIMCUDART_EXPORT cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object, const cudaResourceDesc* resource) {
  return InContext([&](const DriverCalls& driver) {
    if (object == nullptr || resource == nullptr) return cudaErrorInvalidValue;
    CUDA_RESOURCE_DESC driver_resource = {};
    if (cudaError_t error = ToDriverResource(*resource, &driver_resource); error != cudaSuccess) return error;
    return ToRuntime(driver.SurfObjectCreate(object, &driver_resource));
  });
}

SIMCUDART_EXPORT cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
  return InContext([&](const DriverCalls& driver) { return driver.SurfObjectDestroy(object); });
}

SIMCUDART_EXPORT cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* resource, cudaSurfaceObject_t object) {
  return InContext([&](const DriverCalls& driver) {
    CUDA_RESOURCE_DESC found = {};
    const CUresult result = driver.SurfObjectGetResourceDesc(&found, object);
    if (result == CUDA_SUCCESS) *resource = FromDriverResource(found);
    return result;
  });
}
