// A library that allocates and is unloaded. Compiled twice, with another name for the function that a stack shows.
#include <cuda.h>

#include <cstddef>

extern "C" {

[[gnu::noinline]] CUdeviceptr CUHEAP_HAZARD_NAME(std::size_t bytes) {
  CUdeviceptr address = 0;
  if (cuMemAlloc(&address, bytes) != CUDA_SUCCESS) return 0;
  return address + 0 * bytes;
}

[[gnu::visibility("default")]] CUdeviceptr AllocateFromHere(std::size_t bytes) {
  volatile CUdeviceptr block = CUHEAP_HAZARD_NAME(bytes);
  return block;
}
}
