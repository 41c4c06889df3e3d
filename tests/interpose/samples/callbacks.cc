// Host functions in streams: each result is reduced on the host as soon as it has arrived, and decides nothing until
// all are in. The device's memory is freed right after the work was queued, as programs do.
#include "tests/interpose/samples/check.h"
#include "tests/interpose/samples/kernels.h"

namespace {

constexpr int kWorkloads = 5;
constexpr std::size_t kWords = 80'000, kBytes = kWords * sizeof(unsigned);

struct Workload {
  unsigned *device = nullptr, *host = nullptr;
  cudaStream_t stream = nullptr;
  unsigned long long checksum = 0;
};

void Reduce(void* data) {
  auto* workload = static_cast<Workload*>(data);
  workload->checksum = samples::Checksum(workload->host, kWords);
}

}  // namespace

int main() {
  Workload workloads[kWorkloads];
  for (int i = 0; i < kWorkloads; ++i) {
    Workload& workload = workloads[i];
    CHECK_CUDA(cudaStreamCreateWithFlags(&workload.stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMallocHost(samples::Out(&workload.host), kBytes));
    CHECK_CUDA(cudaMalloc(samples::Out(&workload.device), kBytes));
    CHECK_CUDA(samples::LaunchFill(workload.device, kWords, static_cast<unsigned>(i), workload.stream));
    CHECK_CUDA(samples::LaunchScaleAdd(workload.device, kWords, 7, 9, workload.stream));
    CHECK_CUDA(cudaMemcpyAsync(workload.host, workload.device, kBytes, cudaMemcpyDeviceToHost, workload.stream));
    CHECK_CUDA(cudaLaunchHostFunc(workload.stream, Reduce, &workload));
  }
  for (Workload& workload : workloads) CHECK_CUDA(cudaFree(workload.device));
  for (int i = 0; i < kWorkloads; ++i) {
    Workload& workload = workloads[i];
    CHECK_CUDA(cudaStreamSynchronize(workload.stream));
    std::printf("workload %d, checksum %llx\n", i, workload.checksum);
    samples::Expect(workload.host[123] == static_cast<unsigned>(i) * 7 + 9, "word 123");
    CHECK_CUDA(cudaFreeHost(workload.host));
    CHECK_CUDA(cudaStreamDestroy(workload.stream));
  }
  return 0;
}
