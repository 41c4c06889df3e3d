#include "analysis/reports/diff.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "analysis/reports/blocks.h"
#include "analysis/reports/finding_text.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

bool WithinShare(const BeforeAfter& value, double share) {
  return static_cast<double>(value.size()) <= share * static_cast<double>(std::max(value.before, value.after));
}

bool NotSmall(const LineDiff& line, const Threshold& threshold) {
  return !threshold.SmallBytes(line.peak_bytes) || !threshold.SmallBytes(line.live_bytes) ||
         !threshold.SmallBytes(line.allocated_bytes) || !threshold.SmallCount(line.allocations) ||
         (line.lines.match() <= LineMatch::kMoved && line.kinds_before != line.kinds_after);
}

bool Changed(const LineDiff& line) {
  return line.peak_bytes.changed() || line.live_bytes.changed() || line.allocated_bytes.changed() ||
         line.allocations.changed() || line.kinds_before != line.kinds_after;
}

// Both directions of the pairs.
class PairIndex {
 public:
  explicit PairIndex(const std::vector<LinePair>& pairs) {
    for (const LinePair& pair : pairs) {
      if (pair.before != kNoLine) by_before_[pair.before] = pair;
      if (pair.after != kNoLine) by_after_[pair.after] = pair;
    }
  }
  const LinePair& Of(bool after, std::uint32_t line) const { return (after ? by_after_ : by_before_).at(line); }

 private:
  std::map<std::uint32_t, LinePair> by_before_, by_after_;
};

// What is looked at on one side: its report, and the blocks behind it.
struct Side {
  const Report& report;
  bool after;
  const Blocks& blocks;
  std::uint64_t& Of(BeforeAfter& value) const { return after ? value.after : value.before; }
};

class Comparer {
 public:
  Comparer(const Report& before, const Report& after, const DiffOptions& options)
      : sides_{{{before, false, before.blocks}, {after, true, after.blocks}}},
        pairs_(PairLines(before, after, options.before_source, options.after_source)) {
    diff_.before = &before;
    diff_.after = &after;
    diff_.threshold = options.threshold;
  }

  Diff Compare() {
    Scopes();
    Kinds();
    Held();
    Leaks();
    Settings();
    for (const Side& side : sides_) {
      side.Of(diff_.steps) = side.report.steps.count();
      side.Of(diff_.leak_count) = side.report.leak_count();
      side.Of(diff_.leaked_bytes) = side.report.leaked_bytes();
      side.Of(diff_.refusals) = RefusalsOf(side.report);
    }
    Limits();
    Count();
    return std::move(diff_);
  }

 private:
  static std::uint64_t RefusalsOf(const Report& report) {
    std::uint64_t count = 0;
    for (const Failure& failure : report.failures) {
      if (failure.result == kOutOfMemoryResult && failure.outcome == FailureOutcome::kTold) count += failure.count;
    }
    for (const FrameworkCache& cache : report.framework_caches) count += cache.refusal_count;
    return count;
  }

  bool EventsComplete() const {
    return std::all_of(sides_.begin(), sides_.end(),
                       [](const Side& side) { return side.report.snapshot->completeness.events_complete(); });
  }

  void Scopes() {
    std::map<Scope, ScopeDiff> scopes;
    std::map<Scope, std::map<LinePair, LineDiff>> lines;
    for (const Side& side : sides_) {
      for (const ScopeTotals& totals : side.report.totals) {
        ScopeDiff& scope = scopes[totals.scope];
        scope.scope = totals.scope;
        (side.after ? scope.name_after : scope.name_before) = totals.name;
        side.Of(scope.peak_bytes) = totals.peak_bytes;
        side.Of(scope.live_bytes) = totals.live_bytes;
        side.Of(scope.live_blocks) = totals.live_blocks;
        side.Of(scope.allocations) = totals.allocations;
        side.Of(scope.allocated_bytes) = totals.allocated_bytes;
        side.Of(scope.peak_cache) = totals.peak_cache.bytes;
        side.Of(scope.live_cache) = totals.live_cache.bytes;
        if (totals.basis == PeakBasis::kOutsideWindow) scope.peak_by_line = false;
        LineTotals(side, totals, lines[totals.scope]);
      }
      LineAllocations(side, lines);
    }
    for (auto& [key, scope] : scopes) {
      scope.counts = EventsComplete();
      for (auto& [pair, line] : lines[key]) scope.lines.push_back(std::move(line));
      for (LineDiff& line : scope.lines) {
        if (!scope.counts) line.allocations = line.allocated_bytes = {};
        if (!scope.peak_by_line) line.peak_bytes = line.peak_blocks = {};
      }
      std::erase_if(scope.lines, [](const LineDiff& line) { return !Changed(line); });
      SortLines(scope.lines);
      diff_.scopes.push_back(std::move(scope));
    }
  }

  void LineTotals(const Side& side, const ScopeTotals& totals, std::map<LinePair, LineDiff>& lines) const {
    for (const LineShare& share : totals.peak_by_line) {
      LineDiff& line = LineOf(side, share.line, lines);
      side.Of(line.peak_bytes) = share.bytes;
      side.Of(line.peak_blocks) = share.blocks;
      Callers(side, share, line.peak_callers);
    }
    for (const LineShare& share : totals.live_by_line) {
      LineDiff& line = LineOf(side, share.line, lines);
      side.Of(line.live_bytes) = share.bytes;
      side.Of(line.live_blocks) = share.blocks;
      Callers(side, share, line.live_callers);
    }
  }

  // Of a line that one caller alone uses on one side that caller is not kept apart: nothing to compare.
  void Callers(const Side& side, const LineShare& share, std::map<LinePair, BeforeAfter>& callers) const {
    if (side.after && callers.empty()) return;
    if (side.after && share.callers.empty()) callers.clear();
    for (const LineBytes& caller : share.callers) side.Of(callers[pairs_.Of(side.after, caller.line)]) = caller.bytes;
  }

  LineDiff& LineOf(const Side& side, std::uint32_t index, std::map<LinePair, LineDiff>& lines) const {
    const LinePair& pair = pairs_.Of(side.after, index);
    LineDiff& line = lines[pair];
    line.lines = pair;
    return line;
  }

  // Of one line in one scope. Kinds as bits: there are millions of blocks.
  struct Sum {
    std::uint64_t allocations = 0, bytes = 0, kinds = 0;
  };

  void LineAllocations(const Side& side, std::map<Scope, std::map<LinePair, LineDiff>>& lines) const {
    std::set<std::uint32_t> with_tensors;
    for (const ScopeTotals& totals : side.report.totals) {
      if (totals.scope.tensors) with_tensors.insert(totals.scope.device);
    }
    for (const ScopeTotals& totals : side.report.totals) {
      // As in the totals by line: a cache's segments are no line's where its tensors are known.
      const bool without_cache =
          !totals.scope.host && !totals.scope.tensors && with_tensors.contains(totals.scope.device);
      std::vector<Sum> sums(side.report.lines.size());
      for (const Block& block : side.blocks.program) {
        if (!InScope(totals.scope, block) || (without_cache && block.in_framework_cache())) continue;
        Sum& sum = sums[side.report.lines.OfStack(block.stack)];
        sum.kinds |= std::uint64_t{1} << static_cast<unsigned>(block.kind);
        if (block.allocated_at == 0) continue;
        ++sum.allocations;
        sum.bytes += block.bytes;
      }
      for (std::uint32_t i = 0; i < sums.size(); ++i) {
        if (sums[i].kinds != 0) AddSum(side, sums[i], LineOf(side, i, lines[totals.scope]));
      }
    }
  }

  static void AddSum(const Side& side, const Sum& sum, LineDiff& line) {
    side.Of(line.allocations) += sum.allocations;
    side.Of(line.allocated_bytes) += sum.bytes;
    for (unsigned kind = 0; kind < 64; ++kind) {
      if ((sum.kinds >> kind & 1) != 0)
        (side.after ? line.kinds_after : line.kinds_before).insert(static_cast<AllocationKind>(kind));
    }
  }

  void SortLines(std::vector<LineDiff>& lines) const {
    const auto rank = [&](const LineDiff& line) {
      const std::uint64_t held = std::max(line.peak_bytes.size(), line.live_bytes.size());
      return std::tuple(~std::max(held, line.allocated_bytes.size()), ~held, ~line.allocations.size(),
                        Describe(diff_.LineOf(line.lines)), line.lines);
    };
    std::sort(lines.begin(), lines.end(), [&](const LineDiff& a, const LineDiff& b) { return rank(a) < rank(b); });
  }

  void Kinds() {
    std::map<AllocationKind, KindDiff> kinds;
    for (const Side& side : sides_) {
      for (const KindUse& use : side.report.kinds) {
        KindDiff& kind = kinds[use.kind];
        kind.kind = use.kind;
        side.Of(kind.peak_bytes) = use.peak_bytes;
        side.Of(kind.live_bytes) = use.live_bytes;
        side.Of(kind.blocks) = use.blocks;
      }
    }
    for (auto& [key, kind] : kinds) {
      if (!EventsComplete()) kind.peak_bytes = kind.blocks = {};
      diff_.kinds.push_back(kind);
    }
  }

  void Held() {
    std::map<std::pair<bool, std::uint32_t>, HeldDiff> held;
    const auto of = [&](bool framework, std::uint32_t device) -> HeldDiff& {
      HeldDiff& entry = held[{framework, device}];
      entry.framework = framework;
      entry.device = device;
      return entry;
    };
    for (const Side& side : sides_) {
      for (const PoolUse& pool : side.report.pools) {
        HeldDiff& entry = of(false, pool.device);
        side.Of(entry.peak_bytes) = pool.peak_reserved_bytes;
        side.Of(entry.bytes) = pool.reserved_bytes;
        side.Of(entry.pinned_bytes) = pool.idle_pinned_bytes;
        (side.after ? entry.fragmentation_after : entry.fragmentation_before) = pool.fragmentation();
      }
      for (const FrameworkCache& cache : side.report.framework_caches) {
        HeldDiff& entry = of(true, cache.device);
        const CacheState& state = cache.at_last;
        side.Of(entry.peak_bytes) = cache.reserved_peak_bytes;
        side.Of(entry.bytes) = state.reserved;
        if (!cache.tensors_seen || state.reserved == 0) continue;
        side.Of(entry.pinned_bytes) = state.idle_pinned();
        (side.after ? entry.fragmentation_after : entry.fragmentation_before) =
            static_cast<double>(state.idle_pinned()) / static_cast<double>(state.reserved);
      }
    }
    for (const auto& [key, entry] : held) diff_.held.push_back(entry);
  }

  LeakDiff& LeakOf(std::map<std::tuple<Scope, bool, LinePair, LinePair>, LeakDiff>& leaks, const Side& side,
                   const LeakFinding& finding, bool cache) const {
    const LinePair none;
    const LinePair lines = cache ? none : pairs_.Of(side.after, finding.line);
    const LinePair callers = finding.caller == 0 ? none : pairs_.Of(side.after, finding.caller);
    LeakDiff& leak = leaks[{finding.scope, cache, lines, callers}];
    leak.scope = finding.scope;
    leak.cache = cache;
    leak.lines = lines;
    leak.callers = callers;
    side.Of(leak.blocks) += finding.blocks;
    side.Of(leak.bytes) += finding.bytes;
    (side.after ? leak.rate_after : leak.rate_before) += finding.bytes_per_step;
    return leak;
  }

  void Leaks() {
    std::map<std::tuple<Scope, bool, LinePair, LinePair>, LeakDiff> leaks;
    for (const Side& side : sides_) {
      for (const LeakFinding& finding : side.report.findings) {
        if (finding.leak_class == LeakClass::kLeak) LeakOf(leaks, side, finding, false);
      }
      for (const CacheGrowth& cache : side.report.caches) {
        if (cache.growing) LeakOf(leaks, side, cache.segments, true);
      }
    }
    for (auto& [key, leak] : leaks) {
      leak.change = ChangeOf(leak);
      diff_.leaks.push_back(leak);
    }
    std::stable_sort(diff_.leaks.begin(), diff_.leaks.end(), [&](const LeakDiff& a, const LeakDiff& b) {
      const auto rank = [&](const LeakDiff& leak) {
        return std::tuple(leak.change, -std::abs(leak.rate_after - leak.rate_before), ~leak.bytes.size(),
                          leak.cache ? std::string() : Describe(diff_.LineOf(leak.lines)));
      };
      return rank(a) < rank(b);
    });
  }

  // By the rate where both have one: what leaked in all depends on how long a run was.
  LeakChange ChangeOf(const LeakDiff& leak) const {
    if (leak.blocks.before == 0) return LeakChange::kNew;
    if (leak.blocks.after == 0) return LeakChange::kGone;
    if (leak.rate_before > 0 && leak.rate_after > 0) {
      const double change = leak.rate_after - leak.rate_before;
      if (std::abs(change) <= diff_.threshold.share * std::max(leak.rate_before, leak.rate_after))
        return LeakChange::kAlike;
      return change > 0 ? LeakChange::kGrew : LeakChange::kShrank;
    }
    if (diff_.threshold.SmallBytes(leak.bytes)) return LeakChange::kAlike;
    return leak.bytes.after > leak.bytes.before ? LeakChange::kGrew : LeakChange::kShrank;
  }

  void Settings() {
    const auto& before = diff_.before->snapshot->configuration;
    const auto& after = diff_.after->snapshot->configuration;
    std::map<std::string, Setting> settings;
    for (const auto& [name, value] : before) settings[name].before = value;
    for (const auto& [name, value] : after) settings[name].after = value;
    for (auto& [name, setting] : settings) {
      setting.name = name;
      // Where a run's journal lay is nothing that it did.
      if (setting.before != setting.after && name != "CUHEAP_DIR") diff_.settings.push_back(setting);
    }
  }

  void AddLimit(const std::string& code, const std::string& text) { diff_.limits.push_back({code, text}); }

  void Limits() {
    for (const Side& side : sides_) SideLimits(side);
    if (!EventsComplete()) {
      AddLimit("counts",
               "Numbers of allocations are not compared: of a record without some of its events they are of the "
               "kept events only. What was live at the end is compared.");
    }
    const Snapshot &before = *diff_.before->snapshot, &after = *diff_.after->snapshot;
    if (before.recorder != after.recorder) {
      AddLimit("recorders", "One was recorded by " + before.recorder + ", the other by " + after.recorder +
                                ": what both can see is not the same.");
    }
    if (before.simulated != after.simulated)
      AddLimit("simulated", "One of the two ran on a simulated device, which leaves out what it does not model.");
    if (diff_.before->tensors_seen != diff_.after->tensors_seen &&
        (diff_.before->unobserved_tensors() || diff_.after->unobserved_tensors())) {
      AddLimit("tensors", "The tensors inside a framework's cache were observed in one of the two only.");
    }
    for (const ScopeDiff& scope : diff_.scopes) {
      if (!scope.name_before.empty() && !scope.name_after.empty() && scope.name_before != scope.name_after) {
        AddLimit("device", "Device " + std::to_string(scope.scope.device) + " was " + scope.name_before +
                               " before and is " + scope.name_after + " now.");
      }
    }
    if (diff_.steps.before == 0 || diff_.steps.after == 0) {
      if (diff_.steps.changed())
        AddLimit("steps", "Steps were found in one of the two only: leaks are compared by their bytes in all.");
    } else if (diff_.steps.changed()) {
      AddLimit("steps", "The runs made " + Grouped(diff_.steps.before) + " and " + Plural(diff_.steps.after, "step") +
                            ": what grows with the steps differs by that alone; leaks are compared by bytes a step.");
    }
  }

  void SideLimits(const Side& side) {
    const std::string who = side.after ? "after: " : "before: ";
    const Completeness& complete = side.report.snapshot->completeness;
    if (complete.events_overwritten != 0 || complete.events_dropped != 0) {
      AddLimit("events", who + Grouped(complete.events_overwritten + complete.events_dropped) +
                             (side.report.snapshot->recorder == "pytorch" ? " blocks are older than the recording."
                                                                          : " events are missing."));
    }
    if (side.report.record_incomplete())
      AddLimit("record", who + "the journal ran out of space or was damaged; blocks may be missing.");
    if (side.report.unseen())
      AddLimit("unseen", who + "calls reached the driver past cuheap; see 'not observed' of its report.");
    for (const ScopeTotals& totals : side.report.totals) {
      if (totals.basis == PeakBasis::kExact) continue;
      AddLimit("peak", who + "the peak of " + ScopeName(totals.scope) +
                           (totals.basis == PeakBasis::kPartial
                                ? " is known by line in part: " + Grouped(totals.composed_bytes) + " of " +
                                      Grouped(totals.peak_bytes) + " B."
                                : " lies before the kept events: its size is compared, its lines are not."));
    }
    if (side.report.snapshot->recorder != "pytorch" && complete.end == "running")
      AddLimit("running", who + "the program was still running: its end is where the record was read.");
  }

  void CountOne(bool changed, bool small) {
    if (changed) ++(small ? diff_.small_changes : diff_.changes);
  }
  void CountBytes(const BeforeAfter& value) { CountOne(value.changed(), diff_.threshold.SmallBytes(value)); }

  void Count() {
    for (const ScopeDiff& scope : diff_.scopes) {
      CountBytes(scope.peak_bytes);
      CountBytes(scope.live_bytes);
      for (const LineDiff& line : scope.lines) CountOne(true, !NotSmall(line, diff_.threshold));
      if (!scope.counts) continue;
      CountBytes(scope.allocated_bytes);
      CountOne(scope.allocations.changed(), diff_.threshold.SmallCount(scope.allocations));
    }
    for (const KindDiff& kind : diff_.kinds) {
      CountBytes(kind.peak_bytes);
      CountBytes(kind.live_bytes);
    }
    for (const HeldDiff& held : diff_.held) {
      CountBytes(held.peak_bytes);
      CountBytes(held.bytes);
      CountBytes(held.pinned_bytes);
    }
    for (const LeakDiff& leak : diff_.leaks) {
      CountOne(leak.bytes.changed() || leak.change != LeakChange::kAlike, leak.change == LeakChange::kAlike);
    }
    CountOne(diff_.steps.changed(), false);
    CountOne(diff_.refusals.changed(), false);
  }

  std::array<Side, 2> sides_;
  PairIndex pairs_;
  Diff diff_;
};

}  // namespace

bool Threshold::SmallBytes(const BeforeAfter& value) const {
  return value.size() <= bytes || WithinShare(value, share);
}

bool Threshold::SmallCount(const BeforeAfter& value) const {
  return value.size() <= count || WithinShare(value, share);
}

std::uint64_t Diff::leaks_of(LeakChange change) const {
  return static_cast<std::uint64_t>(
      std::count_if(leaks.begin(), leaks.end(), [&](const LeakDiff& leak) { return leak.change == change; }));
}

const CodeLine& Diff::LineOf(const LinePair& lines) const {
  return lines.after != kNoLine ? after->lines.line(lines.after) : before->lines.line(lines.before);
}

Diff CompareReports(const Report& before, const Report& after, const DiffOptions& options) {
  return Comparer(before, after, options).Compare();
}

}  // namespace cuheap::analysis
