// cuBLAS, "cuBLAS Helper Function Reference": copies between host and device, which really copy.
#include "tools/simcuda/libraries/cublas_handle.h"

namespace {

using cuheap::simblas::Status;

constexpr bool kToDevice = true;
constexpr bool kFromDevice = false;

// `columns` runs of `run` bytes, `from_pitch` and `to_pitch` bytes apart.
Status Copy(bool to_device, std::int64_t run, std::int64_t columns, const void* from, std::int64_t from_pitch, void* to,
            std::int64_t to_pitch, bool wait, CUstream stream) {
  if (run < 0 || columns < 0 || from_pitch < run || to_pitch < run) return cuheap::simblas::kInvalidValue;
  if (run == 0 || columns == 0) return cuheap::simblas::kSuccess;
  if (Status status = cuheap::simblas::EnsureContext(); status != cuheap::simblas::kSuccess) return status;
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  if (to_device) {
    copy.srcHost = from;
    copy.dstDevice = reinterpret_cast<CUdeviceptr>(to);
  } else {
    copy.srcDevice = reinterpret_cast<CUdeviceptr>(from);
    copy.dstHost = to;
  }
  copy.srcPitch = static_cast<std::size_t>(from_pitch);
  copy.dstPitch = static_cast<std::size_t>(to_pitch);
  copy.WidthInBytes = static_cast<std::size_t>(run);
  copy.Height = static_cast<std::size_t>(columns);
  const auto& calls = cuheap::simblas::Driver()->legacy;
  CUresult result = wait ? calls.Memcpy2DUnaligned(&copy) : calls.Memcpy2DAsync(&copy, stream);
  return result == CUDA_SUCCESS ? cuheap::simblas::kSuccess : cuheap::simblas::kMappingError;
}

Status CopyVector(bool to_device, std::int64_t n, std::int64_t element, const void* from, std::int64_t from_step,
                  void* to, std::int64_t to_step, bool wait, CUstream stream) {
  if (element <= 0 || from_step <= 0 || to_step <= 0) return cuheap::simblas::kInvalidValue;
  return Copy(to_device, element, n, from, from_step * element, to, to_step * element, wait, stream);
}

Status CopyMatrix(bool to_device, std::int64_t rows, std::int64_t columns, std::int64_t element, const void* from,
                  std::int64_t from_ld, void* to, std::int64_t to_ld, bool wait, CUstream stream) {
  if (element <= 0 || from_ld <= 0 || to_ld <= 0) return cuheap::simblas::kInvalidValue;
  return Copy(to_device, rows * element, columns, from, from_ld * element, to, to_ld * element, wait, stream);
}

}  // namespace

// Each function exists for 32-bit and 64-bit counts, and waiting or on a stream.
#define SIMCUDA_BLAS_COPIES(suffix, Count)                                                                            \
  SIMCUDA_BLAS_EXPORT int cublasSetVector##suffix(Count n, Count element, const void* x, Count incx, void* y,         \
                                                  Count incy) {                                                       \
    return CopyVector(kToDevice, n, element, x, incx, y, incy, true, nullptr);                                        \
  }                                                                                                                   \
  SIMCUDA_BLAS_EXPORT int cublasGetVector##suffix(Count n, Count element, const void* x, Count incx, void* y,         \
                                                  Count incy) {                                                       \
    return CopyVector(kFromDevice, n, element, x, incx, y, incy, true, nullptr);                                      \
  }                                                                                                                   \
  SIMCUDA_BLAS_EXPORT int cublasSetMatrix##suffix(Count rows, Count columns, Count element, const void* a, Count lda, \
                                                  void* b, Count ldb) {                                               \
    return CopyMatrix(kToDevice, rows, columns, element, a, lda, b, ldb, true, nullptr);                              \
  }                                                                                                                   \
  SIMCUDA_BLAS_EXPORT int cublasGetMatrix##suffix(Count rows, Count columns, Count element, const void* a, Count lda, \
                                                  void* b, Count ldb) {                                               \
    return CopyMatrix(kFromDevice, rows, columns, element, a, lda, b, ldb, true, nullptr);                            \
  }                                                                                                                   \
  SIMCUDA_BLAS_EXPORT int cublasSetVectorAsync##suffix(Count n, Count element, const void* x, Count incx, void* y,    \
                                                       Count incy, CUstream stream) {                                 \
    return CopyVector(kToDevice, n, element, x, incx, y, incy, false, stream);                                        \
  }                                                                                                                   \
  SIMCUDA_BLAS_EXPORT int cublasGetVectorAsync##suffix(Count n, Count element, const void* x, Count incx, void* y,    \
                                                       Count incy, CUstream stream) {                                 \
    return CopyVector(kFromDevice, n, element, x, incx, y, incy, false, stream);                                      \
  }                                                                                                                   \
  SIMCUDA_BLAS_EXPORT int cublasSetMatrixAsync##suffix(Count rows, Count columns, Count element, const void* a,       \
                                                       Count lda, void* b, Count ldb, CUstream stream) {              \
    return CopyMatrix(kToDevice, rows, columns, element, a, lda, b, ldb, false, stream);                              \
  }                                                                                                                   \
  SIMCUDA_BLAS_EXPORT int cublasGetMatrixAsync##suffix(Count rows, Count columns, Count element, const void* a,       \
                                                       Count lda, void* b, Count ldb, CUstream stream) {              \
    return CopyMatrix(kFromDevice, rows, columns, element, a, lda, b, ldb, false, stream);                            \
  }

SIMCUDA_BLAS_COPIES(, int)
SIMCUDA_BLAS_COPIES(_64, std::int64_t)
