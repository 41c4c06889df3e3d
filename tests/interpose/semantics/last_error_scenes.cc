// What the runtime keeps of errors, with calls of ours below it.
// Source: CUDA Runtime API, Error Handling; Memory Management.
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
const Scene kLastError("last-error", "", LastError);

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
const Scene kErrorsOfThreads("errors-of-threads", "", ErrorsOfThreads);

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
const Scene kErrorsUnderPressure("errors-under-pressure", "SIMCUDA_MEMORY=256MiB", ErrorsUnderPressure);

}  // namespace
}  // namespace semantics
