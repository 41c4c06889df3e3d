#include "tools/cuheap/pool_mode.h"

#include <algorithm>
#include <array>
#include <optional>

namespace cuheap::tools {
namespace {

constexpr std::string_view kBackend = "backend:cudaMallocAsync";

// Of PyTorch's own cache: the other back end refuses or ignores them.
constexpr std::array<std::string_view, 10> kOfTheCache = {
    "backend",
    "expandable_segments",
    "expandable_segments_page_size",
    "expandable_segments_reserve",
    "expandable_segments_reserve_by_class",
    "garbage_collection_threshold",
    "large_segment_size_mb",
    "max_non_split_rounding_mb",
    "max_split_size_mb",
    "release_lock_on_cudamalloc",
};
constexpr std::string_view kRounding = "roundup_power2_divisions";

std::optional<std::string> ValueOf(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool OfTheCache(std::string_view option) {
  const std::string_view name = Trimmed(option.substr(0, option.find(':')));
  return name == kRounding || std::find(kOfTheCache.begin(), kOfTheCache.end(), name) != kOfTheCache.end();
}

void PlanPyTorch(const std::vector<std::string>& environment, PoolPlan& plan) {
  const std::optional<std::string> cuda = ValueOf(environment, "PYTORCH_CUDA_ALLOC_CONF");
  const std::optional<std::string> any = ValueOf(environment, "PYTORCH_ALLOC_CONF");
  // An empty one counts as set for PyTorch, but says nothing.
  const bool in_general = (!cuda || cuda->empty()) && any && !any->empty();
  const std::string variable = in_general && !cuda ? "PYTORCH_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
  std::string merged(kBackend), dropped;
  for (const std::string& option : SplitAllocatorOptions(in_general ? *any : cuda.value_or(""))) {
    if (!OfTheCache(option)) {
      merged += "," + option;
    } else if (option != kBackend) {
      dropped += (dropped.empty() ? "" : ",") + option;
    }
  }
  plan.variables.emplace_back(variable, merged);
  if (!dropped.empty())
    plan.messages.push_back("--pool: left out of " + variable + ", being of PyTorch's own cache: " + dropped);
}

void Override(const std::vector<std::string>& environment, const std::string& variable, const std::string& value,
              PoolPlan& plan) {
  const std::optional<std::string> given = ValueOf(environment, variable);
  if (given && !given->empty() && *given != value)
    plan.messages.push_back("--pool: " + variable + "=" + value + " takes the place of " + *given);
  plan.variables.emplace_back(variable, value);
}

}  // namespace

std::vector<std::string> SplitAllocatorOptions(std::string_view text) {
  std::vector<std::string> options;
  std::string option;
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c != ',' || depth > 0) {
      option += c;
      continue;
    }
    if (!Trimmed(option).empty()) options.emplace_back(Trimmed(option));
    option.clear();
  }
  if (!Trimmed(option).empty()) options.emplace_back(Trimmed(option));
  return options;
}

PoolPlan PlanPool(const std::vector<std::string>& environment) {
  PoolPlan plan;
  plan.messages.emplace_back(
      "--pool: frameworks' own caches are bypassed; of PyTorch, torch.cuda.memory_snapshot(), torch.cuda.MemPool, "
      "torch.compile(mode=\"reduce-overhead\") and sharing CUDA tensors between processes are not available in this run");
  PlanPyTorch(environment, plan);
  Override(environment, "XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async", plan);
  Override(environment, "XLA_PYTHON_CLIENT_PREALLOCATE", "false", plan);
  Override(environment, "TF_GPU_ALLOCATOR", "cuda_malloc_async", plan);
  return plan;
}

}  // namespace cuheap::tools
