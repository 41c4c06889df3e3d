// Stream-ordered allocation: who may have what was freed where, and what pools say of themselves.
// Source: CUDA Driver API, Stream Ordered Memory Allocator; CUDA C++ Programming Guide, same title.
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

constexpr std::size_t kSizes[] = {6000, 5 * kMiB};

CUdeviceptr AllocateIn(CUstream stream, std::size_t bytes) {
  CUdeviceptr block = 0;
  Must("allocate", cuMemAllocAsync(&block, bytes, stream));
  return block;
}

CUmemoryPool DefaultPool(int device = 0) {
  CUmemoryPool pool = nullptr;
  Must("default pool", cuDeviceGetDefaultMemPool(&pool, device));
  return pool;
}

std::uint64_t Attribute(CUmemoryPool pool, CUmemPool_attribute attribute) {
  std::uint64_t value = 0;
  Must("attribute", cuMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

void ShowPool(const char* what, CUmemoryPool pool) {
  Print("%s: used %llu high %llu reserved at least that %d %d", what,
        static_cast<unsigned long long>(Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)),
        static_cast<unsigned long long>(Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH)),
        Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
        Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
}

// Work on a block, its free, and the next owner's work, in one stream or two.
enum class Order { kSameStream, kByEvent, kAfterWait, kNone };

void Hand(Order order) {
  StartDevice();
  const Kernels kernels;
  CUstream first_stream = NewStream();
  CUstream second_stream = order == Order::kSameStream ? first_stream : NewStream();
  CUevent event = nullptr;
  Must("event", cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  for (const std::size_t bytes : kSizes) {
    for (int round = 0; round < 3; ++round) {
      const CUdeviceptr result = Allocate(4096);
      const CUdeviceptr first = AllocateIn(first_stream, bytes);
      Must("fill", cuMemsetD32Async(first, 0x11, 1024, first_stream));
      Must("copy", kernels.Copy(first_stream, result, first, 4096));
      Say("free", cuMemFreeAsync(first, first_stream));
      if (order == Order::kByEvent) {
        Must("record", cuEventRecord(event, first_stream));
        Must("wait", cuStreamWaitEvent(second_stream, event, 0));
      }
      if (order == Order::kAfterWait) Must("wait", cuStreamSynchronize(first_stream));
      const CUdeviceptr second = AllocateIn(second_stream, bytes);
      Must("fill", cuMemsetD32Async(second, 0x22, 1024, second_stream));
      Say("wait for the second", cuStreamSynchronize(second_stream));
      Say("wait for the first", cuStreamSynchronize(first_stream));
      Print("result %x second %x", ReadWord(result), ReadWord(second));
      Expect(ReadWord(result) == 0x11 && ReadWord(second) == 0x22, "both as if alone");
      Say("free", cuMemFreeAsync(second, second_stream));
      Say("free", cuMemFree(result));
    }
  }
}
const Scene kSameStream("same-stream", "", [] { Hand(Order::kSameStream); });
const Scene kByEvent("other-stream-by-event", "", [] { Hand(Order::kByEvent); });
const Scene kAfterWait("other-stream-after-wait", "", [] { Hand(Order::kAfterWait); });
const Scene kUnordered("other-stream-unordered", "", [] { Hand(Order::kNone); });

// Allocated in one stream, used in another behind an event, freed in a third behind the second's.
void ThreeStreams() {
  StartDevice();
  const Kernels kernels;
  CUstream streams[3] = {NewStream(), NewStream(), NewStream()};
  CUevent event = nullptr;
  Must("event", cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  const auto follow = [&](CUstream from, CUstream to) {
    Must("record", cuEventRecord(event, from));
    Must("wait", cuStreamWaitEvent(to, event, 0));
  };
  for (const std::size_t bytes : kSizes) {
    for (unsigned round = 0; round < 6; ++round) {
      const CUdeviceptr result = Allocate(4096);
      const CUdeviceptr block = AllocateIn(streams[0], bytes);
      follow(streams[0], streams[1]);
      Must("fill", kernels.Fill(streams[1], block, 1024, round));
      Must("scale", kernels.ScaleAdd(streams[1], block, 1024, 3, 7));
      follow(streams[1], streams[2]);
      Must("copy", kernels.Copy(streams[2], result, block, 4096));
      Say("free", cuMemFreeAsync(block, streams[2]));
      const CUdeviceptr next = AllocateIn(streams[round % 3], bytes);
      Must("fill", cuMemsetD32Async(next, 0x99, 1024, streams[round % 3]));
      Say("wait", cuCtxSynchronize());
      Print("result %u next %x", ReadWord(result), ReadWord(next));
      Expect(ReadWord(result) == round * 3 + 7, "the kernels' own bytes");
      Say("free", cuMemFreeAsync(next, streams[(round + 1) % 3]));
      Say("free", cuMemFree(result));
    }
  }
}
const Scene kThreeStreams("three-streams", "", ThreeStreams);

void PoolAttributes() {
  StartDevice();
  CUmemoryPool pool = DefaultPool();
  CUstream stream = NewStream();
  ShowPool("at first", pool);
  std::uint64_t threshold = 64 * kMiB;
  Say("threshold", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  std::vector<CUdeviceptr> blocks;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{512}, std::size_t{513}, 1 * kMiB, 9 * kMiB}) {
    blocks.push_back(AllocateIn(stream, bytes));
    ShowPool("allocated", pool);
  }
  Say("free", cuMemFreeAsync(blocks[1], stream));
  ShowPool("one freed", pool);
  Say("free now", cuMemFree(blocks[2]));
  ShowPool("two freed", pool);
  Say("double", cuMemFreeAsync(blocks[1], stream));
  ShowPool("after a wrong free", pool);
  std::uint64_t zero = 0;
  Say("reset high", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
  ShowPool("reset", pool);
  for (const std::size_t i : {std::size_t{0}, std::size_t{3}, std::size_t{4}}) {
    Say("free", cuMemFreeAsync(blocks[i], stream));
  }
  Say("wait", cuStreamSynchronize(stream));
  ShowPool("all freed", pool);
  Print("kept %d", Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 9 * kMiB);
  Say("trim", cuMemPoolTrimTo(pool, 4 * kMiB));
  Print("trimmed %d", Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) <= 4 * kMiB);
  Say("trim", cuMemPoolTrimTo(pool, 0));
  Print("reserved %llu", static_cast<unsigned long long>(Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)));
  const CUdeviceptr live = AllocateIn(stream, 5000);
  Must("fill", cuMemsetD32Async(live, 0x31, 1250, stream));
  Say("wait", cuStreamSynchronize(stream));
  Say("trim with a live block", cuMemPoolTrimTo(pool, 0));
  Print("word %x", ReadWord(live));
  Say("free", cuMemFreeAsync(live, stream));
}
const Scene kPoolAttributes("pool-attributes", "", PoolAttributes);

// The device's current pool is another one: cuMemAllocAsync takes from it, until it is set back.
void CurrentPool() {
  StartDevice();
  CUstream stream = NewStream();
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool by_default = DefaultPool();
  CUmemoryPool own = nullptr;
  Say("create", cuMemPoolCreate(&own, &properties));
  const auto owner = [&](CUdeviceptr block) {
    CUmemoryPool pool = nullptr;
    const CUresult result =
        cuPointerGetAttribute(static_cast<void*>(&pool), CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block);
    Print("of %d %s", result, pool == by_default ? "the default pool" : pool == own ? "the other" : "none");
  };
  const CUdeviceptr first = AllocateIn(stream, 5000);
  owner(first);
  Say("set", cuDeviceSetMemPool(0, own));
  CUmemoryPool current = nullptr;
  Say("current", cuDeviceGetMemPool(&current, 0));
  Print("the other %d", current == own);
  const CUdeviceptr second = AllocateIn(stream, 5000);
  owner(second);
  CUdeviceptr third = 0;
  Say("from the default", cuMemAllocFromPoolAsync(&third, 5000, by_default, stream));
  owner(third);
  ShowPool("default", by_default);
  ShowPool("other", own);
  Say("destroy with a live block", cuMemPoolDestroy(own));
  Say("current", cuDeviceGetMemPool(&current, 0));
  Print("the default again %d", current == by_default);
  const CUdeviceptr fourth = AllocateIn(stream, 5000);
  owner(fourth);
  Must("fill", cuMemsetD32Async(second, 0x41, 1250, stream));
  Must("wait", cuStreamSynchronize(stream));
  Print("word %x", ReadWord(second));
  for (const CUdeviceptr block : {first, second, third, fourth}) Say("free", cuMemFreeAsync(block, stream));
  Say("wait", cuStreamSynchronize(stream));
  ShowPool("default", by_default);
}
const Scene kCurrentPool("current-pool", "", CurrentPool);

// A pool with a limit keeps to it.
void LimitedPool() {
  StartDevice();
  CUstream stream = NewStream();
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.maxSize = 8 * kMiB;
  CUmemoryPool pool = nullptr;
  Say("create", cuMemPoolCreate(&pool, &properties));
  CUdeviceptr block = 0;
  Say("more than that", cuMemAllocFromPoolAsync(&block, 9 * kMiB, pool, stream));
  Say("all of it", cuMemAllocFromPoolAsync(&block, 8 * kMiB, pool, stream));
  CUdeviceptr more = 0;
  Say("and more", cuMemAllocFromPoolAsync(&more, 5000, pool, stream));
  Say("free", cuMemFreeAsync(block, stream));
  Say("again", cuMemAllocFromPoolAsync(&more, 5000, pool, stream));
  Say("free", cuMemFreeAsync(more, stream));
  Say("destroy", cuMemPoolDestroy(pool));
}
const Scene kLimitedPool("limited-pool", "", LimitedPool);

// A free in a stream that follows the legacy one, behind work there: a wait for the stream, in which nothing was put,
// may come back before that work is done, and then a pool that keeps nothing gives the memory back.
void FreeBehindLegacyWork() {
  StartDevice();
  CUstream follower = nullptr;
  Must("stream", cuStreamCreate(&follower, CU_STREAM_DEFAULT));
  std::uint64_t keep = 0;
  Must("threshold", cuMemPoolSetAttribute(DefaultPool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  const CUdeviceptr first = AllocateIn(nullptr, 2 * kMiB);
  Must("fill", cuMemsetD32Async(first, 0x33, 2 * kMiB / 4, nullptr));
  Say("free", cuMemFreeAsync(first, follower));
  Say("wait for the follower", cuStreamSynchronize(follower));
  const CUdeviceptr second = AllocateIn(follower, 4096);  // lies elsewhere
  Must("fill", cuMemsetD32Async(second, 0x44, 1024, follower));
  Say("wait for the follower", cuStreamSynchronize(follower));
  Say("wait for all", cuCtxSynchronize());
  Print("second %x", ReadWord(second));
  Expect(ReadWord(second) == 0x44, "the second's own bytes");
  Say("free", cuMemFreeAsync(second, follower));
}
const Scene kFreeBehindLegacyWork("free-behind-legacy-work", "", FreeBehindLegacyWork);

// Pools of two devices, used from the other one.
void PoolsOfDevices() {
  if (!HasDevices(2)) return;
  CUcontext second = StartDevice(1);
  CUstream there = NewStream();
  CUcontext first = StartDevice(0);
  CUstream here = NewStream();
  const CUdeviceptr in_second = AllocateIn(there, 5000);
  const CUdeviceptr in_first = AllocateIn(here, 5000);
  int ordinal = -1;
  Say("ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, in_second));
  Print("on %d", ordinal);
  Must("second", cuCtxSetCurrent(second));
  CUdeviceptr explicit_block = 0;
  Say("from the other's pool", cuMemAllocFromPoolAsync(&explicit_block, 5000, DefaultPool(0), there));
  Say("ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, explicit_block));
  Print("on %d", ordinal);
  Say("free the first's", cuMemFreeAsync(in_first, here));
  Say("free", cuMemFreeAsync(explicit_block, there));
  Say("wait", cuStreamSynchronize(there));
  Must("first", cuCtxSetCurrent(first));
  Say("free the second's", cuMemFreeAsync(in_second, there));
  Say("wait", cuStreamSynchronize(there));
  Say("wait", cuStreamSynchronize(here));
}
const Scene kPoolsOfDevices("pools-of-devices", "SIMCUDA_DEVICES=2", PoolsOfDevices);

}  // namespace
}  // namespace semantics
