// C = A * B with cuBLAS, a few sizes, with a workspace of the program's. The simulated library computes nothing: C
// stays as it was set, which is the same without and with cuheap.
#include <cublas_v2.h>

#include "tests/interpose/samples/check.h"

#define CHECK_BLAS(call)                                                         \
  do {                                                                           \
    const cublasStatus_t status = (call);                                        \
    if (status != CUBLAS_STATUS_SUCCESS) {                                       \
      ::samples::Fail(__FILE_NAME__, __LINE__, #call, status, "cublasStatus_t"); \
    }                                                                            \
  } while (false)

int main() {
  constexpr std::size_t kWorkspace = std::size_t{4} << 20;
  cublasHandle_t blas = nullptr;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  CHECK_CUDA(cudaStreamCreate(&stream));
  CHECK_BLAS(cublasCreate(&blas));
  CHECK_BLAS(cublasSetStream(blas, stream));
  CHECK_CUDA(cudaMalloc(samples::Out(&workspace), kWorkspace));
  CHECK_BLAS(cublasSetWorkspace(blas, workspace, kWorkspace));
  for (const int n : {16, 256, 384, 16}) {
    const std::size_t words = static_cast<std::size_t>(n) * static_cast<std::size_t>(n), bytes = words * sizeof(float);
    std::vector<float> a(words), b(words), c(words);
    for (std::size_t i = 0; i < words; ++i) a[i] = static_cast<float>(i % 7), b[i] = static_cast<float>(i % 5);
    float *da = nullptr, *db = nullptr, *dc = nullptr;
    CHECK_CUDA(cudaMalloc(samples::Out(&da), bytes));
    CHECK_CUDA(cudaMalloc(samples::Out(&db), bytes));
    CHECK_CUDA(cudaMalloc(samples::Out(&dc), bytes));
    CHECK_BLAS(cublasSetMatrixAsync(n, n, sizeof(float), a.data(), n, da, n, stream));
    CHECK_CUDA(cudaMemcpyAsync(db, b.data(), bytes, cudaMemcpyHostToDevice, stream));
    CHECK_CUDA(cudaMemsetAsync(dc, 0, bytes, stream));
    const float one = 1, scale = 0.5F;
    CHECK_BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, da, n, db, n, &scale, dc, n));
    CHECK_CUDA(cudaMemcpyAsync(c.data(), dc, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaFree(da));
    CHECK_CUDA(cudaFree(db));
    CHECK_CUDA(cudaFree(dc));
    double sum = 0;
    for (const float value : c) sum += value;
    std::printf("%d x %d, sum %.6g\n", n, n, sum);
  }
  CHECK_BLAS(cublasDestroy(blas));
  CHECK_CUDA(cudaFree(workspace));
  CHECK_CUDA(cudaStreamDestroy(stream));
  return 0;
}
