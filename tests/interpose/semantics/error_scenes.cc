// Error codes of the memory calls with bad arguments, in every state a process can be in.
// Source: CUDA Driver API, "Returns" of each function. Handles that are no handles are not tried: a real driver may
// follow them.
#include <cstdlib>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

constexpr CUdeviceptr kNobodys = 0x1234000;

void Device() {
  CUdeviceptr address = 17;
  std::size_t pitch = 0;
  Say("alloc, no output", cuMemAlloc(nullptr, 64));
  Say("alloc, no bytes", cuMemAlloc(&address, 0));
  Say("alloc, too much", cuMemAlloc(&address, std::size_t{1} << 50));
  Say("alloc, all there is", cuMemAlloc(&address, ~std::size_t{0}));
  Print("output untouched %d", address == 17);
  Say("pitch, no output", cuMemAllocPitch(nullptr, &pitch, 64, 4, 4));
  Say("pitch, no pitch", cuMemAllocPitch(&address, nullptr, 64, 4, 4));
  Say("pitch, no width", cuMemAllocPitch(&address, &pitch, 0, 4, 4));
  Say("pitch, no height", cuMemAllocPitch(&address, &pitch, 64, 0, 4));
  Say("pitch, element", cuMemAllocPitch(&address, &pitch, 64, 4, 5));
  Say("managed, no output", cuMemAllocManaged(nullptr, 64, CU_MEM_ATTACH_GLOBAL));
  Say("managed, no bytes", cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL));
  Say("managed, flags", cuMemAllocManaged(&address, 64, 0x70));
  Say("free, null", cuMemFree(0));
  Say("free, nobody's", cuMemFree(kNobodys));
}

void Host() {
  void* host = nullptr;
  CUdeviceptr address = 0;
  unsigned flags = 0;
  char bytes[64];
  Say("host, no output", cuMemHostAlloc(nullptr, 64, 0));
  Say("host, no bytes", cuMemHostAlloc(&host, 0, 0));
  Say("host, flags", cuMemHostAlloc(&host, 64, 0x7000));
  Say("host, too much", cuMemHostAlloc(&host, std::size_t{1} << 60, 0));
  Say("host free, null", cuMemFreeHost(nullptr));
  Say("host free, nobody's", cuMemFreeHost(bytes));
  Say("register, null", cuMemHostRegister(nullptr, 64, 0));
  Say("register, no bytes", cuMemHostRegister(bytes, 0, 0));
  Say("unregister, nobody's", cuMemHostUnregister(bytes));
  Say("device pointer, no output", cuMemHostGetDevicePointer(nullptr, bytes, 0));
  Say("device pointer, nobody's", cuMemHostGetDevicePointer(&address, bytes, 0));
  Say("flags, nobody's", cuMemHostGetFlags(&flags, bytes));
}

void Queries() {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  unsigned long long value = 0;
  CUpointer_attribute type = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* place = &value;
  int on = 1;
  Say("info", cuMemGetInfo(&bytes, &bytes));
  Say("range, nobody's", cuMemGetAddressRange(&base, &bytes, kNobodys));
  Say("attribute, no output", cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, kNobodys));
  Say("attribute, nobody's", cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, kNobodys));
  Say("attribute, unknown",
      cuPointerGetAttribute(&value, static_cast<CUpointer_attribute>(999), kNobodys));  // NOLINT: what is no attribute
  Say("attributes, none", cuPointerGetAttributes(0, &type, &place, kNobodys));
  Say("attributes, no list", cuPointerGetAttributes(1, nullptr, &place, kNobodys));
  Say("attributes, nobody's", cuPointerGetAttributes(1, &type, &place, kNobodys));
  Say("set attribute, nobody's", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, kNobodys));
}

void Streams() {
  CUdeviceptr address = 0;
  CUmemoryPool pool = nullptr;
  std::uint64_t value = 0;
  Say("async, no output", cuMemAllocAsync(nullptr, 64, nullptr));
  Say("async, no bytes", cuMemAllocAsync(&address, 0, nullptr));
  Say("async, too much", cuMemAllocAsync(&address, std::size_t{1} << 50, nullptr));
  Say("from no pool", cuMemAllocFromPoolAsync(&address, 64, nullptr, nullptr));
  Say("free async, null", cuMemFreeAsync(0, nullptr));
  Say("free async, nobody's", cuMemFreeAsync(kNobodys, nullptr));
  Say("default pool, no output", cuDeviceGetDefaultMemPool(nullptr, 0));
  Say("default pool, no device", cuDeviceGetDefaultMemPool(&pool, 99));
  Say("pool, no output", cuMemPoolCreate(nullptr, nullptr));
  Say("pool, no properties", cuMemPoolCreate(&pool, nullptr));
  if (cuDeviceGetDefaultMemPool(&pool, 0) != CUDA_SUCCESS) return;
  Say("destroy the default pool", cuMemPoolDestroy(pool));
  Say("attribute, unknown",
      cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(99), &value));  // NOLINT: what is none
  Say("attribute, no output", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, nullptr));
  Say("set what cannot be set", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
  Say("access, none", cuMemPoolSetAccess(pool, nullptr, 0));
  Say("trim", cuMemPoolTrimTo(pool, 0));
}

void Virtual() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  Say("create, no output", cuMemCreate(nullptr, 2 * kMiB, &properties, 0));
  Say("create, no bytes", cuMemCreate(&handle, 0, &properties, 0));
  Say("create, odd bytes", cuMemCreate(&handle, 5000, &properties, 0));
  Say("create, no properties", cuMemCreate(&handle, 2 * kMiB, nullptr, 0));
  Say("create, too much", cuMemCreate(&handle, std::size_t{1} << 50, &properties, 0));
  Say("reserve, no output", cuMemAddressReserve(nullptr, 2 * kMiB, 0, 0, 0));
  Say("reserve, no bytes", cuMemAddressReserve(&range, 0, 0, 0, 0));
  Say("unmap, nobody's", cuMemUnmap(kNobodys, 2 * kMiB));
  Say("access, nobody's", cuMemSetAccess(kNobodys, 2 * kMiB, &access, 1));
  Say("address free, nobody's", cuMemAddressFree(kNobodys, 2 * kMiB));
  Say("retain, nobody's", cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(kNobodys)));
}

void Work(CUdeviceptr block) {
  char bytes[64] = {};
  Say("to nobody", cuMemcpyHtoD(kNobodys, bytes, 64));
  Say("from nobody", cuMemcpyDtoH(bytes, kNobodys, 64));
  Say("fill nobody's", cuMemsetD8(kNobodys, 1, 64));
  if (block == 0) return;
  Say("to a block", cuMemcpyHtoD(block, bytes, 64));
  Say("no bytes", cuMemcpyHtoD(block, bytes, 0));
  Say("fill, no bytes", cuMemsetD8(block, 1, 0));
  Say("fill, askew", cuMemsetD32(block + 2, 1, 4));
  Say("block to nobody", cuMemcpyDtoD(kNobodys, block, 64));
}

void Everything(CUdeviceptr block) {
  Device();
  Host();
  Queries();
  Streams();
  Virtual();
  Work(block);
}

void WithContext() {
  StartDevice();
  const CUdeviceptr block = Allocate(4096);
  Everything(block);
  // None of it has done any harm.
  CUdeviceptr more = 0;
  Say("allocate", cuMemAlloc(&more, 4096));
  Say("free", cuMemFree(more));
  Say("free", cuMemFree(block));
}
const Scene kWithContext("with-context", "", WithContext);

void BeforeInit() { Everything(0); }
const Scene kBeforeInit("before-init", "", BeforeInit);

void NoContext() {
  Must("cuInit", cuInit(0));
  Everything(0);
  StartDevice();
  const CUdeviceptr block = Allocate(4096);
  const CUdeviceptr large = Allocate(4 * kMiB);
  CUdeviceptr in_stream = 0;
  CUstream stream = NewStream();
  Must("allocate", cuMemAllocAsync(&in_stream, 4096, stream));
  Must("none", cuCtxSetCurrent(nullptr));
  Everything(block);
  CUdeviceptr more = 0;
  Say("allocate", cuMemAlloc(&more, 4096));
  Say("allocate", cuMemAlloc(&more, 4 * kMiB));
  Say("free", cuMemFree(block));
  Say("free", cuMemFree(large));
  Say("free", cuMemFree(in_stream));
  Say("free in the default stream", cuMemFreeAsync(in_stream, nullptr));
  // A stream brings its own context along.
  Say("allocate in a stream", cuMemAllocAsync(&more, 4096, stream));
  Say("free in a stream", cuMemFreeAsync(in_stream, stream));
  Say("block free in a stream", cuMemFreeAsync(block, stream));
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  Say("range", cuMemGetAddressRange(&base, &bytes, large));
  CUmemorytype type = {};
  Say("attribute", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, large));
  Print("type %u", type);
}
const Scene kNoContext("no-context", "", NoContext);

void DestroyedContext() {
  Must("cuInit", cuInit(0));
  CUcontext context = nullptr;
  Must("create", cuCtxCreate(&context, nullptr, 0, 0));
  const CUdeviceptr small = Allocate(4096);
  const CUdeviceptr large = Allocate(4 * kMiB);
  CUcontext second = nullptr;
  Must("create", cuCtxCreate(&second, nullptr, 0, 0));
  Say("destroy", cuCtxDestroy(context));
  Say("free", cuMemFree(small));
  Say("free", cuMemFree(large));
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  Say("range", cuMemGetAddressRange(&base, &bytes, large));
  CUmemorytype type = {};
  Say("attribute", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, small));
  Say("copy", cuMemcpyDtoD(small, large, 64));
  Everything(Allocate(4096));
}
const Scene kDestroyedContext("destroyed-context", "", DestroyedContext);

void ReleasedPrimary() {
  StartDevice();
  const CUdeviceptr small = Allocate(4096);
  const CUdeviceptr large = Allocate(4 * kMiB);
  Say("release", cuDevicePrimaryCtxRelease(0));
  CUdeviceptr more = 17;
  Say("allocate", cuMemAlloc(&more, 4096));
  Say("allocate", cuMemAlloc(&more, 4 * kMiB));
  Print("untouched %d", more == 17);
  Say("free", cuMemFree(small));
  Say("free", cuMemFree(large));
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  Say("info", cuMemGetInfo(&free_bytes, &total));
  StartDevice();
  Say("free", cuMemFree(small));
  Say("free", cuMemFree(large));
  Say("allocate", cuMemAlloc(&more, 4096));
  Say("free", cuMemFree(more));
}
const Scene kReleasedPrimary("released-primary", "", ReleasedPrimary);

// After the program's own end has begun: handlers that were registered before CUDA was there run after its own.
CUdeviceptr late_small = 0;
CUdeviceptr late_large = 0;
CUdeviceptr late_in_stream = 0;

struct LateFrees {
  ~LateFrees() {
    if (late_small == 0) return;
    CUdeviceptr more = 0;
    Say("late allocation", cuMemAlloc(&more, 4096));
    Say("late allocation", cuMemAlloc(&more, 4 * kMiB));
    Say("late allocation in a stream", cuMemAllocAsync(&more, 4096, nullptr));
    Say("late free", cuMemFree(late_small));
    Say("late free", cuMemFree(late_large));
    Say("late free in a stream", cuMemFreeAsync(late_in_stream, nullptr));
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    Say("late info", cuMemGetInfo(&free_bytes, &total));
    CUmemorytype type = {};
    Say("late attribute", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, late_small));
    Say("late synchronize", cuCtxSynchronize());
  }
};

void AtExit() {
  static LateFrees late;  // made before cuInit, so destroyed after the driver's own handlers
  StartDevice();
  late_small = Allocate(4096);
  late_large = Allocate(4 * kMiB);
  Must("allocate", cuMemAllocAsync(&late_in_stream, 4096, nullptr));
  const CUdeviceptr ready = Allocate(4096);
  Must("free", cuMemFree(ready));
  Must("synchronize", cuCtxSynchronize());
}
const Scene kAtExit("at-exit", "", AtExit);

void AfterInitAtExit() {
  StartDevice();
  late_small = Allocate(4096);
  late_large = Allocate(4 * kMiB);
  Must("allocate", cuMemAllocAsync(&late_in_stream, 4096, nullptr));
  static LateFrees late;  // destroyed before the driver's handlers
}
const Scene kAfterInitAtExit("at-exit-early", "", AfterInitAtExit);

}  // namespace
}  // namespace semantics
