// CUDA Runtime API, "Driver Entry Point Access".
#include "tools/simcuda/runtime/runtime.h"

using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::Runtime;
using cuheap::simcudart::WithDriver;

namespace {

// The driver's answer to a look-up, as the runtime documents it: a name that isn't there is a success with a null
// pointer and a status that says why.
cudaError_t EntryPoint(const char* name, void** function, unsigned int version, unsigned long long flags,
                       unsigned long long default_flags, cudaDriverEntryPointQueryResult* status) {
  return WithDriver([&](const DriverCalls& driver) {
    if (name == nullptr || *name == '\0' || function == nullptr) return cudaErrorInvalidValue;
    if (flags > cudaEnablePerThreadDefaultStream) return cudaErrorInvalidValue;
    if (version > static_cast<unsigned int>(Runtime::Get().driver_version())) return cudaErrorInvalidValue;
    if (flags == cudaEnableDefault) flags = default_flags;
    CUdriverProcAddressQueryResult answer = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *function = nullptr;
    CUresult result = driver.GetProcAddress(name, function, static_cast<int>(version), flags, &answer);
    if (result != CUDA_SUCCESS) *function = nullptr;
    if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(answer);
    return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_FOUND ? cudaSuccess : static_cast<cudaError_t>(result);
  });
}

constexpr unsigned int kOwnVersion = cuheap::simcudart::kRuntimeVersion;

}  // namespace

SIMCUDART_EXPORT cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                                     cudaDriverEntryPointQueryResult* status) {
  return EntryPoint(name, function, kOwnVersion, flags, cudaEnableDefault, status);
}

SIMCUDART_EXPORT cudaError_t cudaGetDriverEntryPoint_ptsz(const char* name, void** function, unsigned long long flags,
                                                          cudaDriverEntryPointQueryResult* status) {
  return EntryPoint(name, function, kOwnVersion, flags, cudaEnablePerThreadDefaultStream, status);
}

SIMCUDART_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned int version,
                                                              unsigned long long flags,
                                                              cudaDriverEntryPointQueryResult* status) {
  return EntryPoint(name, function, version, flags, cudaEnableDefault, status);
}

SIMCUDART_EXPORT cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* name, void** function,
                                                                   unsigned int version, unsigned long long flags,
                                                                   cudaDriverEntryPointQueryResult* status) {
  return EntryPoint(name, function, version, flags, cudaEnablePerThreadDefaultStream, status);
}
