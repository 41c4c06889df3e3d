// The driver, as the simulated runtime and libraries reach it: one dlopen, one dlsym, then cuGetProcAddress_v2 for
// every function. That is how the vendor's runtime does it, so whoever stands in between (cuheap's preload library)
// sees the same road.
#ifndef CUHEAP_TOOLS_SIMCUDA_RUNTIME_DRIVER_CALLS_H_
#define CUHEAP_TOOLS_SIMCUDA_RUNTIME_DRIVER_CALLS_H_

#include <cuda.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>

#ifndef SIMCUDART_MAJOR
#error "SIMCUDART_MAJOR: 12 or 13, the CUDA major version this library stands for"
#endif

namespace cuheap::simcudart {

// Calls that take a stream, or act on the default stream without naming it. There are two sets: in one the default
// stream is the legacy one, in the other it is the calling thread's (CUDA Driver API, "Stream synchronization
// behavior").
struct StreamCalls {
#define CALL(name, version)
#define STREAM_CALL(name, version, per_thread_version, suffix) PFN_cu##name##_v##version name;
#include "tools/simcuda/runtime/driver_calls.inc"
#undef STREAM_CALL
#undef CALL
};

// Every pointer can be called: a function the driver doesn't have answers with the number of
// cudaErrorCallRequiresNewerDriver, as the vendor's runtime does.
struct DriverCalls {
#define CALL(name, version) PFN_cu##name##_v##version name;
#define STREAM_CALL(name, version, per_thread_version, suffix)
#include "tools/simcuda/runtime/driver_calls.inc"
#undef STREAM_CALL
#undef CALL
  PFN_cuGetProcAddress_v12000 GetProcAddress;
  void* library;  // of dlopen
  StreamCalls legacy;
  StreamCalls per_thread;
};

// Opens libcuda.so.1 and fills `calls`. False: there is no driver, or it is older than CUDA 12 (no
// cuGetProcAddress_v2). The library is never closed. Not thread-safe: call it once.
bool LoadDriverCalls(DriverCalls& calls);

}  // namespace cuheap::simcudart

#endif  // CUHEAP_TOOLS_SIMCUDA_RUNTIME_DRIVER_CALLS_H_
