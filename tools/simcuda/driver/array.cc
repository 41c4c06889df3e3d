#include "tools/simcuda/driver/array.h"

#include "tools/simcuda/driver/state.h"

namespace simcuda {

void Arrays::ReleaseContext(const Context& context) {
  arrays.RemoveIf([&](const Array& array) { return array.context == &context; });
  mipmapped.RemoveIf([&](const MipmappedArray& array) { return array.context == &context; });
  std::erase_if(textures, [&](const auto& entry) { return entry.second.context == &context; });
  std::erase_if(surfaces, [&](const auto& entry) { return entry.second.context == &context; });
}

size_t ElementBytes(CUarray_format format, unsigned channels) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return size_t{2} * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return size_t{4} * channels;
    // These name their channels.
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
      return channels == 1 ? 1 : 0;
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X2:
      return channels == 2 ? 2 : 0;
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT_101010_2:
      return channels == 4 ? 4 : 0;
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
      return channels == 1 ? 2 : 0;
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X2:
      return channels == 2 ? 4 : 0;
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return channels == 4 ? 8 : 0;
    default:
      return 0;
  }
}

CUresult ArraySide(CUarray handle, size_t x, size_t y, size_t z, const Copy& copy, CopySide* side) {
  const std::shared_ptr<Array> array = State::Get().arrays.arrays.Find(handle);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  if (array->element == 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (x % array->element != 0) return CUDA_ERROR_INVALID_VALUE;
  // Each sum may overflow: what is left of the array is compared instead.
  if (x > array->row_bytes() || copy.width > array->row_bytes() - x) return CUDA_ERROR_INVALID_VALUE;
  if (y > array->rows() || copy.height > array->rows() - y) return CUDA_ERROR_INVALID_VALUE;
  if (z > array->slices() || copy.depth > array->slices() - z) return CUDA_ERROR_INVALID_VALUE;
  side->address = array->base + z * array->slice_bytes() + y * array->row_bytes() + x;
  side->pitch = array->row_bytes();
  side->slice = array->slice_bytes();
  side->expected = Expected::kArray;
  side->array = handle;
  side->x = x;
  side->y = y;
  side->z = z;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
