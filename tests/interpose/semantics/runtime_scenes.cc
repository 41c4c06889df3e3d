// What the runtime keeps of errors, with calls of ours below it; zero sizes; resets; devices of threads.
// Source: CUDA Runtime API, Error Handling; Memory Management; cudaDeviceReset; cudaSetDevice.
#include <cuda_runtime_api.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

void ShowErrors(const char* what) {
  Say(what, cudaPeekAtLastError());
  Say("  last", cudaGetLastError());
  Say("  then", cudaPeekAtLastError());
}

void LastError() {
  void* block = nullptr;
  ShowErrors("at first");
  Say("malloc", cudaMalloc(&block, 5000));
  ShowErrors("after malloc");
  Say("too much", cudaMalloc(&block, std::size_t{1} << 50));
  Say("malloc meanwhile", cudaMalloc(&block, 5000));
  Say("large meanwhile", cudaMalloc(&block, 3 * kMiB));
  ShowErrors("after an error and two successes");
  Say("nothing to write to", cudaMalloc(nullptr, 5000));
  ShowErrors("after no output");
  Say("free", cudaFree(block));
  Say("free again", cudaFree(block));
  ShowErrors("after a double free");
  char local = 0;
  Say("free of the stack", cudaFree(&local));
  Say("free of null", cudaFree(nullptr));
  ShowErrors("after a foreign free and one of null");
  Say("free in a stream", cudaFreeAsync(block, nullptr));
  ShowErrors("after a double free in a stream");
  Say("free host", cudaFreeHost(&local));
  ShowErrors("after a free of host memory");
  cudaPointerAttributes attributes = {};
  Say("attributes of the stack", cudaPointerGetAttributes(&attributes, &local));
  Print("type %d", attributes.type);
  ShowErrors("after a query");
  Say("device", cudaSetDevice(99));
  ShowErrors("after a wrong device");
}
const Scene last_error("last-error", "", LastError);

// An error is the thread's that made it.
void ErrorsOfThreads() {
  void* block = nullptr;
  Say("malloc", cudaMalloc(&block, 5000));
  std::thread other([] {
    void* none = nullptr;
    Say("too much", cudaMalloc(&none, std::size_t{1} << 50));
    Say("peek", cudaPeekAtLastError());
  });
  other.join();
  ShowErrors("of this thread");
  Say("free", cudaFree(block));
}
const Scene errors_of_threads("errors-of-threads", "", ErrorsOfThreads);

// Our own calls of the driver under pressure leave no error behind.
void ErrorsUnderPressure() {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  Say("info", cudaMemGetInfo(&free_bytes, &total));
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> blocks;
    void* block = nullptr;
    for (int i = 0; i < 12; ++i) {
      if (cudaMalloc(&block, free_bytes / 16) != cudaSuccess) break;
      blocks.push_back(block);
    }
    for (void* each : blocks) cudaFree(each);
    Say("nearly all", cudaMalloc(&block, free_bytes / 8 * 7));
    ShowErrors("after a rescue");
    Say("free", cudaFree(block));
  }
}
const Scene errors_under_pressure("errors-under-pressure", "SIMCUDA_MEMORY=256MiB", ErrorsUnderPressure);

// ---- no bytes ----

void ZeroSizes() {
  int here = 0;
  void* const untouched = &here;
  void* block = untouched;
  const auto show = [&](const char* what, int result) {
    Say(what, result);
    Print("  %s", block == nullptr ? "null" : block == untouched ? "untouched" : "an address");
    block = untouched;
  };
  show("malloc", cudaMalloc(&block, 0));
  show("malloc host", cudaMallocHost(&block, 0));
  show("host alloc", cudaHostAlloc(&block, 0, 0));
  show("managed", cudaMallocManaged(&block, 0, cudaMemAttachGlobal));
  show("async", cudaMallocAsync(&block, 0, nullptr));
  std::size_t pitch = 0;
  show("pitch, no width", cudaMallocPitch(&block, &pitch, 0, 5));
  show("pitch, no height", cudaMallocPitch(&block, &pitch, 5, 0));
  CUdeviceptr address = 17;
  const auto show_driver = [&](const char* what, int result) {
    Say(what, result);
    Print("  %s", address == 0 ? "null" : address == 17 ? "untouched" : "an address");
    address = 17;
  };
  show_driver("alloc", cuMemAlloc(&address, 0));
  show_driver("managed", cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL));
  show_driver("async", cuMemAllocAsync(&address, 0, nullptr));
  show_driver("pitch", cuMemAllocPitch(&address, &pitch, 0, 0, 4));
  for (const std::size_t bytes : {std::size_t{2000}, 3 * kMiB}) {
    Say("malloc", cudaMalloc(&block, bytes));
    Say("set none", cudaMemset(block, 1, 0));
    Say("set none in a stream", cudaMemsetAsync(block, 1, 0, nullptr));
    Say("copy none", cudaMemcpy(block, &here, 0, cudaMemcpyHostToDevice));
    Say("copy none behind", cudaMemcpy(static_cast<char*>(block) + bytes, &here, 0, cudaMemcpyHostToDevice));
    Say("copy none to nobody", cudaMemcpy(nullptr, &here, 0, cudaMemcpyHostToDevice));
    Say("free", cudaFree(block));
    Say("set none of freed", cudaMemset(block, 1, 0));
  }
  Say("free null", cudaFree(nullptr));
  Say("free host null", cudaFreeHost(nullptr));
  Say("free async null", cudaFreeAsync(nullptr, nullptr));
  ShowErrors("at last");
}
const Scene zero_sizes("zero-sizes", "", ZeroSizes);

// The smallest sizes: each a block of its own, aligned, whose bytes are its own.
void SmallestSizes() {
  std::vector<unsigned char*> blocks;
  for (std::size_t bytes = 1; bytes <= 40; ++bytes) {
    void* block = nullptr;
    Say("malloc", cudaMalloc(&block, bytes));
    Print("aligned %d", reinterpret_cast<std::uintptr_t>(block) % 256 == 0);
    blocks.push_back(static_cast<unsigned char*>(block));
    Say("set", cudaMemset(block, static_cast<int>(bytes), bytes));
  }
  for (std::size_t bytes = 1; bytes <= 40; ++bytes) {
    unsigned char seen[40] = {};
    Say("read", cudaMemcpy(seen, blocks[bytes - 1], bytes, cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < bytes; ++i) Expect(seen[i] == bytes, "every block's own bytes");
    Say("free", cudaFree(blocks[bytes - 1]));
  }
}
const Scene smallest_sizes("smallest-sizes", "", SmallestSizes);

// ---- resets ----

void UseDevice(int mark) {
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 60; ++i) {
    void* block = nullptr;
    const std::size_t bytes = i % 6 == 0 ? (i + 1) * kMiB / 4 : 500 + i * 300;
    if (cudaMalloc(&block, bytes) != cudaSuccess) Print("failed %zu", i);
    if (cudaMemset(block, mark, 400) != cudaSuccess) Print("set failed %zu", i);
    blocks.push_back(block);
  }
  int wrong = 0;
  for (void* block : blocks) {
    unsigned char byte = 0;
    if (cudaMemcpy(&byte, static_cast<char*>(block) + 399, 1, cudaMemcpyDeviceToHost) != cudaSuccess) ++wrong;
    if (byte != mark) ++wrong;
  }
  Print("wrong %d", wrong);
  for (std::size_t i = 0; i < blocks.size(); i += 2) Say("free", cudaFree(blocks[i]));
}

void Reset() {
  std::size_t free_at_first = 0;
  std::size_t total = 0;
  Say("info", cudaMemGetInfo(&free_at_first, &total));
  for (int round = 1; round <= 4; ++round) {
    UseDevice(round);
    void* small = nullptr;
    void* large = nullptr;
    void* host = nullptr;
    void* in_stream = nullptr;
    Say("malloc", cudaMalloc(&small, 5000));
    Say("malloc", cudaMalloc(&large, 5 * kMiB));
    Say("host", cudaMallocHost(&host, 5000));
    Say("async", cudaMallocAsync(&in_stream, 5000, nullptr));
    Say("wait", cudaDeviceSynchronize());
    Say("reset", cudaDeviceReset());
    Say("free of before", cudaFree(small));
    Say("free of before", cudaFree(large));
    cudaPointerAttributes attributes = {};
    Say("attributes of before", cudaPointerGetAttributes(&attributes, large));
    Print("type %d", attributes.type);
    ShowErrors("after the reset");
    std::size_t free_now = 0;
    Say("info", cudaMemGetInfo(&free_now, &total));
    Print("all back but pools %d", free_now + 4 * kMiB >= free_at_first);
  }
  UseDevice(9);
}
const Scene reset("reset", "", Reset);

// Two resets, one of a device that has nothing; and a reset while another thread has been at work.
void ResetAndThreads() {
  Say("reset at first", cudaDeviceReset());
  UseDevice(1);
  std::thread other([] { UseDevice(2); });
  other.join();
  Say("reset", cudaDeviceReset());
  Say("reset", cudaDeviceReset());
  std::thread later([] { UseDevice(3); });
  later.join();
  UseDevice(4);
}
const Scene reset_and_threads("reset-and-threads", "", ResetAndThreads);

// The driver's own reset, with the runtime unaware of it only until its next call.
void ManyBlocks() {
  StartDevice();
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < 20'000; ++i) {
      CUdeviceptr block = 0;
      if (cuMemAlloc(&block, 256 + i % 700) != CUDA_SUCCESS) Print("failed %zu", i);
    }
    Say("reset", cuDevicePrimaryCtxReset(0));
    StartDevice();
    const CUdeviceptr block = Allocate(1000);
    Fill(block, 7, 1000);
    Print("word %u", ReadWord(block + 996));
  }
}
const Scene many_blocks("many-blocks", "", ManyBlocks);

// ---- devices of threads ----

void DevicesOfThreads() {
  int devices = 0;
  Say("count", cudaGetDeviceCount(&devices));
  if (devices < 2) return Print("needs 2 devices");
  for (int first = 0; first < 2; ++first) {
    void* blocks[2] = {};
    for (int device = 0; device < 2; ++device) {
      std::thread worker([&blocks, device] {
        Say("set", cudaSetDevice(device));
        Say("malloc", cudaMalloc(&blocks[device], 5000));
        Say("fill", cudaMemset(blocks[device], device + 3, 5000));
      });
      worker.join();
    }
    int current = 77;
    Say("current", cudaGetDevice(&current));
    Print("device %d", current);
    for (int device = 0; device < 2; ++device) {
      cudaPointerAttributes attributes = {};
      Say("attributes", cudaPointerGetAttributes(&attributes, blocks[device]));
      Print("on %d type %d", attributes.device, attributes.type);
      unsigned char byte = 0;
      Say("read", cudaMemcpy(&byte, blocks[device], 1, cudaMemcpyDeviceToHost));
      Print("byte %d", byte);
    }
    // Freed by this thread, whose device is the first one.
    for (void* block : blocks) Say("free", cudaFree(block));
    for (void* block : blocks) Say("again", cudaFree(block));
  }
}
const Scene devices_of_threads("devices-of-threads", "SIMCUDA_DEVICES=2", DevicesOfThreads);

}  // namespace
}  // namespace semantics
