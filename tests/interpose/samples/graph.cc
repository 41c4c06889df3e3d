// A graph captured from two streams that fork and join, replayed many times with new input, while memory comes and goes
// beside it.
#include "tests/interpose/samples/check.h"
#include "tests/interpose/samples/kernels.h"

namespace {

constexpr std::size_t kWords = 60'000, kBytes = kWords * sizeof(unsigned);

struct Buffers {
  unsigned *host = nullptr, *left = nullptr, *right = nullptr, *sum = nullptr;
};

// Copies in, computes on both halves at once, adds them up, copies out.
cudaGraph_t Capture(const Buffers& buffers, cudaStream_t main, cudaStream_t side) {
  cudaEvent_t fork = nullptr, join = nullptr;
  cudaGraph_t graph = nullptr;
  CHECK_CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CHECK_CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  CHECK_CUDA(cudaStreamBeginCapture(main, cudaStreamCaptureModeGlobal));
  CHECK_CUDA(cudaMemcpyAsync(buffers.left, buffers.host, kBytes, cudaMemcpyHostToDevice, main));
  CHECK_CUDA(cudaMemcpyAsync(buffers.right, buffers.left, kBytes, cudaMemcpyDeviceToDevice, main));
  CHECK_CUDA(cudaEventRecord(fork, main));
  CHECK_CUDA(cudaStreamWaitEvent(side, fork, 0));
  CHECK_CUDA(samples::LaunchScaleAdd(buffers.left, kWords, 3, 1, main));
  CHECK_CUDA(samples::LaunchScaleAdd(buffers.right, kWords, 5, 2, side));
  CHECK_CUDA(cudaEventRecord(join, side));
  CHECK_CUDA(cudaStreamWaitEvent(main, join, 0));
  CHECK_CUDA(samples::LaunchAdd(buffers.sum, buffers.left, buffers.right, kWords, main));
  CHECK_CUDA(cudaMemcpyAsync(buffers.host, buffers.sum, kBytes, cudaMemcpyDeviceToHost, main));
  CHECK_CUDA(cudaStreamEndCapture(main, &graph));
  CHECK_CUDA(cudaEventDestroy(fork));
  CHECK_CUDA(cudaEventDestroy(join));
  return graph;
}

}  // namespace

int main() {
  Buffers buffers;
  cudaStream_t main = nullptr, side = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&main, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  CHECK_CUDA(cudaMallocHost(samples::Out(&buffers.host), kBytes));
  for (unsigned** block : {&buffers.left, &buffers.right, &buffers.sum}) {
    CHECK_CUDA(cudaMalloc(samples::Out(block), kBytes));
  }
  // Launched once before, so that the kernels' code is loaded when the capture begins.
  CHECK_CUDA(samples::LaunchScaleAdd(buffers.left, 1, 1, 0, main));
  CHECK_CUDA(samples::LaunchAdd(buffers.sum, buffers.left, buffers.left, 1, main));
  CHECK_CUDA(cudaStreamSynchronize(main));
  const cudaGraph_t graph = Capture(buffers, main, side);
  std::size_t nodes = 0;
  CHECK_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  std::printf("%zu nodes\n", nodes);
  cudaGraphExec_t executable = nullptr;
  CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  CHECK_CUDA(cudaGraphDestroy(graph));
  for (unsigned round = 0; round < 6; ++round) {
    unsigned* beside = nullptr;
    CHECK_CUDA(cudaMalloc(samples::Out(&beside), kBytes));
    for (std::size_t i = 0; i < kWords; ++i) buffers.host[i] = round * 10 + static_cast<unsigned>(i);
    CHECK_CUDA(cudaGraphLaunch(executable, main));
    CHECK_CUDA(samples::LaunchFill(beside, kWords, 0xffffffff, side));
    CHECK_CUDA(cudaStreamSynchronize(main));
    CHECK_CUDA(cudaFree(beside));
    std::printf("round %u, checksum %llx\n", round, samples::Checksum(buffers.host, kWords));
    samples::Expect(buffers.host[7] == (round * 10 + 7) * 8 + 3, "sum");
  }
  CHECK_CUDA(cudaGraphExecDestroy(executable));
  for (unsigned* block : {buffers.left, buffers.right, buffers.sum}) CHECK_CUDA(cudaFree(block));
  CHECK_CUDA(cudaFreeHost(buffers.host));
  CHECK_CUDA(cudaStreamDestroy(side));
  CHECK_CUDA(cudaStreamDestroy(main));
  return 0;
}
