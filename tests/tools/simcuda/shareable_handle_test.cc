// File descriptors that stand for pools (Driver API reference 6.17) and for physical memory (6.14).
#include <fcntl.h>

#include <vector>

#include "tests/tools/simcuda/two_processes.h"

namespace cuheap::testing {
namespace {

constexpr size_t kPage = size_t{2} << 20;
constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

void* AsHandle(int descriptor) { return reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)); }

void Write(CUdeviceptr to, uint32_t word) { EXPECT_CUDA(cuMemcpyHtoD(to, &word, sizeof word)); }

uint32_t Read(CUdeviceptr from) {
  uint32_t word = 0;
  EXPECT_CUDA(cuMemcpyDtoH(&word, from, sizeof word));
  return word;
}

CUmemoryPool MakePool(CUmemAllocationHandleType type = kDescriptor) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = type;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  EXPECT_CUDA(cuMemPoolCreate(&pool, &props));
  return pool;
}

CUdeviceptr AllocateFrom(CUmemoryPool pool, size_t bytes) {
  CUdeviceptr address = 0;
  EXPECT_CUDA(cuMemAllocFromPoolAsync(&address, bytes, pool, nullptr));
  return address;
}

TEST(ShareablePoolTest, PointersAreImported) {
  SimulateTwo(
      {},
      [](Line& line) {
        UseDevice();
        CUmemoryPool pool = MakePool();
        int descriptor = -1;
        EXPECT_CUDA(cuMemPoolExportToShareableHandle(&descriptor, pool, kDescriptor, 0));
        line.SendDescriptor(descriptor);
        close(descriptor);
        const CUdeviceptr first = AllocateFrom(pool, 1000), second = AllocateFrom(pool, 3 * kPage);
        Write(first, 1);
        Write(second + 2 * kPage, 2);
        EXPECT_CUDA(cuStreamSynchronize(nullptr));
        for (const CUdeviceptr each : {first, second}) {
          CUmemPoolPtrExportData data{};
          EXPECT_CUDA(cuMemPoolExportPointer(&data, each));
          line.Send(data);
        }
        line.Meet();
        EXPECT_EQ(Read(first), 3u);
        EXPECT_EQ(Read(first + 4), 0u);
        line.Meet();
        EXPECT_CUDA(cuMemFreeAsync(first, nullptr));
        EXPECT_CUDA(cuMemFreeAsync(second, nullptr));
        EXPECT_CUDA(cuStreamSynchronize(nullptr));
        // "The cudaMemPoolTrimTo API acts as a no-op."
        EXPECT_CUDA(cuMemPoolTrimTo(pool, 0));
        uint64_t reserved = 0;
        EXPECT_CUDA(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
        EXPECT_GE(reserved, 4 * kPage);
        const size_t before = FreeBytes();
        EXPECT_CUDA(cuMemPoolDestroy(pool));
        EXPECT_EQ(FreeBytes(), before + reserved);
        // Its pages are fresh ones for the next owner.
        EXPECT_EQ(Read(Allocate(4 * kPage)), 0u);
      },
      [](Line& line) {
        UseDevice();
        const int descriptor = line.ReceiveDescriptor();
        CUmemoryPool pool = nullptr;
        EXPECT_CUDA(cuMemPoolImportFromShareableHandle(&pool, AsHandle(descriptor), kDescriptor, 0));
        close(descriptor);
        CUdeviceptr first = 0, second = 0;
        auto data = line.Receive<CUmemPoolPtrExportData>();
        EXPECT_CUDA(cuMemPoolImportPointer(&first, pool, &data));
        data = line.Receive<CUmemPoolPtrExportData>();
        EXPECT_CUDA(cuMemPoolImportPointer(&second, pool, &data));
        EXPECT_EQ(Read(first), 1u);
        EXPECT_EQ(Read(second + 2 * kPage), 2u);
        CUmemoryPool told = nullptr;
        EXPECT_CUDA(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, first));
        EXPECT_EQ(told, pool);
        CUdeviceptr none = 0;
        EXPECT_EQ(cuMemAllocFromPoolAsync(&none, 100, pool, nullptr), CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(cuMemPoolExportPointer(&data, first), CUDA_ERROR_INVALID_VALUE);
        data.reserved[0] ^= 1;
        EXPECT_EQ(cuMemPoolImportPointer(&none, pool, &data), CUDA_ERROR_INVALID_VALUE);
        Write(first, 3);
        EXPECT_CUDA(cuCtxSynchronize());
        line.Meet();
        // What was queued before the free still finds the memory.
        EXPECT_CUDA(cuMemsetD32Async(second, 9, 4, nullptr));
        EXPECT_CUDA(cuMemFreeAsync(second, nullptr));
        EXPECT_CUDA(cuStreamSynchronize(nullptr));
        EXPECT_CUDA(cuMemFree(first));
        EXPECT_EQ(cuMemFree(first), CUDA_ERROR_INVALID_VALUE);
        EXPECT_CUDA(cuMemPoolDestroy(pool));
        line.Meet();
      });
}

TEST(ShareablePoolTest, WhatIsRefused) {
  Simulate({}, [] {
    UseDevice();
    CUmemoryPool plain = MakePool(CU_MEM_HANDLE_TYPE_NONE), pool = nullptr;
    int descriptor = -1;
    EXPECT_EQ(cuMemPoolExportToShareableHandle(&descriptor, plain, kDescriptor, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemPoolExportToShareableHandle(&descriptor, MakePool(), CU_MEM_HANDLE_TYPE_WIN32, 0),
              CUDA_ERROR_INVALID_VALUE);
    CUmemPoolPtrExportData data{};
    EXPECT_EQ(cuMemPoolExportPointer(&data, AllocateFrom(plain, 100)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemPoolExportPointer(&data, Allocate(100)), CUDA_ERROR_INVALID_VALUE);
    for (const int wrong : {-1, open("/dev/null", O_RDWR), open("/proc/self/exe", O_RDONLY)}) {
      EXPECT_EQ(cuMemPoolImportFromShareableHandle(&pool, AsHandle(wrong), kDescriptor, 0), CUDA_ERROR_INVALID_VALUE);
    }
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    EXPECT_EQ(cuMemPoolCreate(&pool, &props), CUDA_ERROR_NOT_SUPPORTED);
  });
}

CUmemGenericAllocationHandle Create(size_t bytes, CUmemAllocationHandleType type) {
  CUmemAllocationProp props{};
  props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.requestedHandleTypes = type;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_CUDA(cuMemCreate(&handle, bytes, &props, 0));
  return handle;
}

CUdeviceptr MapWhole(CUmemGenericAllocationHandle handle, size_t bytes) {
  CUdeviceptr address = 0;
  EXPECT_CUDA(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  EXPECT_CUDA(cuMemMap(address, bytes, 0, handle, 0));
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  EXPECT_CUDA(cuMemSetAccess(address, bytes, &access, 1));
  return address;
}

TEST(ShareablePhysicalMemoryTest, IsMappedInBothProcesses) {
  SimulateTwo(
      {},
      [](Line& line) {
        UseDevice();
        const size_t before = FreeBytes();
        const auto handle = Create(2 * kPage, kDescriptor);
        const CUdeviceptr memory = MapWhole(handle, 2 * kPage);
        Write(memory + kPage, 7);
        EXPECT_CUDA(cuCtxSynchronize());
        unsigned long long types = 0;
        EXPECT_CUDA(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, memory));
        EXPECT_EQ(types, static_cast<unsigned long long>(kDescriptor));
        int descriptor = -1;
        EXPECT_CUDA(cuMemExportToShareableHandle(&descriptor, handle, kDescriptor, 0));
        // Imported where it was made it is the same memory, charged once.
        CUmemGenericAllocationHandle again = 0;
        EXPECT_CUDA(cuMemImportFromShareableHandle(&again, AsHandle(descriptor), kDescriptor));
        EXPECT_EQ(Read(MapWhole(again, 2 * kPage) + kPage), 7u);
        EXPECT_EQ(FreeBytes(), before - 2 * kPage);
        EXPECT_CUDA(cuMemRelease(again));
        line.SendDescriptor(descriptor);
        close(descriptor);
        line.Meet();
        EXPECT_EQ(Read(memory), 8u);
      },
      [](Line& line) {
        UseDevice();
        const size_t before = FreeBytes();
        const int descriptor = line.ReceiveDescriptor();
        CUmemGenericAllocationHandle handle = 0;
        EXPECT_CUDA(cuMemImportFromShareableHandle(&handle, AsHandle(descriptor), kDescriptor));
        close(descriptor);
        CUmemAllocationProp props{};
        EXPECT_CUDA(cuMemGetAllocationPropertiesFromHandle(&props, handle));
        EXPECT_EQ(props.location.id, 0);
        EXPECT_EQ(props.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
        const CUdeviceptr memory = MapWhole(handle, 2 * kPage);
        EXPECT_EQ(Read(memory + kPage), 7u);
        Write(memory, 8);
        EXPECT_CUDA(cuCtxSynchronize());
        line.Meet();
        EXPECT_EQ(FreeBytes(), before);
        EXPECT_CUDA(cuMemUnmap(memory, 2 * kPage));
        EXPECT_CUDA(cuMemRelease(handle));
        EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(FreeBytes(), before);
      });
}

TEST(ShareablePhysicalMemoryTest, OutlivesTheProcessThatMadeIt) {
  SimulateTwo(
      {},
      [](Line& line) {
        UseDevice();
        const auto handle = Create(kPage, kDescriptor);
        Write(MapWhole(handle, kPage), 6);
        EXPECT_CUDA(cuCtxSynchronize());
        int descriptor = -1;
        EXPECT_CUDA(cuMemExportToShareableHandle(&descriptor, handle, kDescriptor, 0));
        line.SendDescriptor(descriptor);
      },
      [](Line& line) {
        UseDevice();
        const int descriptor = line.ReceiveDescriptor();
        char byte = 0;
        EXPECT_EQ(line.TryReceive(&byte), false);  // the other side is gone
        CUmemGenericAllocationHandle handle = 0;
        EXPECT_CUDA(cuMemImportFromShareableHandle(&handle, AsHandle(descriptor), kDescriptor));
        EXPECT_EQ(Read(MapWhole(handle, kPage)), 6u);
      });
}

TEST(ShareablePhysicalMemoryTest, WhatIsRefused) {
  Simulate({}, [] {
    UseDevice();
    int descriptor = -1;
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemExportToShareableHandle(&descriptor, Create(kPage, CU_MEM_HANDLE_TYPE_NONE), kDescriptor, 0),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemExportToShareableHandle(&descriptor, Create(kPage, kDescriptor), kDescriptor, 1),
              CUDA_ERROR_INVALID_VALUE);
    for (const int wrong : {-1, open("/dev/null", O_RDWR), open("/proc/self/exe", O_RDONLY)}) {
      EXPECT_EQ(cuMemImportFromShareableHandle(&handle, AsHandle(wrong), kDescriptor), CUDA_ERROR_INVALID_VALUE);
    }
    int pool = -1;
    EXPECT_CUDA(cuMemPoolExportToShareableHandle(&pool, MakePool(), kDescriptor, 0));
    EXPECT_EQ(cuMemImportFromShareableHandle(&handle, AsHandle(pool), kDescriptor), CUDA_ERROR_INVALID_VALUE);
  });
}

}  // namespace
}  // namespace cuheap::testing
