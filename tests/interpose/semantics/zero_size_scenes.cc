// No bytes, and few. Source: CUDA Runtime API and CUDA Driver API, Memory Management: cudaMalloc gives null and
// succeeds, cuMemAlloc refuses.
#include <cuda_runtime_api.h>

#include <vector>

#include "tests/interpose/semantics/scene.h"

namespace semantics {
namespace {

void ShowErrors(const char* what) {
  Say(what, cudaPeekAtLastError());
  Say("  last", cudaGetLastError());
  Say("  then", cudaPeekAtLastError());
}

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
const Scene kZeroSizes("zero-sizes", "", ZeroSizes);

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
const Scene kSmallestSizes("smallest-sizes", "", SmallestSizes);

}  // namespace
}  // namespace semantics
