// `cuheap run --pool`: the environment in which frameworks leave their own caches aside, so that every tensor is one
// allocation of the driver's stream-ordered interface, which the preload library serves.
#ifndef CUHEAP_TOOLS_CUHEAP_POOL_MODE_H_
#define CUHEAP_TOOLS_CUHEAP_POOL_MODE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cuheap::tools {

struct PoolPlan {
  std::vector<std::pair<std::string, std::string>> variables;  // to be set
  std::vector<std::string> messages;                           // to be said before the program starts, one line each
};

// environment: "NAME=value" each, as of the program without us.
//
// PyTorch: backend:cudaMallocAsync in PYTORCH_CUDA_ALLOC_CONF, which wins over PYTORCH_ALLOC_CONF and which every
// version knows; if only the latter is set, there. The user's options stay, but for those of PyTorch's own cache.
// Source: PyTorch, "Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF".
// JAX: XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async, without taking most of the device first. Source: JAX, "GPU memory
// allocation"; XLA, GpuAllocatorConfig. TensorFlow: TF_GPU_ALLOCATOR=cuda_malloc_async. Source: TensorFlow, GPU guide.
PoolPlan PlanPool(const std::vector<std::string>& environment);

// The options of PyTorch's variable, "name:value" each; commas within brackets do not part them.
std::vector<std::string> SplitAllocatorOptions(std::string_view text);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_POOL_MODE_H_
