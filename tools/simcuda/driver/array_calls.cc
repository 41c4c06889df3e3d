// Memory Management (Driver API reference 6.13): CUDA arrays and mipmapped arrays.
#include <algorithm>
#include <bit>

#include "entry_points.h"
#include "tools/simcuda/driver/array.h"
#include "tools/simcuda/driver/memory_calls.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

Arrays& All() { return State::Get().arrays; }

// The greatest extents, as the device attributes have them (device_attributes.cc).
struct Extents {
  size_t width, height, depth;
  bool Hold(const CUDA_ARRAY3D_DESCRIPTOR& array) const {
    return array.Width <= width && array.Height <= height && array.Depth <= depth;
  }
};
constexpr Extents kGreatest1D{131072, 0, 0}, kGreatest2D{131072, 65536, 0}, kGreatest3D{16384, 16384, 16384},
    kAlternate3D{8192, 8192, 32768}, kGreatest1DLayered{32768, 0, 2048}, kGreatest2DLayered{32768, 32768, 2048},
    kGreatestCubemap{32768, 32768, 6}, kGreatestCubemapLayered{32768, 32768, 2046};
constexpr size_t kGreatestSurface1D = 32768, kGreatestMipmapped = 32768;

bool Has(const CUDA_ARRAY3D_DESCRIPTOR& array, unsigned flag) { return (array.Flags & flag) != 0; }

bool ExtentsFit(const CUDA_ARRAY3D_DESCRIPTOR& array) {
  const bool layered = Has(array, CUDA_ARRAY3D_LAYERED);
  if (array.Width == 0) return false;
  if (Has(array, CUDA_ARRAY3D_CUBEMAP)) {
    if (array.Width != array.Height || array.Depth == 0 || array.Depth % 6 != 0) return false;
    return layered ? kGreatestCubemapLayered.Hold(array) : kGreatestCubemap.Hold(array);
  }
  if (layered) {
    if (array.Depth == 0) return false;
    return array.Height == 0 ? kGreatest1DLayered.Hold(array) : kGreatest2DLayered.Hold(array);
  }
  if (array.Depth != 0) return array.Height != 0 && (kGreatest3D.Hold(array) || kAlternate3D.Hold(array));
  if (array.Height != 0) return kGreatest2D.Hold(array);
  if (Has(array, CUDA_ARRAY3D_SURFACE_LDST) && array.Width > kGreatestSurface1D) return false;
  return kGreatest1D.Hold(array);
}

// Errors: INVALID_VALUE for what the documentation excludes, NOT_SUPPORTED for what is not simulated (sparse arrays,
// memory that is mapped later, block-compressed and video formats).
CUresult Check(const CUDA_ARRAY3D_DESCRIPTOR& array) {
  constexpr unsigned kKnown = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
                              CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT;
  constexpr unsigned kLater = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;
  if ((array.Flags & ~(kKnown | kLater)) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (array.NumChannels == 0 || array.NumChannels > 4) return CUDA_ERROR_INVALID_VALUE;
  if (!ExtentsFit(array)) return CUDA_ERROR_INVALID_VALUE;
  // "Texture gather can only be performed on 2D CUDA arrays."
  if (Has(array, CUDA_ARRAY3D_TEXTURE_GATHER) && (array.Height == 0 || array.Depth != 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((array.Flags & kLater) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (array.Format == CU_AD_FORMAT_NV12) {
    const bool flat = array.Height != 0 && array.Depth == 0 && array.Width % 2 == 0 && array.Height % 2 == 0;
    return array.NumChannels == 3 && flat ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (array.NumChannels == 3) return CUDA_ERROR_INVALID_VALUE;
  for (const unsigned channels : {1u, 2u, 4u}) {
    if (ElementBytes(array.Format, channels) == 0) continue;
    return ElementBytes(array.Format, array.NumChannels) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

std::shared_ptr<Array> AddArray(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, uint64_t base) {
  auto array = std::make_shared<Array>();
  array->descriptor = descriptor;
  array->element = ElementBytes(descriptor.Format, descriptor.NumChannels);
  array->base = base;
  array->context = &context;
  array->handle = All().arrays.Add(array);
  return array;
}

CUDA_ARRAY3D_DESCRIPTOR Plane(const CUDA_ARRAY3D_DESCRIPTOR& whole, size_t divide, unsigned channels) {
  CUDA_ARRAY3D_DESCRIPTOR plane = whole;
  plane.Width /= divide;
  plane.Height /= divide;
  plane.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  plane.NumChannels = channels;
  return plane;
}

CUresult CreateArray(CUarray* handle, const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  SIMCUDA_CURRENT(context);
  if (const CUresult result = Check(descriptor)) return result;
  const bool planar = descriptor.Format == CU_AD_FORMAT_NV12;
  const size_t element = planar ? 1 : ElementBytes(descriptor.Format, descriptor.NumChannels);
  const size_t luma =
      descriptor.Width * std::max<size_t>(descriptor.Height, 1) * std::max<size_t>(descriptor.Depth, 1) * element;
  Block* block = nullptr;
  if (const CUresult result = AllocateWithRetry(*context, planar ? luma / 2 * 3 : luma, Kind::kArray, &block)) {
    return result;
  }
  const std::shared_ptr<Array> array = AddArray(*context, descriptor, block->base);
  array->owner = true;
  if (planar) {
    array->planes.push_back(AddArray(*context, Plane(descriptor, 1, 1), block->base)->handle);
    array->planes.push_back(AddArray(*context, Plane(descriptor, 2, 2), block->base + luma)->handle);
  }
  *handle = array->handle;
  return CUDA_SUCCESS;
}

CUDA_ARRAY3D_DESCRIPTOR Level(const CUDA_ARRAY3D_DESCRIPTOR& whole, unsigned level) {
  const bool layers = Has(whole, CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
  const auto halved = [&](size_t extent) { return extent == 0 ? 0 : std::max<size_t>(extent >> level, 1); };
  CUDA_ARRAY3D_DESCRIPTOR descriptor = whole;
  descriptor.Width = halved(whole.Width);
  descriptor.Height = halved(whole.Height);
  if (!layers) descriptor.Depth = halved(whole.Depth);
  return descriptor;
}

size_t LevelBytes(const CUDA_ARRAY3D_DESCRIPTOR& level) {
  Array array;
  array.descriptor = level;
  array.element = ElementBytes(level.Format, level.NumChannels);
  return array.bytes();
}

// Waits as a free of device memory may, then ends the block at `base`, if `still_there` holds afterwards: the lock was
// free.
template <typename StillThere>
bool ReleaseArrayMemory(Context& context, uint64_t base, StillThere&& still_there) {
  State& state = State::Get();
  if (state.config.free_sync) state.engine.WaitContext(context);
  if (!still_there()) return false;
  state.memory.Release(base);
  return true;
}

CUresult Describe(CUarray handle, CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  SIMCUDA_CURRENT(context);
  const std::shared_ptr<Array> array = All().arrays.Find(handle);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  *descriptor = array->descriptor;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult impl::cuArrayCreate_v2(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) {
  if (pHandle == nullptr || pAllocateArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  descriptor.Width = pAllocateArray->Width;
  descriptor.Height = pAllocateArray->Height;
  descriptor.Format = pAllocateArray->Format;
  descriptor.NumChannels = pAllocateArray->NumChannels;
  return CreateArray(pHandle, descriptor);
}

CUresult impl::cuArray3DCreate_v2(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) {
  if (pHandle == nullptr || pAllocateArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CreateArray(pHandle, *pAllocateArray);
}

CUresult impl::cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  if (pArrayDescriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = Describe(hArray, &descriptor)) return result;
  *pArrayDescriptor = {descriptor.Width, descriptor.Height, descriptor.Format, descriptor.NumChannels};
  return CUDA_SUCCESS;
}

// "This function may be called on 1D and 2D arrays, in which case the Height and/or Depth members will be set to 0."
CUresult impl::cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
  if (pArrayDescriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Describe(hArray, pArrayDescriptor);
}

CUresult impl::cuArrayDestroy(CUarray hArray) {
  SIMCUDA_CURRENT(context);
  const std::shared_ptr<Array> array = All().arrays.Find(hArray);
  // A plane or a mipmap level goes with what it is a view of.
  if (!array || !array->owner) return CUDA_ERROR_INVALID_HANDLE;
  const auto still_there = [&] { return All().arrays.Find(hArray) == array; };
  if (!ReleaseArrayMemory(*array->context, array->base, still_there)) return CUDA_ERROR_INVALID_HANDLE;
  for (const CUarray plane : array->planes) All().arrays.Remove(plane);
  All().arrays.Remove(hArray);
  return context->sticky;
}

CUresult impl::cuArrayGetPlane(CUarray* pPlaneArray, CUarray hArray, unsigned int planeIdx) {
  SIMCUDA_CURRENT(context);
  const std::shared_ptr<Array> array = All().arrays.Find(hArray);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  if (pPlaneArray == nullptr || planeIdx >= array->planes.size()) return CUDA_ERROR_INVALID_VALUE;
  *pPlaneArray = array->planes[planeIdx];
  return CUDA_SUCCESS;
}

CUresult impl::cuMipmappedArrayCreate(CUmipmappedArray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                      unsigned int numMipmapLevels) {
  SIMCUDA_CURRENT(context);
  if (pHandle == nullptr || pMipmappedArrayDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY3D_DESCRIPTOR& whole = *pMipmappedArrayDesc;
  if (const CUresult result = Check(whole)) return result;
  if (whole.Format == CU_AD_FORMAT_NV12) return CUDA_ERROR_NOT_SUPPORTED;
  if (whole.Width > kGreatestMipmapped || whole.Height > kGreatestMipmapped) return CUDA_ERROR_INVALID_VALUE;
  // "Clamped to the range [1, 1 + floor(log2(max(width, height, depth)))]"; layers are not halved.
  const bool layers = Has(whole, CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
  const size_t longest = std::max({whole.Width, whole.Height, layers ? size_t{0} : whole.Depth});
  const unsigned levels = std::clamp(numMipmapLevels, 1u, static_cast<unsigned>(std::bit_width(longest)));
  size_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level) bytes += LevelBytes(Level(whole, level));
  Block* block = nullptr;
  if (const CUresult result = AllocateWithRetry(*context, bytes, Kind::kArray, &block)) return result;
  auto made = std::make_shared<MipmappedArray>();
  made->descriptor = whole;
  made->base = block->base;
  made->context = context;
  uint64_t base = block->base;
  for (unsigned level = 0; level < levels; ++level) {
    made->levels.push_back(AddArray(*context, Level(whole, level), base)->handle);
    base += LevelBytes(Level(whole, level));
  }
  *pHandle = made->handle = All().mipmapped.Add(made);
  return CUDA_SUCCESS;
}

CUresult impl::cuMipmappedArrayGetLevel(CUarray* pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level) {
  SIMCUDA_CURRENT(context);
  const std::shared_ptr<MipmappedArray> array = All().mipmapped.Find(hMipmappedArray);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  if (pLevelArray == nullptr || level >= array->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *pLevelArray = array->levels[level];
  return CUDA_SUCCESS;
}

CUresult impl::cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
  SIMCUDA_CURRENT(context);
  const std::shared_ptr<MipmappedArray> array = All().mipmapped.Find(hMipmappedArray);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  const auto still_there = [&] { return All().mipmapped.Find(hMipmappedArray) == array; };
  if (!ReleaseArrayMemory(*array->context, array->base, still_there)) return CUDA_ERROR_INVALID_HANDLE;
  for (const CUarray level : array->levels) All().arrays.Remove(level);
  All().mipmapped.Remove(hMipmappedArray);
  return context->sticky;
}

// "If the CUDA array is not allocated with flag CUDA_ARRAY3D_DEFERRED_MAPPING (CUDA_ARRAY3D_SPARSE), INVALID_VALUE will
// be returned": no array here is.
CUresult impl::cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS*, CUarray array, CUdevice device) {
  Device* found = nullptr;
  if (const CUresult result = FindDevice(device, &found)) return result;
  return All().arrays.Find(array) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

CUresult impl::cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS*, CUmipmappedArray mipmap,
                                                     CUdevice device) {
  Device* found = nullptr;
  if (const CUresult result = FindDevice(device, &found)) return result;
  return All().mipmapped.Find(mipmap) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

CUresult impl::cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES*, CUarray array) {
  return All().arrays.Find(array) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

CUresult impl::cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES*, CUmipmappedArray mipmap) {
  return All().mipmapped.Find(mipmap) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace simcuda
