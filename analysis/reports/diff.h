// What changed between two runs of a program: each figure of one report beside that of the other.
//
// Note [Small differences]
// Two runs of the same program need not be alike: threads race for buffers, libraries pick workspaces by timing. A
// difference of bytes counts as small if it is at most Threshold::bytes, or at most Threshold::share of the larger of
// the two values; one of numbers (of allocations) likewise, with Threshold::count. Small ones are summed up in one row
// and do not make two runs different. A leak that is new or gone is never small, nor is a refusal or another number of
// steps.
//
// Note [What is compared]
// The live set is complete in every record, whatever became of the events, and seeds the comparison: what was live at
// the end is compared always. Where events are missing, numbers of allocations count the kept ones only, and a peak may
// lie before them: those are not compared, and Diff::limits says so.
#ifndef CUHEAP_ANALYSIS_REPORTS_DIFF_H_
#define CUHEAP_ANALYSIS_REPORTS_DIFF_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "analysis/reports/line_match.h"
#include "analysis/reports/report.h"
#include "analysis/source_lines.h"

namespace cuheap::analysis {

struct BeforeAfter {
  std::uint64_t before = 0, after = 0;
  bool changed() const { return before != after; }
  std::uint64_t size() const { return before > after ? before - after : after - before; }  // of the change
  void Add(const BeforeAfter& other) {
    before += other.before;
    after += other.after;
  }
};

struct Threshold {
  std::uint64_t bytes = std::uint64_t{64} << 10;
  std::uint64_t count = 10;
  double share = 0.01;  // 0..1
  bool SmallBytes(const BeforeAfter& value) const;
  bool SmallCount(const BeforeAfter& value) const;
};

struct LineDiff {
  LinePair lines;
  std::set<AllocationKind> kinds_before, kinds_after;
  BeforeAfter peak_bytes, peak_blocks, live_bytes, live_blocks, allocations, allocated_bytes;
  // Bytes by calling line, if several lines call this one in both runs (a wrapper).
  std::map<LinePair, BeforeAfter> peak_callers, live_callers;
};

// One device, its tensors, or the host.
struct ScopeDiff {
  Scope scope;
  std::string name_before, name_after;  // of the device
  BeforeAfter peak_bytes, live_bytes, live_blocks, allocations, allocated_bytes;
  bool peak_by_line = true;            // compared by line: it lies among the kept events of both
  bool counts = true;                  // allocations are compared: no event is missing
  BeforeAfter peak_cache, live_cache;  // bytes of a framework's cache, which are no line's (see ScopeTotals)
  std::vector<LineDiff> lines;         // with anything to tell; by the largest of their changes, then by name
};

struct KindDiff {
  AllocationKind kind = AllocationKind::kNone;
  BeforeAfter peak_bytes, live_bytes, blocks;
};

// Memory held from the driver: by our pool, or by a framework's cache (then at the last allocation of a tensor).
struct HeldDiff {
  bool framework = false;
  std::uint32_t device = 0;
  BeforeAfter peak_bytes, bytes;
  BeforeAfter pinned_bytes;                                  // idle beside live blocks: fragmentation
  double fragmentation_before = 0, fragmentation_after = 0;  // share of what is held
};

enum class LeakChange : std::uint8_t { kNew, kGrew, kShrank, kGone, kAlike };

struct LeakDiff {
  LeakChange change = LeakChange::kAlike;
  Scope scope;
  bool cache = false;  // growth of a framework's cache as a whole; no line
  LinePair lines;
  LinePair callers;                        // both kNoLine: all
  BeforeAfter blocks, bytes;               // at the end
  double rate_before = 0, rate_after = 0;  // bytes a step; 0: no steps
};

struct Setting {
  std::string name, before, after;  // empty: not set
};

// Something that cannot be compared, or only with care.
struct Limit {
  std::string code;  // stable word for scripts
  std::string text;  // one sentence
};

struct Diff {
  const Report* before = nullptr;  // both must outlive this
  const Report* after = nullptr;
  Threshold threshold;
  std::vector<ScopeDiff> scopes;
  std::vector<LeakDiff> leaks;  // kAlike too; in the order of LeakChange, then by bytes
  std::vector<KindDiff> kinds;
  std::vector<HeldDiff> held;
  std::vector<Setting> settings;  // options that differ
  std::vector<Limit> limits;
  BeforeAfter steps, leak_count, leaked_bytes, refusals;  // refusals: of memory, told to the program
  std::uint64_t changes = 0;  // figures and rows that differ by more than a small difference
  std::uint64_t small_changes = 0;
  bool different() const { return changes != 0; }

  std::uint64_t leaks_of(LeakChange change) const;
  const CodeLine& LineOf(const LinePair& lines) const;  // after, or before if it is gone
};

struct DiffOptions {
  Threshold threshold;
  SourceLines* before_source = nullptr;  // see PairLines
  SourceLines* after_source = nullptr;
};

Diff CompareReports(const Report& before, const Report& after, const DiffOptions& options = {});

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_DIFF_H_
