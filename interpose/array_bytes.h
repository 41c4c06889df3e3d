// The bytes of a CUDA array as its descriptor tells; the driver may pad.
// Source: CUDA Driver API, cuArray3DCreate (which extents may be 0, and what that means), CUarray_format.
#ifndef CUHEAP_INTERPOSE_ARRAY_BYTES_H_
#define CUHEAP_INTERPOSE_ARRAY_BYTES_H_

#include <algorithm>
#include <cstdint>

#include "interpose/cuda_api.h"

namespace cuheap {

// Bytes of one channel of the formats that leave the number of channels to the descriptor; 0 for all others.
inline std::uint64_t ChannelBytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

// Bytes of one element of the formats that name their channels; 0 for those that are not so many bytes an element.
inline std::uint64_t WholeElementBytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
      return 1;
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
      return 2;
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT_101010_2:
      return 4;
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return 8;
    default:
      return 0;
  }
}

// Bytes of a block of 4 x 4 elements; 0 for formats that are not block-compressed.
inline std::uint64_t CompressedBlockBytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_BC1_UNORM:
    case CU_AD_FORMAT_BC1_UNORM_SRGB:
    case CU_AD_FORMAT_BC4_UNORM:
    case CU_AD_FORMAT_BC4_SNORM:
      return 8;
    case CU_AD_FORMAT_BC2_UNORM:
    case CU_AD_FORMAT_BC2_UNORM_SRGB:
    case CU_AD_FORMAT_BC3_UNORM:
    case CU_AD_FORMAT_BC3_UNORM_SRGB:
    case CU_AD_FORMAT_BC5_UNORM:
    case CU_AD_FORMAT_BC5_SNORM:
    case CU_AD_FORMAT_BC6H_UF16:
    case CU_AD_FORMAT_BC6H_SF16:
    case CU_AD_FORMAT_BC7_UNORM:
    case CU_AD_FORMAT_BC7_UNORM_SRGB:
      return 16;
    default:
      return 0;
  }
}

// One level. 0: not known (video formats, whose layout is the driver's).
inline std::uint64_t ArrayBytes(CUarray_format format, unsigned channels, std::uint64_t width, std::uint64_t height,
                                std::uint64_t depth) {
  height = std::max<std::uint64_t>(height, 1);
  depth = std::max<std::uint64_t>(depth, 1);
  if (const std::uint64_t block = CompressedBlockBytes(format); block != 0) {
    return (width + 3) / 4 * ((height + 3) / 4) * depth * block;
  }
  const std::uint64_t whole = WholeElementBytes(format);
  return width * height * depth * (whole != 0 ? whole : channels * ChannelBytes(format));
}

inline std::uint64_t ArrayBytes(const CUDA_ARRAY_DESCRIPTOR& array) {
  return ArrayBytes(array.Format, array.NumChannels, array.Width, array.Height, 1);
}

// Sparse arrays and those whose memory is mapped later have none of their own.
inline bool HasOwnMemory(const CUDA_ARRAY3D_DESCRIPTOR& array) {
  return (array.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) == 0;
}

inline std::uint64_t ArrayBytes(const CUDA_ARRAY3D_DESCRIPTOR& array) {
  if (!HasOwnMemory(array)) return 0;
  return ArrayBytes(array.Format, array.NumChannels, array.Width, array.Height, array.Depth);
}

inline std::uint64_t MipmappedArrayBytes(CUDA_ARRAY3D_DESCRIPTOR array, unsigned levels) {
  const bool layered = (array.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  std::uint64_t bytes = 0;
  for (unsigned level = 0; level < std::min(levels, 64u); ++level) {
    bytes += ArrayBytes(array);
    array.Width = std::max<std::size_t>(array.Width / 2, 1);
    if (array.Height > 1) array.Height /= 2;
    if (array.Depth > 1 && !layered) array.Depth /= 2;
  }
  return bytes;
}

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_ARRAY_BYTES_H_
