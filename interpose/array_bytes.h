// The bytes of a CUDA array as its descriptor tells; the driver may pad.
// Source: CUDA Driver API, cuArray3DCreate (which extents may be 0, and what that means).
#ifndef CUHEAP_INTERPOSE_ARRAY_BYTES_H_
#define CUHEAP_INTERPOSE_ARRAY_BYTES_H_

#include <algorithm>
#include <cstdint>

#include "interpose/cuda_api.h"

namespace cuheap {

// Bytes of one channel; 0 for formats that are not one number a channel (block-compressed, video): their size is not
// told.
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

inline std::uint64_t ArrayBytes(const CUDA_ARRAY_DESCRIPTOR& array) {
  return array.Width * std::max<std::uint64_t>(array.Height, 1) * array.NumChannels * ChannelBytes(array.Format);
}

inline std::uint64_t ArrayBytes(const CUDA_ARRAY3D_DESCRIPTOR& array) {
  return array.Width * std::max<std::uint64_t>(array.Height, 1) * std::max<std::uint64_t>(array.Depth, 1) *
         array.NumChannels * ChannelBytes(array.Format);
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
