// Scenes of stream-ordered allocation, one a run, whose results a program could see. The same lines must come out with
// and without the preload library: no addresses are printed, only results, sizes, relations and bytes.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tools/simcuda/simcuda.h"

// cuda.h declares these only in place of the others.
extern "C" {
CUresult cuMemAllocAsync_ptsz(CUdeviceptr*, size_t, CUstream);
CUresult cuMemFreeAsync_ptsz(CUdeviceptr, CUstream);
CUresult cuStreamSynchronize_ptsz(CUstream);
CUresult cuMemsetD32Async_ptsz(CUdeviceptr, unsigned, size_t, CUstream);
}

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

int Say(const char* what, int result) {
  std::printf("%s %d\n", what, result);
  return result;
}

CUcontext StartDevice(int ordinal = 0) {
  CUcontext context = nullptr;
  CUdevice device = 0;
  Say("init", cuInit(0));
  Say("device", cuDeviceGet(&device, ordinal));
  Say("retain", cuDevicePrimaryCtxRetain(&context, device));
  Say("current", cuCtxSetCurrent(context));
  return context;
}

CUstream NewStream() {
  CUstream stream = nullptr;
  Say("stream", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

CUdeviceptr Allocate(std::size_t bytes, CUstream stream) {
  CUdeviceptr address = 0;
  const CUresult result = cuMemAllocAsync(&address, bytes, stream);
  if (result != CUDA_SUCCESS) Say("allocation failed", result);
  return address;
}

CUmemoryPool DefaultPool() {
  CUmemoryPool pool = nullptr;
  Say("default pool", cuDeviceGetDefaultMemPool(&pool, 0));
  return pool;
}

unsigned long long Attribute(CUmemoryPool pool, CUmemPool_attribute attribute) {
  std::uint64_t value = 77;
  const CUresult result = cuMemPoolGetAttribute(pool, attribute, &value);
  if (result != CUDA_SUCCESS) Say("attribute", result);
  return value;
}

void Set(CUmemoryPool pool, CUmemPool_attribute attribute, std::uint64_t value) {
  Say("set", cuMemPoolSetAttribute(pool, attribute, &value));
}

void ShowPool(CUmemoryPool pool) {
  std::printf("used %llu high %llu reserved %llu high %llu threshold %llx\n",
              Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH),
              Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH),
              Attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
}

unsigned ReadWord(CUdeviceptr address) {
  unsigned word = 0;
  const CUresult result = cuMemcpyDtoH(&word, address, sizeof(word));
  if (result != CUDA_SUCCESS) Say("read", result);
  return word;
}

int Attributes() {
  StartDevice();
  CUstream stream = NewStream();
  CUmemoryPool pool = DefaultPool();
  ShowPool(pool);
  Set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~std::uint64_t{0});
  const CUdeviceptr first = Allocate(6 * kMiB, stream);
  const CUdeviceptr second = Allocate(5000, stream);
  std::printf("aligned %d %d\n", first % 512 == 0, second % 512 == 0);
  std::printf("used %llu\n", Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  Say("free", cuMemFreeAsync(second, stream));
  Say("free", cuMemFreeAsync(first, stream));
  Say("synchronize", cuStreamSynchronize(stream));
  std::printf("used %llu high %llu kept %d\n", Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
              Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH),
              Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 6 * kMiB);
  Set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
  Set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 5);
  std::printf("used %llu high %llu\n", Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
              Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
  Say("trim", cuMemPoolTrimTo(pool, 0));
  Set(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
  ShowPool(pool);
  Set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4 * kMiB);
  const CUdeviceptr third = Allocate(4 * kMiB, stream);
  const CUdeviceptr fourth = Allocate(8 * kMiB, stream);
  ShowPool(pool);
  Say("free", cuMemFreeAsync(fourth, stream));
  Say("free", cuMemFreeAsync(third, stream));
  ShowPool(pool);
  Say("synchronize", cuCtxSynchronize());
  std::printf("within the threshold %d\n", Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) <= 4 * kMiB);
  for (const CUmemPool_attribute flag :
       {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
    int value = 7;
    Say("flag", cuMemPoolGetAttribute(pool, flag, &value));
    std::printf("flag %d\n", value);
    value = 0;
    Say("set flag", cuMemPoolSetAttribute(pool, flag, &value));
    Say("flag", cuMemPoolGetAttribute(pool, flag, &value));
    std::printf("flag %d\n", value);
  }
  std::uint64_t value = 0;
  Say("no pool", cuMemPoolGetAttribute(nullptr, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
  Say("no value", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, nullptr));
  std::size_t free_bytes = 0, total = 0;
  Say("trim", cuMemPoolTrimTo(pool, 0));
  Say("info", cuMemGetInfo(&free_bytes, &total));
  std::printf("all free %d\n", free_bytes == total);
  return 0;
}

template <class Value>
void Show(const char* name, CUpointer_attribute attribute, CUdeviceptr address, Value expected) {
  Value value{};
  const CUresult result = cuPointerGetAttribute(&value, attribute, address);
  std::printf("%s %d as expected %d\n", name, result, value == expected);
}

int Pointers() {
  StartDevice();
  CUstream stream = NewStream();
  CUmemoryPool pool = DefaultPool();
  const std::size_t bytes = 3 * kMiB + 1000;
  const CUdeviceptr block = Allocate(bytes, stream);
  const CUdeviceptr small = Allocate(100, stream);
  for (const std::size_t offset : {std::size_t{0}, bytes / 2, bytes - 1}) {
    const CUdeviceptr at = block + offset;
    CUdeviceptr base = 0;
    std::size_t size = 0;
    Say("range", cuMemGetAddressRange(&base, &size, at));
    std::printf("begins %d size %zu\n", base == block, size);
    Show<CUdeviceptr>("start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at, block);
    Show<std::size_t>("size", CU_POINTER_ATTRIBUTE_RANGE_SIZE, at, bytes);
    Show<CUcontext>("context", CU_POINTER_ATTRIBUTE_CONTEXT, at, nullptr);
    Show<unsigned>("type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at, CU_MEMORYTYPE_DEVICE);
    Show<CUdeviceptr>("pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at, at);
    Show<int>("device", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at, 0);
    Show<int>("managed", CU_POINTER_ATTRIBUTE_IS_MANAGED, at, 0);
    Show<int>("ipc", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at, 0);
    Show<unsigned long long>("handle types", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at, 0);
    Show<CUmemoryPool>("pool", CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at, pool);
    Show<CUdeviceptr>("mapping", CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at, block);
    void* host = nullptr;
    Say("host", cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at));
  }
  unsigned long long first = 0, last = 0, other = 0, later = 0;
  Say("id", cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, block));
  cuPointerGetAttribute(&last, CU_POINTER_ATTRIBUTE_BUFFER_ID, block + bytes - 1);
  cuPointerGetAttribute(&other, CU_POINTER_ATTRIBUTE_BUFFER_ID, small);
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                 CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
  CUdeviceptr start = 0;
  unsigned long long id = 0;
  CUmemoryPool of = nullptr;
  void* values[] = {&start, &id, &of};
  Say("attributes", cuPointerGetAttributes(3, names, values, block + 5));
  std::printf("start %d id %d pool %d\n", start == block, id == first, of == pool);
  Say("free", cuMemFreeAsync(block, stream));
  Say("synchronize", cuStreamSynchronize(stream));
  CUdeviceptr base = 0;
  std::size_t size = 0;
  Say("range of freed", cuMemGetAddressRange(&base, &size, block));
  Say("attributes of freed", cuPointerGetAttributes(3, names, values, block));
  std::printf("start %d id %d pool %d\n", start == 0, id == 0, of == nullptr);
  const CUdeviceptr again = Allocate(bytes, stream);
  cuPointerGetAttribute(&later, CU_POINTER_ATTRIBUTE_BUFFER_ID, again);
  std::printf("ids %d %d %d\n", first == last, first != other, first != later);
  CUmemGenericAllocationHandle physical = 0;
  std::printf("no physical handle %d\n",
              cuMemRetainAllocationHandle(&physical, reinterpret_cast<void*>(again)) != CUDA_SUCCESS);
  return 0;
}

int BadCalls() {
  CUdeviceptr block = 17;
  Say("before init", cuMemAllocAsync(&block, 64, nullptr));
  CUcontext context = StartDevice();
  CUstream stream = NewStream();
  CUmemoryPool pool = DefaultPool();
  Say("no bytes", cuMemAllocAsync(&block, 0, stream));
  std::printf("null %d\n", block == 0);
  Say("no place", cuMemAllocAsync(nullptr, 64, stream));
  Say("too much", cuMemAllocAsync(&block, std::size_t{1} << 50, stream));
  Say("no pool", cuMemAllocFromPoolAsync(&block, 64, nullptr, stream));
  block = Allocate(5000, stream);
  Say("interior", cuMemFreeAsync(block + 512, stream));
  Say("interior, now", cuMemFree(block + 512));
  Say("null", cuMemFreeAsync(0, stream));
  Say("foreign", cuMemFreeAsync(0x1234000, stream));
  Say("free", cuMemFreeAsync(block, stream));
  Say("double", cuMemFreeAsync(block, stream));
  Say("double, now", cuMemFree(block));
  block = Allocate(5000, stream);
  Say("free, now", cuMemFree(block));
  Say("double, now", cuMemFree(block));
  Say("allocate", cuMemAlloc(&block, 5000));
  Say("in stream order", cuMemFreeAsync(block, stream));
  Say("double", cuMemFree(block));
  block = Allocate(64, stream);
  Say("no context", cuCtxSetCurrent(nullptr));
  CUdeviceptr other = 0;
  Say("allocation", cuMemAllocAsync(&other, 64, stream));
  Say("legacy", cuMemAllocAsync(&other, 64, nullptr));
  Say("free now", cuMemFree(block));
  Say("current", cuCtxSetCurrent(context));
  Say("destroy", cuStreamDestroy(stream));
  Say("gone stream", cuMemAllocAsync(&other, 64, stream));
  Say("gone stream", cuMemFreeAsync(block, stream));
  Say("gone stream", cuMemAllocFromPoolAsync(&other, 64, pool, stream));
  Say("free", cuMemFree(block));
  return 0;
}

// Memory freed in one stream, under work that is still queued, and wanted in another.
int Reuse() {
  StartDevice();
  CUstream one = NewStream(), two = NewStream();
  CUmemoryPool pool = DefaultPool();
  Set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~std::uint64_t{0});
  const std::size_t bytes = 4 * kMiB;
  const CUdeviceptr result = Allocate(bytes, one);
  Say("synchronize", cuCtxSynchronize());
  for (int i = 0; i < 6; ++i) {
    const CUdeviceptr first = Allocate(bytes, one);
    Say("fill", cuMemsetD32Async(first, 0x11u + static_cast<unsigned>(i), bytes / 4, one));
    Say("copy", cuMemcpyDtoDAsync(result, first, bytes, one));
    Say("free", cuMemFreeAsync(first, one));
    const CUdeviceptr second = Allocate(bytes, two);
    Say("fill", cuMemsetD32Async(second, 0x99, bytes / 4, two));
    Say("synchronize", cuStreamSynchronize(two));
    std::printf("second %x\n", ReadWord(second));
    if (i % 2 == 1) Say("synchronize", cuStreamSynchronize(one));
    if (i % 2 == 1) std::printf("result %x second %x\n", ReadWord(result), ReadWord(second));
    Say("free", cuMemFreeAsync(second, two));
  }
  // Freed synchronously: what the memory was used for before must still be over.
  const CUdeviceptr first = Allocate(bytes, one);
  Say("fill", cuMemsetD32Async(first, 0x77, bytes / 4, one));
  Say("copy", cuMemcpyDtoDAsync(result, first, bytes, one));
  Say("free", cuMemFreeAsync(first, one));
  const CUdeviceptr unused = Allocate(bytes, one);
  Say("free now", cuMemFree(unused));
  const CUdeviceptr second = Allocate(bytes, two);
  Say("fill", cuMemsetD32Async(second, 0x99, bytes / 4, two));
  Say("synchronize", cuStreamSynchronize(two));
  Say("synchronize", cuStreamSynchronize(one));
  std::printf("result %x second %x\n", ReadWord(result), ReadWord(second));
  return 0;
}

int DestroyedStream() {
  StartDevice();
  CUstream two = NewStream();
  const std::size_t bytes = 4 * kMiB;
  const CUdeviceptr result = Allocate(bytes, two);
  Say("synchronize", cuCtxSynchronize());
  for (int i = 0; i < 4; ++i) {
    CUstream one = NewStream();
    const CUdeviceptr first = Allocate(bytes, one);
    Say("fill", cuMemsetD32Async(first, 0x11, bytes / 4, one));
    Say("copy", cuMemcpyDtoDAsync(result, first, bytes, one));
    Say("free", cuMemFreeAsync(first, one));
    Say("destroy", cuStreamDestroy(one));
    const CUdeviceptr second = Allocate(bytes, two);
    Say("fill", cuMemsetD32Async(second, 0x99, bytes / 4, two));
    Say("synchronize", cuStreamSynchronize(two));
    Say("free", cuMemFreeAsync(second, two));
    Say("synchronize", cuCtxSynchronize());
    std::printf("result %x\n", ReadWord(result));
  }
  return 0;
}

int Pools() {
  StartDevice();
  CUstream stream = NewStream();
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  properties.maxSize = 16 * kMiB;
  CUmemoryPool pool = nullptr, shared = nullptr, current = nullptr;
  Say("create", cuMemPoolCreate(&pool, &properties));
  CUdeviceptr blocks[3] = {};
  Say("12 MiB", cuMemAllocFromPoolAsync(&blocks[0], 12 * kMiB, pool, stream));
  Say("12 MiB more", cuMemAllocFromPoolAsync(&blocks[1], 12 * kMiB, pool, stream));
  Say("4 MiB", cuMemAllocFromPoolAsync(&blocks[2], 4 * kMiB, pool, stream));
  CUmemoryPool of = nullptr;
  Say("of", cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, blocks[2] + 100));
  std::printf("of the pool %d\n", of == pool);
  ShowPool(pool);
  CUmemLocation place = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  Say("access", cuMemPoolGetAccess(&flags, pool, &place));
  std::printf("flags %d\n", flags);
  CUmemAccessDesc none = {place, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  Say("no access", cuMemPoolSetAccess(pool, &none, 1));
  Say("set current", cuDeviceSetMemPool(0, pool));
  Say("get current", cuDeviceGetMemPool(&current, 0));
  std::printf("is it %d\n", current == pool);
  Say("free", cuMemFreeAsync(blocks[2], stream));
  const CUdeviceptr through_current = Allocate(3 * kMiB, stream);
  Say("of", cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, through_current));
  std::printf("of the pool %d\n", of == pool);
  Say("fill", cuMemsetD32Async(blocks[0], 0x5, 3 * kMiB, stream));
  Say("destroy", cuMemPoolDestroy(pool));
  Say("gone", cuMemAllocFromPoolAsync(&blocks[1], 512, pool, stream));
  Say("get current", cuDeviceGetMemPool(&current, 0));
  std::printf("default again %d\n", current == DefaultPool());
  std::printf("still there %x\n", (cuStreamSynchronize(stream), ReadWord(blocks[0])));
  Say("free", cuMemFreeAsync(blocks[0], stream));
  Say("free", cuMemFreeAsync(through_current, stream));
  Say("synchronize", cuStreamSynchronize(stream));
  std::size_t free_bytes = 0, total = 0;
  Say("info", cuMemGetInfo(&free_bytes, &total));
  std::printf("all free %d\n", free_bytes == total);
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  std::printf("exportable refused %d\n", cuMemPoolCreate(&shared, &properties) != CUDA_SUCCESS);
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location.id = 99;
  Say("no such device", cuMemPoolCreate(&shared, &properties));
  Say("default can't go", cuMemPoolDestroy(DefaultPool()));
  Say("no pool", cuMemPoolDestroy(nullptr));
  return 0;
}

// 64 MiB devices: refused, and served again after frees; against synchronous memory too.
int OutOfMemory() {
  StartDevice();
  CUstream one = NewStream(), two = NewStream();
  CUmemoryPool pool = DefaultPool();
  Set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~std::uint64_t{0});
  CUdeviceptr block = 0, big = 0;
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 14; ++i) blocks.push_back(Allocate(4 * kMiB, one));
  Say("refused", cuMemAllocAsync(&block, 12 * kMiB, one));
  for (int i = 2; i < 6; ++i) Say("free", cuMemFreeAsync(blocks[static_cast<unsigned>(i)], one));
  Say("16 MiB", cuMemAllocAsync(&block, 16 * kMiB, one));
  Say("free", cuMemFreeAsync(block, one));
  Say("elsewhere", cuMemAllocAsync(&block, 12 * kMiB, two));
  Say("free", cuMemFreeAsync(block, two));
  for (int i = 0; i < 14; ++i) {
    if (i < 2 || i >= 6) cuMemFreeAsync(blocks[static_cast<unsigned>(i)], one);
  }
  Say("synchronize", cuCtxSynchronize());
  Say("synchronous", cuMemAlloc(&big, 60 * kMiB));
  Say("refused", cuMemAllocAsync(&block, 12 * kMiB, one));
  Say("free", cuMemFree(big));
  Say("served", cuMemAllocAsync(&block, 60 * kMiB, one));
  Say("free", cuMemFreeAsync(block, one));
  Say("synchronize", cuStreamSynchronize(one));
  std::size_t pitch = 0;
  Say("pitched", cuMemAllocPitch(&block, &pitch, kMiB, 50, 4));
  Say("free", cuMemFree(block));
  return 0;
}

// Default streams: the legacy one, a thread's own by handle and by the names for per-thread streams.
int DefaultStreams() {
  CUcontext context = StartDevice();
  const std::size_t bytes = 2 * kMiB;
  const CUdeviceptr result = Allocate(bytes, nullptr);
  Say("synchronize", cuCtxSynchronize());
  std::vector<std::thread> threads;
  std::vector<std::string> lines(3);
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&lines, t, context] {
      cuCtxSetCurrent(context);
      for (int i = 0; i < 20; ++i) {
        CUdeviceptr block = 0, copy = 0;
        const unsigned mark = 100 * (t + 1) + static_cast<unsigned>(i);
        int failures = cuMemAllocAsync_ptsz(&block, bytes, nullptr) != CUDA_SUCCESS;
        failures += cuMemAllocAsync(&copy, bytes, CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
        failures += cuMemsetD32Async_ptsz(block, mark, bytes / 4, nullptr) != CUDA_SUCCESS;
        failures += cuMemcpyDtoDAsync(copy, block, bytes, CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
        failures += cuMemFreeAsync(block, CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
        failures += cuMemAllocAsync_ptsz(&block, bytes, nullptr) != CUDA_SUCCESS;
        failures += cuMemsetD32Async_ptsz(block, 7, bytes / 4, nullptr) != CUDA_SUCCESS;
        failures += cuStreamSynchronize_ptsz(nullptr) != CUDA_SUCCESS;
        failures += ReadWord(copy) != mark;
        failures += cuMemFreeAsync_ptsz(copy, nullptr) != CUDA_SUCCESS;
        failures += cuMemFreeAsync_ptsz(block, nullptr) != CUDA_SUCCESS;
        lines[t] += std::to_string(failures);
      }
    });
  }
  for (unsigned t = 0; t < 3; ++t) {
    threads[t].join();
    std::printf("thread %s\n", lines[t].c_str());
  }
  for (int i = 0; i < 5; ++i) {
    const CUdeviceptr block = Allocate(bytes, nullptr);
    Say("fill", cuMemsetD32Async(block, 0x40u + static_cast<unsigned>(i), bytes / 4, nullptr));
    Say("copy", cuMemcpyDtoDAsync(result, block, bytes, nullptr));
    Say("free", cuMemFreeAsync(block, i % 2 == 0 ? nullptr : CU_STREAM_LEGACY));
    Say("synchronize", i % 2 == 0 ? cuStreamSynchronize(nullptr) : cuCtxSynchronize());
    std::printf("result %x\n", ReadWord(result));
  }
  return 0;
}

// Two devices: access of a peer, streams of another context than the current one.
int TwoDevices() {
  CUcontext first = StartDevice(0);
  CUstream in_first = NewStream();
  CUcontext second = StartDevice(1);
  CUstream in_second = NewStream();
  const CUdeviceptr there = Allocate(3 * kMiB, in_first);  // the stream decides
  int ordinal = -1;
  Say("ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there));
  std::printf("device %d\n", ordinal);
  const CUdeviceptr here = Allocate(3 * kMiB, in_second);
  Say("ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, here));
  std::printf("device %d\n", ordinal);
  CUmemoryPool pool = nullptr;
  Say("pool", cuDeviceGetDefaultMemPool(&pool, 0));
  CUmemAccessDesc peer = {{CU_MEM_LOCATION_TYPE_DEVICE, {1}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  Say("access", cuMemPoolSetAccess(pool, &peer, 1));
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  Say("access", cuMemPoolGetAccess(&flags, pool, &peer.location));
  std::printf("flags %d\n", flags);
  const CUdeviceptr later = Allocate(9 * kMiB, in_first);
  Say("fill", cuMemsetD32Async(there, 0x12, 3 * kMiB / 4, in_first));
  Say("fill", cuMemsetD32Async(later, 0x34, 9 * kMiB / 4, in_first));
  Say("synchronize", cuStreamSynchronize(in_first));
  Say("copy", cuMemcpyDtoDAsync(here, there, 3 * kMiB, in_second));
  Say("synchronize", cuStreamSynchronize(in_second));
  std::printf("word %x\n", ReadWord(here));
  Say("copy", cuMemcpyDtoDAsync(here, later, 3 * kMiB, in_second));
  Say("synchronize", cuStreamSynchronize(in_second));
  std::printf("word %x\n", ReadWord(here));
  // A context's end does not free memory of pools.
  Say("reset", cuDevicePrimaryCtxReset(0));
  std::printf("word %x\n", ReadWord(later));
  Say("free", cuMemFreeAsync(later, in_second));
  Say("free", cuMemFree(there));
  Say("free", cuMemFreeAsync(here, in_second));
  Say("synchronize", cuStreamSynchronize(in_second));
  (void)first;
  (void)second;
  return 0;
}

int Fork() {
  StartDevice();
  CUstream stream = NewStream();
  const CUdeviceptr block = Allocate(4096, stream);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr in_child = 0;
    Say("child allocation", cuMemAllocAsync(&in_child, 64, stream));
    Say("child free", cuMemFreeAsync(block, stream));
    std::fflush(stdout);
    _exit(5);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Say("child status", WEXITSTATUS(status));
  Say("free", cuMemFreeAsync(block, stream));
  return 0;
}

CUdeviceptr at_exit_block = 0;
CUstream at_exit_stream = nullptr;
int AtExit() {
  std::atexit([] {
    CUdeviceptr more = 0;
    Say("late allocation", cuMemAllocAsync(&more, 4096, at_exit_stream));
    Say("late free", cuMemFreeAsync(at_exit_block, at_exit_stream));
    std::fflush(stdout);
  });
  StartDevice();
  at_exit_stream = NewStream();
  at_exit_block = Allocate(4096, at_exit_stream);
  return 0;
}

int Fatal() {
  StartDevice();
  CUstream stream = NewStream();
  const CUdeviceptr block = Allocate(4096, stream);
  const CUdeviceptr other = Allocate(4096, stream);
  Say("inject", simcuda_inject("cuMemcpyDtoD_v2", 1, CUDA_ERROR_ILLEGAL_ADDRESS, 1));
  Say("copy", cuMemcpyDtoD(block, other, 64));
  CUdeviceptr more = 0;
  Say("allocation", cuMemAllocAsync(&more, 64, stream));
  Say("free", cuMemFreeAsync(block, stream));
  Say("synchronize", cuStreamSynchronize(stream));
  return 0;
}

int Threads() {
  CUcontext context = StartDevice();
  std::vector<std::thread> threads;
  std::vector<int> failures(6);
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([t, context, &failures] {
      int& failed = failures[t];
      cuCtxSetCurrent(context);
      CUstream stream = nullptr;
      failed += cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
      std::vector<std::pair<CUdeviceptr, unsigned>> blocks;
      for (unsigned i = 0; i < 300; ++i) {
        const unsigned mark = t * 1000 + i;
        const std::size_t bytes = i % 7 == 0 ? 3 * kMiB : 256u * (i % 50 + 1);
        CUdeviceptr block = 0;
        failed += cuMemAllocAsync(&block, bytes, stream) != CUDA_SUCCESS;
        failed += cuMemsetD32Async(block, mark, bytes / 4, stream) != CUDA_SUCCESS;
        blocks.emplace_back(block, mark);
        if (i % 3 != 2) continue;
        const std::size_t at = blocks.size() / 2;
        unsigned word = 0;
        failed += cuMemcpyDtoHAsync(&word, blocks[at].first, sizeof(word), stream) != CUDA_SUCCESS;
        failed += cuMemFreeAsync(blocks[at].first, stream) != CUDA_SUCCESS;
        failed += cuStreamSynchronize(stream) != CUDA_SUCCESS;
        failed += word != blocks[at].second;
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
      }
      for (const auto& [block, mark] : blocks) failed += cuMemFreeAsync(block, stream) != CUDA_SUCCESS;
      failed += cuStreamDestroy(stream) != CUDA_SUCCESS;
    });
  }
  int total = 0;
  for (std::size_t t = 0; t < threads.size(); ++t) {
    threads[t].join();
    total += failures[t];
  }
  Say("synchronize", cuCtxSynchronize());
  return Say("failures", total);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scene = argc > 1 ? argv[1] : "";
  if (scene == "attributes") return Attributes();
  if (scene == "pointers") return Pointers();
  if (scene == "bad-calls") return BadCalls();
  if (scene == "reuse") return Reuse();
  if (scene == "destroyed-stream") return DestroyedStream();
  if (scene == "pools") return Pools();
  if (scene == "out-of-memory") return OutOfMemory();
  if (scene == "default-streams") return DefaultStreams();
  if (scene == "two-devices") return TwoDevices();
  if (scene == "fork") return Fork();
  if (scene == "at-exit") return AtExit();
  if (scene == "fatal") return Fatal();
  if (scene == "threads") return Threads();
  return 2;
}
