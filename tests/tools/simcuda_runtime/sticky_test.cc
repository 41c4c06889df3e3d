// An error that destroys the context stays until the device is reset.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace {

TEST(RuntimeStickyError, StaysUntilTheDeviceIsReset) {
  // The second allocation finds the context lost.
  ASSERT_EQ(setenv("SIMCUDA_FAULT", "cuMemAlloc_v2:2:700:sticky", 1), 0);
  void* first = nullptr;
  void* pointer = nullptr;
  ASSERT_EQ(cudaMalloc(&first, 1 << 20), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&pointer, 1 << 20), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress) << "reading it must not clear it";
  EXPECT_EQ(cudaFree(first), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&pointer, 1 << 20), cudaSuccess);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
}

}  // namespace
