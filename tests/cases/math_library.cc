#include "tests/cases/math_library.h"

#include <cuda_runtime_api.h>

extern "C" __attribute__((visibility("default"))) void* MathLibraryCreate() {
  void* workspace = nullptr;
  return cudaMalloc(&workspace, 8'519'680) == cudaSuccess ? workspace : nullptr;
}
