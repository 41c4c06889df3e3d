// c = a + b by the runtime API and a kernel compiled by nvcc.
#include "tests/interpose/samples/check.h"
#include "tests/interpose/samples/kernels.h"

int main() {
  for (const std::size_t count : {50'000U, 1U, 2'000'000U, 50'000U}) {
    const std::vector<unsigned> a = samples::Sequence(count, 1, 2), b = samples::Sequence(count, 5, 9);
    std::vector<unsigned> c(count);
    const std::size_t bytes = count * sizeof(unsigned);
    unsigned *da = nullptr, *db = nullptr, *dc = nullptr;
    CHECK_CUDA(cudaMalloc(samples::Out(&da), bytes));
    CHECK_CUDA(cudaMalloc(samples::Out(&db), bytes));
    CHECK_CUDA(cudaMalloc(samples::Out(&dc), bytes));
    CHECK_CUDA(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));
    CHECK_CUDA(samples::LaunchAdd(dc, da, db, count));
    CHECK_CUDA(cudaMemcpy(c.data(), dc, bytes, cudaMemcpyDeviceToHost));
    CHECK_CUDA(cudaFree(da));
    CHECK_CUDA(cudaFree(db));
    CHECK_CUDA(cudaFree(dc));
    std::printf("%zu words, checksum %llx\n", count, samples::Checksum(c));
    samples::Expect(c[count - 1] == 6 + 11 * static_cast<unsigned>(count - 1), "sums");
  }
  CHECK_CUDA(cudaDeviceSynchronize());
  return 0;
}
