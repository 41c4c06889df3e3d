#include "analysis/torch_cache/replay.h"

#include <algorithm>

#include "analysis/torch_cache/torch_cache.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kUnit = 512;
constexpr int kStreamShift = 40;
constexpr std::uint64_t kUnits = (std::uint64_t{1} << kStreamShift) - 1;
constexpr std::uint64_t kMostNotSplit = (std::uint64_t{1} << 20) / kUnit;  // and the most of small pools
constexpr std::size_t kNear = 64;                                          // requests of large pools

}  // namespace

bool CacheRequests::Allocate(std::uint64_t bytes, std::uint32_t stream, std::uint32_t origin) {
  if (bytes > kMostBytes || stream >= kMostStreams || asked_.size() >= kMostTensors) return false;
  largest_ = std::max(largest_, bytes);
  const std::uint64_t units = (bytes + kUnit - 1) / kUnit;
  if (units > kMostNotSplit) large_.push_back({static_cast<std::uint32_t>(asked_.size()), origin});
  asked_.push_back(units | std::uint64_t{stream} << kStreamShift);
  steps_.push_back(kAllocate);
  return true;
}

void CacheRequests::Refuse(std::uint64_t bytes, std::uint32_t stream) {
  if (bytes > kMostBytes || stream >= kMostStreams) return;
  refused_.push_back((bytes + kUnit - 1) / kUnit | std::uint64_t{stream} << kStreamShift);
  steps_.push_back(kRefused);
}

std::uint64_t CacheRequests::PeakAsItWas(const TorchCacheSettings& settings, std::uint64_t enough,
                                         std::vector<std::uint64_t>* for_refused) {
  took_whole_.clear();
  took_whole_.reserve(large_.size());
  return Replay(settings, true, enough, &took_whole_, for_refused);
}

std::uint64_t CacheRequests::Replay(const TorchCacheSettings& settings, bool as_it_was, std::uint64_t enough,
                                    std::vector<bool>* took_whole, std::vector<std::uint64_t>* for_refused) const {
  const auto serve = [](TorchCache& cache, std::uint64_t asked) {
    return cache.Allocate((asked & kUnits) * kUnit, static_cast<std::uint32_t>(asked >> kStreamShift));
  };
  TorchCache cache(settings);
  std::vector<TorchCache::Handle> handles;
  handles.reserve(asked_.size());
  std::size_t refused = 0;
  for (const std::uint32_t step : steps_) {
    if (step == kAllocate) {
      const std::uint64_t asked = asked_[handles.size()];
      handles.push_back(serve(cache, asked));
      if (took_whole != nullptr && (asked & kUnits) > kMostNotSplit) took_whole->push_back(cache.took_whole());
      if (cache.peak() > enough) break;
    } else if (step >= kFirstFree) {
      cache.Free(handles[step - kFirstFree]);
    } else if (step == kRefused) {
      const std::uint64_t asked = refused_[refused++];
      if (for_refused == nullptr) continue;
      TorchCache with = cache;
      with.Empty();
      serve(with, asked);
      for_refused->push_back(with.reserved());
    } else if (step == kEmpty || as_it_was) {
      cache.Empty();
    }
  }
  return cache.peak();
}

std::uint64_t CacheRequests::Asked(std::uint32_t tensor) const { return (asked_[tensor] & kUnits) * kUnit; }

void CacheRequests::Narrow() {
  if (took_whole_.size() != large_.size()) return;
  std::vector<std::uint64_t> likely(large_.size());  // apart: what is known is looked for, not what is guessed
  for (std::size_t i = 0; i < large_.size(); ++i)
    likely[i] = took_whole_[i] ? LikelyRequest(i) : asked_[large_[i].tensor];
  for (std::size_t i = 0; i < large_.size(); ++i) asked_[large_[i].tensor] = likely[i];
}

// Of one that took the whole: the nearest request of its origin that is known and may be its own, else the nearest one.
std::uint64_t CacheRequests::LikelyRequest(std::size_t large) const {
  const std::uint64_t took = asked_[large_[large].tensor];
  std::uint64_t other_origin = 0;
  for (std::size_t far = 1; far <= kNear; ++far) {
    for (const std::size_t near : {large - far, large + far}) {  // the former may be none, and is too large then
      if (near >= large_.size() || took_whole_[near]) continue;
      const std::uint64_t known = asked_[large_[near].tensor];
      if (known > took || took - known > kMostNotSplit) continue;
      if (large_[near].origin == large_[large].origin) return known;
      if (other_origin == 0) other_origin = known;
    }
  }
  return other_origin == 0 ? took : other_origin;
}

}  // namespace cuheap::analysis
