// Several devices, and none: the environment says how many (SIMCUDA_DEVICES, set by the test's CMake entry).
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

namespace {

int Devices() { return std::stoi(std::getenv("SIMCUDA_DEVICES")); }

class TwoDevices : public testing::Test {
 protected:
  void SetUp() override {
    if (Devices() != 2) GTEST_SKIP() << "runs with two devices";
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  }
  static int DeviceOf(const void* pointer) {
    cudaPointerAttributes attributes = {};
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
    return attributes.device;
  }
};

TEST_F(TwoDevices, AllocationsBelongToTheCurrentOne) {
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(cudaMalloc(&first, 64), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  ASSERT_EQ(cudaMalloc(&second, 64), cudaSuccess);
  EXPECT_EQ(DeviceOf(first), 0);
  EXPECT_EQ(DeviceOf(second), 1);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
}

TEST_F(TwoDevices, EachThreadHasItsOwnCurrentOne) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  int device = -1;
  std::thread([&] {
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
    void* pointer = nullptr;
    EXPECT_EQ(cudaMalloc(&pointer, 64), cudaSuccess);
    EXPECT_EQ(DeviceOf(pointer), 0);
    EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  }).join();
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
}

TEST_F(TwoDevices, CopyFromOneToTheOther) {
  int* first = nullptr;
  int* second = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&first), sizeof(int)), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&second), sizeof(int)), cudaSuccess);
  const int in = 77;
  int out = 0;
  EXPECT_EQ(cudaMemcpy(first, &in, sizeof in, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpyPeer(second, 1, first, 0, sizeof in), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(&out, second, sizeof out, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(out, 77);
  EXPECT_EQ(cudaMemcpyPeer(second, 2, first, 0, sizeof in), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
}

TEST_F(TwoDevices, ResetEndsOnlyTheCurrentOne) {
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(cudaMalloc(&first, 64), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&second, 64), cudaSuccess);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  cudaPointerAttributes attributes = {};
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, second), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(DeviceOf(first), 0);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
}

TEST(NoDevice, IsItsOwnError) {
  if (Devices() != 0) GTEST_SKIP() << "runs without a device";
  int count = 5;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNoDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, 64), cudaErrorNoDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorNoDevice);
  int version = 0;
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_GE(version, 13000);
}

}  // namespace
