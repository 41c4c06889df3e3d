// All devices of the machine: a part of the work on each, copied from one to the next, with and without peer access.
#include "tests/interpose/samples/check.h"
#include "tests/interpose/samples/kernels.h"

namespace {

constexpr std::size_t kWords = 300'000, kBytes = kWords * sizeof(unsigned);

struct Part {
  int device = 0;
  unsigned *data = nullptr, *inbox = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t done = nullptr;
};

void EnablePeers(int count) {
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      int possible = 0;
      if (from == to) continue;
      CHECK_CUDA(cudaDeviceCanAccessPeer(&possible, from, to));
      if (possible == 0) continue;
      CHECK_CUDA(cudaSetDevice(from));
      CHECK_CUDA(cudaDeviceEnablePeerAccess(to, 0));
    }
  }
}

void Exchange(std::vector<Part>& parts) {
  for (Part& part : parts) {
    const Part& source = parts[(part.device + 1) % parts.size()];
    CHECK_CUDA(cudaSetDevice(part.device));
    CHECK_CUDA(cudaStreamWaitEvent(part.stream, source.done, 0));
    CHECK_CUDA(cudaMemcpyPeerAsync(part.inbox, part.device, source.data, source.device, kBytes, part.stream));
  }
  for (const Part& part : parts) {
    CHECK_CUDA(cudaSetDevice(part.device));
    CHECK_CUDA(cudaStreamSynchronize(part.stream));
    CHECK_CUDA(samples::LaunchAdd(part.data, part.data, part.inbox, kWords, part.stream));
    CHECK_CUDA(cudaEventRecord(part.done, part.stream));
  }
}

}  // namespace

int main() {
  int count = 0;
  CHECK_CUDA(cudaGetDeviceCount(&count));
  std::printf("%d devices\n", count);
  std::vector<Part> parts(static_cast<std::size_t>(count));
  for (int device = 0; device < count; ++device) {
    Part& part = parts[static_cast<std::size_t>(device)];
    part.device = device;
    CHECK_CUDA(cudaSetDevice(device));
    CHECK_CUDA(cudaStreamCreate(&part.stream));
    CHECK_CUDA(cudaEventCreateWithFlags(&part.done, cudaEventDisableTiming));
    CHECK_CUDA(cudaMalloc(samples::Out(&part.data), kBytes));
    CHECK_CUDA(cudaMalloc(samples::Out(&part.inbox), kBytes));
    CHECK_CUDA(samples::LaunchFill(part.data, kWords, 100 + static_cast<unsigned>(device), part.stream));
    CHECK_CUDA(cudaEventRecord(part.done, part.stream));
  }
  Exchange(parts);
  EnablePeers(count);
  Exchange(parts);
  for (const Part& part : parts) {
    std::vector<unsigned> out(kWords);
    CHECK_CUDA(cudaSetDevice(part.device));
    CHECK_CUDA(cudaMemcpy(out.data(), part.data, kBytes, cudaMemcpyDeviceToHost));
    std::printf("device %d, checksum %llx\n", part.device, samples::Checksum(out));
    if (count == 1) samples::Expect(out[0] == 400, "a device added to itself twice");
    CHECK_CUDA(cudaFree(part.data));
    CHECK_CUDA(cudaFree(part.inbox));
    CHECK_CUDA(cudaEventDestroy(part.done));
    CHECK_CUDA(cudaStreamDestroy(part.stream));
    CHECK_CUDA(cudaDeviceSynchronize());
  }
  return 0;
}
