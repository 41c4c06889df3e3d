// Managed memory: the host writes, a kernel computes, the host reads; prefetches and advice between.
#include "tests/interpose/samples/check.h"
#include "tests/interpose/samples/kernels.h"

int main() {
  constexpr std::size_t kWords = 400'000, kBytes = kWords * sizeof(unsigned);
  unsigned *values = nullptr, *addend = nullptr;
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaStreamCreate(&stream));
  CHECK_CUDA(cudaMallocManaged(samples::Out(&values), kBytes, cudaMemAttachGlobal));
  CHECK_CUDA(cudaMalloc(samples::Out(&addend), kBytes));
  CHECK_CUDA(samples::LaunchFill(addend, kWords, 77, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));  // before the host touches managed memory the device is idle
  const cudaMemLocation device{cudaMemLocationTypeDevice, {0}}, host{cudaMemLocationTypeHost, {0}};
  CHECK_CUDA(cudaMemAdvise(values, kBytes, cudaMemAdviseSetPreferredLocation, device));
  for (unsigned round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < kWords; i += 1000) values[i] = round * 100 + static_cast<unsigned>(i);
    CHECK_CUDA(cudaMemPrefetchAsync(values, kBytes, device, 0, stream));
    CHECK_CUDA(samples::LaunchAdd(values, values, addend, kWords, stream));
    CHECK_CUDA(cudaMemPrefetchAsync(values, kBytes, host, 0, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    std::printf("round %u, checksum %llx\n", round, samples::Checksum(values, kWords));
    samples::Expect(values[5000] == round * 100 + 5077, "sum");
  }
  CHECK_CUDA(cudaFree(addend));
  CHECK_CUDA(cudaFree(values));
  CHECK_CUDA(cudaStreamDestroy(stream));
  return 0;
}
