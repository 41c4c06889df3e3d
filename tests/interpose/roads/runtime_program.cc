// A program of the shared CUDA runtime; built once for each version of it. Scenes by the first argument.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <string>

#include "tests/interpose/roads/ten_blocks.h"

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;

int Allocate() {
  void* block = nullptr;
  for (int i = 0; i < 10; ++i) {
    const cudaError_t result = cudaMalloc(&block, kBlock);  // TEN BLOCKS
    std::printf("allocate %d %s\n", result, block != nullptr ? "address" : "none");
  }
  unsigned word = 0xabcd1234, back = 0;
  std::printf("copies %d", cudaMemcpy(block, &word, sizeof(word), cudaMemcpyHostToDevice));
  std::printf(" %d", cudaMemcpy(&back, block, sizeof(back), cudaMemcpyDeviceToHost));
  std::printf(" %x\n", back);
  void* freed = nullptr;
  std::printf("one more %d", cudaMalloc(&freed, kBlock));
  std::printf(", freed %d\n", cudaFree(freed));
  std::printf("error %d\n", cudaGetLastError());
  return 0;
}

template <class Ask>
int EntryPoints(Ask&& ask) {
  for (const char* name : {"cuNoSuchFunction", "cuMemCreate", "cuMemAllocAsync", "cuGetProcAddress", ""}) {
    for (const unsigned long long flags :
         {cudaEnableDefault, cudaEnableLegacyStream, cudaEnablePerThreadDefaultStream}) {
      void* found = nullptr;
      cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSuccess;
      const cudaError_t result = ask(name, &found, flags, &status);
      std::printf("%s: %d %d %s\n", name, result, status, found != nullptr ? "found" : "null");
    }
  }
  // What the runtime did for itself is there already, so the program's own calls find a context.
  std::printf("ready %d\n", cudaFree(nullptr));
  const DriverCalls calls = FindCalls([&](const char*, const char* symbol) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
    ask(symbol, &found, cudaEnableDefault, &status);
    return found;
  });
  const int status = UseContext(calls);
  std::printf("error %d\n", cudaGetLastError());
  return status;
}

}  // namespace

// Deprecated in CUDA 13, which has it all the same.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

int main(int argc, char** argv) {
  const std::string scene = argc > 1 ? argv[1] : "";
  if (scene == "runtime") return Allocate();
  if (scene == "entry-point") {
    return EntryPoints(
        [](const char* name, void** found, unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
          return cudaGetDriverEntryPoint(name, found, flags, status);
        });
  }
  int status = 2;
  if (scene == "entry-point-by-version") {
    // The last one asks for the functions as they were in an earlier version.
    for (const unsigned int version : {13000U, 12050U, 12000U}) {
      std::printf("version %u\n", version);
      const auto ask = [&](const char* name, void** found, unsigned long long flags,
                           cudaDriverEntryPointQueryResult* answer) {
        return cudaGetDriverEntryPointByVersion(name, found, version, flags, answer);
      };
      if (version != 12000) {
        void* found = nullptr;
        cudaDriverEntryPointQueryResult answer = cudaDriverEntryPointSuccess;
        const cudaError_t result = ask("cuCtxCreate", &found, 0, &answer);
        std::printf("cuCtxCreate %d %d %s\n", result, answer, found != nullptr ? "found" : "null");
      } else {
        status = EntryPoints(ask);
      }
    }
  }
  return status;
}
