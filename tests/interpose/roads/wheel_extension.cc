// The extension of a wheel: linked with the shared runtime, which lies in another wheel beside it (DT_RPATH).
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

extern "C" __attribute__((visibility("default"))) int cuheap_test_use_wheel() {
  Dl_info runtime{};
  void* block = nullptr;
  for (int i = 0; i < 10; ++i) {
    const cudaError_t result = cudaMalloc(&block, std::size_t{1} << 20);  // TEN BLOCKS
    std::printf("allocate %d %s\n", result, block != nullptr ? "address" : "none");
  }
  cudaError_t (*const function)(void**, std::size_t) = &cudaMalloc;
  const bool found = dladdr(reinterpret_cast<void*>(function), &runtime) != 0;
  std::printf("runtime of %s\n",
              found && std::strstr(runtime.dli_fname, "nvidia/cuda_runtime") != nullptr ? "the wheel" : "elsewhere");
  std::fflush(stdout);
  return 0;
}
