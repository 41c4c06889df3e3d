// The entry points that the compiler's generated code calls. The toolkit declares them in crt/host_runtime.h and
// crt/device_functions.h, which only nvcc's own output includes; tests/tools/simcuda_runtime compares
// the two sets of declarations.
#ifndef CUHEAP_TOOLS_SIMCUDA_RUNTIME_COMPILER_ENTRY_POINTS_H_
#define CUHEAP_TOOLS_SIMCUDA_RUNTIME_COMPILER_ENTRY_POINTS_H_

#include <cuda_runtime_api.h>

#include <cstddef>

struct textureReference;
struct surfaceReference;

extern "C" {

void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* host_function, char* device_function, const char* device_name,
                            int thread_limit, uint3* thread, uint3* block, dim3* block_size, dim3* grid_size,
                            int* warp_size);
void __cudaRegisterVar(void** handle, char* host_variable, char* device_address, const char* device_name,
                       int is_external, std::size_t bytes, int is_constant, int is_global);
void __cudaRegisterManagedVar(void** handle, void** host_pointer, char* device_address, const char* device_name,
                              int is_external, std::size_t bytes, int is_constant, int is_global);
void __cudaRegisterTexture(void** handle, const textureReference* host_variable, const void** device_address,
                           const char* device_name, int dimensions, int is_normalised, int is_external);
void __cudaRegisterSurface(void** handle, const surfaceReference* host_variable, const void** device_address,
                           const char* device_name, int dimensions, int is_external);
char __cudaInitModule(void** handle);

unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, CUstream_st* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                               cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                    std::size_t shared_bytes, cudaStream_t stream);

}  // extern "C"

#endif  // CUHEAP_TOOLS_SIMCUDA_RUNTIME_COMPILER_ENTRY_POINTS_H_
