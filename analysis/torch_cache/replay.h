// The requests and frees of a run, in order, and what PyTorch's cache would hold for them under some settings.
#ifndef CUHEAP_ANALYSIS_TORCH_CACHE_REPLAY_H_
#define CUHEAP_ANALYSIS_TORCH_CACHE_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "analysis/torch_cache/settings.h"

namespace cuheap::analysis {

// Note [Emptied]
// Where the run gave memory back, it had called torch.cuda.empty_cache(), which it would do under other settings as
// well; or the driver had refused memory, and PyTorch gave back what was idle to try again. The latter would not happen
// where less is held, and settings are of interest only where they hold less.
//
// Note [Took the whole]
// A tensor may take up to 1 MiB more than was asked for, where PyTorch does not split so little off a large block. What
// it asked for is not recorded; but sizes come again and again. So the request is taken to be that of a tensor near by
// (of the same origin, if there is one) from whose block a rest was split off, and which is at most 1 MiB smaller. Of
// trainings with lengths that vary a sixth of what tensors took too much was left, and 0.02 % of all was taken off
// wrongly.
class CacheRequests {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 44;
  static constexpr std::uint32_t kMostStreams = 1 << 16;
  static constexpr std::uint32_t kMostTensors = std::numeric_limits<std::uint32_t>::max() - 4;

  // Tensors are counted from 0 in order of their requests. False: more than can be replayed.
  // origin: any number; equal ones often ask for equal sizes.
  bool Allocate(std::uint64_t bytes, std::uint32_t stream, std::uint32_t origin = 0);
  void Free(std::uint32_t tensor) { steps_.push_back(kFirstFree + tensor); }
  void Empty() { EmptyFor(kEmpty); }
  void EmptyAfterRefusal() { EmptyFor(kEmptyAfterRefusal); }
  // One that was not served. The run went on without it.
  void Refuse(std::uint64_t bytes, std::uint32_t stream);

  // The most that the cache would hold with other settings than the run had. Stops with what it has come to where that
  // is more than `enough`. Time: O(log n) of the idle blocks for each request; memory: 4 bytes for each tensor.
  // for_refused: gets, for each that was not served, what would be held with it and nothing that could be given back.
  std::uint64_t Peak(const TorchCacheSettings& settings, std::uint64_t enough = TorchCacheSettings::kNoLimit,
                     std::vector<std::uint64_t>* for_refused = nullptr) const {
    return Replay(settings, false, enough, nullptr, for_refused);
  }
  // The same with those that it had, and with all emptyings of Note [Emptied].
  std::uint64_t PeakAsItWas(const TorchCacheSettings& settings, std::uint64_t enough = TorchCacheSettings::kNoLimit,
                            std::vector<std::uint64_t>* for_refused = nullptr);
  // Where the requests are what tensors took: puts likely requests in their place, see Note [Took the whole]. After a
  // PeakAsItWas() that was not stopped.
  void Narrow();

  std::uint64_t Asked(std::uint32_t tensor) const;  // bytes
  std::size_t tensors() const { return asked_.size(); }
  std::uint64_t largest() const { return largest_; }  // bytes of the largest request

 private:
  static constexpr std::uint32_t kAllocate = 0, kEmpty = 1, kEmptyAfterRefusal = 2, kRefused = 3, kFirstFree = 4;
  void EmptyFor(std::uint32_t why) {
    if (steps_.empty() || steps_.back() != why) steps_.push_back(why);
  }

  struct Large {
    std::uint32_t tensor = 0, origin = 0;
  };
  // took_whole: gets one for each of large_, if not null; as_it_was: with all emptyings.
  std::uint64_t Replay(const TorchCacheSettings& settings, bool as_it_was, std::uint64_t enough,
                       std::vector<bool>* took_whole, std::vector<std::uint64_t>* for_refused) const;
  std::uint64_t LikelyRequest(std::size_t large) const;

  std::vector<std::uint32_t> steps_;
  std::vector<std::uint64_t> asked_;    // by tensor: 512 bytes, and above them the stream
  std::vector<std::uint64_t> refused_;  // as asked_
  std::vector<Large> large_;            // requests of large pools
  std::vector<bool> took_whole_;        // by large_, as it was
  std::uint64_t largest_ = 0;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_TORCH_CACHE_REPLAY_H_
