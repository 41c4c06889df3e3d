// What a memset or a copy touches of the pools' memory: a range that leaves its block is refused, as the driver refuses
// it where every block is an allocation of its own. Otherwise it would reach the neighbours in a slab, or memory that
// is cached for others.
#ifndef CUHEAP_INTERPOSE_WORK_RANGES_H_
#define CUHEAP_INTERPOSE_WORK_RANGES_H_

#include <cstddef>
#include <cstdint>

#include "interpose/cuda_api.h"
#include "interpose/router.h"

namespace cuheap {

// ---- RangesAllowed(router, arguments of the function): one overload a signature; all others touch nothing of ours
// ----

template <class... Args>
bool RangesAllowed(const Router&, const Args&...) {
  return true;
}

// Copies between linear memory: to the device, to the host, within the device or wherever the addresses lie.
inline bool RangesAllowed(const Router& router, CUdeviceptr to, const void*, std::size_t bytes) {
  return router.RangeAllowed(to, bytes);
}
inline bool RangesAllowed(const Router& router, void*, CUdeviceptr from, std::size_t bytes) {
  return router.RangeAllowed(from, bytes);
}
inline bool RangesAllowed(const Router& router, CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return router.RangeAllowed(to, bytes) && router.RangeAllowed(from, bytes);
}
inline bool RangesAllowed(const Router& router, CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext,
                          std::size_t bytes) {
  return router.RangeAllowed(to, bytes) && router.RangeAllowed(from, bytes);
}
// To and from arrays.
inline bool RangesAllowed(const Router& router, CUdeviceptr to, CUarray, std::size_t, std::size_t bytes) {
  return router.RangeAllowed(to, bytes);
}
inline bool RangesAllowed(const Router& router, CUarray, std::size_t, CUdeviceptr from, std::size_t bytes) {
  return router.RangeAllowed(from, bytes);
}

// `count` steps of `step` bytes and `last` more; SIZE_MAX if that is beyond all numbers, where no block is as large.
inline std::size_t Reach(std::size_t count, std::size_t step, std::size_t last) {
  std::size_t bytes = 0;
  return __builtin_mul_overflow(count, step, &bytes) || __builtin_add_overflow(bytes, last, &bytes) ? SIZE_MAX : bytes;
}

// Memsets: `count` elements, or rows of them.
inline bool RangesAllowed(const Router& router, CUdeviceptr to, unsigned char, std::size_t count) {
  return router.RangeAllowed(to, count);
}
inline bool RangesAllowed(const Router& router, CUdeviceptr to, unsigned short, std::size_t count) {  // NOLINT
  return router.RangeAllowed(to, Reach(count, 2, 0));
}
inline bool RangesAllowed(const Router& router, CUdeviceptr to, unsigned int, std::size_t count) {
  return router.RangeAllowed(to, Reach(count, 4, 0));
}
inline bool RowsAllowed(const Router& router, CUdeviceptr first, std::size_t pitch, std::size_t width,
                        std::size_t height) {
  return width == 0 || height == 0 || router.RangeAllowed(first, Reach(height - 1, pitch, width));
}
template <class Element>
bool RowsOf(const Router& router, CUdeviceptr to, std::size_t pitch, std::size_t width, std::size_t height) {
  return RowsAllowed(router, to, pitch, Reach(width, sizeof(Element), 0), height);
}
inline bool RangesAllowed(const Router& router, CUdeviceptr to, std::size_t pitch, unsigned char, std::size_t width,
                          std::size_t height) {
  return RowsOf<unsigned char>(router, to, pitch, width, height);
}
inline bool RangesAllowed(const Router& router, CUdeviceptr to, std::size_t pitch, unsigned short,  // NOLINT
                          std::size_t width, std::size_t height) {
  return RowsOf<unsigned short>(router, to, pitch, width, height);  // NOLINT: the driver's type
}
inline bool RangesAllowed(const Router& router, CUdeviceptr to, std::size_t pitch, unsigned int, std::size_t width,
                          std::size_t height) {
  return RowsOf<unsigned int>(router, to, pitch, width, height);
}

// Copies of rows and solids. A pitch of 0 is that of the width, as documented.
inline bool IsLinear(CUmemorytype type) { return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED; }

inline bool RangesAllowed(const Router& router, const CUDA_MEMCPY2D* copy) {
  if (copy == nullptr) return true;
  const auto side = [&](CUmemorytype type, CUdeviceptr base, std::size_t given, std::size_t x, std::size_t y) {
    const std::size_t pitch = given != 0 ? given : copy->WidthInBytes + x;
    return !IsLinear(type) || RowsAllowed(router, base + y * pitch + x, pitch, copy->WidthInBytes, copy->Height);
  };
  return side(copy->srcMemoryType, copy->srcDevice, copy->srcPitch, copy->srcXInBytes, copy->srcY) &&
         side(copy->dstMemoryType, copy->dstDevice, copy->dstPitch, copy->dstXInBytes, copy->dstY);
}

template <class Solid>
bool SolidAllowed(const Router& router, const Solid* copy) {
  if (copy == nullptr || copy->Height == 0 || copy->Depth == 0) return true;
  const auto side = [&](CUmemorytype type, CUdeviceptr base, std::size_t given_pitch, std::size_t given_height,
                        std::size_t x, std::size_t y, std::size_t z) {
    const std::size_t pitch = given_pitch != 0 ? given_pitch : copy->WidthInBytes + x;
    const std::size_t slice = Reach(given_height != 0 ? given_height : copy->Height + y, pitch, 0);
    const std::size_t extent = Reach(copy->Depth - 1, slice, Reach(copy->Height - 1, pitch, copy->WidthInBytes));
    return !IsLinear(type) || copy->WidthInBytes == 0 || router.RangeAllowed(base + z * slice + y * pitch + x, extent);
  };
  return side(copy->srcMemoryType, copy->srcDevice, copy->srcPitch, copy->srcHeight, copy->srcXInBytes, copy->srcY,
              copy->srcZ) &&
         side(copy->dstMemoryType, copy->dstDevice, copy->dstPitch, copy->dstHeight, copy->dstXInBytes, copy->dstY,
              copy->dstZ);
}
inline bool RangesAllowed(const Router& router, const CUDA_MEMCPY3D* copy) { return SolidAllowed(router, copy); }
inline bool RangesAllowed(const Router& router, const CUDA_MEMCPY3D_PEER* copy) { return SolidAllowed(router, copy); }

// The same in a stream.
inline bool RangesAllowed(const Router& router, CUdeviceptr to, const void* from, std::size_t bytes, CUstream) {
  return RangesAllowed(router, to, from, bytes);
}
inline bool RangesAllowed(const Router& router, void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
  return RangesAllowed(router, to, from, bytes);
}
inline bool RangesAllowed(const Router& router, CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
  return RangesAllowed(router, to, from, bytes);
}
inline bool RangesAllowed(const Router& router, CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                          CUcontext from_context, std::size_t bytes, CUstream) {
  return RangesAllowed(router, to, to_context, from, from_context, bytes);
}
inline bool RangesAllowed(const Router& router, CUdeviceptr to, unsigned char value, std::size_t count, CUstream) {
  return RangesAllowed(router, to, value, count);
}
inline bool RangesAllowed(const Router& router, CUdeviceptr to, unsigned short value, std::size_t count,  // NOLINT
                          CUstream) {
  return RangesAllowed(router, to, value, count);
}
inline bool RangesAllowed(const Router& router, CUdeviceptr to, unsigned int value, std::size_t count, CUstream) {
  return RangesAllowed(router, to, value, count);
}
template <class Element>
bool RangesAllowed(const Router& router, CUdeviceptr to, std::size_t pitch, Element value, std::size_t width,
                   std::size_t height, CUstream) {
  return RangesAllowed(router, to, pitch, value, width, height);
}
template <class Copy>
bool RangesAllowed(const Router& router, const Copy* copy, CUstream) {
  return RangesAllowed(router, copy);
}

}  // namespace cuheap

#endif  // CUHEAP_INTERPOSE_WORK_RANGES_H_
