// Virtual memory management: physical memory and addresses apart.
#include <string>
#include <vector>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

constexpr size_t kPage = size_t{2} << 20;

CUmemAllocationProp Props() {
  CUmemAllocationProp props{};
  props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return props;
}

CUmemGenericAllocationHandle Create(size_t bytes) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp props = Props();
  EXPECT_CUDA(cuMemCreate(&handle, bytes, &props, 0));
  return handle;
}

CUdeviceptr Reserve(size_t bytes) {
  CUdeviceptr address = 0;
  EXPECT_CUDA(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  return address;
}

CUresult Open(CUdeviceptr address, size_t bytes) {
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return cuMemSetAccess(address, bytes, &access, 1);
}

TEST(VirtualMemoryTest, AdjacentMappingsAreOneRange) {
  Simulate({}, [] {
    UseDevice();
    const CUmemGenericAllocationHandle first = Create(kPage), second = Create(kPage);
    const CUdeviceptr range = Reserve(3 * kPage);
    EXPECT_CUDA(cuMemMap(range, kPage, 0, first, 0));
    EXPECT_CUDA(cuMemMap(range + kPage, kPage, 0, second, 0));
    EXPECT_CUDA(Open(range, 2 * kPage));
    EXPECT_CUDA(cuMemsetD32(range + 4, 7, 2 * kPage / 4 - 1));
    uint32_t words[2] = {};
    EXPECT_CUDA(cuMemcpyDtoH(words, range + kPage - 4, 8));
    EXPECT_EQ(words[0], 7u);
    EXPECT_EQ(words[1], 7u);
    EXPECT_EQ(cuMemsetD32(range + kPage, 7, kPage / 4 + 1), CUDA_ERROR_INVALID_VALUE);  // beyond what is mapped
    EXPECT_CUDA(cuMemUnmap(range, 2 * kPage));
    EXPECT_CUDA(cuMemRelease(first));
    EXPECT_CUDA(cuMemRelease(second));
    EXPECT_CUDA(cuMemAddressFree(range, 3 * kPage));
  });
}

TEST(VirtualMemoryTest, BytesStayWithThePhysicalMemory) {
  Simulate({}, [] {
    UseDevice();
    const size_t before = FreeBytes();
    const CUmemGenericAllocationHandle first = Create(kPage), second = Create(kPage);
    EXPECT_EQ(before - FreeBytes(), 2 * kPage);
    const CUdeviceptr range = Reserve(4 * kPage);
    EXPECT_EQ(before - FreeBytes(), 2 * kPage);
    EXPECT_CUDA(cuMemMap(range, kPage, 0, first, 0));
    EXPECT_CUDA(cuMemMap(range + kPage, kPage, 0, second, 0));
    EXPECT_EQ(cuMemsetD8(range, 1, 1), CUDA_ERROR_INVALID_VALUE);  // no access yet
    EXPECT_CUDA(Open(range, 2 * kPage));
    EXPECT_CUDA(cuMemsetD32(range, 11, kPage / 4));
    EXPECT_CUDA(cuMemsetD32(range + kPage, 22, kPage / 4));
    EXPECT_CUDA(cuCtxSynchronize());
    // One copy over both.
    std::vector<uint32_t> words(kPage / 4);
    EXPECT_CUDA(cuMemcpyDtoH(words.data(), range + kPage / 2, kPage));
    EXPECT_EQ(words.front(), 11u);
    EXPECT_EQ(words.back(), 22u);
    EXPECT_EQ(cuMemcpyDtoH(words.data(), range + kPage + 4, kPage), CUDA_ERROR_INVALID_VALUE);
    // Swapped: one range out of both.
    EXPECT_CUDA(cuMemUnmap(range, 2 * kPage));
    EXPECT_CUDA(cuMemMap(range + 2 * kPage, kPage, 0, second, 0));
    EXPECT_CUDA(cuMemMap(range + 3 * kPage, kPage, 0, first, 0));
    EXPECT_CUDA(Open(range + 2 * kPage, 2 * kPage));
    uint32_t word = 0;
    EXPECT_CUDA(cuMemcpyDtoH(&word, range + 2 * kPage, 4));
    EXPECT_EQ(word, 22u);
    EXPECT_CUDA(cuMemcpyDtoH(&word, range + 4 * kPage - 4, 4));
    EXPECT_EQ(word, 11u);
    // A large memset of zeros does not bring old bytes back.
    EXPECT_CUDA(cuMemsetD8(range + 2 * kPage, 0, kPage));
    EXPECT_CUDA(cuMemcpyDtoH(&word, range + 2 * kPage, 4));
    EXPECT_EQ(word, 0u);
    EXPECT_CUDA(cuMemRelease(first));
    EXPECT_CUDA(cuMemRelease(second));
    EXPECT_EQ(before - FreeBytes(), 2 * kPage);  // still mapped
    EXPECT_CUDA(cuMemUnmap(range + 2 * kPage, 2 * kPage));
    EXPECT_EQ(FreeBytes(), before);
    EXPECT_CUDA(cuMemAddressFree(range, 4 * kPage));
    EXPECT_EQ(cuMemAddressFree(range, 4 * kPage), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(VirtualMemoryTest, TwoMappingsShareTheirBytesAndFreedOnesComeBackAsZeros) {
  Simulate({}, [] {
    UseDevice();
    CUmemGenericAllocationHandle handle = Create(kPage), again = 0;
    const CUdeviceptr range = Reserve(2 * kPage);
    EXPECT_CUDA(cuMemMap(range, kPage, 0, handle, 0));
    EXPECT_CUDA(cuMemMap(range + kPage, kPage, 0, handle, 0));
    EXPECT_CUDA(Open(range, 2 * kPage));
    EXPECT_CUDA(cuMemsetD32(range, 5, 1));
    uint32_t word = 0;
    EXPECT_CUDA(cuMemcpyDtoH(&word, range + kPage, 4));
    EXPECT_EQ(word, 5u);
    EXPECT_CUDA(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(range + 100)));
    EXPECT_EQ(again, handle);
    EXPECT_CUDA(cuMemUnmap(range, 2 * kPage));
    EXPECT_CUDA(cuMemRelease(handle));
    EXPECT_CUDA(cuMemRelease(handle));
    EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    handle = Create(kPage);
    EXPECT_CUDA(cuMemMap(range, kPage, 0, handle, 0));
    EXPECT_CUDA(Open(range, kPage));
    EXPECT_CUDA(cuMemcpyDtoH(&word, range, 4));
    EXPECT_EQ(word, 0u);
  });
}

TEST(VirtualMemoryTest, WrongCallsAreRefused) {
  Simulate({{"SIMCUDA_MEMORY", "8MiB"}}, [] {
    UseDevice();
    CUmemAllocationProp props = Props();
    CUmemGenericAllocationHandle handle = 0;
    size_t granularity = 0;
    EXPECT_CUDA(cuMemGetAllocationGranularity(&granularity, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EXPECT_EQ(granularity, kPage);
    EXPECT_EQ(cuMemCreate(&handle, kPage + 1, &props, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemCreate(&handle, 10 << 20, &props, 0), CUDA_ERROR_OUT_OF_MEMORY);
    props.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
    EXPECT_EQ(cuMemCreate(&handle, kPage, &props, 0), CUDA_ERROR_NOT_SUPPORTED);
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 3};
    EXPECT_EQ(cuMemCreate(&handle, kPage, &props, 0), CUDA_ERROR_INVALID_DEVICE);
    handle = Create(2 * kPage);
    const CUdeviceptr range = Reserve(4 * kPage);
    EXPECT_EQ(cuMemMap(range, kPage, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);  // not whole
    EXPECT_EQ(cuMemMap(range, kPage, kPage, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemMap(range + 3 * kPage, 2 * kPage, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemMap(range, 2 * kPage, 0, handle, 0));
    EXPECT_EQ(cuMemMap(range + kPage, 2 * kPage, 0, handle, 0), CUDA_ERROR_ALREADY_MAPPED);
    EXPECT_EQ(cuMemUnmap(range, kPage), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(Open(range, 4 * kPage), CUDA_ERROR_INVALID_VALUE);  // not fully mapped
    EXPECT_EQ(cuMemAddressFree(range, 4 * kPage), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(range), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(VirtualMemoryTest, LateWorkOnUnmappedMemoryIsAnIllegalAddress) {
  Simulate({{"SIMCUDA_ORDER", "late"}, {"SIMCUDA_PROGRESS_MS", "0"}}, [] {
    UseDevice();
    const CUmemGenericAllocationHandle handle = Create(kPage);
    const CUdeviceptr range = Reserve(kPage);
    EXPECT_CUDA(cuMemMap(range, kPage, 0, handle, 0));
    EXPECT_CUDA(Open(range, kPage));
    EXPECT_CUDA(cuMemsetD8(range, 1, 100));
    EXPECT_CUDA(cuMemUnmap(range, kPage));
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

}  // namespace
}  // namespace cuheap::testing
