// Pinned double buffering: while one buffer is computed on, the other is filled by the host; each is guarded by the
// event of its last use.
#include "tests/interpose/samples/check.h"
#include "tests/interpose/samples/kernels.h"

namespace {

constexpr unsigned kBuffers = 2, kRounds = 9;
constexpr std::size_t kWords = 200'000, kBytes = kWords * sizeof(unsigned);

struct Buffer {
  unsigned *host = nullptr, *device = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t free = nullptr;  // the last round with this buffer is over
};

}  // namespace

int main() {
  Buffer buffers[kBuffers];
  unsigned* sum = nullptr;
  cudaStream_t summing = nullptr;
  CHECK_CUDA(cudaStreamCreate(&summing));
  CHECK_CUDA(cudaMalloc(samples::Out(&sum), kBytes));
  CHECK_CUDA(cudaMemsetAsync(sum, 0, kBytes, summing));
  for (Buffer& buffer : buffers) {
    CHECK_CUDA(cudaHostAlloc(samples::Out(&buffer.host), kBytes, cudaHostAllocWriteCombined));
    CHECK_CUDA(cudaMalloc(samples::Out(&buffer.device), kBytes));
    CHECK_CUDA(cudaStreamCreate(&buffer.stream));
    CHECK_CUDA(cudaEventCreateWithFlags(&buffer.free, cudaEventDisableTiming | cudaEventBlockingSync));
  }
  for (unsigned round = 0; round < kRounds; ++round) {
    Buffer& buffer = buffers[round % kBuffers];
    CHECK_CUDA(cudaEventSynchronize(buffer.free));
    for (std::size_t i = 0; i < kWords; ++i) buffer.host[i] = round + static_cast<unsigned>(i);
    CHECK_CUDA(cudaMemcpyAsync(buffer.device, buffer.host, kBytes, cudaMemcpyHostToDevice, buffer.stream));
    CHECK_CUDA(samples::LaunchScaleAdd(buffer.device, kWords, 2, round, buffer.stream));
    CHECK_CUDA(cudaEventRecord(buffer.free, buffer.stream));
    CHECK_CUDA(cudaStreamWaitEvent(summing, buffer.free, 0));
    CHECK_CUDA(samples::LaunchAdd(sum, sum, buffer.device, kWords, summing));
    CHECK_CUDA(cudaEventRecord(buffer.free, summing));
  }
  std::vector<unsigned> total(kWords);
  CHECK_CUDA(cudaMemcpyAsync(total.data(), sum, kBytes, cudaMemcpyDeviceToHost, summing));
  CHECK_CUDA(cudaStreamSynchronize(summing));
  std::printf("checksum %llx\n", samples::Checksum(total));
  // Each round adds 2 * (round + i) + round.
  samples::Expect(total[5] == 3 * (kRounds * (kRounds - 1) / 2) + 10 * kRounds, "sum of word 5");
  for (Buffer& buffer : buffers) {
    CHECK_CUDA(cudaEventDestroy(buffer.free));
    CHECK_CUDA(cudaStreamDestroy(buffer.stream));
    CHECK_CUDA(cudaFree(buffer.device));
    CHECK_CUDA(cudaFreeHost(buffer.host));
  }
  CHECK_CUDA(cudaFree(sum));
  CHECK_CUDA(cudaStreamDestroy(summing));
  return 0;
}
