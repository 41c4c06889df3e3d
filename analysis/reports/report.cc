#include "analysis/reports/report.h"

#include <algorithm>
#include <utility>

#include "analysis/reports/lifetimes.h"
#include "analysis/reports/peak_parts.h"
#include "analysis/reports/ran_out.h"

namespace cuheap::analysis {

std::uint64_t Report::leak_count() const {
  return static_cast<std::uint64_t>(std::count_if(findings.begin(), findings.end(), [](const LeakFinding& finding) {
    return finding.leak_class == LeakClass::kLeak;
  }));
}

std::uint64_t Report::leaked_bytes() const { return bytes_of(LeakClass::kLeak); }

std::uint64_t Report::bytes_of(LeakClass leak_class) const {
  std::uint64_t bytes = 0;
  for (const LeakFinding& finding : findings) {
    if (finding.leak_class == leak_class) bytes += finding.bytes;
  }
  return bytes;
}

const CacheGrowth* Report::growing_cache() const {
  const CacheGrowth* most = nullptr;
  for (const CacheGrowth& cache : caches) {
    if (!cache.growing) continue;
    const auto rate = [](const CacheGrowth& of) { return std::pair(of.segments.bytes_per_step, of.segments.bytes); };
    if (most == nullptr || rate(cache) > rate(*most)) most = &cache;
  }
  return most;
}

bool Report::framework_refused() const {
  return std::any_of(framework_caches.begin(), framework_caches.end(),
                     [](const FrameworkCache& cache) { return cache.refusal_count != 0; });
}

bool Report::record_incomplete() const {
  const Completeness& completeness = snapshot->completeness;
  return completeness.live_dropped != 0 || completeness.events_dropped != 0 ||
         std::any_of(snapshot->notes.begin(), snapshot->notes.end(),
                     [](const Note& note) { return note.code == "journal_damaged"; });
}

namespace {

// The worst that the report has to tell. seen_any: it knows of a block.
Verdict Judge(const Report& report, bool seen_any) {
  const bool refused = std::any_of(report.failures.begin(), report.failures.end(),
                                   [](const Failure& failure) { return failure.result == kOutOfMemoryResult; });
  if (refused || report.framework_refused()) return Verdict::kOutOfMemory;
  if (report.leak_count() != 0) return Verdict::kLeaks;
  if (report.growing_cache() != nullptr) return Verdict::kGrowing;
  if (report.record_incomplete()) return Verdict::kIncomplete;
  return seen_any ? Verdict::kNoLeaks : Verdict::kNothingSeen;
}

}  // namespace

Report MakeReport(const Snapshot& snapshot, const LineRule& rule) {
  Blocks blocks = JoinBlocks(snapshot);
  LineTable lines(snapshot, rule);
  const FrameworkStacks stacks(snapshot);
  StepClocks clocks = FindSteps(snapshot, blocks, stacks);
  const RanOut ran_out(snapshot, blocks, lines, stacks);
  ran_out.DropInventedSteps(clocks.main);
  const Lifetimes lifetimes(blocks, clocks);
  const PeakParts parts(lines, lifetimes);
  std::vector<ScopeTotals> totals =
      MeasureTotals(snapshot, blocks, lines, [&](const auto& at_peak, ScopeTotals& of) { parts.Fill(at_peak, of); });
  Categories categories(snapshot, blocks, lines, stacks, clocks);
  std::vector<ScopeCategories> category_totals = MeasureCategories(snapshot, blocks, categories, totals);
  std::vector<LeakFinding> findings = FindLeaks(blocks, lines, clocks, stacks, snapshot.process.duration_ns);
  std::vector<CacheGrowth> caches = MeasureCaches(blocks, lines, clocks, stacks, snapshot.process.duration_ns);
  ran_out.DropFirstPasses(findings);
  ran_out.DropGrowth(caches);
  std::vector<PoolUse> pools = MeasurePools(snapshot, blocks);
  std::vector<Failure> failures = FindFailures(snapshot, blocks, lines, clocks.main);
  const bool cache_seen = std::any_of(blocks.program.begin(), blocks.program.end(), [](const Block& block) {
    return block.in_framework_cache() && Blocks::OnDevice(block.kind);
  });
  const bool tensors_seen =
      std::any_of(blocks.program.begin(), blocks.program.end(), [](const Block& block) { return block.is_tensor(); });
  std::vector<NotObserved> not_observed = ListNotObserved(snapshot, lines, cache_seen && !tensors_seen);
  const FrameworkCaches cache_history(snapshot, blocks);
  std::vector<FrameworkCache> framework_caches = DescribeFrameworkCaches(cache_history, lines);
  std::vector<Fragmentation> fragmentation =
      FindFragmentation(snapshot, blocks, lines, cache_history, framework_caches);
  ran_out.Explain(clocks.main, findings, failures, framework_caches);
  Report report{&snapshot,
                Verdict::kNoLeaks,
                std::move(lines),
                clocks.main,
                0,
                std::move(totals),
                std::move(findings),
                std::move(caches),
                ListFrameworkSegments(blocks),
                std::move(framework_caches),
                std::move(pools),
                std::move(failures),
                std::move(not_observed)};
  report.tensors_seen = tensors_seen;
  report.kinds = CountKinds(blocks);
  report.replaced = FindReplaced(blocks, report.lines);
  report.driver_objects = CountDriverObjects(snapshot, report.steps);
  report.fragmentation = std::move(fragmentation);
  report.churn = FindChurn(blocks, report.lines, report.steps);
  report.late_frees = FindLateFrees(blocks, report.lines, report.steps, report.totals);
  report.driver_use = MeasureDriverTime(snapshot, report.lines);
  const bool single_tensors = std::any_of(blocks.program.begin(), blocks.program.end(),
                                          [](const Block& block) { return block.framework_tensor(); });
  if (single_tensors) {
    report.remedies = FindRemedies({snapshot, blocks, report.lines, stacks, categories, report.steps, report.findings});
  }
  report.allocator_settings = TryAllocatorSettings(snapshot, blocks, report.framework_caches);
  report.categories = std::move(category_totals);
  for (const Block& block : blocks.program)
    report.last_allocation_ns = std::max(report.last_allocation_ns, block.allocated_ns);
  report.verdict = Judge(report, !blocks.program.empty());
  report.block_categories = std::move(categories).Take();
  report.blocks = std::move(blocks);
  return report;
}

}  // namespace cuheap::analysis
