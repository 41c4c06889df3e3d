// Texture and Surface Object Management (Driver API reference 6.29, 6.30). Objects are descriptions: nothing here
// samples.
#include "entry_points.h"
#include "tools/simcuda/driver/array.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

Arrays& All() { return State::Get().arrays; }

// As the device attributes have them (device_attributes.cc).
constexpr size_t kTextureAlignment = 512, kPitchAlignment = 32, kGreatestLinear = 268435456, kGreatestPitch = 2097120,
                 kGreatestLinearWidth = 131072, kGreatestLinearHeight = 65000;

// Device memory that the driver knows, of which so many bytes are there.
bool DeviceMemory(CUdeviceptr address, size_t bytes) {
  Memory& memory = State::Get().memory;
  const Block* block = memory.Find(address);
  return block != nullptr && !block->freeing && memory.Covers(address, bytes);
}

CUresult CheckLinear(const CUDA_RESOURCE_DESC& resource) {
  const auto& linear = resource.res.linear;
  const size_t element = ElementBytes(linear.format, linear.numChannels);
  if (element == 0 || linear.devPtr % kTextureAlignment != 0 || linear.sizeInBytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (linear.sizeInBytes / element > kGreatestLinear) return CUDA_ERROR_INVALID_VALUE;
  return DeviceMemory(linear.devPtr, linear.sizeInBytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CheckPitched(const CUDA_RESOURCE_DESC& resource) {
  const auto& pitched = resource.res.pitch2D;
  const size_t element = ElementBytes(pitched.format, pitched.numChannels);
  if (element == 0 || pitched.devPtr % kTextureAlignment != 0) return CUDA_ERROR_INVALID_VALUE;
  if (pitched.width == 0 || pitched.width > kGreatestLinearWidth) return CUDA_ERROR_INVALID_VALUE;
  if (pitched.height == 0 || pitched.height > kGreatestLinearHeight) return CUDA_ERROR_INVALID_VALUE;
  const size_t row = pitched.width * element;
  if (pitched.pitchInBytes % kPitchAlignment != 0 || pitched.pitchInBytes > kGreatestPitch)
    return CUDA_ERROR_INVALID_VALUE;
  if (pitched.pitchInBytes < row) return CUDA_ERROR_INVALID_VALUE;
  const size_t bytes = (pitched.height - 1) * pitched.pitchInBytes + row;
  return DeviceMemory(pitched.devPtr, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool KnownArray(const CUDA_RESOURCE_DESC& resource) {
  const std::shared_ptr<Array> array = All().arrays.Find(resource.res.array.hArray);
  return array && array->element != 0;
}

CUresult CheckResource(const CUDA_RESOURCE_DESC& resource) {
  if (resource.flags != 0) return CUDA_ERROR_INVALID_VALUE;
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      return KnownArray(resource) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      return All().mipmapped.Find(resource.res.mipmap.hMipmappedArray) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_RESOURCE_TYPE_LINEAR:
      return CheckLinear(resource);
    case CU_RESOURCE_TYPE_PITCH2D:
      return CheckPitched(resource);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CheckTexture(const CUDA_RESOURCE_DESC& resource, const CUDA_TEXTURE_DESC& texture) {
  constexpr unsigned kKnown = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
                              CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP;
  if ((texture.flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (resource.resType == CU_RESOURCE_TYPE_LINEAR) return CUDA_SUCCESS;  // address and filter modes are ignored
  for (const CUaddress_mode mode : texture.addressMode) {
    if (mode < CU_TR_ADDRESS_MODE_WRAP || mode > CU_TR_ADDRESS_MODE_BORDER) return CUDA_ERROR_INVALID_VALUE;
  }
  if (texture.filterMode != CU_TR_FILTER_MODE_POINT && texture.filterMode != CU_TR_FILTER_MODE_LINEAR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // "For CUDA mipmapped arrays, this flag has to be set."
  const bool mipmapped = resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  if (mipmapped && (texture.flags & CU_TRSF_NORMALIZED_COORDINATES) == 0) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult impl::cuTexObjectCreate(CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                                 const CUDA_TEXTURE_DESC* pTexDesc, const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) {
  SIMCUDA_CURRENT(context);
  if (pTexObject == nullptr || pResDesc == nullptr || pTexDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = CheckResource(*pResDesc)) return result;
  if (const CUresult result = CheckTexture(*pResDesc, *pTexDesc)) return result;
  const bool array =
      pResDesc->resType == CU_RESOURCE_TYPE_ARRAY || pResDesc->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  if (pResViewDesc != nullptr && !array) return CUDA_ERROR_INVALID_VALUE;
  TextureObject object{*pResDesc, *pTexDesc, {}, context};
  if (pResViewDesc != nullptr) object.view = *pResViewDesc;
  *pTexObject = All().next_object++;
  All().textures.emplace(*pTexObject, object);
  return CUDA_SUCCESS;
}

CUresult impl::cuTexObjectDestroy(CUtexObject texObject) {
  SIMCUDA_CURRENT(context);
  return All().textures.erase(texObject) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl::cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUtexObject texObject) {
  SIMCUDA_CURRENT(context);
  const auto found = All().textures.find(texObject);
  if (pResDesc == nullptr || found == All().textures.end()) return CUDA_ERROR_INVALID_VALUE;
  *pResDesc = found->second.resource;
  return CUDA_SUCCESS;
}

CUresult impl::cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* pTexDesc, CUtexObject texObject) {
  SIMCUDA_CURRENT(context);
  const auto found = All().textures.find(texObject);
  if (pTexDesc == nullptr || found == All().textures.end()) return CUDA_ERROR_INVALID_VALUE;
  *pTexDesc = found->second.texture;
  return CUDA_SUCCESS;
}

// "If no resource view was specified, an error is returned" (Runtime API, cudaGetTextureObjectResourceViewDesc).
CUresult impl::cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* pResViewDesc, CUtexObject texObject) {
  SIMCUDA_CURRENT(context);
  const auto found = All().textures.find(texObject);
  if (pResViewDesc == nullptr || found == All().textures.end()) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<CUDA_RESOURCE_VIEW_DESC>& view = found->second.view;
  if (!view.has_value()) return CUDA_ERROR_INVALID_VALUE;
  *pResViewDesc = *view;
  return CUDA_SUCCESS;
}

CUresult impl::cuSurfObjectCreate(CUsurfObject* pSurfObject, const CUDA_RESOURCE_DESC* pResDesc) {
  SIMCUDA_CURRENT(context);
  if (pSurfObject == nullptr || pResDesc == nullptr || pResDesc->flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (pResDesc->resType != CU_RESOURCE_TYPE_ARRAY || !KnownArray(*pResDesc)) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Array> array = All().arrays.Find(pResDesc->res.array.hArray);
  if ((array->descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST) == 0) return CUDA_ERROR_INVALID_VALUE;
  *pSurfObject = All().next_object++;
  All().surfaces.emplace(*pSurfObject, SurfaceObject{*pResDesc, context});
  return CUDA_SUCCESS;
}

CUresult impl::cuSurfObjectDestroy(CUsurfObject surfObject) {
  SIMCUDA_CURRENT(context);
  return All().surfaces.erase(surfObject) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl::cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUsurfObject surfObject) {
  SIMCUDA_CURRENT(context);
  const auto found = All().surfaces.find(surfObject);
  if (pResDesc == nullptr || found == All().surfaces.end()) return CUDA_ERROR_INVALID_VALUE;
  *pResDesc = found->second.resource;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
