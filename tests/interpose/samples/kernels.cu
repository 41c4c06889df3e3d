#include "tests/interpose/samples/kernels.h"

using samples::Count;

// Parameters in the order and of the sizes that the simulated driver's kernels have.
extern "C" __global__ void simcuda_fill(unsigned* to, Count count, unsigned value) {
  const Count stride = Count{gridDim.x} * blockDim.x;
  for (Count i = Count{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) to[i] = value;
}

extern "C" __global__ void simcuda_add(unsigned* to, const unsigned* a, const unsigned* b, Count count) {
  const Count stride = Count{gridDim.x} * blockDim.x;
  for (Count i = Count{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) to[i] = a[i] + b[i];
}

extern "C" __global__ void simcuda_scale_add(unsigned* x, Count count, unsigned factor, unsigned summand) {
  const Count stride = Count{gridDim.x} * blockDim.x;
  for (Count i = Count{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) x[i] = x[i] * factor + summand;
}

namespace samples {
namespace {

constexpr unsigned kThreads = 256;

unsigned Blocks(Count count) {
  const Count blocks = (count + kThreads - 1) / kThreads;
  return blocks > 1024 ? 1024 : static_cast<unsigned>(blocks);
}

}  // namespace

cudaError_t LaunchFill(unsigned* to, Count count, unsigned value, cudaStream_t stream) {
  simcuda_fill<<<Blocks(count), kThreads, 0, stream>>>(to, count, value);
  return cudaGetLastError();
}

cudaError_t LaunchAdd(unsigned* to, const unsigned* a, const unsigned* b, Count count, cudaStream_t stream) {
  simcuda_add<<<Blocks(count), kThreads, 0, stream>>>(to, a, b, count);
  return cudaGetLastError();
}

cudaError_t LaunchScaleAdd(unsigned* x, Count count, unsigned factor, unsigned summand, cudaStream_t stream) {
  simcuda_scale_add<<<Blocks(count), kThreads, 0, stream>>>(x, count, factor, summand);
  return cudaGetLastError();
}

}  // namespace samples
