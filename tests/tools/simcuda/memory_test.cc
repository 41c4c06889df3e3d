// Device, managed and pinned memory of the simulated driver: addresses, charges, identity, errors.
#include <cstring>
#include <set>
#include <vector>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

constexpr size_t kPage = size_t{2} << 20;

TEST(MemoryTest, LargeBlocksAscendInPagesAndChargeThem) {
  Simulate({}, [] {
    UseDevice();
    const size_t before = FreeBytes();
    const CUdeviceptr a = Allocate(kPage), b = Allocate(kPage + 1), c = Allocate((size_t{1} << 20) + 1);
    EXPECT_EQ(a % kPage, 0u);
    EXPECT_EQ(b, a + kPage);
    EXPECT_EQ(c, b + 2 * kPage);
    EXPECT_EQ(before - FreeBytes(), 4 * kPage);
    EXPECT_CUDA(cuMemFree(a));
    EXPECT_EQ(before - FreeBytes(), 3 * kPage);
    EXPECT_EQ(Allocate(kPage), a);  // the lowest free address
  });
}

TEST(MemoryTest, SmallBlocksShareAPageThatGoesWithTheLast) {
  Simulate({}, [] {
    UseDevice();
    const size_t before = FreeBytes();
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < 4096; ++i) blocks.push_back(Allocate(1 + i % 512));
    EXPECT_EQ(before - FreeBytes(), kPage);
    const std::set<CUdeviceptr> distinct(blocks.begin(), blocks.end());
    EXPECT_EQ(distinct.size(), blocks.size());
    for (CUdeviceptr block : blocks) EXPECT_EQ(block % 512, 0u);
    const CUdeviceptr next = Allocate(1);
    EXPECT_EQ(before - FreeBytes(), 2 * kPage);
    EXPECT_CUDA(cuMemFree(next));
    // Neighbours join again: the whole page fits one block after all are free but one.
    for (size_t i = 1; i < blocks.size(); ++i) EXPECT_CUDA(cuMemFree(blocks[i]));
    EXPECT_EQ(Allocate(size_t{1} << 20), blocks[0] + 512);
    EXPECT_EQ(before - FreeBytes(), kPage);
    EXPECT_CUDA(cuMemFree(blocks[0] + 512));
    EXPECT_CUDA(cuMemFree(blocks[0]));
    EXPECT_EQ(FreeBytes(), before);
  });
}

TEST(MemoryTest, AddressesAreTheSameInEveryProcess) {
  for (int run = 0; run < 2; ++run) {
    Simulate({{"SIMCUDA_DEVICES", "2"}}, [] {
      UseDevice(0);
#if !defined(__SANITIZE_THREAD__)
      EXPECT_EQ(Allocate(1), 0x230000000000u);
      UseDevice(1);
      EXPECT_EQ(Allocate(1), 0x240000000000u);
#endif
    });
  }
}

TEST(MemoryTest, FreesOfAnythingButABlockAreRefused) {
  Simulate({}, [] {
    UseDevice();
    const CUdeviceptr block = Allocate(3 * kPage), small = Allocate(2048);
    int local = 0;
    EXPECT_EQ(cuMemFree(block + 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(block + kPage), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(small + 512), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(reinterpret_cast<CUdeviceptr>(&local)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemFree(0));
    EXPECT_CUDA(cuMemFree(block));
    EXPECT_EQ(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemFree(small));
    EXPECT_EQ(cuMemFree(small), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr none = 0;
    EXPECT_EQ(cuMemAlloc(&none, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAlloc(nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(MemoryTest, OutOfMemoryAtTheDevicesSize) {
  Simulate({{"SIMCUDA_MEMORY", "8MiB"}}, [] {
    UseDevice();
    CUdeviceptr block = 0;
    EXPECT_EQ(cuMemAlloc(&block, (8 << 20) + 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemAlloc(&block, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    const CUdeviceptr first = Allocate(4 << 20);
    Allocate(4 << 20);
    EXPECT_EQ(cuMemAlloc(&block, 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(FreeBytes(), 0u);
    EXPECT_CUDA(cuMemFree(first));
    EXPECT_CUDA(cuMemAlloc(&block, 1));
  });
}

TEST(MemoryTest, DevicesLargerThanTheMachineStayLazy) {
  Simulate({{"SIMCUDA_MODEL", "b200"}}, [] {
    UseDevice();
    const size_t bytes = size_t{150} << 30;
    const CUdeviceptr block = Allocate(bytes);
    EXPECT_CUDA(cuMemsetD8(block, 0, bytes));
    EXPECT_CUDA(cuMemsetD8(block + bytes - 10, 7, 10));
    unsigned char last[16] = {};
    EXPECT_CUDA(cuMemcpyDtoH(last, block + bytes - 16, 16));
    EXPECT_EQ(last[5], 0);
    EXPECT_EQ(last[6], 7);
    EXPECT_EQ(last[15], 7);
    EXPECT_CUDA(cuMemsetD8(block, 0, bytes));
    EXPECT_CUDA(cuMemcpyDtoH(last, block + bytes - 16, 16));
    EXPECT_EQ(last[15], 0);
  });
}

TEST(MemoryTest, ContextMemoryIsChargedWhenAskedFor) {
  Simulate({{"SIMCUDA_CONTEXT_MEMORY", "500MiB"}, {"SIMCUDA_MEMORY", "1GiB"}}, [] {
    UseDevice();
    EXPECT_EQ(FreeBytes(), size_t{524} << 20);
    CUcontext second = nullptr, third = nullptr;
    EXPECT_CUDA(cuCtxCreate(&second, nullptr, 0, 0));
    EXPECT_EQ(cuCtxCreate(&third, nullptr, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CUDA(cuCtxDestroy(second));
    EXPECT_EQ(FreeBytes(), size_t{524} << 20);
  });
}

TEST(MemoryTest, AddressRangesAreTheBlocks) {
  Simulate({}, [] {
    UseDevice();
    const CUdeviceptr small = Allocate(700), large = Allocate(5 * kPage + 3);
    CUdeviceptr base = 0;
    size_t size = 0;
    EXPECT_CUDA(cuMemGetAddressRange(&base, &size, small + 699));
    EXPECT_EQ(base, small);
    EXPECT_EQ(size, 700u);
    EXPECT_EQ(cuMemGetAddressRange(&base, &size, small + 700), CUDA_ERROR_NOT_FOUND);
    EXPECT_CUDA(cuMemGetAddressRange(nullptr, &size, large + 3 * kPage));
    EXPECT_EQ(size, 5 * kPage + 3);
    EXPECT_CUDA(cuMemFree(large));
    EXPECT_EQ(cuMemGetAddressRange(&base, &size, large), CUDA_ERROR_NOT_FOUND);
  });
}

unsigned long long BufferId(CUdeviceptr address) {
  unsigned long long id = 0;
  EXPECT_CUDA(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
  return id;
}

TEST(MemoryTest, BufferIdsNeverRepeat) {
  Simulate({}, [] {
    UseDevice();
    std::set<unsigned long long> ids;
    for (int i = 0; i < 100; ++i) {
      const CUdeviceptr block = Allocate(i % 2 == 0 ? 100 : kPage);
      EXPECT_TRUE(ids.insert(BufferId(block)).second);
      EXPECT_EQ(BufferId(block), BufferId(block + 99));
      EXPECT_CUDA(cuMemFree(block));
    }
  });
}

TEST(MemoryTest, PointerAttributesTellTheKindsApart) {
  Simulate({}, [] {
    const CUcontext context = UseDevice();
    const CUdeviceptr device = Allocate(100);
    auto* pinned = AllocatePinned<char>(100);
    CUdeviceptr managed = 0;
    ASSERT_CUDA(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
    int local = 0;
    struct Seen {
      CUcontext context = nullptr;
      unsigned type = 9;
      CUdeviceptr device_pointer = 9;
      void* host_pointer = nullptr;
      int managed = 9;
      int ordinal = 9;
    };
    const auto look = [](CUdeviceptr address) {
      Seen seen;
      CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                          CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                          CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
      void* data[] = {&seen.context,      &seen.type,    &seen.device_pointer,
                      &seen.host_pointer, &seen.managed, &seen.ordinal};
      EXPECT_CUDA(cuPointerGetAttributes(6, attributes, data, address));
      return seen;
    };
    Seen seen = look(device + 10);
    EXPECT_EQ(seen.context, context);
    EXPECT_EQ(seen.type, unsigned{CU_MEMORYTYPE_DEVICE});
    EXPECT_EQ(seen.device_pointer, device + 10);
    EXPECT_EQ(seen.host_pointer, nullptr);
    EXPECT_EQ(seen.managed, 0);
    EXPECT_EQ(seen.ordinal, 0);
    seen = look(reinterpret_cast<CUdeviceptr>(pinned));
    EXPECT_EQ(seen.type, unsigned{CU_MEMORYTYPE_HOST});
    EXPECT_EQ(seen.host_pointer, pinned);
    seen = look(managed);
    EXPECT_EQ(seen.managed, 1);
    EXPECT_EQ(seen.host_pointer, reinterpret_cast<void*>(managed));
    seen = look(reinterpret_cast<CUdeviceptr>(&local));
    EXPECT_EQ(seen.type, 0u);
    EXPECT_EQ(seen.context, nullptr);
    EXPECT_EQ(seen.ordinal, CU_DEVICE_INVALID);
    unsigned type = 0;
    EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(&local)),
              CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(MemoryTest, PitchIsAMultipleOf512) {
  Simulate({}, [] {
    UseDevice();
    CUdeviceptr block = 0;
    size_t pitch = 0;
    EXPECT_CUDA(cuMemAllocPitch(&block, &pitch, 1000, 3, 4));
    EXPECT_EQ(pitch, 1024u);
    size_t size = 0;
    EXPECT_CUDA(cuMemGetAddressRange(nullptr, &size, block));
    EXPECT_EQ(size, 3 * pitch);
    EXPECT_EQ(cuMemAllocPitch(&block, &pitch, 1000, 3, 5), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAllocPitch(&block, &pitch, 0, 3, 4), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(MemoryTest, PinnedMemoryHasItsOwnFree) {
  Simulate({}, [] {
    UseDevice();
    void *first = nullptr, *second = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&first, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemHostAlloc(&first, 10, 0x80), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemHostAlloc(&first, 10, CU_MEMHOSTALLOC_WRITECOMBINED));
    EXPECT_CUDA(cuMemAllocHost(&second, 10));
    unsigned flags = 0;
    EXPECT_CUDA(cuMemHostGetFlags(&flags, first));
    EXPECT_TRUE(flags & CU_MEMHOSTALLOC_WRITECOMBINED);
    CUdeviceptr device = 0;
    EXPECT_CUDA(cuMemHostGetDevicePointer(&device, static_cast<char*>(first) + 3, 0));
    EXPECT_EQ(device, reinterpret_cast<CUdeviceptr>(first) + 3);
    EXPECT_EQ(cuMemFree(reinterpret_cast<CUdeviceptr>(first)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFreeHost(reinterpret_cast<void*>(Allocate(10))), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemFreeHost(first));
    EXPECT_EQ(cuMemFreeHost(first), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemFreeHost(nullptr));
    EXPECT_CUDA(cuMemFreeHost(second));
  });
}

TEST(MemoryTest, RegisteredMemoryIsTheProgramsOwn) {
  Simulate({}, [] {
    UseDevice();
    std::vector<char> memory(10000);
    EXPECT_EQ(cuMemHostUnregister(memory.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT_CUDA(cuMemHostRegister(memory.data(), memory.size(), 0));
    EXPECT_EQ(cuMemHostRegister(memory.data() + 100, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT_EQ(cuMemHostRegister(memory.data() - 100, 200, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT_EQ(cuMemFreeHost(memory.data()), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemHostUnregister(memory.data() + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT_CUDA(cuMemHostUnregister(memory.data()));
    memory[0] = 1;  // still there
  });
}

TEST(MemoryTest, CopiesMustStayInABlock) {
  Simulate({}, [] {
    UseDevice();
    const CUdeviceptr block = Allocate(100), freed = Allocate(4 << 20);
    EXPECT_CUDA(cuMemFree(freed));
    char host[200] = {};
    EXPECT_CUDA(cuMemcpyHtoD(block, host, 100));
    EXPECT_EQ(cuMemcpyHtoD(block, host, 101), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyHtoD(block + 1, host, 100), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyDtoH(host, freed, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD8(freed, 0, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyDtoD(block, reinterpret_cast<CUdeviceptr>(host), 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpy(block, freed, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD32(block + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemcpyHtoD(block, host, 0));
    EXPECT_CUDA(cuCtxSynchronize());
  });
}

TEST(MemoryTest, RowsAndPlanesAreCopiedWhereTheyBelong) {
  Simulate({}, [] {
    UseDevice();
    std::vector<unsigned char> source(8 * 6 * 5), target(source.size(), 0xff);
    for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i);
    const CUdeviceptr block = Allocate(4096);
    EXPECT_CUDA(cuMemsetD8(block, 0, 4096));
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = source.data();
    copy.srcPitch = 8, copy.srcHeight = 6;
    copy.srcXInBytes = 2, copy.srcY = 1, copy.srcZ = 1;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = block;
    copy.dstPitch = 16, copy.dstHeight = 10;
    copy.dstXInBytes = 1, copy.dstY = 2, copy.dstZ = 3;
    copy.WidthInBytes = 3, copy.Height = 4, copy.Depth = 2;
    EXPECT_CUDA(cuMemcpy3D(&copy));
    CUDA_MEMCPY2D row{};
    row.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    row.srcDevice = block + 16 * 10 * 4;  // plane 4
    row.srcPitch = 16;
    row.srcXInBytes = 1, row.srcY = 2;
    row.dstMemoryType = CU_MEMORYTYPE_HOST;
    row.dstHost = target.data();
    row.dstPitch = 8;
    row.WidthInBytes = 3, row.Height = 4;
    EXPECT_CUDA(cuMemcpy2D(&row));
    for (size_t y = 0; y < 4; ++y) {
      for (size_t x = 0; x < 3; ++x) EXPECT_EQ(target[y * 8 + x], source[(2 * 6 + 1 + y) * 8 + 2 + x]);
      EXPECT_EQ(target[y * 8 + 3], 0xff);
    }
    row.srcPitch = 3;
    EXPECT_EQ(cuMemcpy2D(&row), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(MemoryTest, PatternsFillElements) {
  Simulate({}, [] {
    UseDevice();
    const CUdeviceptr block = Allocate(64);
    uint16_t words[32];
    EXPECT_CUDA(cuMemsetD8(block, 0xaa, 64));
    EXPECT_CUDA(cuMemsetD16(block + 2, 0x1234, 3));
    EXPECT_CUDA(cuMemsetD2D32(block + 16, 16, 0x89abcdef, 2, 2));
    EXPECT_CUDA(cuMemcpyDtoH(words, block, 64));
    EXPECT_EQ(words[0], 0xaaaa);
    EXPECT_EQ(words[1], 0x1234);
    EXPECT_EQ(words[3], 0x1234);
    EXPECT_EQ(words[4], 0xaaaa);
    EXPECT_EQ(words[8], 0xcdef);
    EXPECT_EQ(words[11], 0x89ab);
    EXPECT_EQ(words[12], 0xaaaa);
    EXPECT_EQ(words[19], 0x89ab);
  });
}

}  // namespace
}  // namespace cuheap::testing
