// Everything that is told about one snapshot. Reporters (report_text.h, report_json.h) render it and reckon nothing.
#ifndef CUHEAP_ANALYSIS_REPORTS_REPORT_H_
#define CUHEAP_ANALYSIS_REPORTS_REPORT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analysis/reports/allocator_settings.h"
#include "analysis/reports/blocks.h"
#include "analysis/reports/categories.h"
#include "analysis/reports/category_totals.h"
#include "analysis/reports/churn.h"
#include "analysis/reports/driver_objects.h"
#include "analysis/reports/driver_time.h"
#include "analysis/reports/failures.h"
#include "analysis/reports/fragmentation.h"
#include "analysis/reports/framework_cache.h"
#include "analysis/reports/framework_segments.h"
#include "analysis/reports/kinds.h"
#include "analysis/reports/late_frees.h"
#include "analysis/reports/leaks.h"
#include "analysis/reports/lines.h"
#include "analysis/reports/not_observed.h"
#include "analysis/reports/pool_use.h"
#include "analysis/reports/remedies.h"
#include "analysis/reports/replaced.h"
#include "analysis/reports/steps.h"
#include "analysis/reports/totals.h"
#include "analysis/snapshot.h"

namespace cuheap::analysis {

enum class Verdict : std::uint8_t {
  kOutOfMemory,  // the program was refused memory (it may leak as well)
  kLeaks,
  kGrowing,      // no line leaks, but a framework's cache grows to the end: tensors are kept somewhere inside
  kNoLeaks,      // nothing grows in what was observed; see unobserved_tensors
  kNothingSeen,  // CUDA was used but not one allocation seen: no verdict on leaks
  kIncomplete,   // nothing grows in what is left of the record, but what was lost may
};

struct Report {
  const Snapshot* snapshot = nullptr;  // must outlive the report
  Verdict verdict = Verdict::kNothingSeen;
  LineTable lines;
  Steps steps;
  std::int64_t last_allocation_ns =
      0;  // what "the end" of growth is measured by: processes take long to start and exit
  std::vector<ScopeTotals> totals;
  std::vector<LeakFinding> findings;                  // all classes, see leaks.h
  std::vector<CacheGrowth> caches;                    // frameworks' caches, each as a whole
  std::vector<FrameworkSegments> framework_segments;  // what its allocator got from the driver
  std::vector<FrameworkCache> framework_caches;       // the same, joined with what it handed out
  std::vector<PoolUse> pools;
  std::vector<Failure> failures;
  std::vector<NotObserved> not_observed;
  std::uint64_t leak_count() const;  // findings of class kLeak
  std::uint64_t leaked_bytes() const;
  std::uint64_t bytes_of(LeakClass leak_class) const;
  const CacheGrowth* growing_cache() const;  // the one that grows most, or null
  // The journal ran out of space or was damaged, so that blocks or events are missing anywhere in it. (Events that
  // newer ones overwrote are no such loss: what is live is kept apart.)
  bool record_incomplete() const;
  // A framework told the program that memory ran out.
  bool framework_refused() const;
  std::vector<KindUse> kinds{};                 // memory of every kind apart
  std::vector<Replaced> replaced{};             // what was held at the peak although its successor was there
  std::vector<DriverObjects> driver_objects{};  // how many were created and destroyed
  std::vector<Churn> churn{};
  std::vector<LateFree> late_frees{};
  DriverUse driver_use{};
  std::vector<Fragmentation> fragmentation{};           // why what pools hold was not used: PyTorch's caches, then ours
  std::vector<Remedies> remedies{};                     // what would help
  std::vector<AllocatorSettings> allocator_settings{};  // ... of PyTorch's allocator, by device
  std::vector<ScopeCategories> categories{};            // of each of totals, in their order
  std::vector<Categorised> block_categories{};  // of blocks.program, in their order
  const ScopeCategories& categories_of(const ScopeTotals& of) const {
    return categories[static_cast<std::size_t>(&of - totals.data())];
  }
  // Something reached the driver without us: what it holds is not known.
  bool unseen() const {
    return std::any_of(not_observed.begin(), not_observed.end(),
                       [](const NotObserved& entry) { return entry.kind == ObservationKind::kUnseen; });
  }
  Blocks blocks{};            // what all of this was told from, for those who look at single ones
  bool tensors_seen = false;  // a framework reported what it hands out of its cache
  // A framework's cache was met, and what happens to the tensors inside is not known.
  bool unobserved_tensors() const {
    return !tensors_seen && std::any_of(caches.begin(), caches.end(),
                                        [](const CacheGrowth& cache) { return !cache.segments.scope.host; });
  }
};

Report MakeReport(const Snapshot& snapshot, const LineRule& rule = {});

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_REPORT_H_
