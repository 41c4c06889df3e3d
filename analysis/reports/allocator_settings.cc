#include "analysis/reports/allocator_settings.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "analysis/torch_cache/replay.h"
#include "analysis/torch_cache/settings.h"
#include "interpose/journal/format.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kLeastShare = 20;                       // a twentieth of what was held
constexpr std::uint64_t kLeastBytes = std::uint64_t{20} << 20;  // a page of expandable segments
constexpr std::uint64_t kBelieved = 50;                         // 2 %

// Sizes that PyTorch's users try, in MiB. Under 32 many tensors of a training would be "large".
constexpr std::uint64_t kMaxSplits[] = {512, 256, 128, 64, 32};
// A replay takes most of a second for five million tensors: of so many, one size is tried, and only if expandable
// segments would not help.
constexpr std::size_t kManyTensors = 1'000'000;
constexpr std::uint64_t kUsualMaxSplit = 128;

std::uint64_t LeastWorthTelling(std::uint64_t held) { return std::max(held / kLeastShare, kLeastBytes); }

std::string RecordedSettings(const Snapshot& snapshot) {
  // A PyTorch reads the first; the second is its newer name, for all devices.
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    for (const auto* facts : {&snapshot.configuration, &snapshot.process.launcher}) {
      if (const auto found = facts->find(name); found != facts->end()) return found->second;
    }
  }
  return "";
}

// The requests of one device, from the joined blocks.
class Requests {
 public:
  Requests(const Snapshot& snapshot, const Blocks& blocks, const FrameworkCache& cache)
      : events_(snapshot.events),
        blocks_(blocks),
        cache_(cache),
        device_(cache.device),
        by_stream_(snapshot.recorder == "pytorch") {}

  // Nothing if there are more than can be replayed.
  std::optional<CacheRequests> Collect() {
    FindFirst();
    FindEnds();
    for (const Block* block : first_) {
      if (!requests_.Allocate(block->bytes, StreamOf(*block), block->stack)) return std::nullopt;
    }
    std::uint64_t position = 0;
    for (const Block& block : blocks_.program) {
      if (!Wanted(block) || block.allocated_at == 0) continue;
      EndUntil(block.allocated_at, position);
      if (!requests_.Allocate(block.bytes, StreamOf(block), block.stack)) return std::nullopt;
    }
    EndUntil(ends_.size(), position);
    return std::move(requests_);
  }

 private:
  static constexpr std::uint32_t kNothing = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t kEmptied = kNothing - 1, kEmptiedAfterRefusal = kNothing - 2;

  bool Wanted(const Block& block) const { return block.is_tensor() && block.device == device_; }

  // Of tensors from before the record it is known where they lie, and not when they came: in order of addresses.
  void FindFirst() {
    for (const Block& block : blocks_.program) {
      if (Wanted(block) && block.allocated_at == 0) first_.push_back(&block);
    }
    std::stable_sort(first_.begin(), first_.end(),
                     [](const Block* a, const Block* b) { return a->address < b->address; });
  }

  // What ends at each position: a tensor, by its number, or segments.
  void FindEnds() {
    ends_.assign(events_.size() + 1, kNothing);
    std::uint32_t number = 0;
    for (const Block* block : first_) {
      if (Ends(*block)) ends_[block->freed_at] = number;
      ++number;
    }
    for (const Block& block : blocks_.program) {
      if (Wanted(block)) {
        if (block.allocated_at == 0) continue;
        if (Ends(block)) ends_[block.freed_at] = number;
        ++number;
      } else if (block.device == device_ && block.in_framework_cache() && Blocks::OnDevice(block.kind) && Ends(block)) {
        ends_[block.freed_at] = kEmptied;
      }
    }
    for (std::uint64_t at = 1; at < ends_.size(); ++at) {
      if (ends_[at] != kEmptied) continue;
      const bool goes_on = ends_[at - 1] == kEmptied || ends_[at - 1] == kEmptiedAfterRefusal;
      if (goes_on ? ends_[at - 1] == kEmptiedAfterRefusal : AfterRefusal(at)) ends_[at] = kEmptiedAfterRefusal;
    }
  }

  // A damaged record may have any order.
  bool Ends(const Block& block) const {
    return !block.freed_with_context && block.freed_at < ends_.size() && block.freed_at > block.allocated_at;
  }

  // PyTorch gives memory back between a refusal of the driver and the next try, in one call; what else is recorded
  // between is little.
  bool AfterRefusal(std::uint64_t freed_at) const {
    constexpr std::uint64_t kBetween = 64;
    for (std::uint64_t i = freed_at - 1; i > 0 && freed_at - i <= kBetween; --i) {
      if (events_.type[i - 1] == EventType::kAllocateFailed && events_.device[i - 1] == device_) return true;
      if (events_.kind[i - 1] == AllocationKind::kTensor && events_.device[i - 1] == device_) return false;
    }
    return false;
  }

  void EndUntil(std::uint64_t until, std::uint64_t& position) {
    for (; position < until; ++position) {
      const std::uint32_t end = ends_[position];
      while (refusal_ < cache_.refusals.size() && cache_.refusals[refusal_].position <= position)
        requests_.Refuse(cache_.refusals[refusal_++].request, last_number_);
      if (end == kNothing) continue;
      if (end == kEmptied)
        requests_.Empty();
      else if (end == kEmptiedAfterRefusal)
        requests_.EmptyAfterRefusal();
      else if (end < requests_.tensors())
        requests_.Free(end);
    }
  }

  std::uint32_t StreamOf(const Block& block) {
    if (!by_stream_) return 0;
    if (streams_.empty() || block.stream != last_stream_) {
      last_stream_ = block.stream;
      last_number_ = streams_.try_emplace(block.stream, static_cast<std::uint32_t>(streams_.size())).first->second;
    }
    return last_number_;
  }

  const Events& events_;
  const Blocks& blocks_;
  const FrameworkCache& cache_;
  std::size_t refusal_ = 0;  // the next one
  std::uint32_t device_;
  bool by_stream_;                   // the record tells the streams of tensors
  std::vector<const Block*> first_;  // that were there before the record
  std::vector<std::uint32_t> ends_;
  std::map<std::uint64_t, std::uint32_t> streams_;
  std::uint64_t last_stream_ = 0;
  std::uint32_t last_number_ = 0;
  CacheRequests requests_;
};

bool Expandable(const Blocks& blocks, std::uint32_t device) {
  return std::any_of(blocks.program.begin(), blocks.program.end(), [&](const Block& block) {
    return block.kind == AllocationKind::kVirtual && block.device == device && block.in_framework_cache();
  });
}

// Tries other settings, and adds those that help to the list.
class Trial {
 public:
  // for_refused: what was held with the requests that were refused, with the settings of the run.
  // off: by how much the model missed what was held.
  Trial(const CacheRequests& requests, const TorchCacheSettings& recorded, std::vector<std::uint64_t> for_refused,
        std::uint64_t off, AllocatorSettings& settings)
      : requests_(requests), recorded_(recorded), for_refused_(std::move(for_refused)), settings_(settings) {
    most_ = settings.held_peak - std::max(LeastWorthTelling(settings.held_peak), 2 * off);
  }

  void Expandable() {
    TorchCacheSettings other = recorded_;
    other.expandable = true;
    const SettingOption option = Try("expandable_segments:True", other, Enough());
    if (Helps(option)) settings_.options.push_back(option);
  }

  // Of several sizes the one that holds least; of equal ones the largest, which changes least.
  void MaxSplits() {
    if (recorded_.max_split != TorchCacheSettings::kNoLimit) return;  // was chosen already
    SettingOption best;
    for (const std::uint64_t mib : kMaxSplits) {
      if (requests_.tensors() > kManyTensors && mib != kUsualMaxSplit) continue;
      TorchCacheSettings other = recorded_;
      other.max_split = mib << 20;
      if (other.max_split > requests_.largest()) continue;  // no block would be concerned
      const SettingOption option =
          Try("max_split_size_mb:" + std::to_string(mib), other, best.set.empty() ? Enough() : best.peak - 1);
      if (Helps(option) && (best.set.empty() || option.peak < best.peak)) best = option;
    }
    if (!best.set.empty()) settings_.options.push_back(best);
  }

 private:
  // What more than that is held for is of no interest.
  std::uint64_t Enough() const { return for_refused_.empty() ? most_ : settings_.held_peak; }
  bool Helps(const SettingOption& option) const { return option.peak <= most_ || option.fitting != 0; }

  SettingOption Try(std::string set, const TorchCacheSettings& other, std::uint64_t enough) const {
    std::vector<std::uint64_t> with;
    SettingOption option{std::move(set), requests_.Peak(other, enough, &with)};
    if (option.peak > enough) return option;
    option.saved = settings_.held_peak - option.peak;
    for (std::size_t i = 0; i < std::min(with.size(), for_refused_.size()); ++i) {
      if (for_refused_[i] > settings_.held_peak && with[i] <= settings_.held_peak) ++option.fitting;
    }
    return option;
  }

  const CacheRequests& requests_;
  const TorchCacheSettings& recorded_;
  std::vector<std::uint64_t> for_refused_;
  AllocatorSettings& settings_;
  std::uint64_t most_ = 0;
};

void TryAll(CacheRequests& requests, const TorchCacheSettings& recorded, bool sizes_are_requests,
            AllocatorSettings& settings) {
  std::vector<std::uint64_t> for_refused;
  settings.replayed_peak =
      requests.PeakAsItWas(recorded, settings.held_peak + settings.held_peak / kBelieved + 1, &for_refused);
  const std::uint64_t off =
      std::max(settings.replayed_peak, settings.held_peak) - std::min(settings.replayed_peak, settings.held_peak);
  settings.check = off <= settings.held_peak / kBelieved ? SettingsCheck::kReproduced : SettingsCheck::kNotReproduced;
  if (settings.check != SettingsCheck::kReproduced) return;
  if (!sizes_are_requests) requests.Narrow();
  settings.refused = static_cast<std::uint32_t>(for_refused.size());
  Trial trial(requests, recorded, std::move(for_refused), off, settings);
  trial.Expandable();
  if (requests.tensors() <= kManyTensors || settings.options.empty()) trial.MaxSplits();
  std::stable_sort(settings.options.begin(), settings.options.end(),
                   [](const SettingOption& a, const SettingOption& b) { return a.saved > b.saved; });
}

AllocatorSettings OfDevice(const Snapshot& snapshot, const Blocks& blocks, const FrameworkCache& cache) {
  AllocatorSettings settings;
  settings.device = cache.device;
  settings.recorded = RecordedSettings(snapshot);
  settings.held_peak = cache.reserved_peak_bytes;
  settings.tensor_peak = cache.tensor_peak_bytes;
  const Completeness& completeness = snapshot.completeness;
  const bool lost = completeness.events_dropped != 0 || completeness.live_dropped != 0 ||
                    (completeness.events_overwritten != 0 && snapshot.recorder != "pytorch");
  const std::uint64_t idle = settings.held_peak - std::min(settings.held_peak, settings.tensor_peak);
  if (idle < LeastWorthTelling(settings.held_peak)) {
    settings.check = SettingsCheck::kLittleIdle;
  } else if (Expandable(blocks, cache.device)) {
    settings.check = SettingsCheck::kExpandable;
  } else if (!lost) {
    std::optional<CacheRequests> requests = Requests(snapshot, blocks, cache).Collect();
    const bool sizes_are_requests = snapshot.recorder == "pytorch";
    if (requests) TryAll(*requests, ParseTorchCacheSettings(settings.recorded), sizes_are_requests, settings);
  }
  return settings;
}

}  // namespace

std::vector<AllocatorSettings> TryAllocatorSettings(const Snapshot& snapshot, const Blocks& blocks,
                                                    const std::vector<FrameworkCache>& caches) {
  std::vector<AllocatorSettings> result;
  for (const FrameworkCache& cache : caches) {
    if (cache.tensors_seen || cache.tensor_peak_bytes != 0) result.push_back(OfDevice(snapshot, blocks, cache));
  }
  return result;
}

}  // namespace cuheap::analysis
