// Execution Control and Occupancy (Driver API reference 6.24, 6.34): attributes of kernels and functions. Kernels have
// no code here, so the figures are those of a small kernel on the device.
#include <algorithm>
#include <memory>

#include "entry_points.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {

CUresult FindKernel(CUfunction handle, std::shared_ptr<Kernel>* kernel) {
  Modules& modules = State::Get().modules;
  if (const auto function = modules.functions.Find(handle)) {
    *kernel = function->kernel;
  } else {
    // "hKernel may be cast to CUfunction" where the documentation says so: launches and attribute queries.
    *kernel = modules.kernels.Find(reinterpret_cast<CUkernel>(handle));
  }
  return *kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

namespace {

// The architecture whose code the device would load: the newest that it can run. PTX of an older one serves a newer
// card.
int LoadedArchitecture(const DeviceModel& model) {
  const int own = model.major * 10 + model.minor;
  int best = 0;
  for (int architecture : State::Get().config.architectures) {
    if (architecture <= own) best = std::max(best, architecture);
  }
  return best != 0 ? best : own;
}

CUresult Attribute(const Kernel& kernel, const DeviceModel& model, CUfunction_attribute attribute, int* value) {
  if (value == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  const auto set = kernel.attributes.find(attribute);
  if (set != kernel.attributes.end()) {
    *value = set->second;
    return CUDA_SUCCESS;
  }
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = LoadedArchitecture(model);
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = 49152;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = -1;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult SetAttribute(Kernel& kernel, const DeviceModel& model, CUfunction_attribute attribute, int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || value > LimitsOf(model.major, model.minor).shared_per_block_optin)
        return CUDA_ERROR_INVALID_VALUE;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;  // read-only
  }
  kernel.attributes[attribute] = value;
  return CUDA_SUCCESS;
}

// How many blocks fit a multiprocessor by threads, blocks and shared memory.
int ActiveBlocks(const DeviceModel& model, int block_size, size_t shared_bytes) {
  const CapabilityLimits limits = LimitsOf(model.major, model.minor);
  int blocks = std::min(limits.blocks_per_sm, limits.threads_per_sm / std::max(1, (block_size + 31) / 32 * 32));
  const size_t shared = shared_bytes + (model.major >= 8 ? 1024 : 0);
  if (shared_bytes > 0) blocks = std::min(blocks, static_cast<int>(static_cast<size_t>(limits.shared_per_sm) / shared));
  return blocks;
}

CUresult FindDeviceOf(CUdevice dev, Device** device) { return FindDevice(dev, device); }

}  // namespace

CUresult impl::cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = FindKernel(hfunc, &kernel)) return result;
  return Attribute(*kernel, *context->device->model, attrib, pi);
}

CUresult impl::cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = FindKernel(hfunc, &kernel)) return result;
  return SetAttribute(*kernel, *context->device->model, attrib, value);
}

CUresult impl::cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = FindKernel(hfunc, &kernel)) return result;
  kernel->cache_config = config;
  return CUDA_SUCCESS;
}

CUresult impl::cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  const auto function = State::Get().modules.functions.Find(hfunc);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (hmod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *hmod = function->module;
  return CUDA_SUCCESS;
}

CUresult impl::cuFuncGetName(const char** name, CUfunction hfunc) {
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = FindKernel(hfunc, &kernel)) return result;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

CUresult impl::cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = FindKernel(function, &kernel)) return result;
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult impl::cuFuncLoad(CUfunction function) {
  std::shared_ptr<Kernel> kernel;
  return FindKernel(function, &kernel);  // "if the function is already loaded, no action"
}

CUresult impl::cuKernelGetName(const char** name, CUkernel hfunc) {
  return impl::cuFuncGetName(name, reinterpret_cast<CUfunction>(hfunc));
}

CUresult impl::cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDeviceOf(dev, &device)) return result;
  const auto found = State::Get().modules.kernels.Find(kernel);
  return found ? Attribute(*found, *device->model, attrib, pi) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult impl::cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDeviceOf(dev, &device)) return result;
  const auto found = State::Get().modules.kernels.Find(kernel);
  return found ? SetAttribute(*found, *device->model, attrib, val) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult impl::cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  Device* device = nullptr;
  if (const CUresult result = FindDeviceOf(dev, &device)) return result;
  return impl::cuFuncSetCacheConfig(reinterpret_cast<CUfunction>(kernel), config);
}

CUresult impl::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func, int blockSize,
                                                                    size_t dynamicSMemSize, unsigned int) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = FindKernel(func, &kernel)) return result;
  if (numBlocks == nullptr || blockSize <= 0) return CUDA_ERROR_INVALID_VALUE;
  *numBlocks = ActiveBlocks(*context->device->model, blockSize, dynamicSMemSize);
  return CUDA_SUCCESS;
}

CUresult impl::cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func, int blockSize,
                                                           size_t dynamicSMemSize) {
  return impl::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize, 0);
}

CUresult impl::cuOccupancyMaxPotentialBlockSizeWithFlags(int* minGridSize, int* blockSize, CUfunction func,
                                                         CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                         size_t dynamicSMemSize, int blockSizeLimit, unsigned int) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = FindKernel(func, &kernel)) return result;
  if (minGridSize == nullptr || blockSize == nullptr || blockSizeLimit < 0) return CUDA_ERROR_INVALID_VALUE;
  const DeviceModel& model = *context->device->model;
  int best = 0, best_threads = 0;
  const int limit = blockSizeLimit == 0 ? 1024 : std::min(blockSizeLimit, 1024);
  for (int size = limit / 32 * 32; size >= 32; size -= 32) {
    const size_t shared = blockSizeToDynamicSMemSize != nullptr ? blockSizeToDynamicSMemSize(size) : dynamicSMemSize;
    const int threads = ActiveBlocks(model, size, shared) * size;
    if (threads > best_threads) best = size, best_threads = threads;
  }
  if (best == 0) best = std::max(1, limit), best_threads = best;
  *blockSize = best;
  *minGridSize = std::max(1, best_threads / best) * model.sm_count;
  return CUDA_SUCCESS;
}

CUresult impl::cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                                CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                                int blockSizeLimit) {
  return impl::cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, blockSizeToDynamicSMemSize,
                                                         dynamicSMemSize, blockSizeLimit, 0);
}

CUresult impl::cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func, int numBlocks,
                                                       int blockSize) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = FindKernel(func, &kernel)) return result;
  if (dynamicSmemSize == nullptr || numBlocks <= 0 || blockSize <= 0) return CUDA_ERROR_INVALID_VALUE;
  const CapabilityLimits limits = LimitsOf(context->device->model->major, context->device->model->minor);
  const auto each = static_cast<size_t>(limits.shared_per_sm / numBlocks);
  const size_t reserved = context->device->model->major >= 8 ? 1024 : 0;
  *dynamicSmemSize =
      std::min(each > reserved ? each - reserved : 0, static_cast<size_t>(limits.shared_per_block_optin));
  return CUDA_SUCCESS;
}

CUresult impl::cuOccupancyMaxPotentialClusterSize(int* clusterSize, CUfunction func, const CUlaunchConfig* config) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = FindKernel(func, &kernel)) return result;
  if (clusterSize == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const DeviceModel& model = *context->device->model;
  if (!LimitsOf(model.major, model.minor).clusters) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  *clusterSize = 8;  // the portable maximum
  return CUDA_SUCCESS;
}

CUresult impl::cuOccupancyMaxActiveClusters(int* numClusters, CUfunction func, const CUlaunchConfig* config) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = FindKernel(func, &kernel)) return result;
  if (numClusters == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned cluster = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const auto& attribute = config->attrs[i];
    if (attribute.id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& dim = attribute.value.clusterDim;
    cluster = std::max(1u, dim.x * dim.y * dim.z);
  }
  const int block = static_cast<int>(config->blockDimX * config->blockDimY * config->blockDimZ);
  const DeviceModel& model = *context->device->model;
  *numClusters = ActiveBlocks(model, block, config->sharedMemBytes) * model.sm_count / static_cast<int>(cluster);
  return CUDA_SUCCESS;
}

}  // namespace simcuda
