// cuBLAS functions that give the host a result: a scalar (cuBLAS Level-1, "Scalar Parameters") or an error code. The
// values are not computed; what is given back is zero, so that nobody reads uninitialised memory.
#include <cstring>

#include "tools/simcuda/libraries/cublas_handle.h"

namespace {

using cuheap::simblas::Handle;
using cuheap::simblas::Status;

// The scalar result of work on the handle's stream. In host pointer mode the function waits for it (as documented).
Status Scalar(const Handle* handle, void* result, std::size_t bytes) {
  if (Status status = cuheap::simblas::EnqueueWork(handle); status != cuheap::simblas::kSuccess) return status;
  if (result == nullptr) return cuheap::simblas::kInvalidValue;
  if (handle->pointer_mode != 0) return cuheap::simblas::kSuccess;  // on the device: left as it is
  CUresult waited = cuheap::simblas::Driver()->legacy.StreamSynchronize(handle->stream);
  if (waited != CUDA_SUCCESS) return cuheap::simblas::kExecutionFailed;
  std::memset(result, 0, bytes);
  return cuheap::simblas::kSuccess;
}

// Bytes of a cudaDataType's element (library_types.h): the types results can have.
std::size_t BytesOf(int data_type) {
  switch (data_type) {
    case 2:   // CUDA_R_16F
    case 14:  // CUDA_R_16BF
      return 2;
    case 0:   // CUDA_R_32F
    case 6:   // CUDA_C_16F
    case 15:  // CUDA_C_16BF
      return 4;
    case 1:  // CUDA_R_64F
    case 4:  // CUDA_C_32F
      return 8;
    case 5:  // CUDA_C_64F
      return 16;
    default:
      return 0;
  }
}

Status ScalarOf(const Handle* handle, void* result, int data_type) {
  const std::size_t bytes = BytesOf(data_type);
  return bytes == 0 ? cuheap::simblas::kNotSupported : Scalar(handle, result, bytes);
}

// An error code on the host: no argument was invalid.
Status Information(const Handle* handle, int* information) {
  if (information == nullptr) return cuheap::simblas::kInvalidValue;
  Status status = cuheap::simblas::EnqueueWork(handle);
  if (status == cuheap::simblas::kSuccess) *information = 0;
  return status;
}

}  // namespace

#define DOT(name, suffix, Count, bytes)                                                                               \
  SIMCUDA_BLAS_EXPORT int name##suffix(Handle* handle, Count, const void*, Count, const void*, Count, void* result) { \
    return Scalar(handle, result, bytes);                                                                             \
  }
#define REDUCE(name, suffix, Count, bytes)                                                        \
  SIMCUDA_BLAS_EXPORT int name##suffix(Handle* handle, Count, const void*, Count, void* result) { \
    return Scalar(handle, result, bytes);                                                         \
  }
#define DOT_EX(name, suffix, Count)                                                                             \
  SIMCUDA_BLAS_EXPORT int name##suffix(Handle* handle, Count, const void*, int, Count, const void*, int, Count, \
                                       void* result, int result_type, int) {                                    \
    return ScalarOf(handle, result, result_type);                                                               \
  }
#define REDUCE_EX(name, suffix, Count)                                                                                \
  SIMCUDA_BLAS_EXPORT int name##suffix(Handle* handle, Count, const void*, int, Count, void* result, int result_type, \
                                       int) {                                                                         \
    return ScalarOf(handle, result, result_type);                                                                     \
  }
#define INDEX_EX(name, suffix, Count)                                                                   \
  SIMCUDA_BLAS_EXPORT int name##suffix(Handle* handle, Count, const void*, int, Count, Count* result) { \
    return Scalar(handle, result, sizeof(Count));                                                       \
  }
#define FOR_COUNTS(function, name, ...) \
  function(name, , int __VA_OPT__(, ) __VA_ARGS__) function(name, _64, std::int64_t __VA_OPT__(, ) __VA_ARGS__)
#define FOR_INDEX_COUNTS(name)     \
  REDUCE(name, , int, sizeof(int)) \
  REDUCE(name, _64, std::int64_t, sizeof(std::int64_t))

FOR_COUNTS(DOT, cublasSdot_v2, 4)
FOR_COUNTS(DOT, cublasDdot_v2, 8)
FOR_COUNTS(DOT, cublasCdotu_v2, 8)
FOR_COUNTS(DOT, cublasCdotc_v2, 8)
FOR_COUNTS(DOT, cublasZdotu_v2, 16)
FOR_COUNTS(DOT, cublasZdotc_v2, 16)
FOR_COUNTS(DOT_EX, cublasDotEx)
FOR_COUNTS(DOT_EX, cublasDotcEx)
FOR_COUNTS(REDUCE, cublasSnrm2_v2, 4)
FOR_COUNTS(REDUCE, cublasDnrm2_v2, 8)
FOR_COUNTS(REDUCE, cublasScnrm2_v2, 4)
FOR_COUNTS(REDUCE, cublasDznrm2_v2, 8)
FOR_COUNTS(REDUCE_EX, cublasNrm2Ex)
FOR_COUNTS(REDUCE, cublasSasum_v2, 4)
FOR_COUNTS(REDUCE, cublasDasum_v2, 8)
FOR_COUNTS(REDUCE, cublasScasum_v2, 4)
FOR_COUNTS(REDUCE, cublasDzasum_v2, 8)
FOR_COUNTS(REDUCE_EX, cublasAsumEx)
FOR_INDEX_COUNTS(cublasIsamax_v2)
FOR_INDEX_COUNTS(cublasIdamax_v2)
FOR_INDEX_COUNTS(cublasIcamax_v2)
FOR_INDEX_COUNTS(cublasIzamax_v2)
FOR_INDEX_COUNTS(cublasIsamin_v2)
FOR_INDEX_COUNTS(cublasIdamin_v2)
FOR_INDEX_COUNTS(cublasIcamin_v2)
FOR_INDEX_COUNTS(cublasIzamin_v2)
FOR_COUNTS(INDEX_EX, cublasIamaxEx)
FOR_COUNTS(INDEX_EX, cublasIaminEx)

#define FACTORISATIONS(letter)                                                                                        \
  SIMCUDA_BLAS_EXPORT int cublas##letter##getrsBatched(Handle* handle, int, int, int, const void*, int, const int*,   \
                                                       void*, int, int* information, int) {                           \
    return Information(handle, information);                                                                          \
  }                                                                                                                   \
  SIMCUDA_BLAS_EXPORT int cublas##letter##geqrfBatched(Handle* handle, int, int, void*, int, void*, int* information, \
                                                       int) {                                                         \
    return Information(handle, information);                                                                          \
  }                                                                                                                   \
  SIMCUDA_BLAS_EXPORT int cublas##letter##gelsBatched(Handle* handle, int, int, int, int, void*, int, void*, int,     \
                                                      int* information, int*, int) {                                  \
    return Information(handle, information);                                                                          \
  }
FACTORISATIONS(S)
FACTORISATIONS(D)
FACTORISATIONS(C)
FACTORISATIONS(Z)
