#include "tools/simcuda/libraries/blas.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>

namespace cuheap::simblas {
namespace {

// A complete PTX module: the form of device code that is documented.
constexpr char kWorkModule[] =
    ".version 7.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    ".visible .entry simcuda_library_work()\n"
    "{\n"
    "  ret;\n"
    "}\n";

struct Code {
  CUresult status = CUDA_ERROR_NOT_INITIALIZED;
  CUkernel kernel = nullptr;
};

const Code& WorkKernel(const simcudart::DriverCalls& driver) {
  static const Code code = [&driver] {
    Code loaded;
    CUlibrary library = nullptr;
    loaded.status = driver.LibraryLoadData(&library, kWorkModule, nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (loaded.status != CUDA_SUCCESS) return loaded;
    loaded.status = driver.LibraryGetKernel(&loaded.kernel, library, "simcuda_library_work");
    return loaded;
  }();
  return code;
}

}  // namespace

const char* StatusName(Status status) {
  switch (status) {
    case kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kAllocFailed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kArchMismatch:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case kMappingError:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kInternalError:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case kLicenseError:
      return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unknown";
}

const char* StatusText(Status status) {
  switch (status) {
    case kSuccess:
      return "success";
    case kNotInitialized:
      return "the library was not initialized";
    case kAllocFailed:
      return "the resource allocation failed";
    case kInvalidValue:
      return "an invalid value was used as an argument";
    case kArchMismatch:
      return "an absent device architectural feature is required";
    case kMappingError:
      return "an access to GPU memory space failed";
    case kExecutionFailed:
      return "the GPU program failed to execute";
    case kInternalError:
      return "an internal operation failed";
    case kNotSupported:
      return "the requested functionality is not supported";
    case kLicenseError:
      return "the functionality requested requires a license";
  }
  return "unknown status";
}

int Version() {
  static const int version = [] {
    const char* wanted = std::getenv("SIMCUDA_CUBLAS_VERSION");
    const int number = wanted == nullptr ? 0 : std::atoi(wanted);
    return number > 0 ? number : SIMCUDART_MAJOR >= 13 ? 130000 : 120900;
  }();
  return version;
}

Status Property(int type, int* value) {
  if (value == nullptr) return kInvalidValue;
  const int version = Version();
  switch (type) {
    case 0:
      *value = version / 10000;
      return kSuccess;
    case 1:
      *value = version / 100 % 100;
      return kSuccess;
    case 2:
      *value = version % 100;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

const simcudart::DriverCalls* Driver() {
  static const simcudart::DriverCalls* const driver = []() -> const simcudart::DriverCalls* {
    auto* calls = new simcudart::DriverCalls();
    return simcudart::LoadDriverCalls(*calls) && calls->Init(0) == CUDA_SUCCESS ? calls : nullptr;
  }();
  return driver;
}

Status EnsureContext() {
  const simcudart::DriverCalls* driver = Driver();
  if (driver == nullptr) return kNotInitialized;
  CUcontext context = nullptr;
  if (driver->CtxGetCurrent(&context) != CUDA_SUCCESS) return kNotInitialized;
  if (context != nullptr) return kSuccess;
  CUdevice device = 0;
  if (driver->DeviceGet(&device, 0) != CUDA_SUCCESS) return kNotInitialized;
  if (driver->DevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) return kAllocFailed;
  return driver->CtxSetCurrent(context) == CUDA_SUCCESS ? kSuccess : kNotInitialized;
}

Status EnqueueWork(CUstream stream) {
  if (Status status = EnsureContext(); status != kSuccess) return status;
  const simcudart::DriverCalls& driver = *Driver();
  const Code& code = WorkKernel(driver);
  if (code.status != CUDA_SUCCESS) return kInternalError;
  CUresult result = driver.legacy.LaunchKernel(reinterpret_cast<CUfunction>(code.kernel), 1, 1, 1, 1, 1, 1, 0, stream,
                                               nullptr, nullptr);
  return result == CUDA_SUCCESS ? kSuccess : kExecutionFailed;
}

Status NotSimulated(const char* function) {
  static std::mutex mutex;
  static auto* const named = new std::set<std::string_view>();
  std::lock_guard lock(mutex);
  if (named->insert(function).second) {
    std::fprintf(stderr, "simcuda: %s is not simulated: it returns CUBLAS_STATUS_NOT_SUPPORTED\n", function);
  }
  return kNotSupported;
}

}  // namespace cuheap::simblas
