#include "analysis/reports/category_totals.h"

#include <algorithm>
#include <limits>

namespace cuheap::analysis {
namespace {

constexpr std::uint32_t kNoBlock = std::numeric_limits<std::uint32_t>::max();

void Change(CategorySum& sum, const Block& block, bool allocated) {
  sum.bytes = allocated ? sum.bytes + block.bytes : sum.bytes - std::min(sum.bytes, block.bytes);
  sum.blocks = allocated ? sum.blocks + 1 : sum.blocks - std::min<std::uint64_t>(sum.blocks, 1);
}

// One scope while the events go by.
class ScopeReplay {
 public:
  ScopeReplay(const ScopeTotals& totals, bool tensors_apart) : totals_(totals), tensors_apart_(tensors_apart) {
    result_.scope = totals.scope;
    result_.peak_known = totals.basis != PeakBasis::kOutsideWindow;
  }

  const Scope& scope() const { return totals_.scope; }
  void Apply(const Block& block, const Categorised& of, bool allocated) {
    if (tensors_apart_ && block.in_framework_cache()) {
      Change(now_.cache, block, allocated);
      return;
    }
    Change(now_.categories[static_cast<std::size_t>(of.category)], block, allocated);
    Change(now_.rules[static_cast<std::size_t>(of.rule)], block, allocated);
  }
  // Everything up to the event at this position was applied.
  void After(std::uint64_t position, std::int64_t time_ns) {
    if (position == totals_.peak_at && result_.peak_known) result_.at_peak = now_;
    const std::size_t slot = SlotOf(time_ns);
    if (slot == kNone) return;
    // What was live before was live in every slot up to this one.
    while (result_.curve.size() <= slot) AddPoint(last_bytes_, last_);
    last_bytes_ = now_.bytes() + now_.cache.bytes;
    last_ = Bytes();
    if (last_bytes_ > most_in_slot_) {
      most_in_slot_ = last_bytes_;
      result_.curve.back() = last_;
    }
  }
  ScopeCategories Finish() {
    result_.at_end = now_;
    while (result_.curve.size() < totals_.curve.size()) AddPoint(last_bytes_, last_);
    return std::move(result_);
  }

 private:
  using Point = std::array<std::uint64_t, kCategories>;
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  std::size_t SlotOf(std::int64_t time_ns) const {
    if (totals_.curve.empty()) return kNone;
    const auto later = std::upper_bound(totals_.curve.begin(), totals_.curve.end(), time_ns,
                                        [](std::int64_t at, const CurvePoint& point) { return at < point.time_ns; });
    return later == totals_.curve.begin() ? 0 : static_cast<std::size_t>(later - totals_.curve.begin()) - 1;
  }
  Point Bytes() const {
    Point point{};
    for (std::size_t i = 0; i < kCategories; ++i) point[i] = now_.categories[i].bytes;
    return point;
  }
  void AddPoint(std::uint64_t bytes, const Point& point) {
    result_.curve.push_back(point);
    most_in_slot_ = bytes;
  }

  const ScopeTotals& totals_;
  bool tensors_apart_;
  CategoryMoment now_;
  ScopeCategories result_;
  Point last_{};
  std::uint64_t last_bytes_ = 0, most_in_slot_ = 0;
};

}  // namespace

std::vector<ScopeCategories> MeasureCategories(const Snapshot& snapshot, const Blocks& blocks,
                                               const Categories& categories, const std::vector<ScopeTotals>& totals) {
  std::vector<ScopeReplay> scopes;
  scopes.reserve(totals.size());
  for (const ScopeTotals& of : totals) {
    const bool apart = std::any_of(totals.begin(), totals.end(), [&](const ScopeTotals& other) {
      return !of.scope.host && !of.scope.tensors && other.scope.tensors && other.scope.device == of.scope.device;
    });
    scopes.emplace_back(of, apart);
  }
  // Which block each event is about; position 0: before the events that were kept.
  const Events& events = snapshot.events;
  std::vector<std::uint32_t> block_at(events.size() + 1, kNoBlock);
  for (std::size_t i = 0; i < blocks.program.size(); ++i) {
    const Block& block = blocks.program[i];
    if (block.allocated_at != 0) block_at[block.allocated_at] = static_cast<std::uint32_t>(i);
    if (block.freed_at != kNoPosition) block_at[block.freed_at] = static_cast<std::uint32_t>(i);
    if (block.allocated_at != 0) continue;
    for (ScopeReplay& scope : scopes) {
      if (InScope(scope.scope(), block)) scope.Apply(block, categories.all()[i], true);
    }
  }
  for (ScopeReplay& scope : scopes) scope.After(0, kBeforeWindow);
  for (std::size_t position = 1; position < block_at.size(); ++position) {
    if (block_at[position] == kNoBlock) continue;
    const Block& block = blocks.program[block_at[position]];
    for (ScopeReplay& scope : scopes) {
      if (!InScope(scope.scope(), block)) continue;
      scope.Apply(block, categories.all()[block_at[position]], position == block.allocated_at);
      scope.After(position, events.time_ns[position - 1]);
    }
  }
  std::vector<ScopeCategories> result;
  result.reserve(scopes.size());
  for (ScopeReplay& scope : scopes) result.push_back(scope.Finish());
  return result;
}

}  // namespace cuheap::analysis
