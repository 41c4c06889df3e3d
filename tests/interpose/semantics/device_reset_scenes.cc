// Resets with live blocks, and going on after them; the device of each thread.
// Source: CUDA Runtime API, cudaDeviceReset, cudaSetDevice; CUDA Driver API, cuDevicePrimaryCtxReset.
#include <cuda_runtime_api.h>

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
const Scene kReset("reset", "", Reset);

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
const Scene kResetAndThreads("reset-and-threads", "", ResetAndThreads);

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
const Scene kManyBlocks("many-blocks", "", ManyBlocks);

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
const Scene kDevicesOfThreads("devices-of-threads", "SIMCUDA_DEVICES=2", DevicesOfThreads);

}  // namespace
}  // namespace semantics
