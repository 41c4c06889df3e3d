// CUDA arrays of the simulated driver: shapes, copies on real bytes, mipmaps, planes, textures and surfaces, errors.
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

CUDA_ARRAY3D_DESCRIPTOR Describe(size_t width, size_t height, size_t depth, unsigned flags = 0,
                                 CUarray_format format = CU_AD_FORMAT_UNSIGNED_INT32, unsigned channels = 1) {
  return {width, height, depth, format, channels, flags};
}

CUarray Create(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  CUarray array = nullptr;
  EXPECT_CUDA(cuArray3DCreate(&array, &descriptor));
  return array;
}

CUresult TryCreate(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  CUarray array = nullptr;
  const CUresult result = cuArray3DCreate(&array, &descriptor);
  if (result == CUDA_SUCCESS) {
    EXPECT_CUDA(cuArrayDestroy(array));
  }
  return result;
}

std::vector<unsigned> Numbers(size_t count) {
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1u);
  return numbers;
}

// A copy of a box between packed host memory and an array, x in elements of 4 bytes.
CUDA_MEMCPY3D Box(CUarray array, void* host, bool to_array, size_t width, size_t height, size_t depth) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = to_array ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
  copy.dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
  copy.srcArray = copy.dstArray = array;
  copy.srcHost = host;
  copy.dstHost = host;
  copy.WidthInBytes = width * 4;
  copy.Height = height;
  copy.Depth = depth;
  return copy;
}

TEST(ArrayTest, DescriptorsComeBack) {
  Simulate({}, [] {
    UseDevice();
    CUarray flat = nullptr;
    const CUDA_ARRAY_DESCRIPTOR two = {7, 5, CU_AD_FORMAT_HALF, 4};
    EXPECT_CUDA(cuArrayCreate(&flat, &two));
    CUDA_ARRAY_DESCRIPTOR seen = {};
    EXPECT_CUDA(cuArrayGetDescriptor(&seen, flat));
    EXPECT_EQ(seen.Width, 7u);
    EXPECT_EQ(seen.Height, 5u);
    EXPECT_EQ(seen.Format, CU_AD_FORMAT_HALF);
    EXPECT_EQ(seen.NumChannels, 4u);
    CUDA_ARRAY3D_DESCRIPTOR as_three = {1, 1, 1, CU_AD_FORMAT_FLOAT, 1, 1};
    EXPECT_CUDA(cuArray3DGetDescriptor(&as_three, flat));
    EXPECT_EQ(as_three.Depth, 0u);
    EXPECT_EQ(as_three.Flags, 0u);
    CUarray layered = Create(Describe(8, 4, 3, CUDA_ARRAY3D_LAYERED));
    EXPECT_CUDA(cuArray3DGetDescriptor(&as_three, layered));
    EXPECT_EQ(as_three.Depth, 3u);
    EXPECT_EQ(as_three.Flags, static_cast<unsigned>(CUDA_ARRAY3D_LAYERED));
    EXPECT_CUDA(cuArrayDestroy(flat));
    EXPECT_EQ(cuArrayGetDescriptor(&seen, flat), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuArrayDestroy(flat), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuArrayDestroy(nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CUDA(cuArrayDestroy(layered));
  });
}

TEST(ArrayTest, ShapesThatTheDocumentationExcludesAreRefused) {
  Simulate({}, [] {
    UseDevice();
    EXPECT_EQ(TryCreate(Describe(0, 4, 0)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(TryCreate(Describe(131072, 0, 0)), CUDA_SUCCESS);
    EXPECT_EQ(TryCreate(Describe(131073, 0, 0)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(TryCreate(Describe(4, 0, 4)), CUDA_ERROR_INVALID_VALUE);  // only a layered array may lack a height
    EXPECT_EQ(TryCreate(Describe(4, 0, 4, CUDA_ARRAY3D_LAYERED)), CUDA_SUCCESS);
    EXPECT_EQ(TryCreate(Describe(4, 4, 0, CUDA_ARRAY3D_LAYERED)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(TryCreate(Describe(4, 4, 6, CUDA_ARRAY3D_CUBEMAP)), CUDA_SUCCESS);
    EXPECT_EQ(TryCreate(Describe(4, 5, 6, CUDA_ARRAY3D_CUBEMAP)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(TryCreate(Describe(4, 4, 12, CUDA_ARRAY3D_CUBEMAP)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(TryCreate(Describe(4, 4, 12, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED)), CUDA_SUCCESS);
    EXPECT_EQ(TryCreate(Describe(4, 4, 4, CUDA_ARRAY3D_TEXTURE_GATHER)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(TryCreate(Describe(4, 4, 0, 0, CU_AD_FORMAT_FLOAT, 3)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(TryCreate(Describe(4, 4, 0, 0, CU_AD_FORMAT_UNORM_INT8X4, 2)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(TryCreate(Describe(4, 4, 0, 0x40000000)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(TryCreate(Describe(4, 4, 0, CUDA_ARRAY3D_SPARSE)), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(TryCreate(Describe(4, 4, 0, 0, CU_AD_FORMAT_BC1_UNORM, 4)), CUDA_ERROR_NOT_SUPPORTED);
  });
}

TEST(ArrayTest, MemoryIsChargedAndComesBack) {
  Simulate({{"SIMCUDA_MEMORY", "64MiB"}}, [] {
    UseDevice();
    const size_t before = FreeBytes();
    const CUarray array = Create(Describe(1024, 1024, 0, 0, CU_AD_FORMAT_FLOAT, 4));  // 16 MiB
    EXPECT_EQ(before - FreeBytes(), 16 * kMiB);
    EXPECT_EQ(TryCreate(Describe(4096, 1024, 0, 0, CU_AD_FORMAT_FLOAT, 4)), CUDA_ERROR_OUT_OF_MEMORY);
    CUmipmappedArray mipmapped = nullptr;
    const CUDA_ARRAY3D_DESCRIPTOR whole = Describe(1024, 1024, 0, 0, CU_AD_FORMAT_FLOAT, 4);
    EXPECT_CUDA(cuMipmappedArrayCreate(&mipmapped, &whole, 100));
    EXPECT_EQ(before - FreeBytes(), 16 * kMiB + 22 * kMiB);  // a third more, in whole pages
    EXPECT_CUDA(cuMipmappedArrayDestroy(mipmapped));
    EXPECT_CUDA(cuArrayDestroy(array));
    EXPECT_EQ(FreeBytes(), before);
    CUcontext context = nullptr;
    EXPECT_CUDA(cuCtxCreate(&context, nullptr, 0, 0));
    const CUarray lost = Create(whole);
    EXPECT_CUDA(cuCtxDestroy(context));
    EXPECT_EQ(FreeBytes(), before);
    EXPECT_EQ(cuArrayDestroy(lost), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(ArrayTest, BoxesGoInAndOut) {
  for (const char* order : {"late", "random", "eager"}) {
    Simulate({{"SIMCUDA_ORDER", order}}, [] {
      UseDevice();
      const CUarray array = Create(Describe(8, 6, 4));
      std::vector<unsigned> numbers = Numbers(8 * 6 * 4);
      CUDA_MEMCPY3D in = Box(array, numbers.data(), true, 8, 6, 4);
      EXPECT_CUDA(cuMemcpy3D(&in));
      std::vector<unsigned> part(3 * 2 * 2);
      CUDA_MEMCPY3D out = Box(array, part.data(), false, 3, 2, 2);
      out.srcXInBytes = 2 * 4;
      out.srcY = 1;
      out.srcZ = 2;
      EXPECT_CUDA(cuMemcpy3D(&out));
      for (size_t z = 0; z < 2; ++z) {
        for (size_t y = 0; y < 2; ++y) {
          for (size_t x = 0; x < 3; ++x) {
            EXPECT_EQ(part[(z * 2 + y) * 3 + x], numbers[((z + 2) * 6 + y + 1) * 8 + x + 2]);
          }
        }
      }
      // Into another array, through device memory, in a stream.
      const CUstream stream = MakeStream();
      const CUarray other = Create(Describe(8, 6, 4));
      CUDA_MEMCPY3D across = Box(array, nullptr, true, 8, 6, 4);
      across.srcMemoryType = CU_MEMORYTYPE_ARRAY;
      across.dstArray = other;
      EXPECT_CUDA(cuMemcpy3DAsync(&across, stream));
      unsigned* back = AllocatePinned<unsigned>(numbers.size());
      CUDA_MEMCPY3D read = Box(other, back, false, 8, 6, 4);
      EXPECT_CUDA(cuMemcpy3DAsync(&read, stream));
      EXPECT_CUDA(cuStreamSynchronize(stream));
      EXPECT_EQ(std::memcmp(back, numbers.data(), numbers.size() * 4), 0);
      EXPECT_CUDA(cuArrayDestroy(array));
      EXPECT_CUDA(cuArrayDestroy(other));
    });
  }
}

TEST(ArrayTest, BoxesThatLeaveTheArrayAreRefused) {
  Simulate({}, [] {
    UseDevice();
    const CUarray array = Create(Describe(8, 6, 0));
    std::vector<unsigned> numbers = Numbers(100);
    const auto copy = [&](size_t x, size_t y, size_t z, size_t width, size_t height, size_t depth) {
      CUDA_MEMCPY3D in = Box(array, numbers.data(), true, width, height, depth);
      in.dstXInBytes = x;
      in.dstY = y;
      in.dstZ = z;
      return cuMemcpy3D(&in);
    };
    EXPECT_EQ(copy(0, 0, 0, 8, 6, 1), CUDA_SUCCESS);
    EXPECT_EQ(copy(4, 0, 0, 8, 6, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(copy(2, 0, 0, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);  // inside an element
    EXPECT_EQ(copy(0, 1, 0, 8, 6, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(copy(0, 0, 1, 8, 6, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(copy(SIZE_MAX - 3, 0, 0, 8, 6, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuArrayDestroy(array));
    EXPECT_EQ(copy(0, 0, 0, 8, 6, 1), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(ArrayTest, CopiesByOffset) {
  Simulate({}, [] {
    UseDevice();
    const CUarray row = Create(Describe(16, 0, 0)), other = Create(Describe(16, 0, 0, 0, CU_AD_FORMAT_FLOAT));
    const CUarray bytes = Create(Describe(64, 0, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8)), flat = Create(Describe(4, 4, 0));
    std::vector<unsigned> numbers = Numbers(16), back(16);
    EXPECT_CUDA(cuMemcpyHtoA(row, 0, numbers.data(), 64));
    EXPECT_CUDA(cuMemcpyAtoH(back.data(), row, 8, 16));
    EXPECT_EQ(back[0], 3u);
    EXPECT_EQ(back[3], 6u);
    const CUdeviceptr device = Allocate(64);
    EXPECT_CUDA(cuMemcpyAtoD(device, row, 0, 64));
    EXPECT_CUDA(cuMemcpyDtoA(other, 32, device, 32));
    EXPECT_CUDA(cuMemcpyAtoA(other, 0, row, 32, 32));
    EXPECT_CUDA(cuMemcpyAtoH(back.data(), other, 0, 64));
    EXPECT_EQ(back[0], 9u);
    EXPECT_EQ(back[8], 1u);
    EXPECT_EQ(cuMemcpyAtoA(bytes, 0, row, 0, 16), CUDA_ERROR_INVALID_VALUE);  // elements of another size
    EXPECT_EQ(cuMemcpyAtoD(device, row, 0, 6), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyAtoH(back.data(), row, 32, 36), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyAtoH(back.data(), flat, 0, 16), CUDA_ERROR_INVALID_VALUE);  // not one row
    const CUstream stream = MakeStream();
    unsigned* pinned = AllocatePinned<unsigned>(16);
    std::memcpy(pinned, numbers.data(), 64);
    EXPECT_CUDA(cuMemcpyHtoAAsync(other, 0, pinned, 64, stream));
    EXPECT_CUDA(cuMemcpyAtoHAsync(pinned, other, 4, 4, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(pinned[0], 2u);
  });
}

TEST(ArrayTest, MipmapLevelsAreArraysOfTheirOwn) {
  Simulate({}, [] {
    UseDevice();
    CUmipmappedArray mipmapped = nullptr;
    const CUDA_ARRAY3D_DESCRIPTOR whole = Describe(8, 4, 0);
    EXPECT_CUDA(cuMipmappedArrayCreate(&mipmapped, &whole, 4));
    CUarray level = nullptr, again = nullptr, first = nullptr;
    EXPECT_CUDA(cuMipmappedArrayGetLevel(&first, mipmapped, 0));
    EXPECT_CUDA(cuMipmappedArrayGetLevel(&level, mipmapped, 3));
    EXPECT_CUDA(cuMipmappedArrayGetLevel(&again, mipmapped, 3));
    EXPECT_EQ(level, again);
    EXPECT_EQ(cuMipmappedArrayGetLevel(&again, mipmapped, 4), CUDA_ERROR_INVALID_VALUE);
    CUDA_ARRAY3D_DESCRIPTOR seen = {};
    EXPECT_CUDA(cuArray3DGetDescriptor(&seen, level));
    EXPECT_EQ(seen.Width, 1u);
    EXPECT_EQ(seen.Height, 1u);
    EXPECT_EQ(seen.Depth, 0u);
    std::vector<unsigned> numbers = Numbers(32);
    unsigned one = 77;
    CUDA_MEMCPY3D in = Box(first, numbers.data(), true, 8, 4, 1), small = Box(level, &one, true, 1, 1, 1);
    EXPECT_CUDA(cuMemcpy3D(&in));
    EXPECT_CUDA(cuMemcpy3D(&small));
    std::vector<unsigned> back(32);
    CUDA_MEMCPY3D out = Box(first, back.data(), false, 8, 4, 1);
    EXPECT_CUDA(cuMemcpy3D(&out));
    EXPECT_EQ(back, numbers);
    EXPECT_EQ(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CUDA(cuMipmappedArrayDestroy(mipmapped));
    EXPECT_EQ(cuArray3DGetDescriptor(&seen, level), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuMipmappedArrayDestroy(mipmapped), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(ArrayTest, PlanesOfNv12) {
  Simulate({}, [] {
    UseDevice();
    const CUarray video = Create(Describe(8, 6, 0, 0, CU_AD_FORMAT_NV12, 3));
    CUarray luma = nullptr, chroma = nullptr;
    EXPECT_CUDA(cuArrayGetPlane(&luma, video, 0));
    EXPECT_CUDA(cuArrayGetPlane(&chroma, video, 1));
    EXPECT_EQ(cuArrayGetPlane(&chroma, video, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuArrayGetPlane(&luma, luma, 0), CUDA_ERROR_INVALID_VALUE);  // not of several planes
    CUDA_ARRAY_DESCRIPTOR seen = {};
    EXPECT_CUDA(cuArrayGetDescriptor(&seen, chroma));
    EXPECT_EQ(seen.Width, 4u);
    EXPECT_EQ(seen.Height, 3u);
    EXPECT_EQ(seen.NumChannels, 2u);
    EXPECT_EQ(seen.Format, CU_AD_FORMAT_UNSIGNED_INT8);
    EXPECT_CUDA(cuArrayDestroy(video));
    EXPECT_EQ(cuArrayGetDescriptor(&seen, chroma), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(ArrayTest, NoArrayIsSparseOrMappedLater) {
  Simulate({}, [] {
    UseDevice();
    const CUarray array = Create(Describe(8, 6, 0));
    CUDA_ARRAY_MEMORY_REQUIREMENTS requirements = {};
    CUDA_ARRAY_SPARSE_PROPERTIES sparse = {};
    EXPECT_EQ(cuArrayGetMemoryRequirements(&requirements, array, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuArrayGetSparseProperties(&sparse, array), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuArrayGetSparseProperties(&sparse, nullptr), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(ArrayTest, TextureObjectsRememberTheirDescription) {
  Simulate({}, [] {
    UseDevice();
    const CUarray array = Create(Describe(8, 6, 0));
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    CUDA_TEXTURE_DESC texture = {};
    texture.maxAnisotropy = 4;
    CUtexObject object = 0;
    EXPECT_CUDA(cuTexObjectCreate(&object, &resource, &texture, nullptr));
    CUDA_RESOURCE_DESC seen = {};
    CUDA_TEXTURE_DESC seen_texture = {};
    CUDA_RESOURCE_VIEW_DESC view = {};
    EXPECT_CUDA(cuTexObjectGetResourceDesc(&seen, object));
    EXPECT_EQ(seen.res.array.hArray, array);
    EXPECT_CUDA(cuTexObjectGetTextureDesc(&seen_texture, object));
    EXPECT_EQ(seen_texture.maxAnisotropy, 4u);
    EXPECT_EQ(cuTexObjectGetResourceViewDesc(&view, object), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuTexObjectDestroy(object));
    EXPECT_EQ(cuTexObjectDestroy(object), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuTexObjectGetResourceDesc(&seen, object), CUDA_ERROR_INVALID_VALUE);
    view.format = CU_RES_VIEW_FORMAT_UINT_1X32;
    EXPECT_CUDA(cuTexObjectCreate(&object, &resource, &texture, &view));
    EXPECT_CUDA(cuTexObjectGetResourceViewDesc(&view, object));
    EXPECT_EQ(view.format, CU_RES_VIEW_FORMAT_UINT_1X32);
  });
}

TEST(ArrayTest, TexturesOfLinearMemoryAreChecked) {
  Simulate({}, [] {
    UseDevice();
    const CUdeviceptr memory = Allocate(64 * 1024);
    CUDA_TEXTURE_DESC texture = {};
    CUtexObject object = 0;
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear = {memory, CU_AD_FORMAT_FLOAT, 1, 64 * 1024};
    EXPECT_CUDA(cuTexObjectCreate(&object, &resource, &texture, nullptr));
    resource.res.linear.sizeInBytes = 64 * 1024 + 4;
    EXPECT_EQ(cuTexObjectCreate(&object, &resource, &texture, nullptr), CUDA_ERROR_INVALID_VALUE);
    resource.res.linear = {memory + 16, CU_AD_FORMAT_FLOAT, 1, 1024};
    EXPECT_EQ(cuTexObjectCreate(&object, &resource, &texture, nullptr), CUDA_ERROR_INVALID_VALUE);
    resource.resType = CU_RESOURCE_TYPE_PITCH2D;
    resource.res.pitch2D = {memory, CU_AD_FORMAT_FLOAT, 1, 100, 100, 512};
    EXPECT_CUDA(cuTexObjectCreate(&object, &resource, &texture, nullptr));
    const CUDA_RESOURCE_VIEW_DESC view = {};
    EXPECT_EQ(cuTexObjectCreate(&object, &resource, &texture, &view), CUDA_ERROR_INVALID_VALUE);
    resource.res.pitch2D.pitchInBytes = 500;
    EXPECT_EQ(cuTexObjectCreate(&object, &resource, &texture, nullptr), CUDA_ERROR_INVALID_VALUE);
    resource.res.pitch2D = {memory, CU_AD_FORMAT_FLOAT, 1, 100, 129, 512};
    EXPECT_EQ(cuTexObjectCreate(&object, &resource, &texture, nullptr), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(ArrayTest, SurfacesNeedAnArrayThatWasMadeForThem) {
  Simulate({}, [] {
    UseDevice();
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = Create(Describe(8, 6, 0));
    CUsurfObject object = 0;
    EXPECT_EQ(cuSurfObjectCreate(&object, &resource), CUDA_ERROR_INVALID_VALUE);
    resource.res.array.hArray = Create(Describe(8, 6, 0, CUDA_ARRAY3D_SURFACE_LDST));
    EXPECT_CUDA(cuSurfObjectCreate(&object, &resource));
    CUDA_RESOURCE_DESC seen = {};
    EXPECT_CUDA(cuSurfObjectGetResourceDesc(&seen, object));
    EXPECT_EQ(seen.res.array.hArray, resource.res.array.hArray);
    EXPECT_CUDA(cuSurfObjectDestroy(object));
    EXPECT_EQ(cuSurfObjectDestroy(object), CUDA_ERROR_INVALID_VALUE);
  });
}

}  // namespace
}  // namespace cuheap::testing
