// What every entry point of the simulated runtime stands on: the driver, the devices, and the calling thread's state.
#ifndef CUHEAP_TOOLS_SIMCUDA_RUNTIME_RUNTIME_H_
#define CUHEAP_TOOLS_SIMCUDA_RUNTIME_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "tools/simcuda/runtime/driver_calls.h"

// Entry points have C linkage and are exported under the version node of the library (runtime_<major>.map).
#define SIMCUDART_EXPORT extern "C" __attribute__((visibility("default")))

namespace cuheap::simcudart {

// What the library calls itself: cudaRuntimeGetVersion, and the version asked of cuGetProcAddress.
inline constexpr int kRuntimeVersion = SIMCUDART_MAJOR >= 13 ? 13000 : 12090;

// One device's facts, read once at start: the runtime answers properties and attributes without a driver call.
struct Device {
  CUdevice handle = 0;
  std::string name;
  CUuuid uuid = {};
  std::size_t total_memory = 0;
  std::array<int, CU_DEVICE_ATTRIBUTE_MAX> attributes = {};
  std::array<bool, CU_DEVICE_ATTRIBUTE_MAX> known = {};

  // Raised by cudaDeviceReset; a thread bound under an earlier value binds anew.
  std::atomic<std::uint32_t> generation{1};
  // The primary context, once someone here has retained it.
  std::atomic<CUcontext> primary{nullptr};

  int Attribute(CUdevice_attribute attribute) const { return attributes[attribute]; }
};

// The process's view of the driver. Made at the first call that needs it and never destroyed: other libraries'
// destructors still call us.
class Runtime {
 public:
  static Runtime& Get();
  // Whether this process started CUDA. What runs at its end asks first: it must not start CUDA then, and in a forked
  // child the driver is not to be called (its locks may be held by threads that the child does not have).
  static bool Started();

  // cudaSuccess, or why nothing can work: cudaErrorInsufficientDriver (none, or too old), what cuInit said,
  // cudaErrorNoDevice.
  cudaError_t status() const { return status_; }
  const DriverCalls& driver() const { return driver_; }
  int driver_version() const { return driver_version_; }
  int device_count() const { return static_cast<int>(devices_.size()); }
  bool HasDevice(int device) const { return device >= 0 && device < device_count(); }
  Device& device(int device) { return *devices_[static_cast<std::size_t>(device)]; }

  // Retains the primary context of `device` if nobody here has yet.
  CUresult PrimaryContext(int device, CUcontext* context);
  // Gives back what PrimaryContext and the threads retained, as the vendor's runtime does when the process ends.
  void ReleaseContexts();

 private:
  friend class Thread;
  Runtime();
  CUresult ReadDevice(int ordinal, Device& device) const;
  CUresult RetainPrimary(Device& device, CUcontext* context);

  DriverCalls driver_ = {};
  cudaError_t status_ = cudaErrorInitializationError;
  int driver_version_ = 0;
  std::vector<Device*> devices_;
  std::mutex mutex_;
  std::vector<CUdevice> retained_;  // one entry a retain
};

// State of the calling thread: its device, its last error, its pending launch configurations. Has no destructor, so
// that entry points work from other thread-local destructors.
class Thread {
 public:
  static Thread& Current();

  // Makes a context current if none is: the thread's device's primary one. A context that the program made current
  // through the driver API is used as it is (CUDA Runtime API, "Interactions with the CUDA Driver API").
  cudaError_t Bind() {
    if (bound_generation_ != 0 && bound_generation_ == DeviceGeneration()) return cudaSuccess;
    return BindSlowly();
  }
  // After the driver said that no context is current: true if one is now, so that the call can be made again.
  bool Rebind();

  cudaError_t SetDevice(int device);
  int device() const { return device_; }
  // cudaDeviceReset.
  cudaError_t ResetDevice();

  // Records `error` as the last one if it is one, and returns it.
  cudaError_t Finish(cudaError_t error) {
    if (__builtin_expect(error != cudaSuccess, 0)) last_error_ = error;
    return error;
  }
  cudaError_t TakeLastError();
  cudaError_t last_error() const { return last_error_; }

  struct Configuration {
    dim3 grid;
    dim3 block;
    std::size_t shared_bytes;
    cudaStream_t stream;
  };
  static constexpr int kConfigurations = 16;  // depth of nested <<<>>> arguments
  bool Push(const Configuration& configuration);
  bool Pop(Configuration& configuration);

 private:
  std::uint32_t DeviceGeneration() const;
  cudaError_t BindSlowly();

  std::uint32_t bound_generation_ = 0;
  int device_ = 0;
  cudaError_t last_error_ = cudaSuccess;
  std::uint32_t sticky_generation_ = 0;  // the device's generation when last_error_ is one that stays
  int configurations_ = 0;
  Configuration configuration_[kConfigurations] = {};
};

// Runtime errors have the driver's numbers (driver_types.h, cudaError).
inline cudaError_t ToRuntime(CUresult result) { return static_cast<cudaError_t>(result); }
inline cudaError_t ToRuntime(cudaError_t error) { return error; }

// `call(driver)` with the runtime started but no context asked for.
template <typename Function>
cudaError_t WithDriver(Function&& call) {
  Runtime& runtime = Runtime::Get();
  if (runtime.status() != cudaSuccess) return Thread::Current().Finish(runtime.status());
  return Thread::Current().Finish(ToRuntime(call(runtime.driver())));
}

// `call(driver)` with a context current; its CUresult or cudaError_t becomes the thread's last error.
template <typename Function>
cudaError_t InContext(Function&& call) {
  Thread& thread = Thread::Current();
  if (cudaError_t error = thread.Bind(); error != cudaSuccess) return thread.Finish(error);
  const DriverCalls& driver = Runtime::Get().driver();
  cudaError_t error = ToRuntime(call(driver));
  if (__builtin_expect(error == cudaErrorDeviceUninitialized, 0) && thread.Rebind()) error = ToRuntime(call(driver));
  return thread.Finish(error);
}

// An entry point that is not simulated: names it on stderr once, sets and returns cudaErrorNotSupported.
cudaError_t NotSimulated(const char* name);

inline CUdeviceptr ToDevice(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline void* ToPointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

}  // namespace cuheap::simcudart

#endif  // CUHEAP_TOOLS_SIMCUDA_RUNTIME_RUNTIME_H_
