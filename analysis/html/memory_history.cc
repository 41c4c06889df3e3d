#include "analysis/html/memory_history.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kMostRefusals = 4;  // that get an instant of their own
constexpr std::size_t kFewestInstants = 100;

// Ten million of them must be small: positions count a snapshot's events, of which there are fewer than 2^32.
struct Change {
  std::uint32_t position = 0;
  std::uint32_t block_and_free = 0;  // index of the block times two, plus one if it is freed
  std::uint32_t block() const { return block_and_free / 2; }
  bool allocation() const { return block_and_free % 2 == 0; }
  friend auto operator<=>(const Change&, const Change&) = default;
};

class Place {
 public:
  Place(const Report& report, const Blocks& blocks, const std::vector<std::uint8_t>& category, bool host,
        std::uint32_t device, const HistoryLimits& limits)
      : report_(report), snapshot_(*report.snapshot), blocks_(blocks), category_(category), limits_(limits) {
    history_.host = host;
    history_.device = device;
  }

  MemoryHistory Tell() {
    FindTensors();
    CollectChanges();
    Group();
    Measure();
    MergeSmallGroups();
    for (std::size_t pieces = limits_.instants;;) {
      TakeSamples(pieces);
      const std::size_t changes = Record();
      if (changes <= limits_.changes || pieces <= kFewestInstants) break;
      // They grow with the pieces, but a little slower.
      pieces = std::max(kFewestInstants, std::min(pieces * limits_.changes / changes, pieces * 7 / 8));
    }
    Name();
    return std::move(history_);
  }

 private:
  bool Counts(const Block& block) const {
    if (history_.host) return Blocks::OnHost(block.kind);
    return block.device == history_.device && (Blocks::OnDevice(block.kind) || block.is_tensor());
  }
  bool InCache(const Block& block) const { return history_.tensors && block.in_framework_cache(); }

  void FindTensors() {
    history_.tensors =
        !history_.host && std::any_of(blocks_.program.begin(), blocks_.program.end(), [&](const Block& block) {
          return block.is_tensor() && block.device == history_.device;
        });
  }

  void CollectChanges() {
    for (std::size_t i = 0; i < blocks_.program.size(); ++i) {
      const Block& block = blocks_.program[i];
      if (!Counts(block)) continue;
      const auto index = static_cast<std::uint32_t>(2 * i);
      changes_.push_back({static_cast<std::uint32_t>(block.allocated_at), index});
      last_allocation_ = std::max(last_allocation_, block.allocated_at);
      if (block.freed_at != kNoPosition && !block.freed_at_shutdown)
        changes_.push_back({static_cast<std::uint32_t>(block.freed_at), index + 1});
    }
    std::sort(changes_.begin(), changes_.end());
  }

  // Groups in the order in which their first block was allocated.
  void Group() {
    absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> known;
    group_of_.assign(blocks_.program.size(), 0);
    for (std::size_t i = 0; i < blocks_.program.size(); ++i) {
      const Block& block = blocks_.program[i];
      if (!Counts(block) || InCache(block)) continue;
      const std::uint32_t category = category_[i];
      const auto [entry, fresh] =
          known.try_emplace({block.stack, category}, static_cast<std::uint32_t>(history_.groups.size()));
      if (fresh) history_.groups.push_back({GroupPart::kStack, block.stack, category});
      group_of_[i] = entry->second;
    }
  }

  void Apply(const Change& change) {
    const Block& block = blocks_.program[change.block()];
    const std::uint64_t bytes = change.allocation() ? block.bytes : std::uint64_t{0} - block.bytes;
    if (InCache(block)) {
      cache_ += bytes;
      return;
    }
    if (block.is_tensor()) tensors_ += bytes;
    used_ += bytes;
    held_[group_of_[change.block()]] += bytes;
  }

  // Calls after(position, index of the next change) when all that happened at a position is done.
  template <typename Each, typename After>
  void Replay(Each each, After after) {
    held_.assign(history_.groups.size(), 0);
    cache_ = tensors_ = used_ = 0;
    for (std::size_t i = 0; i < changes_.size();) {
      const std::uint64_t position = changes_[i].position;
      for (; i < changes_.size() && changes_[i].position == position; ++i) {
        Apply(changes_[i]);
        each(changes_[i]);
      }
      after(position);
    }
  }

  std::uint64_t InUse() const { return history_.tensors ? tensors_ : used_; }

  void Measure() {
    most_.assign(history_.groups.size(), 0);
    std::uint64_t most = 0;
    Replay(
        [&](const Change& change) {
          if (InCache(blocks_.program[change.block()])) return;
          const std::uint32_t group = group_of_[change.block()];
          most_[group] = std::max(most_[group], held_[group]);
        },
        [&](std::uint64_t position) {
          if (InUse() <= most && peak_) return;
          most = InUse();
          peak_ = position;
        });
  }

  void MergeSmallGroups() {
    std::vector<std::uint32_t> order(history_.groups.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return most_[a] > most_[b]; });
    std::vector<std::uint32_t> becomes(order.size());
    std::vector<MemoryGroup> kept;
    std::map<std::uint32_t, std::uint32_t> rest;  // by category
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      const MemoryGroup& group = history_.groups[order[rank]];
      if (rank < limits_.groups) {
        becomes[order[rank]] = static_cast<std::uint32_t>(kept.size());
        kept.push_back(group);
        continue;
      }
      const auto [entry, fresh] = rest.try_emplace(group.category, static_cast<std::uint32_t>(kept.size()));
      if (fresh) kept.push_back({GroupPart::kOtherStacks, 0, group.category});
      becomes[order[rank]] = entry->second;
    }
    for (std::size_t i = 0; i < group_of_.size(); ++i) {
      if (!becomes.empty() && Counts(blocks_.program[i]) && !InCache(blocks_.program[i]))
        group_of_[i] = becomes[group_of_[i]];
    }
    history_.groups = std::move(kept);
    if (!history_.tensors) return;
    idle_group_ = history_.groups.size();
    history_.groups.push_back({GroupPart::kIdleCache, 0, 0});
  }

  std::int64_t TimeOf(std::uint64_t position) const {
    const PackedColumn<std::int64_t>& times = snapshot_.events.time_ns;
    if (position == 0 || times.empty()) return times.empty() ? 0 : std::max<std::int64_t>(0, times.front());
    return std::max<std::int64_t>(0, times[std::min<std::size_t>(position, times.size()) - 1]);
  }

  std::vector<std::uint64_t> Edges(std::size_t pieces) const {
    const PackedColumn<std::int64_t>& times = snapshot_.events.time_ns;
    std::vector<std::uint64_t> edges;
    const std::uint64_t first = changes_.front().position, last = changes_.back().position;
    const std::int64_t begin = TimeOf(first), end = TimeOf(last);
    for (std::size_t i = 1; i < pieces / 2; ++i) {
      const double share = static_cast<double>(i) / (static_cast<double>(pieces) / 2);
      const auto time = begin + static_cast<std::int64_t>(share * static_cast<double>(end - begin));
      edges.push_back(static_cast<std::uint64_t>(std::upper_bound(times.begin(), times.end(), time) - times.begin()));
      edges.push_back(changes_[static_cast<std::size_t>(share * static_cast<double>(changes_.size()))].position);
    }
    edges.push_back(last);
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    return edges;
  }

  void TakeSamples(std::size_t pieces) {
    samples_ = Moments();
    const std::vector<std::uint64_t> edges = Edges(pieces);
    std::size_t piece = 0;
    std::uint64_t most = 0;
    std::optional<std::uint64_t> highest;  // of the piece
    const auto finish = [&] {
      if (highest) samples_.push_back(*highest);
      highest.reset();
    };
    Replay([](const Change&) {},
           [&](std::uint64_t position) {
             for (; position > edges[piece]; ++piece) finish();
             if (highest && InUse() <= most) return;
             most = InUse();
             highest = position;
           });
    finish();
    std::sort(samples_.begin(), samples_.end());
    samples_.erase(std::unique(samples_.begin(), samples_.end()), samples_.end());
  }

  // The last position at which something happened here, up to the given one.
  std::uint64_t Settled(std::uint64_t position) const {
    const auto next =
        std::upper_bound(changes_.begin(), changes_.end(), position,
                         [](std::uint64_t value, const Change& change) { return value < change.position; });
    return next == changes_.begin() ? changes_.front().position : std::prev(next)->position;
  }

  std::vector<std::uint64_t> Refusals() const {
    std::set<std::uint64_t> positions;
    for (const FrameworkCache& cache : report_.framework_caches) {
      if (history_.host || cache.device != history_.device) continue;
      for (const FrameworkRefusal& refusal : cache.refusals) positions.insert(Settled(refusal.position));
    }
    for (const Failure& failure : report_.failures) {
      if (failure.result == kOutOfMemoryResult && failure.outcome == FailureOutcome::kTold &&
          failure.scope.host == history_.host && (history_.host || failure.scope.device == history_.device))
        positions.insert(Settled(failure.first_position));
    }
    std::vector<std::uint64_t> result(positions.begin(), positions.end());
    if (result.size() > kMostRefusals) result.resize(kMostRefusals);
    return result;
  }

  std::vector<std::uint64_t> Moments() const {
    std::vector<std::uint64_t> moments = Refusals();
    moments.push_back(peak_.value_or(0));
    moments.push_back(last_allocation_);
    moments.push_back(changes_.back().position);
    return moments;
  }

  // The number of changes.
  std::size_t Record() {
    const std::size_t groups = history_.groups.size();
    history_.changes.assign(groups, {});
    history_.time_ns.clear();
    history_.position.clear();
    std::vector<std::uint64_t> told(groups, 0);
    std::vector<std::uint32_t> dirty;
    std::vector<bool> is_dirty(groups, false);
    std::size_t count = 0, next = 0;
    Replay(
        [&](const Change& change) {
          const std::uint32_t group = group_of_[change.block()];
          if (InCache(blocks_.program[change.block()]) || is_dirty[group]) return;
          is_dirty[group] = true;
          dirty.push_back(group);
        },
        [&](std::uint64_t position) {
          if (next == samples_.size() || samples_[next] != position) return;
          ++next;
          const auto instant = static_cast<std::uint32_t>(history_.time_ns.size());
          history_.time_ns.push_back(TimeOf(position));
          history_.position.push_back(position);
          if (history_.tensors) {
            held_[idle_group_] = cache_ - std::min(cache_, tensors_);
            dirty.push_back(static_cast<std::uint32_t>(idle_group_));
          }
          for (const std::uint32_t group : dirty) {
            is_dirty[group] = false;
            if (held_[group] == told[group]) continue;
            told[group] = held_[group];
            history_.changes[group].push_back({instant, held_[group]});
            ++count;
          }
          dirty.clear();
        });
    return count;
  }

  std::uint32_t InstantAt(std::uint64_t position) const {
    return static_cast<std::uint32_t>(std::lower_bound(history_.position.begin(), history_.position.end(), position) -
                                      history_.position.begin());
  }

  void Name() {
    history_.named.push_back({"peak", InstantAt(peak_.value_or(0))});
    const std::vector<std::uint64_t> refusals = Refusals();
    for (std::size_t i = 0; i < refusals.size(); ++i) {
      history_.named.push_back(
          {refusals.size() == 1 ? "refused" : "refused (" + std::to_string(i + 1) + ")", InstantAt(refusals[i])});
    }
    if (last_allocation_ != 0) history_.named.push_back({"last allocation", InstantAt(last_allocation_)});
    history_.named.push_back({"end", InstantAt(changes_.back().position)});
    std::stable_sort(history_.named.begin(), history_.named.end(),
                     [](const NamedInstant& a, const NamedInstant& b) { return a.instant < b.instant; });
  }

  const Report& report_;
  const Snapshot& snapshot_;
  const Blocks& blocks_;
  const std::vector<std::uint8_t>& category_;
  const HistoryLimits& limits_;
  MemoryHistory history_;
  std::vector<Change> changes_;
  std::vector<std::uint32_t> group_of_;               // of each block
  std::vector<std::uint64_t> held_, most_;            // of each group, bytes
  std::vector<std::uint64_t> samples_;                // positions
  std::uint64_t cache_ = 0, tensors_ = 0, used_ = 0;  // during a replay, bytes
  std::optional<std::uint64_t> peak_;                 // position
  std::uint64_t last_allocation_ = 0;                 // position
  std::size_t idle_group_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace

bool HeldAfter(const Block& block, std::uint64_t position) {
  return block.allocated_at <= position && (block.freed_at > position || block.freed_at_shutdown);
}

std::vector<MemoryHistory> TellMemoryHistory(const Report& report, const Blocks& blocks,
                                             const std::vector<std::uint8_t>& category, const HistoryLimits& limits) {
  std::set<std::pair<bool, std::uint32_t>> places;
  for (const Block& block : blocks.program) {
    if (Blocks::OnHost(block.kind)) places.emplace(true, 0);
    if (Blocks::OnDevice(block.kind) || block.is_tensor()) places.emplace(false, block.device);
  }
  std::vector<MemoryHistory> histories;
  histories.reserve(places.size());
  for (const auto& [host, device] : places)
    histories.push_back(Place(report, blocks, category, host, device, limits).Tell());
  return histories;
}

}  // namespace cuheap::analysis
