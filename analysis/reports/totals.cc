#include "analysis/reports/totals.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include "analysis/reports/block_changes.h"

namespace cuheap::analysis {
namespace {

template <typename Share>
void SortShares(std::vector<Share>& shares, const LineTable& lines) {
  std::sort(shares.begin(), shares.end(), [&](const Share& a, const Share& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    const std::string first = Describe(lines.line(a.line)), second = Describe(lines.line(b.line));
    return std::tie(first, a.line) < std::tie(second, b.line);
  });
}

void Add(LineBytes& sum, std::uint32_t line, const Block& block) {
  sum.line = line;
  sum.bytes += block.bytes;
  ++sum.blocks;
}

std::vector<LineShare> ByLine(const std::vector<const Block*>& blocks, const LineTable& lines) {
  struct Sum {
    LineShare share;
    std::unordered_map<std::uint32_t, LineBytes> callers;
  };
  std::unordered_map<std::uint32_t, Sum> sums;
  for (const Block* block : blocks) {
    const std::uint32_t line = lines.OfStack(block->stack), caller = lines.CallerOfStack(block->stack);
    Sum& sum = sums[line];
    Add(sum.share, line, *block);
    Add(sum.callers[caller], caller, *block);
  }
  std::vector<LineShare> result;
  result.reserve(sums.size());
  for (auto& [line, sum] : sums) {  // in any order: sorted below
    if (sum.callers.size() > 1) {
      // In any order: sorted next.
      for (const auto& [caller, bytes] : sum.callers) sum.share.callers.push_back(bytes);
      SortShares(sum.share.callers, lines);
    }
    result.push_back(std::move(sum.share));
  }
  SortShares(result, lines);
  return result;
}

class CurveMaker {
 public:
  CurveMaker(std::int64_t begin_ns, std::int64_t end_ns)
      : begin_ns_(begin_ns),
        width_ns_(std::max<std::int64_t>(1, (end_ns - begin_ns) / static_cast<std::int64_t>(kCurvePoints) + 1)) {}
  void Add(std::int64_t time_ns, std::uint64_t bytes) {
    const std::size_t slot = std::min(
        kCurvePoints - 1, static_cast<std::size_t>(std::max<std::int64_t>(0, time_ns - begin_ns_) / width_ns_));
    // What was live before this change was live in every slot up to this one.
    while (points_.size() <= slot)
      points_.push_back({begin_ns_ + static_cast<std::int64_t>(points_.size()) * width_ns_, last_});
    points_.back().bytes = std::max(points_.back().bytes, bytes);
    last_ = bytes;
  }
  std::vector<CurvePoint> Finish(std::int64_t end_ns) {
    Add(end_ns, last_);
    return std::move(points_);
  }

 private:
  std::int64_t begin_ns_, width_ns_;
  std::uint64_t last_ = 0;
  std::vector<CurvePoint> points_;
};

class ScopeMeter {
 public:
  ScopeMeter(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines, const PeakWitness& witness)
      : snapshot_(snapshot), blocks_(blocks), lines_(lines), witness_(witness) {
    for (const Block& block : blocks.program) {
      if (block.is_tensor()) devices_with_tensors_.insert(block.device);
    }
  }

  ScopeTotals Measure(const Scope& scope) {
    ScopeTotals totals;
    totals.scope = scope;
    std::vector<const Block*> live;
    for (const Block& block : blocks_.program) {
      if (!InScope(scope, block)) continue;
      if (block.allocated_at != 0) {
        ++totals.allocations;
        totals.allocated_bytes += block.bytes;
      }
      if (block.freed_at != kNoPosition) ++totals.frees;
      if (!block.live) continue;
      live.push_back(&block);
      totals.live_bytes += block.bytes;
      totals.live_reserved_bytes += block.reserved_bytes;
    }
    totals.live_blocks = live.size();
    TakeCacheOut(scope, live, totals.live_cache);
    totals.live_by_line = ByLine(live, lines_);
    Replay(totals);
    return totals;
  }

 private:
  void Replay(ScopeTotals& totals) {
    std::int64_t first_ns = 0;
    if (!snapshot_.completeness.events_complete() && snapshot_.events.size() != 0)
      first_ns = snapshot_.events.time_ns.front();
    const Span span = ActiveSpan(snapshot_, blocks_);
    CurveMaker curve(span.begin_ns, span.end_ns);
    std::uint64_t bytes = 0;
    ChangeTime peak;  // what changed until then led to the peak
    const auto in_scope = [&](const Block& block) { return InScope(totals.scope, block); };
    ForEachChange(blocks_.program, in_scope, [&](const Block& block, bool allocation) {
      bytes = allocation ? bytes + block.bytes : bytes - std::min(bytes, block.bytes);
      const ChangeTime time = allocation ? AllocationTime(block) : FreeTime(block);
      curve.Add(std::max(time.first, span.begin_ns), bytes);
      if (bytes > totals.peak_bytes) {
        totals.peak_bytes = bytes;
        totals.peak_ns = std::max<std::int64_t>(time.first, 0);
        peak = time;
      }
    });
    totals.curve = curve.Finish(span.end_ns);
    CompareWithRecorder(totals, peak, first_ns);
    totals.peak_at = LastPosition(totals.scope, peak);
    // Blocks without a slot are not in the recorder's counter either: the peak was at least this.
    if (totals.basis == PeakBasis::kExact && snapshot_.completeness.live_dropped != 0)
      totals.basis = PeakBasis::kPartial;
    if (totals.basis != PeakBasis::kOutsideWindow && totals.peak_bytes != 0) Compose(totals, peak);
  }

  // The recorder keeps every device's peak exactly, whatever became of the events (but see live_dropped).
  void CompareWithRecorder(ScopeTotals& totals, ChangeTime& peak, std::int64_t first_ns) {
    const Device* device = nullptr;
    for (const Device& candidate : snapshot_.devices) {
      if (!totals.scope.host && candidate.ordinal == totals.scope.device) device = &candidate;
    }
    if (device == nullptr) {
      if (!snapshot_.completeness.events_complete()) totals.basis = PeakBasis::kPartial;
      return;
    }
    totals.name = device->name;
    if (!totals.scope.tensors) totals.capacity_bytes = device->total_bytes;
    const std::uint64_t peak_bytes = totals.scope.tensors ? device->tensor_peak_bytes : device->peak_bytes;
    const std::int64_t peak_ns = totals.scope.tensors ? device->tensor_peak_ns : device->peak_ns;
    if (peak_bytes <= totals.peak_bytes) {
      // Held when the events that were kept begin: since when, the recorder knows.
      if (peak_bytes == totals.peak_bytes && totals.peak_ns < first_ns) totals.peak_ns = peak_ns;
      return;
    }
    totals.peak_bytes = peak_bytes;
    totals.peak_ns = peak_ns;
    totals.basis = peak_ns < first_ns ? PeakBasis::kOutsideWindow : PeakBasis::kPartial;
    peak = {peak_ns, kNoPosition};
  }

  // Of the last change in the scope until then; 0 if there was none.
  std::uint64_t LastPosition(const Scope& scope, const ChangeTime& until) const {
    std::uint64_t last = 0;
    for (const Block& block : blocks_.program) {
      if (!InScope(scope, block)) continue;
      if (AllocationTime(block) <= until) last = std::max<std::uint64_t>(last, block.allocated_at);
      if (block.freed_at != kNoPosition && FreeTime(block) <= until) last = std::max<std::uint64_t>(last, block.freed_at);
    }
    return last;
  }

  // The lines that happened to make a cache grow say little where every tensor's line is known.
  void TakeCacheOut(const Scope& scope, std::vector<const Block*>& blocks, LineBytes& cache) const {
    if (scope.host || scope.tensors || !devices_with_tensors_.contains(scope.device)) return;
    std::erase_if(blocks, [&](const Block* block) {
      if (!block->in_framework_cache()) return false;
      Add(cache, 0, *block);
      return true;
    });
  }

  void Compose(ScopeTotals& totals, const ChangeTime& peak) {
    std::vector<const Block*> blocks;
    for (const Block& block : blocks_.program) {
      const bool freed = block.freed_at != kNoPosition && FreeTime(block) <= peak;
      if (InScope(totals.scope, block) && AllocationTime(block) <= peak && !freed) blocks.push_back(&block);
    }
    totals.peak_blocks = blocks.size();
    TakeCacheOut(totals.scope, blocks, totals.peak_cache);
    totals.peak_by_line = ByLine(blocks, lines_);
    if (witness_) witness_(blocks, totals);
    totals.composed_bytes = totals.peak_cache.bytes;
    for (const LineShare& line : totals.peak_by_line) totals.composed_bytes += line.bytes;
  }

  const Snapshot& snapshot_;
  const Blocks& blocks_;
  const LineTable& lines_;
  const PeakWitness& witness_;
  std::set<std::uint32_t> devices_with_tensors_;
};

}  // namespace

bool InScope(const Scope& scope, const Block& block) {
  if (scope.host) return Blocks::OnHost(block.kind);
  return (scope.tensors ? block.is_tensor() : Blocks::OnDevice(block.kind)) && block.device == scope.device;
}

std::vector<ScopeTotals> MeasureTotals(const Snapshot& snapshot, const Blocks& blocks, const LineTable& lines,
                                       const PeakWitness& witness) {
  std::set<Scope> scopes;
  for (const Device& device : snapshot.devices) scopes.insert({false, device.ordinal});
  for (const Block& block : blocks.program) {
    if (Blocks::OnHost(block.kind)) scopes.insert({true, 0});
    if (Blocks::OnDevice(block.kind)) scopes.insert({false, block.device});
    if (block.is_tensor()) scopes.insert({false, block.device, true});
  }
  std::vector<ScopeTotals> result;
  ScopeMeter meter(snapshot, blocks, lines, witness);
  result.reserve(scopes.size());
  for (const Scope& scope : scopes) result.push_back(meter.Measure(scope));  // false < true: devices come first
  return result;
}

}  // namespace cuheap::analysis
