// What decides how PyTorch's caching allocator places tensors: the part of PYTORCH_CUDA_ALLOC_CONF that torch_cache.h
// models.
#ifndef CUHEAP_ANALYSIS_TORCH_CACHE_SETTINGS_H_
#define CUHEAP_ANALYSIS_TORCH_CACHE_SETTINGS_H_

#include <cstdint>
#include <limits>
#include <string_view>

namespace cuheap::analysis {

// Sizes in bytes. Source: PyTorch, "Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF" (notes on CUDA semantics),
// and c10/core/AllocatorConfig.h.
struct TorchCacheSettings {
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
  bool expandable = false;             // expandable_segments
  std::uint64_t max_split = kNoLimit;  // max_split_size_mb: blocks of this size and more are not split
  // max_non_split_rounding_mb: such a block serves requests that are less than this smaller.
  std::uint64_t max_non_split_rounding = std::uint64_t{20} << 20;
  // large_segment_size_mb: the segment for requests over 1 MiB and under 10 MiB, and the page of expandable segments.
  std::uint64_t large_segment = std::uint64_t{20} << 20;
  friend bool operator==(const TorchCacheSettings&, const TorchCacheSettings&) = default;
};

// As PyTorch reads the variable: "key:value,key:value", blanks ignored, values of a list in brackets. Keys that concern
// something else, and values that PyTorch would refuse, change nothing.
TorchCacheSettings ParseTorchCacheSettings(std::string_view text);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_TORCH_CACHE_SETTINGS_H_
