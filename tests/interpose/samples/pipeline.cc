// Streams and events: chunks go through three stages in streams of their own, ordered by events alone; device memory is
// allocated and freed between the batches.
#include "tests/interpose/samples/check.h"
#include "tests/interpose/samples/kernels.h"

namespace {

constexpr int kChunks = 4, kBatches = 3;
constexpr std::size_t kWords = 100'000, kBytes = kWords * sizeof(unsigned);

struct Pipeline {
  cudaStream_t load = nullptr, compute = nullptr, store = nullptr;
  cudaEvent_t loaded[kChunks] = {}, computed[kChunks] = {};
};

Pipeline Make() {
  Pipeline pipeline;
  for (cudaStream_t* stream : {&pipeline.load, &pipeline.compute, &pipeline.store}) {
    CHECK_CUDA(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
  }
  for (int i = 0; i < kChunks; ++i) {
    CHECK_CUDA(cudaEventCreateWithFlags(&pipeline.loaded[i], cudaEventDisableTiming));
    CHECK_CUDA(cudaEventCreateWithFlags(&pipeline.computed[i], cudaEventDisableTiming));
  }
  return pipeline;
}

void RunBatch(const Pipeline& pipeline, unsigned batch, unsigned* in, unsigned* out) {
  unsigned* chunks[kChunks] = {};
  for (int i = 0; i < kChunks; ++i) {
    CHECK_CUDA(cudaMalloc(samples::Out(&chunks[i]), kBytes));
    for (std::size_t word = 0; word < kWords; ++word) in[i * kWords + word] = batch * 1000 + i + word;
    CHECK_CUDA(cudaMemcpyAsync(chunks[i], in + i * kWords, kBytes, cudaMemcpyHostToDevice, pipeline.load));
    CHECK_CUDA(cudaEventRecord(pipeline.loaded[i], pipeline.load));
    CHECK_CUDA(cudaStreamWaitEvent(pipeline.compute, pipeline.loaded[i], 0));
    CHECK_CUDA(samples::LaunchScaleAdd(chunks[i], kWords, 3, 1, pipeline.compute));
    CHECK_CUDA(samples::LaunchScaleAdd(chunks[i], kWords, 5, 2, pipeline.compute));
    CHECK_CUDA(cudaEventRecord(pipeline.computed[i], pipeline.compute));
    CHECK_CUDA(cudaStreamWaitEvent(pipeline.store, pipeline.computed[i], 0));
    CHECK_CUDA(cudaMemcpyAsync(out + i * kWords, chunks[i], kBytes, cudaMemcpyDeviceToHost, pipeline.store));
  }
  CHECK_CUDA(cudaStreamSynchronize(pipeline.store));
  for (unsigned* chunk : chunks) CHECK_CUDA(cudaFree(chunk));
}

}  // namespace

int main() {
  Pipeline pipeline = Make();
  unsigned *in = nullptr, *out = nullptr;
  CHECK_CUDA(cudaMallocHost(samples::Out(&in), kChunks * kBytes));
  CHECK_CUDA(cudaMallocHost(samples::Out(&out), kChunks * kBytes));
  for (unsigned batch = 0; batch < kBatches; ++batch) {
    RunBatch(pipeline, batch, in, out);
    std::printf("batch %u, checksum %llx\n", batch, samples::Checksum(out, kChunks * kWords));
    samples::Expect(out[kWords + 9] == (batch * 1000 + 1 + 9) * 15 + 7, "chunk 1");
  }
  CHECK_CUDA(cudaFreeHost(in));
  CHECK_CUDA(cudaFreeHost(out));
  for (int i = 0; i < kChunks; ++i) {
    CHECK_CUDA(cudaEventDestroy(pipeline.loaded[i]));
    CHECK_CUDA(cudaEventDestroy(pipeline.computed[i]));
  }
  for (cudaStream_t stream : {pipeline.load, pipeline.compute, pipeline.store}) CHECK_CUDA(cudaStreamDestroy(stream));
  return 0;
}
