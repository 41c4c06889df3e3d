// Multicast objects and batches of the simulated driver.
#include <numeric>
#include <vector>

#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

constexpr size_t kPage = size_t{2} << 20;

CUmemGenericAllocationHandle Object(size_t bytes, unsigned devices) {
  CUmulticastObjectProp properties = {};
  properties.numDevices = devices;
  properties.size = bytes;
  CUmemGenericAllocationHandle object = 0;
  EXPECT_CUDA(cuMulticastCreate(&object, &properties));
  return object;
}

CUmemGenericAllocationHandle Physical(int device, size_t bytes) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_CUDA(cuMemCreate(&handle, bytes, &properties, 0));
  return handle;
}

TEST(MulticastTest, OnlyCardsOfTheSwitchHaveIt) {
  for (const char* model : {"a100-80g", "h100-pcie", "rtx4090"}) {
    Simulate({{"SIMCUDA_MODEL", model}}, [] {
      UseDevice();
      CUmulticastObjectProp properties = {};
      properties.numDevices = 1;
      properties.size = kPage;
      CUmemGenericAllocationHandle object = 0;
      EXPECT_EQ(cuMulticastCreate(&object, &properties), CUDA_ERROR_NOT_SUPPORTED);
    });
  }
}

TEST(MulticastTest, MemoryIsBoundOnceAllDevicesAreThere) {
  Simulate({{"SIMCUDA_DEVICES", "2"}}, [] {
    UseDevice();
    const CUmemGenericAllocationHandle object = Object(2 * kPage, 2), first = Physical(0, kPage);
    EXPECT_CUDA(cuMulticastAddDevice(object, 0));
    EXPECT_EQ(cuMulticastAddDevice(object, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMulticastBindMem(object, 0, first, 0, kPage, 0), CUDA_ERROR_NOT_READY);
    EXPECT_CUDA(cuMulticastAddDevice(object, 1));
    EXPECT_CUDA(cuMulticastBindMem(object, 0, first, 0, kPage, 0));
    EXPECT_EQ(cuMulticastBindMem(object, 0, first, 0, kPage, 0), CUDA_ERROR_INVALID_VALUE);  // bound already
    EXPECT_EQ(cuMulticastBindMem(object, kPage, first, 0, 2 * kPage, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMulticastBindMem(object, 2 * kPage, first, 0, kPage, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMulticastUnbind(object, 0, kPage, kPage), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMulticastUnbind(object, 0, 0, kPage));
    EXPECT_CUDA(cuMemRelease(object));
    EXPECT_EQ(cuMulticastAddDevice(object, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemRelease(first));
  });
}

TEST(MulticastTest, BoundMemoryLivesUntilTheObjectGoes) {
  Simulate({{"SIMCUDA_DEVICES", "2"}}, [] {
    UseDevice();
    const size_t before = FreeBytes();
    const CUmemGenericAllocationHandle object = Object(kPage, 1), memory = Physical(0, kPage);
    EXPECT_CUDA(cuMulticastAddDevice(object, 0));
    EXPECT_CUDA(cuMulticastBindMem(object, 0, memory, 0, kPage, 0));
    EXPECT_CUDA(cuMemRelease(memory));
    EXPECT_EQ(before - FreeBytes(), kPage);
    EXPECT_CUDA(cuMemRelease(object));
    EXPECT_EQ(FreeBytes(), before);
  });
}

TEST(MulticastTest, AMappedObjectIsNoMemoryToCopy) {
  Simulate({{"SIMCUDA_DEVICES", "2"}}, [] {
    UseDevice();
    const CUmemGenericAllocationHandle object = Object(kPage, 1), memory = Physical(0, kPage);
    CUdeviceptr address = 0;
    EXPECT_CUDA(cuMemAddressReserve(&address, kPage, 0, 0, 0));
    EXPECT_EQ(cuMemMap(address, kPage, 0, object, 0), CUDA_ERROR_NOT_READY);
    EXPECT_CUDA(cuMulticastAddDevice(object, 0));
    EXPECT_CUDA(cuMulticastBindMem(object, 0, memory, 0, kPage, 0));
    EXPECT_CUDA(cuMemMap(address, kPage, 0, object, 0));
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_CUDA(cuMemSetAccess(address, kPage, &access, 1));
    EXPECT_EQ(cuMemsetD8(address, 1, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemRelease(object));  // mapped: it stays
    EXPECT_CUDA(cuMemUnmap(address, kPage));
    EXPECT_CUDA(cuMemRelease(memory));
  });
}

TEST(MulticastTest, AddressesOfMappedMemoryAndPoolsAreBound) {
  Simulate({}, [] {
    UseDevice();
    const CUmemGenericAllocationHandle object = Object(2 * kPage, 1);
    EXPECT_CUDA(cuMulticastAddDevice(object, 0));
    const CUdeviceptr plain = Allocate(kPage);
    EXPECT_EQ(cuMulticastBindAddr(object, 0, plain, kPage, 0), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr block = 0;
    EXPECT_CUDA(cuMemAllocAsync(&block, 2 * kPage, nullptr));
    EXPECT_CUDA(cuStreamSynchronize(nullptr));
    const CUdeviceptr whole = (block + kPage - 1) / kPage * kPage;
    EXPECT_CUDA(cuMulticastBindAddr(object, 0, whole, kPage, 0));
    EXPECT_EQ(cuMulticastBindAddr(object, kPage, whole, 2 * kPage, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMulticastUnbind(object, 0, 0, kPage));
    EXPECT_CUDA(cuMemRelease(object));
  });
}

TEST(BatchTest, BoxesBetweenPointersAndArrays) {
  Simulate({}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    const CUDA_ARRAY3D_DESCRIPTOR descriptor = {8, 4, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0};
    CUarray array = nullptr;
    EXPECT_CUDA(cuArray3DCreate(&array, &descriptor));
    unsigned* host = AllocatePinned<unsigned>(64);
    std::iota(host, host + 32, 1u);
    CUDA_MEMCPY3D_BATCH_OP ops[2] = {};
    ops[0].src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    ops[0].src.op.ptr.ptr = reinterpret_cast<CUdeviceptr>(host);
    ops[0].dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    ops[0].dst.op.array.array = array;
    ops[0].extent = {8, 4, 1};
    ops[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    EXPECT_CUDA(cuMemcpy3DBatchAsync(1, ops, 0, stream));
    ops[1] = ops[0];
    ops[1].src = ops[0].dst;
    ops[1].src.op.array.offset = {2, 1, 0};
    ops[1].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    ops[1].dst.op.ptr = {};
    ops[1].dst.op.ptr.ptr = reinterpret_cast<CUdeviceptr>(host + 32);
    ops[1].dst.op.ptr.rowLength = 4;
    ops[1].extent = {3, 2, 1};
    EXPECT_CUDA(cuMemcpy3DBatchAsync(1, &ops[1], 0, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(host[32], 11u);
    EXPECT_EQ(host[34], 13u);
    EXPECT_EQ(host[36], 19u);
    EXPECT_EQ(cuMemcpy3DBatchAsync(1, ops, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    ops[0].extent.depth = 0;
    EXPECT_EQ(cuMemcpy3DBatchAsync(1, ops, 0, stream), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(BatchTest, DiscardedBytesAreNotWhatTheyWere) {
  Simulate({}, [] {
    UseDevice();
    const CUstream stream = MakeStream();
    CUdeviceptr managed = 0;
    EXPECT_CUDA(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    auto* words = reinterpret_cast<unsigned*>(managed);
    words[0] = words[1023] = 7;
    size_t bytes = 4096, index = 0, late = 1;
    CUmemLocation place = {};
    place.type = CU_MEM_LOCATION_TYPE_DEVICE;
    EXPECT_CUDA(cuMemPrefetchBatchAsync(&managed, &bytes, 1, &place, &index, 1, 0, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(words[0], 7u);
    EXPECT_EQ(cuMemPrefetchBatchAsync(&managed, &bytes, 1, &place, &late, 1, 0, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemDiscardBatchAsync(&managed, &bytes, 1, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemDiscardBatchAsync(&managed, &bytes, 1, 0, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_NE(words[0], 7u);
    const CUdeviceptr block = Allocate(4096);
    CUdeviceptr wrong = block;
    EXPECT_EQ(cuMemDiscardBatchAsync(&wrong, &bytes, 1, 0, stream), CUDA_ERROR_INVALID_VALUE);
  });
}

}  // namespace
}  // namespace cuheap::testing
