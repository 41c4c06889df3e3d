// Memory of one device used by kernels of another (Driver API reference, "Peer Context Memory Access").
#include "tests/tools/simcuda/simulated.h"

namespace cuheap::testing {
namespace {

constexpr size_t kPage = size_t{2} << 20;

// What a kernel of the current context that writes a word there leads to.
CUresult Touch(CUdeviceptr address) {
  EXPECT_CUDA(Launch(nullptr, "simcuda_fill", address, uint64_t{1}, uint32_t{7}));
  return cuCtxSynchronize();
}

struct TwoDevices {
  CUcontext first = UseDevice(0);
  CUcontext second = nullptr;
  TwoDevices() {
    EXPECT_CUDA(cuDevicePrimaryCtxRetain(&second, 1));
    FindFunction("simcuda_fill");  // loads the module in the first
  }
};

uint32_t Read(CUdeviceptr from) {
  uint32_t word = 0;
  EXPECT_CUDA(cuMemcpyDtoH(&word, from, sizeof word));
  return word;
}

TEST(PeerTest, AnAllocationOfAnotherDeviceNeedsAccess) {
  Simulate({{"SIMCUDA_DEVICES", "2"}}, [] {
    TwoDevices devices;
    EXPECT_CUDA(cuCtxSetCurrent(devices.second));
    const CUdeviceptr there = Allocate(kPage);
    EXPECT_CUDA(cuCtxSetCurrent(devices.first));
    EXPECT_CUDA(cuCtxEnablePeerAccess(devices.second, 0));
    EXPECT_EQ(cuCtxEnablePeerAccess(devices.second, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    EXPECT_CUDA(Touch(there));
    EXPECT_EQ(Read(there), 7u);
    EXPECT_CUDA(cuCtxDisablePeerAccess(devices.second));
    EXPECT_EQ(cuCtxDisablePeerAccess(devices.second), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    EXPECT_EQ(Touch(there), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(PeerTest, CopiesBetweenDevicesNeedNoAccess) {
  Simulate({{"SIMCUDA_DEVICES", "2"}}, [] {
    TwoDevices devices;
    const CUdeviceptr here = Allocate(kPage);
    EXPECT_CUDA(Touch(here));
    EXPECT_CUDA(cuCtxSetCurrent(devices.second));
    const CUdeviceptr there = Allocate(kPage);
    EXPECT_CUDA(cuMemcpyPeer(there, devices.second, here, devices.first, kPage));
    EXPECT_EQ(Read(there), 7u);
    EXPECT_CUDA(cuMemcpy(there + 4, here, 4));
    EXPECT_EQ(Read(there + 4), 7u);
  });
}

TEST(PeerTest, PoolsAndMappingsHaveTheirOwnAccess) {
  Simulate({{"SIMCUDA_DEVICES", "2"}}, [] {
    TwoDevices devices;
    // Enabled peer access does not reach stream-ordered memory: its pool says who may use it.
    EXPECT_CUDA(cuCtxEnablePeerAccess(devices.second, 0));
    EXPECT_CUDA(cuCtxSetCurrent(devices.second));
    CUdeviceptr there = 0;
    EXPECT_CUDA(cuMemAllocAsync(&there, kPage, nullptr));
    EXPECT_CUDA(cuCtxSynchronize());
    CUmemoryPool pool = nullptr;
    EXPECT_CUDA(cuDeviceGetMemPool(&pool, 1));
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_CUDA(cuMemPoolSetAccess(pool, &access, 1));
    EXPECT_CUDA(cuCtxSetCurrent(devices.first));
    EXPECT_CUDA(Touch(there));
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    EXPECT_CUDA(cuMemPoolSetAccess(pool, &access, 1));
    EXPECT_EQ(Touch(there), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(PeerTest, AMappingIsForTheDevicesThatWereGiven) {
  Simulate({{"SIMCUDA_DEVICES", "2"}}, [] {
    TwoDevices devices;
    CUmemAllocationProp props{};
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr memory = 0;
    EXPECT_CUDA(cuMemCreate(&handle, kPage, &props, 0));
    EXPECT_CUDA(cuMemAddressReserve(&memory, kPage, 0, 0, 0));
    EXPECT_CUDA(cuMemMap(memory, kPage, 0, handle, 0));
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_CUDA(cuMemSetAccess(memory, kPage, &access, 1));
    EXPECT_EQ(Touch(memory), CUDA_ERROR_ILLEGAL_ADDRESS);  // its own device was not given access
  });
}

TEST(PeerTest, CardsWithoutPeerAccessSayIt) {
  Simulate({{"SIMCUDA_DEVICES", "2"}, {"SIMCUDA_MODEL", "rtx4090"}}, [] {
    TwoDevices devices;
    int can = -1;
    EXPECT_CUDA(cuDeviceCanAccessPeer(&can, 0, 1));
    EXPECT_EQ(can, 0);
    EXPECT_EQ(cuCtxEnablePeerAccess(devices.second, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  });
}

}  // namespace
}  // namespace cuheap::testing
