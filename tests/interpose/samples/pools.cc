// Stream-ordered memory: blocks of the default pool and of one with a threshold, freed in the stream that used them
// last, some handed from stream to stream by an event.
#include "tests/interpose/samples/check.h"
#include "tests/interpose/samples/kernels.h"

namespace {

constexpr std::size_t kWords = 150'000, kBytes = kWords * sizeof(unsigned);

cudaMemPool_t MakePool() {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 0;
  cudaMemPool_t pool = nullptr;
  CHECK_CUDA(cudaMemPoolCreate(&pool, &properties));
  unsigned long long threshold = 64ULL << 20;
  CHECK_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  return pool;
}

// One step as a training has it: what it needs comes and goes in stream order, the result stays.
void Step(unsigned step, cudaMemPool_t pool, cudaStream_t compute, cudaStream_t copy, cudaEvent_t ready,
          unsigned* out) {
  unsigned *input = nullptr, *temporary = nullptr, *result = nullptr;
  CHECK_CUDA(cudaMallocAsync(samples::Out(&input), kBytes, compute));
  CHECK_CUDA(samples::LaunchFill(input, kWords, step, compute));
  CHECK_CUDA(cudaMallocFromPoolAsync(samples::Out(&temporary), kBytes + step * 4096, pool, compute));
  CHECK_CUDA(samples::LaunchFill(temporary, kWords, 1000, compute));
  CHECK_CUDA(cudaMallocAsync(samples::Out(&result), kBytes, compute));
  CHECK_CUDA(samples::LaunchAdd(result, input, temporary, kWords, compute));
  CHECK_CUDA(cudaFreeAsync(temporary, compute));
  CHECK_CUDA(cudaFreeAsync(input, compute));
  CHECK_CUDA(cudaEventRecord(ready, compute));
  CHECK_CUDA(cudaStreamWaitEvent(copy, ready, 0));
  CHECK_CUDA(cudaMemcpyAsync(out, result, kBytes, cudaMemcpyDeviceToHost, copy));
  CHECK_CUDA(cudaFreeAsync(result, copy));
}

}  // namespace

int main() {
  int supported = 0;
  CHECK_CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  if (supported == 0) samples::Skip("the device has no memory pools");
  constexpr unsigned kSteps = 5;
  cudaMemPool_t pool = MakePool();
  cudaStream_t compute = nullptr, copy = nullptr;
  cudaEvent_t ready = nullptr;
  unsigned* out = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking));
  CHECK_CUDA(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
  CHECK_CUDA(cudaMallocHost(samples::Out(&out), kSteps * kBytes));
  for (unsigned step = 0; step < kSteps; ++step) Step(step, pool, compute, copy, ready, out + step * kWords);
  CHECK_CUDA(cudaStreamSynchronize(copy));
  for (unsigned step = 0; step < kSteps; ++step) {
    std::printf("step %u, checksum %llx\n", step, samples::Checksum(out + step * kWords, kWords));
    samples::Expect(out[step * kWords + 11] == 1000 + step, "sum");
  }
  unsigned long long used = 1;
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  samples::Expect(used == 0, "nothing is in use");
  CHECK_CUDA(cudaMemPoolTrimTo(pool, 0));
  CHECK_CUDA(cudaMemPoolDestroy(pool));
  CHECK_CUDA(cudaFreeHost(out));
  CHECK_CUDA(cudaEventDestroy(ready));
  CHECK_CUDA(cudaStreamDestroy(copy));
  CHECK_CUDA(cudaStreamDestroy(compute));
  return 0;
}
