// Compiles only if the declarations in crt/host_runtime.h are ours: two declarations of one C function with different
// types are an error. (kernels.cu does the same for those that only nvcc's output sees.) There is nothing to run.
#include <cuda_runtime.h>

#define __NV_MODULE_ID declarations_test
#define __cudaFatCubinHandle declarations_test_handle
#include <crt/host_runtime.h>

#include "tools/simcuda/runtime/compiler_entry_points.h"

int main() { return 0; }
