// cuBLAS, "cuBLAS Helper Function Reference".
#include "tools/simcuda/libraries/cublas_handle.h"

#include <mutex>
#include <unordered_set>

namespace cuheap::simblas {
namespace {

struct Handles {
  std::mutex mutex;
  std::unordered_set<const Handle*> live;
};

Handles& All() {
  static auto* const handles = new Handles();
  return *handles;
}

// Reads or writes one setting of a live handle.
template <typename T>
int Read(const Handle* handle, T Handle::* member, T* value) {
  if (!IsLive(handle)) return kNotInitialized;
  if (value == nullptr) return kInvalidValue;
  *value = handle->*member;
  return kSuccess;
}

template <typename T>
int Write(Handle* handle, T Handle::* member, T value) {
  if (!IsLive(handle)) return kNotInitialized;
  handle->*member = value;
  return kSuccess;
}

int WriteInRange(Handle* handle, int Handle::* member, int value, int last) {
  if (value < 0 || value > last) return kInvalidValue;
  return Write(handle, member, value);
}

}  // namespace

bool IsLive(const Handle* handle) {
  std::lock_guard lock(All().mutex);
  return All().live.contains(handle);
}

Status EnqueueWork(const Handle* handle) {
  if (!IsLive(handle)) return kNotInitialized;
  return EnqueueWork(handle->stream);
}

}  // namespace cuheap::simblas

using cuheap::simblas::Handle;
using cuheap::simblas::Status;

// Each handle is its own: frameworks key their workspaces by it.
SIMCUDA_BLAS_EXPORT int cublasCreate_v2(Handle** handle) {
  if (handle == nullptr) return cuheap::simblas::kInvalidValue;
  if (Status status = cuheap::simblas::EnsureContext(); status != cuheap::simblas::kSuccess) return status;
  auto* created = new Handle();
  std::lock_guard lock(cuheap::simblas::All().mutex);
  cuheap::simblas::All().live.insert(created);
  *handle = created;
  return cuheap::simblas::kSuccess;
}

// The real library may wait for the device when it frees its workspace; this one has none of its own.
SIMCUDA_BLAS_EXPORT int cublasDestroy_v2(Handle* handle) {
  {
    std::lock_guard lock(cuheap::simblas::All().mutex);
    if (cuheap::simblas::All().live.erase(handle) == 0) return cuheap::simblas::kNotInitialized;
  }
  delete handle;
  return cuheap::simblas::kSuccess;
}

SIMCUDA_BLAS_EXPORT int cublasGetVersion_v2(Handle*, int* version) {
  if (version == nullptr) return cuheap::simblas::kInvalidValue;
  *version = cuheap::simblas::Version();
  return cuheap::simblas::kSuccess;
}

SIMCUDA_BLAS_EXPORT int cublasGetProperty(int type, int* value) { return cuheap::simblas::Property(type, value); }

SIMCUDA_BLAS_EXPORT std::size_t cublasGetCudartVersion() { return SIMCUDART_MAJOR >= 13 ? 13000 : 12090; }

SIMCUDA_BLAS_EXPORT const char* cublasGetStatusName(int status) {
  return cuheap::simblas::StatusName(static_cast<Status>(status));
}

SIMCUDA_BLAS_EXPORT const char* cublasGetStatusString(int status) {
  return cuheap::simblas::StatusText(static_cast<Status>(status));
}

// Setting the stream gives the handle its default workspace back (as documented).
SIMCUDA_BLAS_EXPORT int cublasSetStream_v2(Handle* handle, CUstream stream) {
  if (!cuheap::simblas::IsLive(handle)) return cuheap::simblas::kNotInitialized;
  handle->stream = stream;
  handle->workspace = nullptr;
  handle->workspace_bytes = 0;
  return cuheap::simblas::kSuccess;
}

SIMCUDA_BLAS_EXPORT int cublasGetStream_v2(Handle* handle, CUstream* stream) {
  return cuheap::simblas::Read(handle, &Handle::stream, stream);
}

// The workspace must be aligned to 256 bytes (as documented). Nothing is ever written to it.
SIMCUDA_BLAS_EXPORT int cublasSetWorkspace_v2(Handle* handle, void* workspace, std::size_t bytes) {
  if (!cuheap::simblas::IsLive(handle)) return cuheap::simblas::kNotInitialized;
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return cuheap::simblas::kInvalidValue;
  handle->workspace = workspace;
  handle->workspace_bytes = bytes;
  return cuheap::simblas::kSuccess;
}

SIMCUDA_BLAS_EXPORT int cublasGetPointerMode_v2(Handle* handle, int* mode) {
  return cuheap::simblas::Read(handle, &Handle::pointer_mode, mode);
}

SIMCUDA_BLAS_EXPORT int cublasSetPointerMode_v2(Handle* handle, int mode) {
  return cuheap::simblas::WriteInRange(handle, &Handle::pointer_mode, mode, 1);
}

SIMCUDA_BLAS_EXPORT int cublasGetAtomicsMode(Handle* handle, int* mode) {
  return cuheap::simblas::Read(handle, &Handle::atomics_mode, mode);
}

SIMCUDA_BLAS_EXPORT int cublasSetAtomicsMode(Handle* handle, int mode) {
  return cuheap::simblas::WriteInRange(handle, &Handle::atomics_mode, mode, 1);
}

SIMCUDA_BLAS_EXPORT int cublasGetMathMode(Handle* handle, int* mode) {
  return cuheap::simblas::Read(handle, &Handle::math_mode, mode);
}

SIMCUDA_BLAS_EXPORT int cublasSetMathMode(Handle* handle, int mode) {
  return cuheap::simblas::Write(handle, &Handle::math_mode, mode);
}

SIMCUDA_BLAS_EXPORT int cublasGetSmCountTarget(Handle* handle, int* count) {
  return cuheap::simblas::Read(handle, &Handle::sm_count_target, count);
}

SIMCUDA_BLAS_EXPORT int cublasSetSmCountTarget(Handle* handle, int count) {
  return count < 0 ? cuheap::simblas::kInvalidValue : cuheap::simblas::Write(handle, &Handle::sm_count_target, count);
}

// Settings of floating point emulation (cuBLAS, "Floating Point Emulation"): kept, without any effect here.
#define SIMCUDA_BLAS_SETTING(name, member)                              \
  SIMCUDA_BLAS_EXPORT int cublasGet##name(Handle* handle, int* value) { \
    return cuheap::simblas::Read(handle, &Handle::member, value);       \
  }                                                                     \
  SIMCUDA_BLAS_EXPORT int cublasSet##name(Handle* handle, int value) {  \
    return cuheap::simblas::Write(handle, &Handle::member, value);      \
  }
SIMCUDA_BLAS_SETTING(EmulationStrategy, emulation_strategy)
SIMCUDA_BLAS_SETTING(EmulationSpecialValuesSupport, special_values_support)
SIMCUDA_BLAS_SETTING(FixedPointEmulationMantissaControl, mantissa_control)
SIMCUDA_BLAS_SETTING(FixedPointEmulationMaxMantissaBitCount, max_mantissa_bits)
SIMCUDA_BLAS_SETTING(FixedPointEmulationMantissaBitOffset, mantissa_bit_offset)

SIMCUDA_BLAS_EXPORT int cublasGetFixedPointEmulationMantissaBitCountPointer(Handle* handle, int** pointer) {
  return cuheap::simblas::Read(handle, &Handle::mantissa_bit_count, pointer);
}

SIMCUDA_BLAS_EXPORT int cublasSetFixedPointEmulationMantissaBitCountPointer(Handle* handle, int* pointer) {
  return cuheap::simblas::Write(handle, &Handle::mantissa_bit_count, pointer);
}

// There is nothing to log: the driver's log has every call.
SIMCUDA_BLAS_EXPORT int cublasLoggerConfigure(int, int, int, const char*) { return cuheap::simblas::kSuccess; }

using LogCallback = void (*)(const char*);
static LogCallback log_callback = nullptr;

SIMCUDA_BLAS_EXPORT int cublasSetLoggerCallback(LogCallback callback) {
  log_callback = callback;
  return cuheap::simblas::kSuccess;
}

SIMCUDA_BLAS_EXPORT int cublasGetLoggerCallback(LogCallback* callback) {
  if (callback == nullptr) return cuheap::simblas::kInvalidValue;
  *callback = log_callback;
  return cuheap::simblas::kSuccess;
}
