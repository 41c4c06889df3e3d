// Kernels of the samples, compiled by nvcc, and functions that launch them. On the simulated driver, which runs no code
// of a GPU, its own test kernels of the same names (tools/simcuda/simcuda.h) do the same.
#ifndef CUHEAP_TESTS_INTERPOSE_SAMPLES_KERNELS_H_
#define CUHEAP_TESTS_INTERPOSE_SAMPLES_KERNELS_H_

#include <cuda_runtime_api.h>

namespace samples {

using Count = unsigned long long;

cudaError_t LaunchFill(unsigned* to, Count count, unsigned value, cudaStream_t stream = nullptr);
// to[i] = a[i] + b[i]
cudaError_t LaunchAdd(unsigned* to, const unsigned* a, const unsigned* b, Count count, cudaStream_t stream = nullptr);
// x[i] = x[i] * factor + summand: the order of two of them shows in the result.
cudaError_t LaunchScaleAdd(unsigned* x, Count count, unsigned factor, unsigned summand, cudaStream_t stream = nullptr);

}  // namespace samples

#endif  // CUHEAP_TESTS_INTERPOSE_SAMPLES_KERNELS_H_
