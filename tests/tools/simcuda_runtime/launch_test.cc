// Kernels and device variables through the compiler's entry points, registered by hand: what nvcc generates, without
// nvcc. The kernels are the simulated driver's test kernels (tools/simcuda/simcuda.h), found by their names.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "tools/simcuda/runtime/compiler_entry_points.h"

#undef cudaLaunchKernel
#undef cudaLaunchKernelExC

namespace {

// Stand-ins for the host functions of kernels: only their addresses count.
void FillStub() {}
void ScaleAddStub() {}
void NeverRegistered() {}
unsigned int counter[4];
int* managed_counter = nullptr;

// One "program" with two kernels and two variables.
class RuntimeLaunch : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const char image[] = "not read by the simulated driver";
    handle_ = __cudaRegisterFatBinary(const_cast<char*>(image));
    Register(FillStub, "simcuda_fill");
    Register(ScaleAddStub, "simcuda_scale_add");
    __cudaRegisterVar(handle_, reinterpret_cast<char*>(counter), nullptr, "counter", 0, sizeof counter, 0, 0);
    __cudaRegisterManagedVar(handle_, reinterpret_cast<void**>(&managed_counter), nullptr, "managed_counter", 0, 64, 0,
                             0);
    __cudaRegisterFatBinaryEnd(handle_);
  }
  static void TearDownTestSuite() { __cudaUnregisterFatBinary(handle_); }

  static void Register(void (*stub)(), const char* name) {
    __cudaRegisterFunction(handle_, reinterpret_cast<const char*>(stub), nullptr, name, -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
  }
  static const void* Address(void (*stub)()) { return reinterpret_cast<const void*>(stub); }

  void SetUp() override { ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&words_), kWords * 4), cudaSuccess); }
  void TearDown() override { EXPECT_EQ(cudaFree(words_), cudaSuccess); }

  std::vector<std::uint32_t> Words() {
    std::vector<std::uint32_t> out(kWords);
    EXPECT_EQ(cudaMemcpy(out.data(), words_, kWords * 4, cudaMemcpyDeviceToHost), cudaSuccess);
    return out;
  }

  static constexpr std::uint64_t kWords = 256;
  static void** handle_;
  std::uint32_t* words_ = nullptr;
};

void** RuntimeLaunch::handle_ = nullptr;

TEST_F(RuntimeLaunch, KernelActsOnItsArguments) {
  std::uint64_t count = kWords;
  std::uint32_t value = 41;
  void* arguments[] = {static_cast<void*>(&words_), &count, &value};
  EXPECT_EQ(cudaLaunchKernel(Address(FillStub), dim3(1), dim3(32), arguments, 0, nullptr), cudaSuccess);
  std::uint32_t factor = 2;
  std::uint32_t summand = 1;
  void* more[] = {static_cast<void*>(&words_), &count, &factor, &summand};
  EXPECT_EQ(cudaLaunchKernel(Address(ScaleAddStub), dim3(1), dim3(32), more, 0, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(Words()[255], 83U);
}

TEST_F(RuntimeLaunch, GeneratedCodeLaunchesByHandle) {
  ASSERT_EQ(__cudaPushCallConfiguration(dim3(2), dim3(64), 128, cudaStreamPerThread), 0U);
  cudaKernel_t kernel = nullptr;
  ASSERT_EQ(__cudaGetKernel(&kernel, Address(FillStub)), cudaSuccess);
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, static_cast<void*>(&stream)), cudaSuccess);
  EXPECT_EQ(grid.x, 2U);
  EXPECT_EQ(block.x, 64U);
  EXPECT_EQ(shared_bytes, 128U);
  EXPECT_EQ(stream, cudaStreamPerThread);
  std::uint64_t count = kWords;
  std::uint32_t value = 8;
  void* arguments[] = {static_cast<void*>(&words_), &count, &value};
  EXPECT_EQ(__cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(Words()[0], 8U);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, static_cast<void*>(&stream)),
            cudaErrorMissingConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMissingConfiguration);
}

TEST_F(RuntimeLaunch, ExtensibleLaunchIsALaunch) {
  std::uint64_t count = kWords;
  std::uint32_t value = 99;
  void* arguments[] = {static_cast<void*>(&words_), &count, &value};
  cudaLaunchConfig_t configuration = {};
  configuration.gridDim = dim3(1);
  configuration.blockDim = dim3(1);
  EXPECT_EQ(cudaLaunchKernelExC(&configuration, Address(FillStub), arguments), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(Words()[7], 99U);
}

TEST_F(RuntimeLaunch, BadLaunchesHaveTheRuntimesErrors) {
  void* arguments[] = {nullptr};
  EXPECT_EQ(cudaLaunchKernel(Address(NeverRegistered), dim3(1), dim3(1), arguments, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaLaunchKernel(Address(FillStub), dim3(0), dim3(1), arguments, 0, nullptr),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaLaunchKernel(Address(FillStub), dim3(1), dim3(2048), arguments, 0, nullptr),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
}

TEST_F(RuntimeLaunch, WorksFromAnotherThread) {
  std::thread([this] {
    std::uint64_t count = kWords;
    std::uint32_t value = 5;
    void* arguments[] = {static_cast<void*>(&words_), &count, &value};
    EXPECT_EQ(cudaLaunchKernel(Address(FillStub), dim3(1), dim3(32), arguments, 0, nullptr), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  }).join();
  EXPECT_EQ(Words()[100], 5U);
}

TEST_F(RuntimeLaunch, FunctionsHaveAttributesAndOccupancy) {
  cudaFuncAttributes attributes = {};
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, Address(FillStub)), cudaSuccess);
  EXPECT_GT(attributes.maxThreadsPerBlock, 0);
  EXPECT_GT(attributes.ptxVersion, 0);
  int blocks = 0;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, Address(FillStub), 256, 0), cudaSuccess);
  EXPECT_GT(blocks, 0);
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, Address(NeverRegistered)), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
}

TEST_F(RuntimeLaunch, VariablesAreCopiedByTheirHostSymbol) {
  const unsigned int in[4] = {1, 2, 3, 4};
  unsigned int out[4] = {};
  EXPECT_EQ(cudaMemcpyToSymbol(counter, in, sizeof in, 0, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpyFromSymbol(out, counter, 8, 8, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(out[0], 3U);
  EXPECT_EQ(out[1], 4U);
  std::size_t bytes = 0;
  EXPECT_EQ(cudaGetSymbolSize(&bytes, counter), cudaSuccess);
  EXPECT_EQ(bytes, sizeof counter);
  EXPECT_EQ(cudaMemcpyToSymbol(counter, in, sizeof in, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetSymbolSize(&bytes, in), cudaErrorInvalidSymbol);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidSymbol);
}

TEST_F(RuntimeLaunch, ManagedVariablesArePlacedAtModuleStart) {
  ASSERT_EQ(__cudaInitModule(handle_), 1);
  ASSERT_NE(managed_counter, nullptr);
  *managed_counter = 12;
  cudaPointerAttributes attributes = {};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, managed_counter), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeManaged);
}

}  // namespace
