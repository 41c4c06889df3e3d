// CUDA arrays, mipmapped arrays, texture and surface objects (Driver API reference 6.13, "Memory Management", and 6.28
// to 6.30). A real array's layout is opaque and its bytes are reached by copies and by kernels' texture units only;
// here it is linear memory of the device that no address of the program names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/copy.h"
#include "tools/simcuda/driver/cuda_api.h"
#include "tools/simcuda/driver/handle_table.h"

namespace simcuda {

struct Array {
  CUarray handle = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  size_t element = 0;  // bytes; 0 for formats of several planes, which are copied plane by plane
  uint64_t base = 0;
  bool owner = false;  // of the memory at `base`; else a plane or a mipmap level
  Context* context = nullptr;
  std::vector<CUarray> planes;

  size_t rows() const { return descriptor.Height == 0 ? 1 : descriptor.Height; }
  size_t slices() const { return descriptor.Depth == 0 ? 1 : descriptor.Depth; }
  size_t row_bytes() const { return descriptor.Width * element; }
  size_t slice_bytes() const { return row_bytes() * rows(); }
  size_t bytes() const { return slice_bytes() * slices(); }
};

struct MipmappedArray {
  CUmipmappedArray handle = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  uint64_t base = 0;
  Context* context = nullptr;
  std::vector<CUarray> levels;
};

struct TextureObject {
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  std::optional<CUDA_RESOURCE_VIEW_DESC> view;
  Context* context = nullptr;
};

struct SurfaceObject {
  CUDA_RESOURCE_DESC resource{};
  Context* context = nullptr;
};

struct Arrays {
  HandleTable<CUarray, Array> arrays{0x55000040, HandleReuse::kRecycled};
  HandleTable<CUmipmappedArray, MipmappedArray> mipmapped{0x56000040, HandleReuse::kRecycled};
  std::map<CUtexObject, TextureObject> textures;
  std::map<CUsurfObject, SurfaceObject> surfaces;
  uint64_t next_object = 1;  // texture and surface objects are small numbers, not pointers

  // The handles of what lies in the context; its memory goes with the context's blocks.
  void ReleaseContext(const Context& context);
};

// Bytes of one element of the format with so many channels. 0: no such format, or one that is not simulated (all but
// one number a channel).
size_t ElementBytes(CUarray_format format, unsigned channels);

// One side of a copy that begins at (x bytes, y, z) of an array and is `copy` large.
// Errors: INVALID_HANDLE (no such array), INVALID_VALUE (leaves the array, x inside an element), NOT_SUPPORTED (several
// planes).
CUresult ArraySide(CUarray handle, size_t x, size_t y, size_t z, const Copy& copy, CopySide* side);

}  // namespace simcuda
