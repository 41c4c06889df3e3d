// Compiled for per-thread default streams: every call below is the _ptsz or _ptds name, in both APIs.
// Source: CUDA Driver API, "Stream synchronization behavior".
#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
#error "this file is about that"
#endif
#include <cuda_runtime_api.h>

#include <thread>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

constexpr std::size_t kSizes[] = {6000, 5 * kMiB};

void InThread(CUcontext context, const auto& work) {
  std::thread thread([&] {
    Must("current", cuCtxSetCurrent(context));
    work();
  });
  thread.join();
}

// Stream 0 is another one in each thread: frees in one do not make memory another's at once.
void FreedInOtherThreads() {
  CUcontext context = StartDevice();
  const Kernels kernels;
  for (const std::size_t bytes : kSizes) {
    for (int round = 0; round < 3; ++round) {
      const CUdeviceptr result = Allocate(4096);
      CUdeviceptr first = 0;
      Say("allocate", cuMemAllocAsync(&first, bytes, nullptr));
      Must("fill", cuMemsetD32Async(first, 0x11, 1024, nullptr));
      Must("copy", kernels.Copy(CU_STREAM_PER_THREAD, result, first, 4096));
      Say("free", cuMemFreeAsync(first, nullptr));
      InThread(context, [&] {
        CUdeviceptr second = 0;
        Say("allocate", cuMemAllocAsync(&second, bytes, nullptr));
        Must("fill", cuMemsetD32Async(second, 0x22, 1024, nullptr));
        Say("wait", cuStreamSynchronize(nullptr));
        unsigned word = 0;
        Say("read", cuMemcpyDtoH(&word, second, 4));
        Print("second %x", word);
        Say("free", cuMemFreeAsync(second, nullptr));
      });
      Say("wait", cuStreamSynchronize(nullptr));
      unsigned word = 0;
      Say("read", cuMemcpyDtoH(&word, result, 4));
      Print("result %x", word);
      Expect(word == 0x11, "the first's own bytes");
      Say("free", cuMemFree(result));
    }
  }
}
const Scene kFreedInOtherThreads("freed-in-other-threads", "", FreedInOtherThreads);

// The legacy stream and a thread's own one wait for each other; a wait for one covers what it waited for.
void Legacy() {
  StartDevice();
  const Kernels kernels;
  for (const std::size_t bytes : kSizes) {
    CUdeviceptr block = 0;
    Say("allocate", cuMemAllocAsync(&block, bytes, CU_STREAM_LEGACY));
    Must("fill", kernels.Fill(CU_STREAM_LEGACY, block, 1024, 5));
    Must("scale", kernels.ScaleAdd(CU_STREAM_PER_THREAD, block, 1024, 3, 1));
    Must("scale", kernels.ScaleAdd(CU_STREAM_LEGACY, block, 1024, 3, 1));
    unsigned word = 0;
    Say("read", cuMemcpyDtoH(&word, block, 4));
    Print("word %u", word);
    Expect(word == 49, "both scaled it, in order");
    Say("free", cuMemFreeAsync(block, nullptr));
    Say("again", cuMemFreeAsync(block, CU_STREAM_LEGACY));
    Say("wait", cuStreamSynchronize(CU_STREAM_LEGACY));
  }
}
const Scene kLegacy("legacy", "", Legacy);

// Synchronous blocks, copied from and freed at once.
void BarrierOfThreads() {
  CUcontext context = StartDevice();
  void* made = nullptr;
  Must("pinned", cuMemHostAlloc(&made, 4096, 0));
  auto* words = static_cast<volatile unsigned*>(made);
  for (const std::size_t bytes : kSizes) {
    words[0] = 0;
    const CUdeviceptr source = Allocate(bytes);
    const CUdeviceptr other = Allocate(bytes);
    InThread(context, [&] {
      Must("fill", cuMemsetD32Async(source, 0x33, 1024, nullptr));
      Must("copy", cuMemcpyDtoHAsync(made, source, 4096, nullptr));
    });
    Say("free", cuMemFree(other));
    Print("word %x", words[0]);
    Expect(words[0] == 0x33, "the copy complete after a free");
    Say("free", cuMemFree(source));
  }
}
const Scene kBarrierOfThreads("barrier-of-threads", "", BarrierOfThreads);

void ManyThreads() {
  CUcontext context = StartDevice();
  std::vector<std::thread> threads;
  std::vector<int> failures(8);
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t, context, &failures] {
      int& failed = failures[static_cast<std::size_t>(t)];
      cuCtxSetCurrent(context);
      std::vector<CUdeviceptr> blocks;
      for (int i = 0; i < 200; ++i) {
        CUdeviceptr block = 0;
        const unsigned mark = static_cast<unsigned>(t * 1000 + i);
        const std::size_t bytes = i % 9 == 0 ? 3 * kMiB : 4000u + static_cast<unsigned>(i) * 40u;
        failed += cuMemAllocAsync(&block, bytes, nullptr) != CUDA_SUCCESS;
        failed += cuMemsetD32Async(block, mark, 1000, nullptr) != CUDA_SUCCESS;
        blocks.push_back(block);
        if (blocks.size() < 4) continue;
        unsigned word = 0;
        const CUdeviceptr oldest = blocks.front();
        failed += cuMemcpyDtoHAsync(&word, oldest, 4, nullptr) != CUDA_SUCCESS;
        failed += cuStreamSynchronize(nullptr) != CUDA_SUCCESS || word != mark - 3;
        failed += cuMemFreeAsync(oldest, nullptr) != CUDA_SUCCESS;
        blocks.erase(blocks.begin());
      }
      for (const CUdeviceptr block : blocks) failed += cuMemFree(block) != CUDA_SUCCESS;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int failed : failures) Print("failures %d", failed);
}
const Scene kManyThreads("many-threads", "", ManyThreads);

// The same by the runtime's names.
void Runtime() {
  for (const std::size_t bytes : kSizes) {
    for (int round = 0; round < 3; ++round) {
      void* first = nullptr;
      void* host = nullptr;
      Say("host", cudaMallocHost(&host, 4096));
      Say("async", cudaMallocAsync(&first, bytes, nullptr));
      Say("set", cudaMemsetAsync(first, 0x31, 4096, nullptr));
      Say("copy", cudaMemcpyAsync(host, first, 4096, cudaMemcpyDeviceToHost, nullptr));
      Say("free", cudaFreeAsync(first, nullptr));
      std::thread other([bytes] {
        void* second = nullptr;
        Say("async", cudaMallocAsync(&second, bytes, nullptr));
        Say("set", cudaMemsetAsync(second, 0x32, 4096, nullptr));
        Say("wait", cudaStreamSynchronize(nullptr));
        unsigned char byte = 0;
        Say("read", cudaMemcpy(&byte, second, 1, cudaMemcpyDeviceToHost));
        Print("second %x", byte);
        Say("free", cudaFreeAsync(second, nullptr));
      });
      other.join();
      Say("wait", cudaStreamSynchronize(nullptr));
      Print("first %x", static_cast<unsigned char*>(host)[4095]);
      Say("free host", cudaFreeHost(host));
      void* block = nullptr;
      Say("malloc", cudaMalloc(&block, bytes));
      Say("set", cudaMemset(block, 0x33, 4096));
      unsigned char byte = 0;
      Say("read", cudaMemcpy(&byte, block, 1, cudaMemcpyDeviceToHost));
      Print("block %x", byte);
      Say("free", cudaFree(block));
      Say("peek", cudaPeekAtLastError());
    }
  }
}
const Scene kRuntime("runtime", "", Runtime);

}  // namespace
}  // namespace semantics
