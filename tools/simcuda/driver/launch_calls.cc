// Execution Control (Driver API reference 6.24): launches. Any kernel is accepted and queued; it does nothing unless a
// test kernel is registered under its name.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "entry_points.h"
#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/graph.h"
#include "tools/simcuda/driver/launch.h"
#include "tools/simcuda/driver/queue.h"
#include "tools/simcuda/driver/state.h"

namespace simcuda {
namespace {

// Copies the parameters of a registered kernel from kernelParams, or from the packed buffer in `extra`.
// Errors: INVALID_VALUE when neither holds them.
CUresult CopyParameters(const RegisteredKernel& kernel, void** kernel_params, void** extra, PendingLaunch* pending) {
  std::vector<size_t> offsets = ParameterOffsets(kernel);
  const size_t total = offsets.back();
  offsets.pop_back();
  pending->bytes.resize(total + 1);
  const char* packed = nullptr;
  size_t packed_bytes = 0;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) packed = static_cast<const char*>(extra[1]);
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) packed_bytes = *static_cast<const size_t*>(extra[1]);
  }
  if (kernel_params == nullptr && total > 0 && (packed == nullptr || packed_bytes < total))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < offsets.size(); ++i) {
    char* target = pending->bytes.data() + offsets[i];
    const void* source = kernel_params != nullptr ? kernel_params[i] : packed + offsets[i];
    if (source == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(target, source, kernel.parameter_bytes[i]);
    pending->pointers.push_back(target);
  }
  return CUDA_SUCCESS;
}

}  // namespace

std::vector<size_t> ParameterOffsets(const RegisteredKernel& kernel) {
  std::vector<size_t> offsets;
  size_t total = 0;
  for (size_t bytes : kernel.parameter_bytes) {
    // Parameters are aligned to their size, up to 16, in the packed form (CUDA C++ Programming Guide, cuLaunchKernel).
    size_t alignment = 1;
    while (alignment < bytes && alignment < 16) alignment *= 2;
    total = (total + alignment - 1) / alignment * alignment;
    offsets.push_back(total);
    total += bytes;
  }
  offsets.push_back(total);
  return offsets;
}

namespace {

CUresult CheckShape(const LaunchShape& shape, const Kernel& kernel) {
  constexpr unsigned kLargestBlock[3] = {1024, 1024, 64};
  constexpr unsigned kLargestGrid[3] = {2147483647, 65535, 65535};
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.grid[i] > kLargestGrid[i]) return CUDA_ERROR_INVALID_VALUE;
    if (shape.block[i] == 0 || shape.block[i] > kLargestBlock[i]) return CUDA_ERROR_INVALID_VALUE;
    threads *= shape.block[i];
  }
  if (threads > 1024) return CUDA_ERROR_INVALID_VALUE;
  const auto asked = kernel.attributes.find(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  const unsigned allowed = asked == kernel.attributes.end() ? 49152u : static_cast<unsigned>(asked->second);
  return shape.shared_bytes > allowed ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult Launch(CUstream handle, const LaunchDetails& launch, void** kernel_params, void** extra) {
  SIMCUDA_CURRENT(context);
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = FindKernel(launch.function, &kernel)) return result;
  if (const CUresult result = FindStream(handle, &stream)) return result;
  if (stream->context != context) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Work> work;
  if (const CUresult result = MakeLaunch(*context, launch, kernel_params, extra, &work)) return result;
  State::Get().engine.Enqueue(stream, std::move(work));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult MakeLaunch(Context&, const LaunchDetails& launch, void** kernel_params, void** extra,
                    std::shared_ptr<Work>* work) {
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = FindKernel(launch.function, &kernel)) return result;
  if (const CUresult result = CheckShape(launch.shape, *kernel)) return result;
  if (kernel_params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& known = State::Get().modules.registered;
  const auto registered = known.find(kernel->name);
  LaunchDetails details = launch;
  details.parameters = nullptr;
  if (registered == known.end()) {
    *work = NewWork("kernel", nullptr);
  } else {
    auto pending = std::make_shared<PendingLaunch>();
    pending->name = kernel->name;
    if (const CUresult result = CopyParameters(registered->second, kernel_params, extra, pending.get())) return result;
    pending->launch.name = pending->name.c_str();
    std::copy_n(launch.shape.grid, 3, pending->launch.grid);
    std::copy_n(launch.shape.block, 3, pending->launch.block);
    pending->launch.shared_bytes = launch.shape.shared_bytes;
    pending->launch.parameter_count = static_cast<unsigned>(pending->pointers.size());
    pending->launch.parameters = pending->pointers.data();
    *work = NewWork("kernel", [pending, run = registered->second.function] {
      return run(&pending->launch) == 0 ? Outcome::kDone : Outcome::kAgain;
    });
    details.parameters = pending;
  }
  (*work)->details = NewDetails(CU_GRAPH_NODE_TYPE_KERNEL, std::move(details));
  return CUDA_SUCCESS;
}

CUresult impl::cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                              unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                              unsigned int sharedMemBytes, CUstream hStream, void** kernelParams, void** extra) {
  const LaunchShape shape{{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
  return Launch(hStream, {f, shape, nullptr, {}, false}, kernelParams, extra);
}

CUresult impl::cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                         unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                         unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                         void** kernelParams) {
  const LaunchShape shape{{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes};
  return Launch(hStream, {f, shape, nullptr, {}, true}, kernelParams, nullptr);
}

// Attributes steer performance or need hardware that a kernel that does nothing cannot miss, so they have no effect
// here.
CUresult impl::cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra) {
  if (config == nullptr || (config->numAttrs > 0 && config->attrs == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const LaunchShape shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
                          {config->blockDimX, config->blockDimY, config->blockDimZ},
                          config->sharedMemBytes};
  LaunchDetails launch{f, shape, nullptr, {}, false};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    launch.attributes[config->attrs[i].id] = config->attrs[i].value;
    launch.cooperative |= config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && config->attrs[i].value.cooperative;
  }
  return Launch(config->hStream, launch, kernelParams, extra);
}

}  // namespace simcuda
