// cublasHandle_t of the simulated cuBLAS.
#ifndef CUHEAP_TOOLS_SIMCUDA_LIBRARIES_CUBLAS_HANDLE_H_
#define CUHEAP_TOOLS_SIMCUDA_LIBRARIES_CUBLAS_HANDLE_H_

#include "tools/simcuda/libraries/blas.h"

namespace cuheap::simblas {

// Settings of a handle, with the documented defaults. A handle belongs to one thread at a time (cuBLAS, "Thread
// Safety"), so it has no lock.
struct Handle {
  CUstream stream = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  int pointer_mode = 0;  // CUBLAS_POINTER_MODE_HOST
  int atomics_mode = 0;  // CUBLAS_ATOMICS_NOT_ALLOWED
  int math_mode = 0;     // CUBLAS_DEFAULT_MATH
  int sm_count_target = 0;
  int emulation_strategy = 0;
  int special_values_support = 0xFFFF;
  int mantissa_control = 0;
  int max_mantissa_bits = 0;
  int mantissa_bit_offset = 0;
  int* mantissa_bit_count = nullptr;
};

// Whether `handle` came from cublasCreate and was not destroyed.
bool IsLive(const Handle* handle);

// What stands for any computation: a no-op on the handle's stream.
Status EnqueueWork(const Handle* handle);

}  // namespace cuheap::simblas

#endif  // CUHEAP_TOOLS_SIMCUDA_LIBRARIES_CUBLAS_HANDLE_H_
