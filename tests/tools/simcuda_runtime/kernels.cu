// A CUDA C++ program as users write them, compiled by nvcc against the shared runtime. Its kernel has the name of a test
// kernel of the simulated driver, which runs in its place.
#include <cstdio>

#include "tools/simcuda/runtime/compiler_entry_points.h"  // must agree with what nvcc's own code declares

__device__ unsigned int counter[4];
__managed__ int managed_value = 3;

extern "C" __global__ void simcuda_fill(unsigned int* to, unsigned long long count, unsigned int value) {
  for (unsigned long long i = threadIdx.x; i < count; i += blockDim.x) to[i] = value;
}

#define CHECK(call)                                                               \
  do {                                                                            \
    cudaError_t error = (call);                                                   \
    if (error != cudaSuccess) {                                                   \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));         \
      return 1;                                                                   \
    }                                                                             \
  } while (false)

int main() {
  unsigned int* words = nullptr;
  CHECK(cudaMalloc(&words, 4096));
  simcuda_fill<<<1, 32>>>(words, 1024, 7);
  CHECK(cudaGetLastError());
  unsigned int out[1024] = {};
  CHECK(cudaMemcpy(out, words, sizeof out, cudaMemcpyDeviceToHost));
  if (out[0] != 7 || out[1023] != 7) return 2;

  const unsigned int in[4] = {1, 2, 3, 4};
  CHECK(cudaMemcpyToSymbol(counter, in, sizeof in));
  unsigned int back[4] = {};
  CHECK(cudaMemcpyFromSymbol(back, counter, sizeof back));
  if (back[3] != 4) return 3;

  managed_value = 5;
  if (managed_value != 5) return 4;
  CHECK(cudaFree(words));
  return 0;
}
