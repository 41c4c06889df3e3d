// Runs a piece of a test as a process of its own on the simulated driver, since the driver reads its environment once.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "tools/simcuda/simcuda.h"

#if defined(__SANITIZE_THREAD__)
// Each child would otherwise sleep a second at its end.
extern "C" inline __attribute__((visibility("default"), used)) const char* __tsan_default_options() {  // NOLINT
  return "atexit_sleep_ms=0";
}
#endif

namespace cuheap::testing {

using Environment = std::map<std::string, std::string>;

// Forks, sets the variables, runs `body` and ends the child with whether it had failures. The test's own process must
// not call the driver, or its children would be forks of an initialised process.
//
// Returns: the wait status.
inline int RunSimulated(const Environment& environment, const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    body();
    std::fflush(nullptr);
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// The same, and a failure in the child is one of the test.
inline void Simulate(const Environment& environment, const std::function<void()>& body) {
  std::string shown;
  for (const auto& [name, value] : environment) shown += " " + name + "=" + value;
  EXPECT_EQ(RunSimulated(environment, body), 0) << "in a child with" << shown;
}

#define EXPECT_CUDA(call) EXPECT_EQ(call, CUDA_SUCCESS)
#define ASSERT_CUDA(call) ASSERT_EQ(call, CUDA_SUCCESS)

// Initialises the driver and makes device 0's primary context current.
inline CUcontext UseDevice(int ordinal = 0) {
  CUcontext context = nullptr;
  CUdevice device = 0;
  EXPECT_CUDA(cuInit(0));
  EXPECT_CUDA(cuDeviceGet(&device, ordinal));
  EXPECT_CUDA(cuDevicePrimaryCtxRetain(&context, device));
  EXPECT_CUDA(cuCtxSetCurrent(context));
  return context;
}

inline CUdeviceptr Allocate(size_t bytes) {
  CUdeviceptr address = 0;
  EXPECT_CUDA(cuMemAlloc(&address, bytes));
  return address;
}

template <typename T>
T* AllocatePinned(size_t count) {
  void* memory = nullptr;
  EXPECT_CUDA(cuMemAllocHost(&memory, count * sizeof(T)));
  return static_cast<T*>(memory);
}

inline CUstream MakeStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  EXPECT_CUDA(cuStreamCreate(&stream, flags));
  return stream;
}

inline CUevent MakeEvent(unsigned flags = CU_EVENT_DISABLE_TIMING) {
  CUevent event = nullptr;
  EXPECT_CUDA(cuEventCreate(&event, flags));
  return event;
}

inline size_t FreeBytes() {
  size_t free = 0, total = 0;
  EXPECT_CUDA(cuMemGetInfo(&free, &total));
  return free;
}

// A function of a module; any name exists.
inline CUfunction FindFunction(const char* name) {
  static CUmodule module = nullptr;
  CUfunction function = nullptr;
  if (module == nullptr) {
    EXPECT_CUDA(cuModuleLoadData(&module, "image"));
  }
  EXPECT_CUDA(cuModuleGetFunction(&function, module, name));
  return function;
}

// Launches a registered test kernel.
template <typename... Parameters>
CUresult Launch(CUstream stream, const char* name, Parameters... parameters) {
  void* pointers[] = {&parameters..., nullptr};
  return cuLaunchKernel(FindFunction(name), 1, 1, 1, 1, 1, 1, 0, stream, pointers, nullptr);
}

}  // namespace cuheap::testing
