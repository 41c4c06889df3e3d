#include "tools/simcuda/runtime/runtime.h"

namespace cuheap::simcudart {
namespace {

// Errors after which the context is lost: every later call returns them until the device is reset (CUDA Runtime API,
// cudaError: "...the process must be terminated and relaunched").
bool IsSticky(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
      return true;
    default:
      return false;
  }
}

}  // namespace

Thread& Thread::Current() {
  static thread_local Thread thread;
  return thread;
}

std::uint32_t Thread::DeviceGeneration() const {
  return Runtime::Get().device(device_).generation.load(std::memory_order_acquire);
}

cudaError_t Thread::BindSlowly() {
  Runtime& runtime = Runtime::Get();
  if (runtime.status() != cudaSuccess) return runtime.status();
  const DriverCalls& driver = runtime.driver();
  Device& device = runtime.device(device_);
  const std::uint32_t generation = device.generation.load(std::memory_order_acquire);
  CUcontext current = nullptr;
  if (CUresult result = driver.CtxGetCurrent(&current); result != CUDA_SUCCESS) return ToRuntime(result);
  // After a reset the primary context is still current, but dead until it is retained again.
  if (current == nullptr || current == device.primary.load(std::memory_order_acquire)) {
    CUcontext primary = nullptr;
    if (CUresult result = runtime.RetainPrimary(device, &primary); result != CUDA_SUCCESS) return ToRuntime(result);
    if (CUresult result = driver.CtxSetCurrent(primary); result != CUDA_SUCCESS) return ToRuntime(result);
  }
  bound_generation_ = generation;
  return cudaSuccess;
}

bool Thread::Rebind() {
  CUcontext current = nullptr;
  if (Runtime::Get().driver().CtxGetCurrent(&current) != CUDA_SUCCESS || current != nullptr) return false;
  bound_generation_ = 0;
  return BindSlowly() == cudaSuccess;
}

cudaError_t Thread::SetDevice(int ordinal) {
  Runtime& runtime = Runtime::Get();
  if (runtime.status() != cudaSuccess) return runtime.status();
  if (!runtime.HasDevice(ordinal)) return cudaErrorInvalidDevice;
  Device& device = runtime.device(ordinal);
  const std::uint32_t generation = device.generation.load(std::memory_order_acquire);
  CUcontext primary = device.primary.load(std::memory_order_acquire);
  if (device_ == ordinal && bound_generation_ == generation && primary != nullptr) {
    // Bound already; but the program may have made another context current meanwhile.
    CUcontext current = nullptr;
    if (runtime.driver().CtxGetCurrent(&current) == CUDA_SUCCESS && current == primary) return cudaSuccess;
  } else if (CUresult result = runtime.RetainPrimary(device, &primary); result != CUDA_SUCCESS) {
    return ToRuntime(result);
  }
  if (CUresult result = runtime.driver().CtxSetCurrent(primary); result != CUDA_SUCCESS) return ToRuntime(result);
  device_ = ordinal;
  bound_generation_ = generation;
  return cudaSuccess;
}

cudaError_t Thread::ResetDevice() {
  Runtime& runtime = Runtime::Get();
  if (runtime.status() != cudaSuccess) return runtime.status();
  Device& device = runtime.device(device_);
  CUresult result = runtime.driver().DevicePrimaryCtxReset(device.handle);
  if (result != CUDA_SUCCESS) return ToRuntime(result);
  device.generation.fetch_add(1, std::memory_order_acq_rel);
  last_error_ = cudaSuccess;
  sticky_generation_ = 0;
  return cudaSuccess;
}

cudaError_t Thread::TakeLastError() {
  const cudaError_t error = last_error_;
  if (error == cudaSuccess) return error;
  if (IsSticky(error)) {
    if (sticky_generation_ == 0) sticky_generation_ = DeviceGeneration();
    if (sticky_generation_ == DeviceGeneration()) return error;
  }
  sticky_generation_ = 0;
  last_error_ = cudaSuccess;
  return error;
}

bool Thread::Push(const Configuration& configuration) {
  if (configurations_ == kConfigurations) return false;
  configuration_[configurations_++] = configuration;
  return true;
}

bool Thread::Pop(Configuration& configuration) {
  if (configurations_ == 0) return false;
  configuration = configuration_[--configurations_];
  return true;
}

}  // namespace cuheap::simcudart
