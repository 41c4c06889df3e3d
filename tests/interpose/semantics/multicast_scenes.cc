// Multicast objects over memory of two devices. Source: CUDA Driver API, Multicast Object Management.
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

bool Supported() {
  if (!HasDevices(2)) return false;
  for (int device = 0; device < 2; ++device) {
    int value = 0;
    Must("attribute", cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device));
    if (value == 0) {
      Print("no multicast");
      return false;
    }
  }
  return true;
}

CUmulticastObjectProp Properties(std::size_t bytes) {
  CUmulticastObjectProp properties = {};
  properties.numDevices = 2;
  properties.size = bytes;
  return properties;
}

std::size_t Granularity() {
  const CUmulticastObjectProp properties = Properties(2 * kMiB);
  std::size_t granularity = 0;
  Must("granularity", cuMulticastGetGranularity(&granularity, &properties, CU_MULTICAST_GRANULARITY_RECOMMENDED));
  return granularity;
}

CUmemGenericAllocationHandle Object(std::size_t bytes) {
  const CUmulticastObjectProp properties = Properties(bytes);
  CUmemGenericAllocationHandle object = 0;
  Must("create", cuMulticastCreate(&object, &properties));
  for (int device = 0; device < 2; ++device) Must("add", cuMulticastAddDevice(object, device));
  return object;
}

CUmemGenericAllocationHandle Physical(int device, std::size_t bytes) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  CUmemGenericAllocationHandle handle = 0;
  Must("physical", cuMemCreate(&handle, bytes, &properties, 0));
  return handle;
}

void BindAndMap() {
  StartDevice();
  if (!Supported()) return;
  const std::size_t unit = Granularity();
  const CUmemGenericAllocationHandle object = Object(2 * unit);
  Say("a third device", cuMulticastAddDevice(object, 0));
  const CUmemGenericAllocationHandle memory[] = {Physical(0, unit), Physical(1, unit)};
  for (const CUmemGenericAllocationHandle each : memory) Say("bind", cuMulticastBindMem(object, 0, each, 0, unit, 0));
  Say("beyond the memory", cuMulticastBindMem(object, unit, memory[0], 0, 2 * unit, 0));
  Say("beyond the object", cuMulticastBindMem(object, 2 * unit, memory[0], 0, unit, 0));
  Say("flags", cuMulticastBindMem(object, unit, memory[0], 0, unit, 1));
  CUdeviceptr address = 0;
  Say("reserve", cuMemAddressReserve(&address, 2 * unit, unit, 0, 0));
  Say("map", cuMemMap(address, 2 * unit, 0, object, 0));
  CUmemAccessDesc access[2] = {};
  for (int device = 0; device < 2; ++device) {
    access[device].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[device].location.id = device;
    access[device].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  Say("access", cuMemSetAccess(address, 2 * unit, access, 2));
  Say("unmap", cuMemUnmap(address, 2 * unit));
  Say("unbind", cuMulticastUnbind(object, 0, 0, unit));
  Say("unbind", cuMulticastUnbind(object, 1, 0, unit));
  for (const CUmemGenericAllocationHandle each : memory) Say("release", cuMemRelease(each));
  Say("release the object", cuMemRelease(object));
  Say("address", cuMemAddressFree(address, 2 * unit));
}
const Scene kBindAndMap("bind-and-map", "SIMCUDA_DEVICES=2", BindAndMap);

// A block of a memory pool is bound by its address, then freed: its memory may not become another block's while it is
// bound.
void BindAddress() {
  StartDevice();
  if (!Supported()) return;
  const std::size_t unit = Granularity();
  CUstream stream = NewStream();
  const CUmemGenericAllocationHandle object = Object(unit);
  CUdeviceptr block = 0;
  Must("allocate", cuMemAllocAsync(&block, unit, stream));
  Must("wait", cuStreamSynchronize(stream));
  const CUdeviceptr plain = Allocate(unit);
  Say("memory of cuMemAlloc", cuMulticastBindAddr(object, 0, plain, unit, 0));
  Say("beyond the block", cuMulticastBindAddr(object, 0, block, 2 * unit, 0));
  if (block % unit == 0) {
    Say("bind", cuMulticastBindAddr(object, 0, block, unit, 0));
    Say("unbind", cuMulticastUnbind(object, 0, 0, unit));
  }
  Say("free", cuMemFreeAsync(block, stream));
  Say("wait", cuStreamSynchronize(stream));
  Say("freed", cuMulticastBindAddr(object, 0, block, unit, 0));
  Say("free", cuMemFree(plain));
  Say("release", cuMemRelease(object));
}
const Scene kBindAddress("bind-address", "simulated SIMCUDA_DEVICES=2", BindAddress);

// Idle memory of the pool is in the way of the physical memory that is to be bound.
void IdleInTheWay() {
  StartDevice();
  if (!Supported()) return;
  const std::size_t unit = Granularity();
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  Must("info", cuMemGetInfo(&free_bytes, &total));
  const std::size_t share = free_bytes / 16 / (2 * kMiB) * (2 * kMiB);
  std::vector<CUdeviceptr> blocks;
  CUdeviceptr block = 0;
  while (blocks.size() < 40 && cuMemAlloc(&block, share) == CUDA_SUCCESS) blocks.push_back(block);
  for (const CUdeviceptr each : blocks) Must("free", cuMemFree(each));
  const std::size_t bytes = share * 12 / unit * unit;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle memory = 0;
  Say("three quarters", cuMemCreate(&memory, bytes, &properties, 0));
  const CUmemGenericAllocationHandle object = Object(bytes);
  Say("bind", cuMulticastBindMem(object, 0, memory, 0, bytes, 0));
  Say("release", cuMemRelease(object));
  Say("release", cuMemRelease(memory));
}
const Scene kIdleInTheWay("idle-in-the-way", "SIMCUDA_DEVICES=2 SIMCUDA_MEMORY=256MiB", IdleInTheWay);

void Refused() {
  StartDevice();
  if (!Supported()) return;
  CUmemGenericAllocationHandle object = 0;
  CUmulticastObjectProp properties = Properties(2 * kMiB);
  Say("no properties", cuMulticastCreate(&object, nullptr));
  properties.size = 0;
  Say("no bytes", cuMulticastCreate(&object, &properties));
  properties = Properties(2 * kMiB + 1);
  Say("half a page", cuMulticastCreate(&object, &properties));
  const CUmemGenericAllocationHandle memory = Physical(0, 2 * kMiB);
  Say("bind to memory", cuMulticastBindMem(memory, 0, memory, 0, 2 * kMiB, 0));
  Say("add to memory", cuMulticastAddDevice(memory, 0));
  Say("release", cuMemRelease(memory));
}
const Scene kRefused("refused", "SIMCUDA_DEVICES=2", Refused);

}  // namespace
}  // namespace semantics
