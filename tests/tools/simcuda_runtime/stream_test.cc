// Streams, events, errors and devices through the simulated runtime.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

extern "C" cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream);
extern "C" cudaError_t cudaMemcpyAsync_ptsz(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                                            cudaStream_t stream);

namespace {

TEST(RuntimeStream, WorkIsDoneAfterSynchronize) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  int* device = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device), sizeof(int)), cudaSuccess);
  int in = 17;
  int out = 0;
  EXPECT_EQ(cudaMemcpyAsync(device, &in, sizeof in, cudaMemcpyHostToDevice, stream), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(&out, device, sizeof out, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(out, 17);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(RuntimeStream, PerThreadEntryPointsUseThePerThreadStream) {
  int* device = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device), sizeof(int)), cudaSuccess);
  int in = 23;
  int out = 0;
  EXPECT_EQ(cudaMemcpyAsync_ptsz(device, &in, sizeof in, cudaMemcpyHostToDevice, nullptr), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync_ptsz(&out, device, sizeof out, cudaMemcpyDeviceToHost, nullptr), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize_ptsz(nullptr), cudaSuccess);
  EXPECT_EQ(out, 23);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST(RuntimeStream, DefaultStreamCannotBeDestroyed) {
  EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

TEST(RuntimeStream, PriorityIsTheOneAskedFor) {
  int least = 0;
  int greatest = 0;
  ASSERT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), cudaSuccess);
  int priority = 99;
  unsigned int flags = 0;
  EXPECT_EQ(cudaStreamGetPriority(stream, &priority), cudaSuccess);
  EXPECT_EQ(cudaStreamGetFlags(stream, &flags), cudaSuccess);
  EXPECT_EQ(priority, greatest);
  EXPECT_EQ(flags, static_cast<unsigned int>(cudaStreamNonBlocking));
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(RuntimeStream, HostFunctionRunsInOrder) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  int ran = 0;
  EXPECT_EQ(cudaLaunchHostFunc(stream, [](void* data) { *static_cast<int*>(data) = 1; }, &ran), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(RuntimeEvent, IsReadyAfterItsWork) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  ASSERT_EQ(cudaEventCreate(&begin), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(begin, nullptr), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(end, nullptr), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(end), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventDestroy(begin), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
}

TEST(RuntimeEvent, OtherStreamWaitsForIt) {
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  int* device = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device), sizeof(int)), cudaSuccess);
  int in = 31;
  int out = 0;
  EXPECT_EQ(cudaMemcpyAsync(device, &in, sizeof in, cudaMemcpyHostToDevice, first), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(&out, device, sizeof out, cudaMemcpyDeviceToHost, second), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(out, 31);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(first), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(second), cudaSuccess);
}

TEST(RuntimeErrors, BelongToTheirThread) {
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, std::size_t{1} << 60), cudaErrorMemoryAllocation);
  cudaError_t seen = cudaErrorUnknown;
  std::thread([&] { seen = cudaGetLastError(); }).join();
  EXPECT_EQ(seen, cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST(RuntimeErrors, HaveNamesAndTexts) {
  // A number that a later runtime might return. NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
  const auto kNoError = static_cast<cudaError_t>(12345);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
  EXPECT_STREQ(cudaGetErrorString(kNoError), "unrecognized error code");
}

TEST(RuntimeErrors, WhatIsNotSimulatedSaysSo) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr || dlsym(driver, "simcuda_get_table") == nullptr) GTEST_SKIP() << "not the simulated driver";
  testing::internal::CaptureStderr();
  EXPECT_EQ(cudaGraphicsUnregisterResource(nullptr), cudaErrorNotSupported);
  EXPECT_EQ(cudaGraphicsUnregisterResource(nullptr), cudaErrorNotSupported);
  const std::string said = testing::internal::GetCapturedStderr();
  const char* name = "cudaGraphicsUnregisterResource";
  EXPECT_NE(said.find(name), std::string::npos);
  EXPECT_EQ(said.find(name), said.rfind(name)) << "said more than once";
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
}

TEST(RuntimeDevice, PropertiesAgreeWithAttributes) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  ASSERT_GE(count, 1);
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_GT(std::strlen(properties.name), 0U);
  int value = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  EXPECT_EQ(value, properties.major);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  EXPECT_EQ(value, properties.multiProcessorCount);
  EXPECT_GT(properties.multiProcessorCount, 0);
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
  EXPECT_EQ(total, properties.totalGlobalMem);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, count), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(count), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

TEST(RuntimeDevice, VersionsFit) {
  int runtime = 0;
  int driver = 0;
  EXPECT_EQ(cudaRuntimeGetVersion(&runtime), cudaSuccess);
  EXPECT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
  EXPECT_EQ(runtime / 1000, 13);
  EXPECT_GE(driver, runtime);
}

TEST(RuntimeDevice, DriverEntryPointsAreTheDrivers) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 13000, cudaEnableDefault, &status), cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  ASSERT_NE(function, nullptr);
  CUdeviceptr address = 0;
  EXPECT_EQ(reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t)>(function)(&address, 256), CUDA_SUCCESS);
  EXPECT_EQ(cudaFree(reinterpret_cast<void*>(address)), cudaSuccess);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuNoSuchCall", &function, 13000, cudaEnableDefault, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 99000, cudaEnableDefault, &status),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(RuntimeDevice, ResetEndsWhatWasAllocated) {
  void* pointer = nullptr;
  ASSERT_EQ(cudaMalloc(&pointer, 4096), cudaSuccess);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  cudaPointerAttributes attributes = {};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaMalloc(&pointer, 4096), cudaSuccess) << "the device must come back by itself";
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(RuntimeFork, ChildHasNoCudaAndCanExit) {
  void* pointer = nullptr;
  ASSERT_EQ(cudaMalloc(&pointer, 4096), cudaSuccess);
  const pid_t child = fork();
  if (child == 0) {
    void* other = nullptr;
    // With its exit handlers: they must leave the driver alone.
    std::exit(cudaMalloc(&other, 64) == cudaErrorInitializationError ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
}

TEST(RuntimeCapture, NothingCapturesByItself) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  EXPECT_EQ(cudaStreamIsCapturing(nullptr, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
}

}  // namespace
