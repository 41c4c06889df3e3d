// The stream-ordered allocator of the simulated driver.
#include <cstring>
#include <set>
#include <string>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

constexpr uint64_t kPage = uint64_t{2} << 20;

CUmemoryPool DefaultPool() {
  CUmemoryPool pool = nullptr;
  EXPECT_CUDA(cuDeviceGetDefaultMemPool(&pool, 0));
  return pool;
}

uint64_t Get(CUmemoryPool pool, CUmemPool_attribute attribute) {
  uint64_t value = 0;
  EXPECT_CUDA(cuMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

CUdeviceptr AllocateIn(CUstream stream, size_t bytes) {
  CUdeviceptr address = 0;
  EXPECT_CUDA(cuMemAllocAsync(&address, bytes, stream));
  return address;
}

CUmemPoolProps PropsOf(int device) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return props;
}

TEST(PoolTest, TheSameStreamReusesAtOnceOthersOnlyAfterTheFreeRan) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUstream a = MakeStream(), b = MakeStream();
    const CUdeviceptr block = AllocateIn(a, 3000);
    EXPECT_CUDA(cuMemFreeAsync(block, a));
    EXPECT_NE(AllocateIn(b, 3000), block);
    const CUdeviceptr again = AllocateIn(a, 3000);
    EXPECT_EQ(again, block);
    EXPECT_CUDA(cuMemFreeAsync(again, a));
    // Waiting runs the free; what stays is for all.
    uint64_t threshold = UINT64_MAX;
    EXPECT_CUDA(cuMemPoolSetAttribute(DefaultPool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    EXPECT_CUDA(cuStreamSynchronize(a));
    EXPECT_EQ(AllocateIn(b, 3000), block);
  });
}

TEST(PoolTest, UsersOfAReusedBlockInStreamOrderDoNotMeet) {
  for (const char* order : {"late", "random", "eager"}) {
    Simulate({{"SIMCUDA_ORDER", order}}, [] {
      UseDevice();
      const CUstream stream = MakeStream();
      auto* results = AllocatePinned<uint32_t>(50);
      for (uint32_t i = 0; i < 50; ++i) {
        const CUdeviceptr block = AllocateIn(stream, 400);
        EXPECT_CUDA(Launch(stream, "simcuda_fill", block, uint64_t{100}, i));
        EXPECT_CUDA(cuMemcpyDtoHAsync(&results[i], block + 396, 4, stream));
        EXPECT_CUDA(cuMemFreeAsync(block, stream));
      }
      EXPECT_CUDA(cuStreamSynchronize(stream));
      for (uint32_t i = 0; i < 50; ++i) EXPECT_EQ(results[i], i);
    });
  }
}

TEST(PoolTest, StatisticsAndThreshold) {
  Simulate({}, [] {
    UseDevice();
    const size_t before = FreeBytes();
    const CUmemoryPool pool = DefaultPool();
    const CUstream stream = MakeStream();
    EXPECT_EQ(Get(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0u);
    const CUdeviceptr a = AllocateIn(stream, 1000), b = AllocateIn(stream, 3 << 20);
    EXPECT_EQ(Get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024u + (3u << 20));
    EXPECT_EQ(Get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 3 * kPage);
    EXPECT_EQ(before - FreeBytes(), 3 * kPage);
    EXPECT_CUDA(cuMemFreeAsync(b, stream));
    EXPECT_EQ(Get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024u);
    EXPECT_EQ(Get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1024u + (3u << 20));
    EXPECT_EQ(Get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 3 * kPage);
    // Unused pages over the threshold go at a synchronisation.
    uint64_t threshold = 2 * kPage;
    EXPECT_CUDA(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(Get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 2 * kPage);
    EXPECT_CUDA(cuMemPoolTrimTo(pool, 0));
    EXPECT_EQ(Get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), kPage);
    EXPECT_EQ(before - FreeBytes(), kPage);
    uint64_t value = 5;
    EXPECT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value), CUDA_ERROR_INVALID_VALUE);
    value = 0;
    EXPECT_CUDA(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
    EXPECT_EQ(Get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1024u);
    EXPECT_EQ(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemFreeAsync(a, stream));
  });
}

TEST(PoolTest, FullDeviceRunsQueuedFreesBeforeItGivesUp) {
  Simulate({{"SIMCUDA_MEMORY", "16MiB"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUstream a = MakeStream(), b = MakeStream();
    const CUdeviceptr block = AllocateIn(a, 16 << 20);
    CUdeviceptr other = 0;
    EXPECT_EQ(cuMemAllocAsync(&other, 512, b), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CUDA(cuMemFreeAsync(block, a));
    EXPECT_CUDA(cuMemAllocAsync(&other, 16 << 20, b));
    EXPECT_EQ(other, block);
    EXPECT_CUDA(cuMemFreeAsync(other, b));
    EXPECT_CUDA(cuStreamSynchronize(b));
    // And what pools keep goes to cuMemAlloc.
    EXPECT_NE(Allocate(16 << 20), 0u);
  });
}

TEST(PoolTest, MixedFrees) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const size_t before = FreeBytes();
    const CUstream stream = MakeStream();
    const CUdeviceptr pooled = AllocateIn(stream, 100), plain = Allocate(4 << 20);
    EXPECT_CUDA(cuMemFree(pooled));
    EXPECT_EQ(cuMemFree(pooled), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemFreeAsync(plain, stream));
    EXPECT_EQ(cuMemFree(plain), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFreeAsync(plain, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(before - FreeBytes(), 3 * kPage);  // the free has not run
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(FreeBytes(), before);
    EXPECT_CUDA(cuMemFreeAsync(0, stream));
    EXPECT_EQ(cuMemFreeAsync(12345, stream), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(PoolTest, OwnPoolsEndWithTheirLastBlock) {
  Simulate({}, [] {
    UseDevice();
    const size_t before = FreeBytes();
    const CUstream stream = MakeStream();
    CUmemoryPool pool = nullptr, current = nullptr;
    CUmemPoolProps props = PropsOf(0);
    props.maxSize = 4 << 20;
    EXPECT_CUDA(cuMemPoolCreate(&pool, &props));
    CUdeviceptr block = 0, other = 0;
    EXPECT_CUDA(cuMemAllocFromPoolAsync(&block, 3 << 20, pool, stream));
    EXPECT_EQ(cuMemAllocFromPoolAsync(&other, 2 << 20, pool, stream), CUDA_ERROR_OUT_OF_MEMORY);
    CUmemoryPool owner = nullptr;
    EXPECT_CUDA(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block));
    EXPECT_EQ(owner, pool);
    CUcontext context = nullptr;
    EXPECT_CUDA(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, block));
    EXPECT_EQ(context, nullptr);
    EXPECT_CUDA(cuDeviceSetMemPool(0, pool));
    EXPECT_CUDA(cuDeviceGetMemPool(&current, 0));
    EXPECT_EQ(current, pool);
    EXPECT_CUDA(cuMemPoolDestroy(pool));
    EXPECT_CUDA(cuDeviceGetMemPool(&current, 0));
    EXPECT_EQ(current, DefaultPool());
    EXPECT_EQ(before - FreeBytes(), 2 * kPage);
    EXPECT_EQ(cuMemAllocFromPoolAsync(&other, 1, pool, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemFreeAsync(block, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(FreeBytes(), before);
    EXPECT_EQ(cuMemPoolDestroy(DefaultPool()), CUDA_ERROR_INVALID_VALUE);
    props.handleTypes = CU_MEM_HANDLE_TYPE_WIN32;
    EXPECT_EQ(cuMemPoolCreate(&pool, &props), CUDA_ERROR_NOT_SUPPORTED);
  });
}

TEST(PoolTest, PoolMemoryOutlivesTheContext) {
  Simulate({}, [] {
    UseDevice();
    const CUdeviceptr block = AllocateIn(nullptr, 1000);
    EXPECT_CUDA(cuDevicePrimaryCtxReset(0));
    UseDevice();
    uint32_t word = 1;
    EXPECT_CUDA(cuMemcpyHtoD(block, &word, 4));
    EXPECT_CUDA(cuMemFreeAsync(block, nullptr));
  });
}

TEST(PoolTest, AccessOfOtherDevices) {
  Simulate({{"SIMCUDA_DEVICES", "2"}}, [] {
    UseDevice();
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    EXPECT_CUDA(cuMemPoolGetAccess(&flags, DefaultPool(), &access.location));
    EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    EXPECT_CUDA(cuMemPoolSetAccess(DefaultPool(), &access, 1));
    EXPECT_CUDA(cuMemPoolGetAccess(&flags, DefaultPool(), &access.location));
    EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    access.location.id = 0;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    EXPECT_EQ(cuMemPoolSetAccess(DefaultPool(), &access, 1), CUDA_ERROR_INVALID_VALUE);
  });
}

}  // namespace
}  // namespace cuheap::testing
