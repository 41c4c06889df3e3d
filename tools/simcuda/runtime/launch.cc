// CUDA Runtime API, "Execution Control", "Occupancy", and the launch entry points of crt/device_functions.h.
#include <climits>

#include "tools/simcuda/runtime/compiler_entry_points.h"
#include "tools/simcuda/runtime/registry.h"
#include "tools/simcuda/runtime/stream_variants.h"

using cuheap::simcudart::DriverCalls;
using cuheap::simcudart::InContext;
using cuheap::simcudart::Registry;
using cuheap::simcudart::Runtime;
using cuheap::simcudart::StreamCalls;
using cuheap::simcudart::Thread;
using cuheap::simcudart::ToRuntime;

namespace {

// A kernel may be used where the driver asks for a function (CUDA Driver API, cuLaunchKernel).
CUfunction AsFunction(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

bool Positive(const dim3& size) { return size.x != 0 && size.y != 0 && size.z != 0; }

// Bad dimensions are the runtime's own error; the driver would call them an invalid value.
cudaError_t CheckDimensions(const dim3& grid, const dim3& block, std::size_t shared_bytes) {
  if (!Positive(grid) || !Positive(block) || shared_bytes > UINT_MAX) return cudaErrorInvalidConfiguration;
  const auto& device = Runtime::Get().device(Thread::Current().device());
  const auto limit = [&device](CUdevice_attribute attribute) {
    return static_cast<unsigned int>(device.Attribute(attribute));
  };
  if (block.x > limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) || block.y > limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) ||
      block.z > limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) || grid.x > limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) ||
      grid.y > limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) || grid.z > limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)) {
    return cudaErrorInvalidConfiguration;
  }
  const auto threads = static_cast<unsigned long long>(block.x) * block.y * block.z;
  return threads > limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) ? cudaErrorInvalidConfiguration : cudaSuccess;
}

cudaError_t LaunchKernel(const StreamCalls& calls, CUkernel kernel, const dim3& grid, const dim3& block,
                         void** arguments, std::size_t shared_bytes, cudaStream_t stream) {
  if (cudaError_t error = CheckDimensions(grid, block, shared_bytes); error != cudaSuccess) return error;
  return ToRuntime(calls.LaunchKernel(AsFunction(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                      static_cast<unsigned int>(shared_bytes), stream, arguments, nullptr));
}

cudaError_t LaunchFunction(const StreamCalls& calls, const void* function, const dim3& grid, const dim3& block,
                           void** arguments, std::size_t shared_bytes, cudaStream_t stream) {
  CUkernel kernel = nullptr;
  if (cudaError_t error = Registry::Get().FindKernel(function, &kernel); error != cudaSuccess) return error;
  return LaunchKernel(calls, kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t LaunchCooperative(const StreamCalls& calls, const void* function, const dim3& grid, const dim3& block,
                              void** arguments, std::size_t shared_bytes, cudaStream_t stream) {
  CUkernel kernel = nullptr;
  if (cudaError_t error = Registry::Get().FindKernel(function, &kernel); error != cudaSuccess) return error;
  if (cudaError_t error = CheckDimensions(grid, block, shared_bytes); error != cudaSuccess) return error;
  return ToRuntime(calls.LaunchCooperativeKernel(AsFunction(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                                 static_cast<unsigned int>(shared_bytes), stream, arguments));
}

static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));

cudaError_t ToDriver(const cudaLaunchConfig_t* from, CUlaunchConfig& to) {
  if (from == nullptr) return cudaErrorInvalidValue;
  cudaError_t error = CheckDimensions(from->gridDim, from->blockDim, from->dynamicSmemBytes);
  if (error != cudaSuccess) return error;
  to = {};
  to.gridDimX = from->gridDim.x;
  to.gridDimY = from->gridDim.y;
  to.gridDimZ = from->gridDim.z;
  to.blockDimX = from->blockDim.x;
  to.blockDimY = from->blockDim.y;
  to.blockDimZ = from->blockDim.z;
  to.sharedMemBytes = static_cast<unsigned int>(from->dynamicSmemBytes);
  to.hStream = from->stream;
  to.attrs = reinterpret_cast<CUlaunchAttribute*>(from->attrs);
  to.numAttrs = from->numAttrs;
  return cudaSuccess;
}

cudaError_t LaunchConfigured(const StreamCalls& calls, const cudaLaunchConfig_t* configuration, const void* function,
                             void** arguments) {
  CUkernel kernel = nullptr;
  if (cudaError_t error = Registry::Get().FindKernel(function, &kernel); error != cudaSuccess) return error;
  CUlaunchConfig launch = {};
  if (cudaError_t error = ToDriver(configuration, launch); error != cudaSuccess) return error;
  return ToRuntime(calls.LaunchKernelEx(&launch, AsFunction(kernel), arguments, nullptr));
}

// `call(driver, kernel)` for the kernel of a host function.
template <typename Call>
cudaError_t WithKernel(const void* function, Call&& call) {
  return InContext([&](const DriverCalls& driver) -> cudaError_t {
    CUkernel kernel = nullptr;
    if (cudaError_t error = Registry::Get().FindKernel(function, &kernel); error != cudaSuccess) return error;
    return ToRuntime(call(driver, kernel));
  });
}

CUdevice CurrentDevice() { return Runtime::Get().device(Thread::Current().device()).handle; }

}  // namespace

// The header turns the name into another one where it can check argument counts.
#undef cudaLaunchKernel
#undef cudaLaunchKernelExC

SIMCUDART_VARIANTS(cudaLaunchKernel, _ptsz,
                   (const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                    cudaStream_t stream),
                   LaunchFunction, function, grid, block, arguments, shared_bytes, stream)

SIMCUDART_VARIANTS(cudaLaunchCooperativeKernel, _ptsz,
                   (const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                    cudaStream_t stream),
                   LaunchCooperative, function, grid, block, arguments, shared_bytes, stream)

SIMCUDART_VARIANTS(cudaLaunchKernelExC, _ptsz,
                   (const cudaLaunchConfig_t* configuration, const void* function, void** arguments), LaunchConfigured,
                   configuration, function, arguments)

SIMCUDART_VARIANTS(__cudaLaunchKernel, _ptsz,
                   (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                    cudaStream_t stream),
                   LaunchFunction, kernel, grid, block, arguments, shared_bytes, stream)

SIMCUDART_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return InContext([&](const DriverCalls&) { return Registry::Get().FindKernel(function, kernel); });
}

SIMCUDART_EXPORT cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return InContext([&](const DriverCalls&) {
    return kernel == nullptr ? cudaErrorInvalidValue : Registry::Get().FindKernel(function, kernel);
  });
}

SIMCUDART_EXPORT cudaError_t cudaGetFuncBySymbol(cudaFunction_t* result, const void* function) {
  return WithKernel(function, [&](const DriverCalls& driver, CUkernel kernel) {
    return result == nullptr ? CUDA_ERROR_INVALID_VALUE : driver.KernelGetFunction(result, kernel);
  });
}

SIMCUDART_EXPORT cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return WithKernel(function,
                    [&](const DriverCalls& driver, CUkernel kernel) { return driver.KernelGetName(name, kernel); });
}

SIMCUDART_EXPORT cudaError_t cudaFuncGetParamInfo(const void* function, std::size_t index, std::size_t* offset,
                                                  std::size_t* bytes) {
  return WithKernel(function, [&](const DriverCalls& driver, CUkernel kernel) {
    return driver.KernelGetParamInfo(kernel, index, offset, bytes);
  });
}

SIMCUDART_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return WithKernel(function, [&](const DriverCalls& driver, CUkernel kernel) {
    if (attributes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    int values[CU_FUNC_ATTRIBUTE_MAX] = {};
    for (int attribute = 0; attribute < CU_FUNC_ATTRIBUTE_MAX; ++attribute) {
      CUresult result = driver.KernelGetAttribute(&values[attribute], static_cast<CUfunction_attribute>(attribute),
                                                  kernel, CurrentDevice());
      // The last ones exist for devices with clusters only.
      if (result != CUDA_SUCCESS && attribute < CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET) return result;
    }
    *attributes = {};
    attributes->sharedSizeBytes = static_cast<std::size_t>(values[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]);
    attributes->constSizeBytes = static_cast<std::size_t>(values[CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES]);
    attributes->localSizeBytes = static_cast<std::size_t>(values[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES]);
    attributes->maxThreadsPerBlock = values[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    attributes->numRegs = values[CU_FUNC_ATTRIBUTE_NUM_REGS];
    attributes->ptxVersion = values[CU_FUNC_ATTRIBUTE_PTX_VERSION];
    attributes->binaryVersion = values[CU_FUNC_ATTRIBUTE_BINARY_VERSION];
    attributes->cacheModeCA = values[CU_FUNC_ATTRIBUTE_CACHE_MODE_CA];
    attributes->maxDynamicSharedSizeBytes = values[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
    attributes->preferredShmemCarveout = values[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT];
    attributes->clusterDimMustBeSet = values[CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET];
    attributes->requiredClusterWidth = values[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
    attributes->requiredClusterHeight = values[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT];
    attributes->requiredClusterDepth = values[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH];
    attributes->clusterSchedulingPolicyPreference = values[CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE];
    attributes->nonPortableClusterSizeAllowed = values[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED];
    return CUDA_SUCCESS;
  });
}

SIMCUDART_EXPORT cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return WithKernel(function, [&](const DriverCalls& driver, CUkernel kernel) {
    return driver.KernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value, kernel, CurrentDevice());
  });
}

SIMCUDART_EXPORT cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache config) {
  return WithKernel(function, [&](const DriverCalls& driver, CUkernel kernel) {
    return driver.KernelSetCacheConfig(kernel, static_cast<CUfunc_cache>(config), CurrentDevice());
  });
}

// Deprecated, without effect on devices since Maxwell (as documented).
SIMCUDART_EXPORT cudaError_t cudaFuncSetSharedMemConfig(const void* function, cudaSharedMemConfig) {
  return WithKernel(function, [](const DriverCalls&, CUkernel) { return CUDA_SUCCESS; });
}

SIMCUDART_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                                           int block_size,
                                                                           std::size_t dynamic_shared_bytes) {
  return WithKernel(function, [&](const DriverCalls& driver, CUkernel kernel) {
    return driver.OccupancyMaxActiveBlocksPerMultiprocessor(blocks, AsFunction(kernel), block_size,
                                                            dynamic_shared_bytes);
  });
}

SIMCUDART_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                                    int block_size,
                                                                                    std::size_t dynamic_shared_bytes,
                                                                                    unsigned int flags) {
  return WithKernel(function, [&](const DriverCalls& driver, CUkernel kernel) {
    return driver.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, AsFunction(kernel), block_size,
                                                                     dynamic_shared_bytes, flags);
  });
}

SIMCUDART_EXPORT cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* function,
                                                                       int blocks, int block_size) {
  return WithKernel(function, [&](const DriverCalls& driver, CUkernel kernel) {
    return driver.OccupancyAvailableDynamicSMemPerBlock(bytes, AsFunction(kernel), blocks, block_size);
  });
}

SIMCUDART_EXPORT cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* function,
                                                                  const cudaLaunchConfig_t* configuration) {
  return WithKernel(function, [&](const DriverCalls& driver, CUkernel kernel) -> cudaError_t {
    CUlaunchConfig launch = {};
    if (cudaError_t error = ToDriver(configuration, launch); error != cudaSuccess) return error;
    return ToRuntime(driver.OccupancyMaxPotentialClusterSize(size, AsFunction(kernel), &launch));
  });
}

SIMCUDART_EXPORT cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                            const cudaLaunchConfig_t* configuration) {
  return WithKernel(function, [&](const DriverCalls& driver, CUkernel kernel) -> cudaError_t {
    CUlaunchConfig launch = {};
    if (cudaError_t error = ToDriver(configuration, launch); error != cudaSuccess) return error;
    return ToRuntime(driver.OccupancyMaxActiveClusters(clusters, AsFunction(kernel), &launch));
  });
}
