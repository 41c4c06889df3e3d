// cuBLAS and cuBLASLt as frameworks use them, through the library's own headers: the simulated functions are declared
// by hand (tools/simcuda/libraries/blas.h), so this is also what compares the two. Skipped where the headers are not.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#if __has_include(<cublas_v2.h>) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <cublas_v2.h>
#define SIMCUDA_TEST_HAS_CUBLAS 1
#endif

#include "tools/simcuda/simcuda.h"

#ifdef SIMCUDA_TEST_HAS_CUBLAS
namespace {

class Blas : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS); }
  void TearDown() override { EXPECT_EQ(cublasDestroy(handle_), CUBLAS_STATUS_SUCCESS); }
  cublasHandle_t handle_ = nullptr;
};

TEST_F(Blas, EveryHandleIsItsOwn) {
  cublasHandle_t other = nullptr;
  ASSERT_EQ(cublasCreate(&other), CUBLAS_STATUS_SUCCESS);
  EXPECT_NE(other, handle_);
  EXPECT_EQ(cublasSetMathMode(other, CUBLAS_TF32_TENSOR_OP_MATH), CUBLAS_STATUS_SUCCESS);
  cublasMath_t mode;
  EXPECT_EQ(cublasGetMathMode(handle_, &mode), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(mode, CUBLAS_DEFAULT_MATH);
  EXPECT_EQ(cublasGetMathMode(other, &mode), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(mode, CUBLAS_TF32_TENSOR_OP_MATH);
  EXPECT_EQ(cublasDestroy(other), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasDestroy(other), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cublasGetMathMode(other, &mode), CUBLAS_STATUS_NOT_INITIALIZED);
}

TEST_F(Blas, SettingsAreKept) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  EXPECT_EQ(cublasSetStream(handle_, stream), CUBLAS_STATUS_SUCCESS);
  cudaStream_t kept = nullptr;
  EXPECT_EQ(cublasGetStream(handle_, &kept), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(kept, stream);
  EXPECT_EQ(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
  cublasPointerMode_t mode;
  EXPECT_EQ(cublasGetPointerMode(handle_, &mode), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(mode, CUBLAS_POINTER_MODE_DEVICE);
  EXPECT_EQ(cublasSetPointerMode(handle_, static_cast<cublasPointerMode_t>(5)), CUBLAS_STATUS_INVALID_VALUE);
  int version = 0;
  EXPECT_EQ(cublasGetVersion(handle_, &version), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(version / 10000, 13);
  EXPECT_EQ(cublasSetStream(handle_, nullptr), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(Blas, ComputationsPutWorkOnTheHandlesStream) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cublasSetStream(handle_, stream), CUBLAS_STATUS_SUCCESS);
  float* matrix = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&matrix), 3 * 64 * sizeof(float)), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::size_t before = simcuda_pending_work();
  const float one = 1;
  EXPECT_EQ(
      cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, matrix, 8, matrix + 64, 8, &one, matrix + 128, 8),
      CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(simcuda_pending_work(), before + 1);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(simcuda_pending_work(), before);
  EXPECT_EQ(cudaFree(matrix), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(Blas, ScalarResultsAreNotLeftAsTheyWere) {
  float* vector = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&vector), 64), cudaSuccess);
  float dot = 5;
  EXPECT_EQ(cublasSdot(handle_, 4, vector, 1, vector, 1, &dot), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(dot, 0);
  double norm = 5;
  EXPECT_EQ(cublasDnrm2(handle_, 4, reinterpret_cast<double*>(vector), 1, &norm), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(norm, 0);
  int index = 5;
  EXPECT_EQ(cublasIsamax(handle_, 4, vector, 1, &index), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(index, 0);
  EXPECT_EQ(cudaFree(vector), cudaSuccess);
}

TEST_F(Blas, VectorsAndMatricesAreCopied) {
  std::vector<float> host = {1, 2, 3, 4, 5, 6};
  float* device = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device), 256), cudaSuccess);
  // Every second element, then packed.
  EXPECT_EQ(cublasSetVector(3, sizeof(float), host.data(), 2, device, 1), CUBLAS_STATUS_SUCCESS);
  std::vector<float> back(3, 0);
  EXPECT_EQ(cublasGetVector(3, sizeof(float), device, 1, back.data(), 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(back, (std::vector<float>{1, 3, 5}));
  // Two columns of two rows out of columns of three.
  EXPECT_EQ(cublasSetMatrix(2, 2, sizeof(float), host.data(), 3, device, 4), CUBLAS_STATUS_SUCCESS);
  std::vector<float> matrix(4, 0);
  EXPECT_EQ(cublasGetMatrix(2, 2, sizeof(float), device, 4, matrix.data(), 2), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(matrix, (std::vector<float>{1, 2, 4, 5}));
  EXPECT_EQ(cublasGetMatrix(2, 2, sizeof(float), device, 1, matrix.data(), 2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST(BlasLt, DescriptorsKeepTheirAttributes) {
  cublasLtMatmulDesc_t operation = nullptr;
  ASSERT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  std::uint32_t epilogue = 0;
  std::size_t written = 0;
  EXPECT_EQ(
      cublasLtMatmulDescGetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, &written),
      CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(epilogue, static_cast<std::uint32_t>(CUBLASLT_EPILOGUE_DEFAULT));
  EXPECT_EQ(written, sizeof epilogue);
  epilogue = CUBLASLT_EPILOGUE_BIAS;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
            CUBLAS_STATUS_SUCCESS);
  std::uint32_t kept = 0;
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &kept, sizeof kept, nullptr),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(kept, epilogue);
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 3),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatmulDescDestroy(operation), CUBLAS_STATUS_SUCCESS);
}

TEST(BlasLt, DescriptorsFitIntoTheProgramsOwnMemory) {
  cublasLtMatrixLayoutOpaque_t layout;
  EXPECT_EQ(cublasLtMatrixLayoutInit(&layout, CUDA_R_16BF, 3, 5, 7), CUBLAS_STATUS_SUCCESS);
  std::int64_t leading_dimension = 0;
  EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_LD, &leading_dimension,
                                             sizeof leading_dimension, nullptr),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(leading_dimension, 7);
  cublasLtMatmulDescOpaque_t operation;
  EXPECT_EQ(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulPreferenceOpaque_t preference;
  EXPECT_EQ(cublasLtMatmulPreferenceInit(&preference), CUBLAS_STATUS_SUCCESS);
  std::uint32_t alignment = 0;
  EXPECT_EQ(cublasLtMatmulPreferenceGetAttribute(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment,
                                                 sizeof alignment, nullptr),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(alignment, 256U);
}

TEST(BlasLt, OneAlgorithmIsFoundAndRuns) {
  cublasLtHandle_t handle = nullptr;
  ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t layout;
  cublasLtMatmulPreferenceOpaque_t preference;
  ASSERT_EQ(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, 8, 8, 8), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatmulPreferenceInit(&preference), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulHeuristicResult_t results[3] = {};
  int count = 0;
  EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, &operation, &layout, &layout, &layout, &layout, &preference, 3,
                                           results, &count),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(results[0].state, CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(results[0].workspaceSize, 0U);
  float* matrix = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&matrix), 256), cudaSuccess);
  const float one = 1;
  EXPECT_EQ(cublasLtMatmul(handle, &operation, &one, matrix, &layout, matrix, &layout, &one, matrix, &layout, matrix,
                           &layout, &results[0].algo, nullptr, 0, nullptr),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaFree(matrix), cudaSuccess);
  EXPECT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_NOT_INITIALIZED);
}

}  // namespace
#else
TEST(Blas, NeedsTheLibrarysHeaders) { GTEST_SKIP() << "cublas_v2.h and cublasLt.h are not on this machine"; }
#endif
