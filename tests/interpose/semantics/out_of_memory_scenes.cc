// Out of memory, and again: requests that a device without us would have served are served, though our pools hold
// memory. Source: CUDA Driver API, cuMemAlloc, CUDA_ERROR_OUT_OF_MEMORY.
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

std::size_t FreeNow() {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  Must("info", cuMemGetInfo(&free_bytes, &total));
  return free_bytes;
}

// A sixteenth of the device, in whole pages.
std::size_t Sixteenth() { return FreeNow() / 16 / (2 * kMiB) * (2 * kMiB); }

std::vector<CUdeviceptr> FillWith(std::size_t bytes, std::size_t at_most) {
  std::vector<CUdeviceptr> blocks;
  CUdeviceptr block = 0;
  while (blocks.size() < at_most && cuMemAlloc(&block, bytes) == CUDA_SUCCESS) blocks.push_back(block);
  return blocks;
}

void FreeAll(std::vector<CUdeviceptr>* blocks) {
  for (const CUdeviceptr block : *blocks) Must("free", cuMemFree(block));
  blocks->clear();
}

// A program catches the error, frees, and tries again.
void Retry() {
  StartDevice();
  const std::size_t unit = Sixteenth();
  for (int round = 0; round < 3; ++round) {
    std::vector<CUdeviceptr> blocks = FillWith(unit, 40);
    Print("units %d", blocks.size() >= 15 && blocks.size() <= 17);
    CUdeviceptr more = 17;
    Say("too much", cuMemAlloc(&more, 2 * unit));
    Say("too much", cuMemAlloc(&more, 2 * unit));
    Print("untouched %d", more == 17);
    Say("free", cuMemFree(blocks.back()));
    blocks.pop_back();
    Say("free", cuMemFree(blocks.back()));
    blocks.pop_back();
    Say("as much as was freed", cuMemAlloc(&more, 2 * unit));
    Say("and more", cuMemAlloc(&blocks.emplace_back(), 2 * unit));
    blocks.pop_back();
    Say("free", cuMemFree(more));
    FreeAll(&blocks);
  }
}
const Scene kRetry("retry", "SIMCUDA_MEMORY=256MiB", Retry);

// Every other block freed: the driver has pages for a larger one, wherever they lie.
void Fragmented() {
  StartDevice();
  const std::size_t unit = Sixteenth();
  std::vector<CUdeviceptr> blocks = FillWith(unit, 14);
  std::vector<CUdeviceptr> kept;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 2 == 0) {
      Must("free", cuMemFree(blocks[i]));
    } else {
      kept.push_back(blocks[i]);
    }
  }
  CUdeviceptr large = 0;
  Say("six of the seven freed", cuMemAlloc(&large, 6 * unit));
  Fill(large, 5, 4096);
  Print("word %u", ReadWord(large));
  Say("free", cuMemFree(large));
  FreeAll(&kept);
  Say("all", cuMemAlloc(&large, 14 * unit));
  Say("free", cuMemFree(large));
}
const Scene kFragmented("fragmented", "SIMCUDA_MEMORY=256MiB", Fragmented);

// Small blocks, freed but never waited for, hold whole slabs: they are in nobody's way.
void IdleInTheWay(bool wait_first) {
  StartDevice();
  const std::size_t room = 12 * Sixteenth();
  const auto fill_and_free = [&] {
    std::vector<CUdeviceptr> blocks = FillWith(250 * kKiB, room / (250 * kKiB));
    FreeAll(&blocks);
    if (wait_first) Must("synchronize", cuCtxSynchronize());
  };
  CUdeviceptr block = 0;
  std::size_t pitch = 0;
  fill_and_free();
  Say("one large", cuMemAlloc(&block, room));
  Say("free", cuMemFree(block));
  fill_and_free();
  Say("pitched", cuMemAllocPitch(&block, &pitch, 1 * kMiB, room / kMiB, 4));
  Say("free", cuMemFree(block));
  fill_and_free();
  Say("in stream order", cuMemAllocAsync(&block, room, nullptr));
  Say("free", cuMemFreeAsync(block, nullptr));
  Say("synchronize", cuStreamSynchronize(nullptr));
  fill_and_free();
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  Say("physical", cuMemCreate(&handle, room, &properties, 0));
  Say("release", cuMemRelease(handle));
  fill_and_free();
  CUmemPoolProps pool_properties = {};
  pool_properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  pool_properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  Say("pool", cuMemPoolCreate(&pool, &pool_properties));
  Say("from a pool", cuMemAllocFromPoolAsync(&block, room, pool, nullptr));
  Say("free", cuMemFreeAsync(block, nullptr));
  Say("synchronize", cuStreamSynchronize(nullptr));
  fill_and_free();
  CUcontext other = nullptr;
  Say("another context", cuCtxCreate(&other, nullptr, 0, 0));
  Say("its block", cuMemAlloc(&block, room));
  Say("destroy", cuCtxDestroy(other));
}
const Scene kIdleInTheWay("idle-in-the-way", "SIMCUDA_MEMORY=256MiB", [] { IdleInTheWay(true); });
const Scene kWaitingInTheWay("waiting-in-the-way", "SIMCUDA_MEMORY=256MiB", [] { IdleInTheWay(false); });

// Stream-ordered memory in the way of the others, and the other way about.
void PoolsInTheWay() {
  StartDevice();
  const std::size_t room = 12 * Sixteenth();
  CUstream stream = NewStream();
  CUmemoryPool pool = nullptr;
  Must("default pool", cuDeviceGetDefaultMemPool(&pool, 0));
  std::uint64_t threshold = ~std::uint64_t{0};
  Say("keep", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  for (int round = 0; round < 2; ++round) {
    CUdeviceptr in_stream = 0;
    Say("in stream order", cuMemAllocAsync(&in_stream, room, stream));
    Say("free", cuMemFreeAsync(in_stream, stream));
    Say("synchronize", cuStreamSynchronize(stream));
    CUdeviceptr block = 0;
    Say("block", cuMemAlloc(&block, room));
    Say("free", cuMemFree(block));
    std::vector<CUdeviceptr> small = FillWith(100 * kKiB, room / (100 * kKiB));
    Print("small ones %d", small.size() == room / (100 * kKiB));
    FreeAll(&small);
  }
}
const Scene kPoolsInTheWay("pools-in-the-way", "SIMCUDA_MEMORY=256MiB", PoolsInTheWay);

// Threads that together never want more than there is: none of them may be told that memory is out.
using Take = CUresult (*)(CUdeviceptr*, std::size_t, CUstream);
using Give = CUresult (*)(CUdeviceptr, CUstream);

CUresult TakeBlock(CUdeviceptr* out, std::size_t bytes, CUstream) { return cuMemAlloc(out, bytes); }
CUresult GiveBlock(CUdeviceptr block, CUstream) { return cuMemFree(block); }
CUresult TakePitched(CUdeviceptr* out, std::size_t bytes, CUstream) {
  std::size_t pitch = 0;
  return cuMemAllocPitch(out, &pitch, kMiB, bytes / kMiB, 4);
}
CUresult TakeInStream(CUdeviceptr* out, std::size_t bytes, CUstream stream) {
  return cuMemAllocAsync(out, bytes, stream);
}
// Waited for, so that what was freed can be had by others.
CUresult GiveInStream(CUdeviceptr block, CUstream stream) {
  const CUresult result = cuMemFreeAsync(block, stream);
  return result == CUDA_SUCCESS ? cuStreamSynchronize(stream) : result;
}

struct Worker {
  CUcontext context;
  unsigned seed;
  std::size_t share;
  Take take;
  Give give;

  int Run() const {
    int failures = 0;
    std::mt19937 random(seed);
    cuCtxSetCurrent(context);
    CUstream stream = nullptr;
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    std::vector<std::pair<CUdeviceptr, std::size_t>> held;
    std::size_t sum = 0;
    for (int step = 0; step < 120; ++step) {
      const std::size_t bytes = (1 + random() % (share / (2 * kMiB))) * 2 * kMiB;
      while (sum + bytes > share) {
        failures += give(held.back().first, stream) == CUDA_SUCCESS ? 0 : 1;
        sum -= held.back().second;
        held.pop_back();
      }
      CUdeviceptr block = 0;
      if (take(&block, bytes, stream) != CUDA_SUCCESS) {
        ++failures;
      } else {
        held.emplace_back(block, bytes);
        sum += bytes;
      }
    }
    for (const auto& [block, bytes] : held) failures += give(block, stream) == CUDA_SUCCESS ? 0 : 1;
    return failures;
  }
};

void RunThreads(const std::vector<std::pair<Take, Give>>& kinds) {
  CUcontext context = StartDevice();
  const std::size_t share = FreeNow() / 8;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t) {
    const auto& [take, give] = kinds[t % kinds.size()];
    const Worker worker{context, t, share, take, give};
    threads.emplace_back([worker, &failures] { failures += worker.Run(); });
  }
  for (std::thread& thread : threads) thread.join();
  Print("failures %d", failures.load());
  Expect(failures == 0, "served as long as there is memory");
}

const Scene kThreads("threads", "SIMCUDA_MEMORY=256MiB", [] { RunThreads({{TakeBlock, GiveBlock}}); });
const Scene kThreadsInStreams("threads-in-stream-order", "SIMCUDA_MEMORY=256MiB", [] {
  RunThreads({{TakeInStream, GiveInStream}});
});
const Scene kThreadsMixed("threads-mixed", "SIMCUDA_MEMORY=256MiB", [] {
  RunThreads({{TakeBlock, GiveBlock}, {TakeInStream, GiveInStream}, {TakePitched, GiveBlock}});
});

}  // namespace
}  // namespace semantics
