// A model of PyTorch's caching allocator: where it places tensors, and what it holds from the driver for them. Requests
// and frees of a run that was recorded are replayed in it, with the settings that the run had or with others.
//
// Note [Rules]
// As documented ("Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF") and as c10/cuda/CUDACachingAllocator.cpp does:
//   pools    each stream has two: of requests up to 1 MiB, and of larger ones. Blocks never leave theirs.
//   fit      the smallest idle block that is large enough, of equal ones the lowest. With max_split_size, blocks of
//   that
//            size serve no smaller requests, and requests of that size only blocks that are 20 MiB larger at most.
//   segment  where nothing fits: 2 MiB for a small request, 20 MiB below 10 MiB, else the size in whole 2 MiB.
//   split    the rest becomes a block of its own if it has 512 B (small pools, expandable segments) or more than 1 MiB.
//   free     a block joins idle neighbours of its segment. Whole idle segments stay, until the cache is emptied.
//   expandable segments: one range of addresses for each pool, into which pages of 2 MiB (small) or 20 MiB are mapped
//   at
//            the lowest address that will do, so that an idle end is continued and not left over. An idle end counts as
//            large as it could grow, when the smallest block is searched. Emptying gives whole idle pages back.
// Not modelled: blocks that wait for another stream (record_stream), private pools of graphs, garbage collection (it
// works below a limit of the process only), memory that runs out (there is no end of it here).
//
// A call takes O(log n) of the idle blocks; where expandable segments grow, O(n) of the holes that emptying left.
#ifndef CUHEAP_ANALYSIS_TORCH_CACHE_TORCH_CACHE_H_
#define CUHEAP_ANALYSIS_TORCH_CACHE_TORCH_CACHE_H_

#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "analysis/torch_cache/settings.h"

namespace cuheap::analysis {

class TorchCache {
 public:
  using Handle = std::uint32_t;

  explicit TorchCache(const TorchCacheSettings& settings) : settings_(settings) {}

  // A tensor of so many bytes (rounded up to 512), for a stream: any number, counted from 0.
  Handle Allocate(std::uint64_t bytes, std::uint32_t stream = 0);
  // Of a tensor that lives.
  void Free(Handle tensor);
  // torch.cuda.empty_cache().
  void Empty();

  std::uint64_t reserved() const { return reserved_; }  // bytes held from the driver
  std::uint64_t peak() const { return peak_; }          // most of them
  std::uint64_t allocated() const { return allocated_; }
  // The last request has the whole of a block of a large pool, of which more than was asked for would not be split off.
  bool took_whole() const { return took_whole_; }
  // What a tensor takes: more than was asked for where a rest was not split off.
  std::uint64_t BytesOf(Handle tensor) const { return nodes_[tensor].bytes; }
  std::uint64_t AddressOf(Handle tensor) const { return nodes_[tensor].address; }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  enum class State : std::uint8_t { kIdle, kLive, kUnmapped };
  // A block of a segment, or of the unmapped rest of an expandable one. Neighbours are those of the segment.
  struct Node {
    std::uint64_t address = 0, bytes = 0;
    std::uint32_t before = kNone, behind = kNone;
    std::uint32_t pool = 0;
    State state = State::kIdle;
  };
  using BySize = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>;  // bytes, address, node
  using ByAddress = std::pair<std::uint64_t, std::uint32_t>;
  struct Pool {
    absl::btree_set<BySize> idle;
    absl::btree_set<ByAddress> unmapped;  // of expandable segments
  };

  static bool IsSmall(std::uint32_t pool) { return pool % 2 == 0; }
  std::uint32_t PoolOf(std::uint64_t bytes, std::uint32_t stream);
  std::uint64_t PageOf(std::uint32_t pool) const;
  std::uint64_t SegmentFor(std::uint64_t bytes) const;
  bool Splits(const Node& node, std::uint64_t bytes) const;
  std::uint64_t Growable(std::uint32_t node) const;

  std::uint32_t FindIdle(std::uint32_t pool, std::uint64_t bytes);
  std::uint32_t NewSegment(std::uint32_t pool, std::uint64_t bytes);
  std::uint32_t GrowSegment(std::uint32_t pool, std::uint64_t bytes);
  std::uint32_t FindRoom(std::uint32_t pool, std::uint64_t bytes);
  std::uint32_t Map(std::uint32_t node, std::uint64_t bytes);
  void Unmap(std::uint32_t node);
  void Release(std::uint32_t node);

  std::uint32_t NewNode(const Node& node);
  void Drop(std::uint32_t node);
  std::uint32_t Split(std::uint32_t node, std::uint64_t bytes, State rest);
  // Joins a neighbour of the same state into the node, which is in no set.
  void Join(std::uint32_t node);
  void Insert(std::uint32_t node);
  void Erase(std::uint32_t node);
  void Hold(std::uint64_t bytes) {
    reserved_ += bytes;
    if (reserved_ > peak_) peak_ = reserved_;
  }

  TorchCacheSettings settings_;
  bool took_whole_ = false;
  std::uint64_t reserved_ = 0, peak_ = 0, allocated_ = 0;
  std::uint64_t next_address_ = std::uint64_t{1} << 32;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> unused_;  // nodes
  std::vector<Pool> pools_;            // of stream s: 2s for small requests, 2s + 1 for large ones
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_TORCH_CACHE_TORCH_CACHE_H_
