#include "analysis/reports/fragmentation.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analysis/reports/failures.h"
#include "interpose/journal/format.h"

namespace cuheap::analysis {
namespace {

constexpr std::uint64_t kSmallRequest = std::uint64_t{1} << 20;  // PyTorch's kSmallSize
constexpr std::uint64_t kLargePage = std::uint64_t{20} << 20;    // of its expandable segments (kLargeBuffer)

bool Inside(const Block& block, const PoolMap& map) {
  const bool wanted = map.owner == MapOwner::kPool ? block.served : block.is_tensor();
  return wanted && block.device == map.device;
}

// Whole pages of PyTorch's expandable segments in [begin, end) of a segment at `base`.
std::uint64_t WholePages(std::uint64_t base, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t first = (begin - base + kLargePage - 1) / kLargePage, last = (end - base) / kLargePage;
  return last > first ? (last - first) * kLargePage : 0;
}

// What lay in each segment before the moment.
struct History {
  std::uint64_t last_freed = 0;  // position
  std::uint32_t last_stack = 0;
  std::uint64_t filled_by = 0;  // bytes of a block that filled it
  std::uint32_t filled_stack = 0;
};

std::vector<History> HistoryOf(const PoolMap& map, const Blocks& blocks) {
  std::vector<History> history(map.segments.size());
  for (const Block& block : blocks.program) {
    if (block.freed_at > map.position || block.allocated_at > map.position || !Inside(block, map)) continue;
    const auto after =
        std::upper_bound(map.segments.begin(), map.segments.end(), block.address,
                         [](std::uint64_t address, const MapSegment& segment) { return address < segment.address; });
    if (after == map.segments.begin()) continue;
    const MapSegment& segment = *std::prev(after);
    if (block.address - segment.address >= segment.bytes || block.freed_at <= segment.from) continue;
    History& here = history[static_cast<std::size_t>(std::prev(after) - map.segments.begin())];
    if (block.freed_at >= here.last_freed) {
      here.last_freed = block.freed_at;
      here.last_stack = block.stack;
    }
    const bool filled = block.bytes >= segment.bytes / 10 * 9;
    if (filled && block.bytes > here.filled_by) {
      here.filled_by = block.bytes;
      here.filled_stack = block.stack;
    }
  }
  return history;
}

class Attribution {
 public:
  Attribution(FragmentationState& state, const Blocks& blocks, const LineTable& lines)
      : state_(state), lines_(lines), history_(HistoryOf(state.map, blocks)) {
    std::map<std::uint64_t, std::uint64_t> by_stream;
    for (const MapSegment& segment : state.map.segments) by_stream[segment.stream] += segment.bytes;
    std::uint64_t most = 0;
    for (const auto& [stream, bytes] : by_stream) {
      if (bytes > most) main_stream_ = stream;
      most = std::max(most, bytes);
    }
  }

  void Make() {
    state_.segments.resize(state_.map.segments.size());
    for (std::size_t i = 0; i < state_.map.segments.size(); ++i) Segment(i);
    for (std::size_t cause = 0; cause < kIdleCauses; ++cause) {
      std::vector<CauseLine>& shares = state_.causes[cause].lines;
      for (const auto& [line, bytes] : by_line_[cause]) shares.push_back({line, bytes});
      std::sort(shares.begin(), shares.end(), [](const CauseLine& a, const CauseLine& b) {
        return std::tie(b.bytes, a.line) < std::tie(a.bytes, b.line);
      });
    }
  }

 private:
  void Segment(std::size_t i) {
    const MapSegment& segment = state_.map.segments[i];
    SegmentIdle& idle = state_.segments[i];
    std::uint32_t keeper = history_[i].last_stack;
    std::uint64_t until = 0, at = segment.address, largest = 0;
    for (const MapBlock& block : segment.blocks) {
      if (block.until > until) {
        until = block.until;
        keeper = block.stack;
      }
      largest = std::max(largest, block.requested);
    }
    idle.line = lines_.OfStack(keeper);
    for (const MapBlock& block : segment.blocks) {
      Gap(i, at, block.address);
      at = block.address + block.bytes;
      Charge(i, IdleCause::kRounding, block.bytes - block.requested, lines_.OfStack(block.stack));
      state_.requested += block.requested;
    }
    Gap(i, at, segment.address + segment.bytes);
    state_.reserved += segment.bytes;
    for (std::size_t cause = 0; cause < kIdleCauses; ++cause) state_.causes[cause].segments += idle.bytes[cause] != 0;
    const std::uint64_t beside = idle.bytes[static_cast<std::size_t>(IdleCause::kBesideBlocks)];
    // Filled once, and less than half full of much smaller blocks now.
    if (history_[i].filled_by != 0 && 2 * beside > segment.bytes && largest < history_[i].filled_by / 2)
      CutUpSegment(i, beside, largest);
  }

  void CutUpSegment(std::size_t i, std::uint64_t beside, std::uint64_t largest) {
    CutUp& cut = state_.cut_up;
    cut.bytes += beside;
    ++cut.segments;
    cut.largest_piece = std::max(cut.largest_piece, largest);
    if (history_[i].filled_by <= cut.block) return;
    cut.block = history_[i].filled_by;
    cut.line = lines_.OfStack(history_[i].filled_stack);
  }

  void Gap(std::size_t i, std::uint64_t begin, std::uint64_t end) {
    if (end <= begin) return;
    const MapSegment& segment = state_.map.segments[i];
    const IdleCause cause = CauseOf(segment, end - begin);
    Charge(i, cause, end - begin, state_.segments[i].line);
    state_.largest_idle = std::max(state_.largest_idle, end - begin);
    if (cause == IdleCause::kBesideBlocks && state_.map.owner == MapOwner::kPyTorch && !segment.expandable)
      state_.in_pages += WholePages(segment.address, begin, end);
  }

  // See Note [Four causes].
  IdleCause CauseOf(const MapSegment& segment, std::uint64_t bytes) const {
    if (segment.blocks.empty()) return IdleCause::kWholeSegments;
    if (segment.part == SegmentPart::kSlab || segment.stream != main_stream_) return IdleCause::kOtherPart;
    if (state_.map.owner == MapOwner::kPyTorch) {
      const bool small = state_.request != 0 && state_.request <= kSmallRequest;
      if (small != (segment.part == SegmentPart::kSmall)) return IdleCause::kOtherPart;
    }
    return state_.request != 0 && bytes >= state_.request ? IdleCause::kOtherPart : IdleCause::kBesideBlocks;
  }

  void Charge(std::size_t i, IdleCause cause, std::uint64_t bytes, std::uint32_t line) {
    if (bytes == 0) return;
    const auto index = static_cast<std::size_t>(cause);
    state_.segments[i].bytes[index] += bytes;
    state_.causes[index].bytes += bytes;
    by_line_[index][line] += bytes;
  }

  FragmentationState& state_;
  const LineTable& lines_;
  const std::vector<History> history_;
  std::uint64_t main_stream_ = 0;
  std::array<std::map<std::uint32_t, std::uint64_t>, kIdleCauses> by_line_;
};

class Finder {
 public:
  Finder(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines, const FrameworkCaches& history)
      : events_(snapshot.events), snapshot_(snapshot), blocks_(blocks), lines_(lines), history_(history) {}

  Fragmentation OfCache(const FrameworkCache& cache, bool only) const {
    Fragmentation result{MapOwner::kPyTorch, cache.device, cache.tensor_peak_bytes, {}};
    const bool recorded = snapshot_.recorder == "pytorch";  // what is held at its end is the snapshot itself
    const std::uint64_t last = recorded ? events_.size() : cache.last_at;
    if (!cache.refusals.empty()) {
      const FrameworkRefusal& first = cache.refusals.front();
      Add(result, FragmentationMoment::kRefusal, first.position, first.request);
    }
    if (cache.reserved_peak_at != 0) AddGrowth(result, cache.reserved_peak_at);
    Add(result, recorded ? FragmentationMoment::kEnd : FragmentationMoment::kLast, last, 0);
    if (recorded && only) KnownRounding(result.states.back());
    return result;
  }

  Fragmentation OfPool(std::uint32_t device) const {
    Fragmentation result{MapOwner::kPool, device, 0, {}};
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (events_.type[i] != EventType::kAllocateFailed || events_.device[i] != device ||
          events_.result[i] != kOutOfMemoryResult || Blocks::OnHost(events_.kind[i]) ||
          (events_.flags[i] & journal::kCallerIsPyTorch) != 0)
        continue;
      Add(result, FragmentationMoment::kRefusal, i, events_.bytes[i]);
      break;
    }
    std::uint64_t held = 0, most = 0;
    std::uint64_t most_at = 0;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (events_.device[i] != device) continue;
      if (events_.type[i] == EventType::kSegmentAllocate) held += events_.bytes[i];
      if (events_.type[i] == EventType::kSegmentFree) held -= std::min(held, events_.bytes[i]);
      if (held > most) {
        most = held;
        most_at = i + 1;
      }
    }
    if (most_at != 0) AddGrowth(result, most_at);
    Add(result, FragmentationMoment::kEnd, events_.size(), 0);
    return result;
  }

 private:
  PoolMap MapAt(const Fragmentation& of, std::uint64_t position) const {
    return of.owner == MapOwner::kPool ? MapOfPool(blocks_, of.device, position)
                                       : MapOfCache(history_.At(of.device, position), of.device, position);
  }

  void Add(Fragmentation& to, FragmentationMoment moment, std::uint64_t position, std::uint64_t request) const {
    FragmentationState& state = to.states.emplace_back();
    state.moment = moment;
    state.request = request;
    if (position > 0 && position <= events_.size()) state.time_ns = events_.time_ns[position - 1];
    if (moment == FragmentationMoment::kEnd) state.time_ns = snapshot_.process.duration_ns;
    state.map = MapAt(to, position);
    Attribution(state, blocks_, lines_).Make();
  }

  // An event that took memory from the driver for a pool.
  bool Grows(std::size_t i, const Fragmentation& of) const {
    if (events_.type[i] == EventType::kDriverCall) return true;
    if (events_.device[i] != of.device) return false;
    if (of.owner == MapOwner::kPool) return events_.type[i] == EventType::kSegmentAllocate;
    return events_.type[i] == EventType::kMap ||
           (events_.type[i] == EventType::kAllocate && events_.kind[i] != AllocationKind::kTensor);
  }

  // `position` is that after the last event of the growth. One request may take several pieces.
  void AddGrowth(Fragmentation& to, std::uint64_t position) const {
    std::uint64_t before = position;
    while (before > 0 && Grows(before - 1, to)) --before;
    std::uint64_t request = 0;
    for (std::size_t i = position; i < events_.size() && request == 0; ++i) {
      const bool served = to.owner == MapOwner::kPyTorch ? events_.kind[i] == AllocationKind::kTensor
                                                         : (events_.flags[i] & journal::kServedFromPool) != 0;
      if (events_.type[i] == EventType::kAllocate && events_.device[i] == to.device && served)
        request = events_.bytes[i];
    }
    if (request == 0) return;  // the program was refused it, or the record ends
    Add(to, FragmentationMoment::kGrowth, before, request);
    if (to.states.back().reserved == 0) to.states.pop_back();  // the first that it got
  }

  // PyTorch's snapshots tell what was asked for, as a sum over all blocks.
  void KnownRounding(FragmentationState& end) const {
    const auto found = snapshot_.counters.find("torch_requested_bytes");
    if (found == snapshot_.counters.end() || found->second == 0 || found->second > end.requested) return;
    const std::uint64_t rounding = end.requested - found->second;
    CauseShare& share = end.causes[static_cast<std::size_t>(IdleCause::kRounding)];
    end.requested = found->second;
    share.bytes += rounding;
    if (rounding != 0) share.lines.push_back({0, rounding});
  }

  const Events& events_;
  const Snapshot& snapshot_;
  const Blocks& blocks_;
  const LineTable& lines_;
  const FrameworkCaches& history_;
};

}  // namespace

const FragmentationState& Fragmentation::main() const {
  return states.front().moment == FragmentationMoment::kRefusal ? states.front() : states.back();
}

const FragmentationState* Fragmentation::growth() const {
  for (const FragmentationState& state : states) {
    if (state.moment == FragmentationMoment::kGrowth) return &state;
  }
  return nullptr;
}

IdleCause FragmentationState::worst() const {
  const auto most = std::max_element(causes.begin(), causes.end(),
                                     [](const CauseShare& a, const CauseShare& b) { return a.bytes < b.bytes; });
  return static_cast<IdleCause>(most - causes.begin());
}

bool Fragmentation::matters() const {
  const auto much = [](const FragmentationState& state) {
    return state.unused() >= (std::uint64_t{1} << 20) && state.unused() >= state.reserved / 20;
  };
  return much(main()) || (growth() != nullptr && much(*growth()));
}

std::vector<Fragmentation> FindFragmentation(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines,
                                             const FrameworkCaches& history,
                                             const std::vector<FrameworkCache>& caches) {
  const Finder finder(snapshot, blocks, lines, history);
  std::vector<Fragmentation> result;
  // Where a snapshot's segments are not what their blocks add up to, nobody knows what is idle.
  const bool contradicts = std::any_of(snapshot.notes.begin(), snapshot.notes.end(),
                                       [](const Note& note) { return note.code == "torch_headers"; });
  for (const FrameworkCache& cache : caches) {
    if (contradicts) break;
    if (cache.tensors_seen || cache.at_end.used != 0) result.push_back(finder.OfCache(cache, caches.size() == 1));
  }
  std::set<std::uint32_t> devices;
  for (const Block& segment : blocks.segments) devices.insert(segment.device);
  for (const std::uint32_t device : devices) result.push_back(finder.OfPool(device));
  return result;
}

}  // namespace cuheap::analysis
