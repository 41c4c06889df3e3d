#include "tools/simcuda/runtime/runtime.h"

#include <unistd.h>

namespace cuheap::simcudart {

namespace {
std::atomic<pid_t> starter{0};  // the process that started CUDA
}  // namespace

Runtime& Runtime::Get() {
  static Runtime* const runtime = new Runtime();
  return *runtime;
}

bool Runtime::Started() { return starter.load(std::memory_order_acquire) == getpid(); }

Runtime::Runtime() {
  status_ = cudaErrorInsufficientDriver;
  if (!LoadDriverCalls(driver_)) return;
  if (driver_.DriverGetVersion(&driver_version_) != CUDA_SUCCESS) return;
  // A runtime works on any later driver, and on an earlier one of the same major version (CUDA Compatibility).
  if (driver_version_ / 1000 < kRuntimeVersion / 1000) return;
  if (CUresult result = driver_.Init(0); result != CUDA_SUCCESS) {
    status_ = ToRuntime(result);
    return;
  }
  CUmoduleLoadingMode mode;
  driver_.ModuleGetLoadingMode(&mode);
  int count = 0;
  if (CUresult result = driver_.DeviceGetCount(&count); result != CUDA_SUCCESS) {
    status_ = ToRuntime(result);
    return;
  }
  if (count == 0) {
    status_ = cudaErrorNoDevice;
    return;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    auto* device = new Device();
    devices_.push_back(device);
    if (CUresult result = ReadDevice(ordinal, *device); result != CUDA_SUCCESS) {
      status_ = ToRuntime(result);
      return;
    }
  }
  status_ = cudaSuccess;
  starter.store(getpid(), std::memory_order_release);
}

CUresult Runtime::ReadDevice(int ordinal, Device& device) const {
  if (CUresult result = driver_.DeviceGet(&device.handle, ordinal); result != CUDA_SUCCESS) return result;
  char name[256] = "";
  if (CUresult result = driver_.DeviceGetName(name, sizeof name, device.handle); result != CUDA_SUCCESS) return result;
  device.name = name;
  if (CUresult result = driver_.DeviceTotalMem(&device.total_memory, device.handle); result != CUDA_SUCCESS) {
    return result;
  }
  for (int number = 1; number < CU_DEVICE_ATTRIBUTE_MAX; ++number) {
    const auto index = static_cast<std::size_t>(number);
    const auto attribute = static_cast<CUdevice_attribute>(number);
    device.known[index] =
        driver_.DeviceGetAttribute(&device.attributes[index], attribute, device.handle) == CUDA_SUCCESS;
  }
  return driver_.DeviceGetUuid(&device.uuid, device.handle);
}

CUresult Runtime::RetainPrimary(Device& device, CUcontext* context) {
  CUresult result = driver_.DevicePrimaryCtxRetain(context, device.handle);
  if (result != CUDA_SUCCESS) return result;
  device.primary.store(*context, std::memory_order_release);
  std::lock_guard lock(mutex_);
  retained_.push_back(device.handle);
  return CUDA_SUCCESS;
}

CUresult Runtime::PrimaryContext(int ordinal, CUcontext* context) {
  Device& found = device(ordinal);
  *context = found.primary.load(std::memory_order_acquire);
  return *context != nullptr ? CUDA_SUCCESS : RetainPrimary(found, context);
}

void Runtime::ReleaseContexts() {
  std::vector<CUdevice> retained;
  {
    std::lock_guard lock(mutex_);
    retained.swap(retained_);
  }
  for (CUdevice handle : retained) driver_.DevicePrimaryCtxRelease(handle);
}

}  // namespace cuheap::simcudart
