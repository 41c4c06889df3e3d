// CUDA Runtime API: device variables by their host symbol, and "Library Management".
#include "tools/simcuda/runtime/registry.h"
#include "tools/simcuda/runtime/stream_variants.h"

using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::InContext;
using cuheap::simcudart::Registry;
using cuheap::simcudart::Runtime;
using cuheap::simcudart::StreamCalls;
using cuheap::simcudart::ToPointer;
using cuheap::simcudart::ToRuntime;

namespace {

// The address of `bytes` at `offset` in a variable.
cudaError_t Locate(const void* symbol, std::size_t offset, std::size_t bytes, CUdeviceptr* address) {
  std::size_t size = 0;
  cudaError_t error = Registry::Get().FindVariable(symbol, address, &size);
  if (error != cudaSuccess) return error;
  if (offset > size || bytes > size - offset) return cudaErrorInvalidValue;
  *address += offset;
  return cudaSuccess;
}

cudaError_t ToSymbol(const StreamCalls& calls, const void* symbol, const void* from, std::size_t bytes,
                     std::size_t offset, cudaMemcpyKind kind) {
  CUdeviceptr to = 0;
  cudaError_t error = Locate(symbol, offset, bytes, &to);
  if (error != cudaSuccess || bytes == 0) return error;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return ToRuntime(calls.MemcpyHtoD(to, from, bytes));
    case cudaMemcpyDeviceToDevice:
      return ToRuntime(calls.MemcpyDtoD(to, cuheap::simcudart::ToDevice(from), bytes));
    case cudaMemcpyDefault:
      return ToRuntime(calls.Memcpy(to, cuheap::simcudart::ToDevice(from), bytes));
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
}

cudaError_t ToSymbolAsync(const StreamCalls& calls, const void* symbol, const void* from, std::size_t bytes,
                          std::size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  CUdeviceptr to = 0;
  cudaError_t error = Locate(symbol, offset, bytes, &to);
  if (error != cudaSuccess || bytes == 0) return error;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return ToRuntime(calls.MemcpyHtoDAsync(to, from, bytes, stream));
    case cudaMemcpyDeviceToDevice:
      return ToRuntime(calls.MemcpyDtoDAsync(to, cuheap::simcudart::ToDevice(from), bytes, stream));
    case cudaMemcpyDefault:
      return ToRuntime(calls.MemcpyAsync(to, cuheap::simcudart::ToDevice(from), bytes, stream));
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
}

cudaError_t FromSymbol(const StreamCalls& calls, void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                       cudaMemcpyKind kind) {
  CUdeviceptr from = 0;
  cudaError_t error = Locate(symbol, offset, bytes, &from);
  if (error != cudaSuccess || bytes == 0) return error;
  switch (kind) {
    case cudaMemcpyDeviceToHost:
      return ToRuntime(calls.MemcpyDtoH(to, from, bytes));
    case cudaMemcpyDeviceToDevice:
      return ToRuntime(calls.MemcpyDtoD(cuheap::simcudart::ToDevice(to), from, bytes));
    case cudaMemcpyDefault:
      return ToRuntime(calls.Memcpy(cuheap::simcudart::ToDevice(to), from, bytes));
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
}

cudaError_t FromSymbolAsync(const StreamCalls& calls, void* to, const void* symbol, std::size_t bytes,
                            std::size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  CUdeviceptr from = 0;
  cudaError_t error = Locate(symbol, offset, bytes, &from);
  if (error != cudaSuccess || bytes == 0) return error;
  switch (kind) {
    case cudaMemcpyDeviceToHost:
      return ToRuntime(calls.MemcpyDtoHAsync(to, from, bytes, stream));
    case cudaMemcpyDeviceToDevice:
      return ToRuntime(calls.MemcpyDtoDAsync(cuheap::simcudart::ToDevice(to), from, bytes, stream));
    case cudaMemcpyDefault:
      return ToRuntime(calls.MemcpyAsync(cuheap::simcudart::ToDevice(to), from, bytes, stream));
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
}

}  // namespace

SIMCUDART_EXPORT cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  return InContext([&](const DriverCalls&) {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    CUdeviceptr address = 0;
    cudaError_t error = Registry::Get().FindVariable(symbol, &address, nullptr);
    if (error == cudaSuccess) *pointer = ToPointer(address);
    return error;
  });
}

SIMCUDART_EXPORT cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  return InContext([&](const DriverCalls&) {
    CUdeviceptr address = 0;
    return bytes == nullptr ? cudaErrorInvalidValue : Registry::Get().FindVariable(symbol, &address, bytes);
  });
}

SIMCUDART_VARIANTS(cudaMemcpyToSymbol, _ptds,
                   (const void* symbol, const void* from, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind),
                   ToSymbol, symbol, from, bytes, offset, kind)

SIMCUDART_VARIANTS(cudaMemcpyToSymbolAsync, _ptsz,
                   (const void* symbol, const void* from, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind,
                    cudaStream_t stream),
                   ToSymbolAsync, symbol, from, bytes, offset, kind, stream)

SIMCUDART_VARIANTS(cudaMemcpyFromSymbol, _ptds,
                   (void* to, const void* symbol, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind),
                   FromSymbol, to, symbol, bytes, offset, kind)

SIMCUDART_VARIANTS(cudaMemcpyFromSymbolAsync, _ptsz,
                   (void* to, const void* symbol, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind,
                    cudaStream_t stream),
                   FromSymbolAsync, to, symbol, bytes, offset, kind, stream)

// JIT and library options have the same numbers in both interfaces.
SIMCUDART_EXPORT cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption* jit_options,
                                                 void** jit_values, unsigned int jit_count, cudaLibraryOption* options,
                                                 void** values, unsigned int count) {
  return InContext([&](const DriverCalls& driver) {
    return driver.LibraryLoadData(library, code, reinterpret_cast<CUjit_option*>(jit_options), jit_values, jit_count,
                                  reinterpret_cast<CUlibraryOption*>(options), values, count);
  });
}

SIMCUDART_EXPORT cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path,
                                                     cudaJitOption* jit_options, void** jit_values,
                                                     unsigned int jit_count, cudaLibraryOption* options, void** values,
                                                     unsigned int count) {
  return InContext([&](const DriverCalls& driver) {
    return driver.LibraryLoadFromFile(library, path, reinterpret_cast<CUjit_option*>(jit_options), jit_values,
                                      jit_count, reinterpret_cast<CUlibraryOption*>(options), values, count);
  });
}

SIMCUDART_EXPORT cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return InContext([&](const DriverCalls& driver) { return driver.LibraryUnload(library); });
}

SIMCUDART_EXPORT cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return InContext([&](const DriverCalls& driver) {
    CUresult result = driver.LibraryGetKernel(kernel, library, name);
    if (result == CUDA_SUCCESS) Registry::Get().Adopt(*kernel);
    return result;
  });
}

SIMCUDART_EXPORT cudaError_t cudaLibraryGetGlobal(void** pointer, std::size_t* bytes, cudaLibrary_t library,
                                                  const char* name) {
  return InContext([&](const DriverCalls& driver) {
    return driver.LibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(pointer), bytes, library, name);
  });
}

SIMCUDART_EXPORT cudaError_t cudaLibraryGetManaged(void** pointer, std::size_t* bytes, cudaLibrary_t library,
                                                   const char* name) {
  return InContext([&](const DriverCalls& driver) {
    return driver.LibraryGetManaged(reinterpret_cast<CUdeviceptr*>(pointer), bytes, library, name);
  });
}

SIMCUDART_EXPORT cudaError_t cudaLibraryGetUnifiedFunction(void** function, cudaLibrary_t library, const char* symbol) {
  return InContext(
      [&](const DriverCalls& driver) { return driver.LibraryGetUnifiedFunction(function, library, symbol); });
}

SIMCUDART_EXPORT cudaError_t cudaLibraryGetKernelCount(unsigned int* count, cudaLibrary_t library) {
  return InContext([&](const DriverCalls& driver) { return driver.LibraryGetKernelCount(count, library); });
}

SIMCUDART_EXPORT cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned int count,
                                                         cudaLibrary_t library) {
  return InContext([&](const DriverCalls& driver) {
    CUresult result = driver.LibraryEnumerateKernels(kernels, count, library);
    for (unsigned int i = 0; result == CUDA_SUCCESS && i < count; ++i) Registry::Get().Adopt(kernels[i]);
    return result;
  });
}

SIMCUDART_EXPORT cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                                             int value, int device) {
  return InContext([&](const DriverCalls& driver) -> cudaError_t {
    if (!Runtime::Get().HasDevice(device)) return cudaErrorInvalidDevice;
    return ToRuntime(driver.KernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value, kernel,
                                               Runtime::Get().device(device).handle));
  });
}

// A plain constructor of the structure, no call to the driver.
SIMCUDART_EXPORT cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
