// The entry points that the compiler's generated code calls.
#include "tools/simcuda/runtime/compiler_entry_points.h"
#include "tools/simcuda/runtime/registry.h"
#include "tools/simcuda/runtime/runtime.h"

using cuheap::simcudart::Binary;
using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::InContext;
using cuheap::simcudart::Registry;
using cuheap::simcudart::Runtime;
using cuheap::simcudart::Thread;

namespace {

Binary* ToBinary(void** handle) { return reinterpret_cast<Binary*>(handle); }

}  // namespace

// `image` is the wrapper of fatbinary_section.h; cuLibraryLoadData takes it as it is.
SIMCUDART_EXPORT void** __cudaRegisterFatBinary(void* image) {
  return reinterpret_cast<void**>(Registry::Get().AddBinary(image));
}

SIMCUDART_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}

SIMCUDART_EXPORT void __cudaUnregisterFatBinary(void** handle) { Registry::Get().RemoveBinary(ToBinary(handle)); }

SIMCUDART_EXPORT void __cudaRegisterFunction(void** handle, const char* host_function, char*, const char* device_name,
                                             int, uint3*, uint3*, dim3*, dim3*, int*) {
  Registry::Get().AddKernel(ToBinary(handle), host_function, device_name);
}

SIMCUDART_EXPORT void __cudaRegisterVar(void** handle, char* host_variable, char*, const char* device_name, int,
                                        std::size_t bytes, int, int) {
  Registry::Get().AddVariable(ToBinary(handle), host_variable, device_name, bytes, nullptr);
}

SIMCUDART_EXPORT void __cudaRegisterManagedVar(void** handle, void** host_pointer, char*, const char* device_name, int,
                                               std::size_t bytes, int, int) {
  Registry::Get().AddVariable(ToBinary(handle), static_cast<void*>(host_pointer), device_name, bytes, host_pointer);
}

// Texture and surface references left CUDA with version 12; old objects may still register them, and nothing can use
// them afterwards.
SIMCUDART_EXPORT void __cudaRegisterTexture(void**, const textureReference*, const void**, const char*, int, int, int) {
}
SIMCUDART_EXPORT void __cudaRegisterSurface(void**, const surfaceReference*, const void**, const char*, int, int) {}

SIMCUDART_EXPORT char __cudaInitModule(void** handle) {
  cudaError_t error = InContext([&](const DriverCalls&) { return Registry::Get().Initialise(ToBinary(handle)); });
  return error == cudaSuccess ? 1 : 0;
}

SIMCUDART_EXPORT unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                                          CUstream_st* stream) {
  return Thread::Current().Push({grid, block, shared_bytes, stream}) ? 0 : 1;
}

SIMCUDART_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                                        void* stream) {
  Thread& thread = Thread::Current();
  Thread::Configuration configuration = {};
  if (!thread.Pop(configuration)) return thread.Finish(cudaErrorMissingConfiguration);
  *grid = configuration.grid;
  *block = configuration.block;
  *shared_bytes = configuration.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}

// When a process ends the vendor's runtime unloads what it loaded and releases its contexts; the driver may be gone by
// then and say so.
__attribute__((destructor)) static void ReleaseAtExit() {
  if (Runtime::Started()) Runtime::Get().ReleaseContexts();
}
