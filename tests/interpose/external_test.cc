// Memory of other interfaces and processes, and multicast objects: recorded under kinds that no device counts.
#include "interpose/array_bytes.h"
#include "tests/interpose/router_fixture.h"

namespace cuheap::testing {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
const auto kResource = reinterpret_cast<CUgraphicsResource>(0x61);
constexpr CUmemGenericAllocationHandle kHandle = 0x71;

class ExternalTest : public RouterTest {
 protected:
  CUresult MappedPointer(CUdeviceptr* out, std::size_t* bytes) {
    const auto real = +[](CUdeviceptr* address, std::size_t* size, CUgraphicsResource) {
      if (address != nullptr) *address = next_address;
      if (size != nullptr) *size = 4096;
      return CUDA_SUCCESS;
    };
    return Handler<Effect::kMapGraphics>::Call(router(), HookId::cuGraphicsResourceGetMappedPointer_v2, real, out,
                                               bytes, kResource);
  }
  CUresult Unmap(CUresult result) {
    next_launch = result;
    CUgraphicsResource resource = kResource;
    const auto real = +[](unsigned int, CUgraphicsResource*, CUstream) { return next_launch; };
    return Handler<Effect::kUnmapGraphics>::Call(router(), HookId::cuGraphicsUnmapResources, real, 1u, &resource,
                                                 kStream);
  }
  journal::AllocationKind KindOf(std::uint64_t address) {
    return recorder_.live.contains(address) ? recorder_.live[address].kind : journal::AllocationKind::kNone;
  }

  static inline CUdeviceptr next_address = 0x5000;
};

TEST_F(ExternalTest, AMappedGraphicsResourceIsRecordedOnceUntilItIsUnmapped) {
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(MappedPointer(&address, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(address, 0x5000u);
  EXPECT_EQ(bytes, 4096u);
  EXPECT_EQ(KindOf(0x5000), journal::AllocationKind::kExternal);
  EXPECT_EQ(recorder_.live[0x5000].bytes, 4096u);
  EXPECT_EQ(MappedPointer(&address, nullptr), CUDA_SUCCESS);  // asked again
  EXPECT_EQ(Calls("Allocated"), 1);
  EXPECT_EQ(Unmap(CUDA_ERROR_INVALID_VALUE), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(KindOf(0x5000), journal::AllocationKind::kExternal);
  EXPECT_EQ(Unmap(CUDA_SUCCESS), CUDA_SUCCESS);
  EXPECT_TRUE(recorder_.live.empty());
  next_address = 0x6000;  // mapped again, elsewhere
  EXPECT_EQ(MappedPointer(&address, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(KindOf(0x6000), journal::AllocationKind::kExternal);
  const auto unregister = +[](CUgraphicsResource) { return CUDA_SUCCESS; };
  EXPECT_EQ(
      Handler<Effect::kUnregisterGraphics>::Call(router(), HookId::cuGraphicsUnregisterResource, unregister, kResource),
      CUDA_SUCCESS);
  EXPECT_TRUE(recorder_.live.empty());
}

TEST_F(ExternalTest, AQuestionForTheSizeAloneRecordsNothing) {
  std::size_t bytes = 0;
  EXPECT_EQ(MappedPointer(nullptr, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 4096u);
  EXPECT_EQ(Calls("Allocated"), 0);
}

TEST_F(ExternalTest, ExternalMipmappedArraysAreNotTheProgramsArrays) {
  const auto map = +[](CUmipmappedArray* out, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC*) {
    return *out = reinterpret_cast<CUmipmappedArray>(0x81), CUDA_SUCCESS;
  };
  CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC description = {};
  description.arrayDesc.Width = 8;
  description.arrayDesc.Height = 8;
  description.arrayDesc.Format = CU_AD_FORMAT_FLOAT;
  description.arrayDesc.NumChannels = 1;
  description.numLevels = 2;
  CUmipmappedArray array = nullptr;
  EXPECT_EQ(Handler<Effect::kMapExternalArray>::Call(router(), HookId::cuExternalMemoryGetMappedMipmappedArray, map,
                                                     &array, nullptr, &description),
            CUDA_SUCCESS);
  EXPECT_EQ(KindOf(0x81), journal::AllocationKind::kExternalArray);
  EXPECT_EQ(recorder_.live[0x81].bytes, 8u * 8 * 4 + 4 * 4 * 4);
  EXPECT_FALSE(journal::IsDeviceMemory(KindOf(0x81)));
  const auto destroy = +[](CUmipmappedArray) { return CUDA_SUCCESS; };
  EXPECT_EQ(Handler<Effect::kDestroyMipmappedArray>::Call(router(), HookId::cuMipmappedArrayDestroy, destroy, array),
            CUDA_SUCCESS);
  EXPECT_TRUE(recorder_.live.empty());
}

// A driver that refuses without reading what it was given: then nobody may read it.
TEST_F(ExternalTest, DescriptionsAreReadOnlyIfTheDriverHasReadThem) {
  const auto wild = [](auto* null) { return reinterpret_cast<decltype(null)>(std::uintptr_t{8}); };
  const auto refuse = [](auto...) { return CUDA_ERROR_INVALID_VALUE; };
  CUarray array = nullptr;
  CUmipmappedArray mipmapped = nullptr;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(Handler<Effect::kCreatePhysical>::Call(router(), HookId::cuMemCreate, refuse, &handle, 2 * kMiB,
                                                   wild(static_cast<CUmemAllocationProp*>(nullptr)), 0ull),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Handler<Effect::kCreateMulticast>::Call(router(), HookId::cuMulticastCreate, refuse, &handle,
                                                    wild(static_cast<CUmulticastObjectProp*>(nullptr))),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Handler<Effect::kCreateArray>::Call(router(), HookId::cuArrayCreate_v2, refuse, &array,
                                                wild(static_cast<CUDA_ARRAY_DESCRIPTOR*>(nullptr))),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Handler<Effect::kCreateMipmappedArray>::Call(router(), HookId::cuMipmappedArrayCreate, refuse, &mipmapped,
                                                         wild(static_cast<CUDA_ARRAY3D_DESCRIPTOR*>(nullptr)), 3u),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Handler<Effect::kMapExternal>::Call(router(), HookId::cuExternalMemoryGetMappedBuffer, refuse, &address,
                                                nullptr, wild(static_cast<CUDA_EXTERNAL_MEMORY_BUFFER_DESC*>(nullptr))),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Handler<Effect::kMapExternalArray>::Call(
                router(), HookId::cuExternalMemoryGetMappedMipmappedArray, refuse, &mipmapped, nullptr,
                wild(static_cast<CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC*>(nullptr))),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Calls("AllocationFailed"), 6);
}

TEST_F(ExternalTest, AMulticastObjectLivesUntilItIsReleasedAndUnmapped) {
  const auto create =
      +[](CUmemGenericAllocationHandle* out, const CUmulticastObjectProp*) { return *out = kHandle, CUDA_SUCCESS; };
  CUmulticastObjectProp properties = {};
  properties.size = 2 * kMiB;
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(Handler<Effect::kCreateMulticast>::Call(router(), HookId::cuMulticastCreate, create, &handle, &properties),
            CUDA_SUCCESS);
  EXPECT_EQ(KindOf(kHandle), journal::AllocationKind::kMulticast);
  EXPECT_EQ(recorder_.live[kHandle].bytes, 2 * kMiB);
  const auto map = +[](CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle, unsigned long long) {
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(Handler<Effect::kMapPhysical>::Call(router(), HookId::cuMemMap, map, CUdeviceptr{0x200000}, 2 * kMiB,
                                                std::size_t{0}, handle, 0ull),
            CUDA_SUCCESS);
  const auto release = +[](CUmemGenericAllocationHandle) { return CUDA_SUCCESS; };
  EXPECT_EQ(Handler<Effect::kReleasePhysical>::Call(router(), HookId::cuMemRelease, release, handle), CUDA_SUCCESS);
  EXPECT_EQ(KindOf(kHandle), journal::AllocationKind::kMulticast);
  const auto unmap = +[](CUdeviceptr, std::size_t) { return CUDA_SUCCESS; };
  EXPECT_EQ(Handler<Effect::kUnmapPhysical>::Call(router(), HookId::cuMemUnmap, unmap, CUdeviceptr{0x200000}, 2 * kMiB),
            CUDA_SUCCESS);
  EXPECT_TRUE(recorder_.live.empty());
}

TEST_F(ExternalTest, ABoundBlockOfThePoolIsNeverReused) {
  static CUdeviceptr bound = 0;
  const auto bind = +[](CUmemGenericAllocationHandle, std::size_t, CUdeviceptr address, std::size_t,
                        unsigned long long) { return bound = address, CUDA_SUCCESS; };
  const auto call = [&](CUdeviceptr address, std::size_t bytes) {
    return Handler<Effect::kBindAddress>::Call(router(), HookId::cuMulticastBindAddr, bind, kHandle, std::size_t{0},
                                               address, bytes, 0ull);
  };
  const CUdeviceptr address = MustAllocate(1000);
  EXPECT_EQ(call(address, 1000), CUDA_SUCCESS);
  EXPECT_EQ(bound, address);
  EXPECT_EQ(call(address, 1001), CUDA_SUCCESS);
  EXPECT_NE(bound, address);  // beyond the block: the driver is asked of an address that it does not know
  EXPECT_EQ(Free(address), CUDA_SUCCESS);
  EXPECT_EQ(call(address, 1000), CUDA_SUCCESS);
  EXPECT_NE(bound, address);
  EXPECT_EQ(Synchronize(), CUDA_SUCCESS);
  EXPECT_NE(MustAllocate(1000), address);
  EXPECT_EQ(call(0x123456, 1000), CUDA_SUCCESS);  // the driver's own
  EXPECT_EQ(bound, 0x123456u);
}

TEST_F(ExternalTest, ImportedPhysicalMemoryIsNotThisProcesss) {
  const auto import =
      +[](CUmemGenericAllocationHandle* out, void*, CUmemAllocationHandleType) { return *out = kHandle, CUDA_SUCCESS; };
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(Handler<Effect::kImportPhysical>::Call(router(), HookId::cuMemImportFromShareableHandle, import, &handle,
                                                   nullptr, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  EXPECT_EQ(KindOf(kHandle), journal::AllocationKind::kImportedVirtual);
  EXPECT_EQ(recorder_.live[kHandle].bytes, 0u);  // nobody tells
  EXPECT_FALSE(journal::IsDeviceMemory(KindOf(kHandle)));
  // The same allocation again: one more use of one handle.
  EXPECT_EQ(Handler<Effect::kImportPhysical>::Call(router(), HookId::cuMemImportFromShareableHandle, import, &handle,
                                                   nullptr, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  EXPECT_EQ(Calls("Allocated"), 1);
  const auto release = +[](CUmemGenericAllocationHandle) { return CUDA_SUCCESS; };
  EXPECT_EQ(Handler<Effect::kReleasePhysical>::Call(router(), HookId::cuMemRelease, release, handle), CUDA_SUCCESS);
  EXPECT_EQ(KindOf(kHandle), journal::AllocationKind::kImportedVirtual);
  EXPECT_EQ(Handler<Effect::kReleasePhysical>::Call(router(), HookId::cuMemRelease, release, handle), CUDA_SUCCESS);
  EXPECT_TRUE(recorder_.live.empty());
}

CUDA_ARRAY3D_DESCRIPTOR Describe(std::size_t width, std::size_t height, std::size_t depth, CUarray_format format,
                                 unsigned channels, unsigned flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR array = {};
  array.Width = width;
  array.Height = height;
  array.Depth = depth;
  array.Format = format;
  array.NumChannels = channels;
  array.Flags = flags;
  return array;
}

TEST(ArrayBytes, FollowTheFormat) {
  EXPECT_EQ(ArrayBytes(Describe(10, 0, 0, CU_AD_FORMAT_HALF, 4)), 10u * 4 * 2);
  EXPECT_EQ(ArrayBytes(Describe(10, 6, 0, CU_AD_FORMAT_UNORM_INT8X4, 4)), 10u * 6 * 4);
  EXPECT_EQ(ArrayBytes(Describe(10, 6, 2, CU_AD_FORMAT_UNORM_INT_101010_2, 4)), 10u * 6 * 2 * 4);
  EXPECT_EQ(ArrayBytes(Describe(10, 6, 0, CU_AD_FORMAT_BC1_UNORM, 4)), 3u * 2 * 8);
  EXPECT_EQ(ArrayBytes(Describe(8, 8, 2, CU_AD_FORMAT_BC7_UNORM, 4)), 2u * 2 * 2 * 16);
  EXPECT_EQ(ArrayBytes(Describe(10, 6, 0, CU_AD_FORMAT_NV12, 3)), 0u);  // not known
}

TEST(ArrayBytes, MemoryThatIsMappedLaterIsNotTheArrays) {
  EXPECT_EQ(ArrayBytes(Describe(8, 8, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SPARSE)), 0u);
  EXPECT_EQ(MipmappedArrayBytes(Describe(8, 8, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_DEFERRED_MAPPING), 3), 0u);
}

}  // namespace
}  // namespace cuheap::testing
