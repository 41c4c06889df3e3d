// What the simulated cuBLAS and cuBLASLt share. The build needs no cuBLAS header (they are not in the packages that
// bring the CUDA headers): the few types and values are declared here from the documentation of cuBLAS 13;
// tests/tools/simcuda_runtime compares them with the headers where those are.
#ifndef CUHEAP_TOOLS_SIMCUDA_LIBRARIES_BLAS_H_
#define CUHEAP_TOOLS_SIMCUDA_LIBRARIES_BLAS_H_

#include <cstddef>
#include <cstdint>

#include "tools/simcuda/runtime/driver_calls.h"

#define SIMCUDA_BLAS_EXPORT extern "C" __attribute__((visibility("default")))

namespace cuheap::simblas {

// cublasStatus_t.
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 3,
  kInvalidValue = 7,
  kArchMismatch = 8,
  kMappingError = 11,
  kExecutionFailed = 13,
  kInternalError = 14,
  kNotSupported = 15,
  kLicenseError = 16,
};

const char* StatusName(Status status);
const char* StatusText(Status status);

// The version the library says it has, as CUBLAS_VERSION: SIMCUDA_CUBLAS_VERSION, or that of the toolkit this major
// version began with. Frameworks choose code paths by it.
int Version();
// libraryPropertyType: 0 major, 1 minor, 2 patch.
Status Property(int type, int* value);

// The driver, or null when there is none.
const simcudart::DriverCalls* Driver();

// Makes the calling thread's context usable: the current one, else the first device's primary one.
Status EnsureContext();

// Enqueues what stands for a computation: one launch of a kernel that does nothing, so that the stream carries work
// where the real library's would. The driver sees it, and so does whoever stands in between.
Status EnqueueWork(CUstream stream);

// Names `function` on stderr once; returns kNotSupported.
Status NotSimulated(const char* function);

}  // namespace cuheap::simblas

#endif  // CUHEAP_TOOLS_SIMCUDA_LIBRARIES_BLAS_H_
