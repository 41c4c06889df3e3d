// What is kept of one process when many are merged: some kilobytes, whatever its snapshot's size.
#ifndef CUHEAP_ANALYSIS_RANKS_RANK_SUMMARY_H_
#define CUHEAP_ANALYSIS_RANKS_RANK_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/ranks/rank_identity.h"
#include "analysis/reports/report.h"

namespace cuheap::analysis {

// Of every process: lines at its peak and leaks, most bytes first, and points of a device's curve.
inline constexpr std::size_t kRankLines = 64, kRankLeaks = 32, kRankCurvePoints = 61;

struct RankLine {
  std::uint32_t line = 0;    // index into RankSummary::lines; after the merge into RankReport::lines
  std::uint32_t caller = 0;  // the same, if several lines call this one (a wrapper); 0: all, or elsewhere
  std::uint64_t bytes = 0, blocks = 0;
};

struct RankLeak {
  std::uint32_t line = 0, caller = 0;  // as above; caller 0: all
  Scope scope;
  std::uint64_t blocks = 0, bytes = 0;
  double bytes_per_step = 0;  // 0: no steps
};

// The first time that memory was refused to the program.
struct RankRefusal {
  std::int64_t time_ns = 0;
  std::uint32_t device = 0;            // ordinal; kUnknownDevice: not known, or host memory
  std::uint32_t line = 0, caller = 0;  // as above
  std::uint64_t request = 0;
  bool by_framework = false;  // PyTorch's own error
};

struct RankDevice {
  std::uint32_t ordinal = 0;
  std::string name, uuid;  // uuid: empty if not known
  std::uint64_t capacity_bytes = 0;
  std::uint64_t peak_bytes = 0, live_bytes = 0;  // device memory, as asked for
  std::int64_t peak_ns = 0;
  bool tensors_seen = false;
  std::uint64_t tensor_peak_bytes = 0, tensor_live_bytes = 0;
  std::uint64_t pool_peak_bytes = 0, cache_peak_bytes = 0;  // held from the driver: by our pool, by PyTorch's cache
  std::uint64_t idle_beside_live_bytes = 0;                 // of both, at the end: fragmentation
  std::vector<CurvePoint>
      curve;  // of the device's memory, at most kRankCurvePoints; the last is what was held from then to the end
};

struct RankSummary {
  std::string path;
  RankIdentity identity;
  std::uint64_t pid = 0;  // 0: not known
  std::string host, executable, working_directory;
  std::string command;  // without what tells the ranks of one command apart (--local-rank=3)
  std::string run;      // what tells one run from another: TORCHELASTIC_RUN_ID, else SLURM_JOB_ID; empty: nothing
  std::string recorder;
  bool simulated = false;
  std::int64_t start_realtime_ns = 0;  // 0: not known
  std::int64_t duration_ns = 0;
  std::string end;  // as Completeness has it
  std::optional<std::uint32_t> exit_status, exit_signal;
  Verdict verdict = Verdict::kNothingSeen;
  std::string verdict_word;  // as its own report says: "SMALL LEAK"
  bool complete = true;      // false: the record lacks blocks or events
  bool unseen = false;       // something reached the driver past cuheap
  std::uint32_t steps = 0;
  std::vector<RankDevice> devices;     // by ordinal
  std::size_t main_device = 0;         // the one with the largest peak; of no use if there are none
  bool lines_of_tensors = false;       // peak_lines tells of the tensors, not of the device's memory
  std::vector<RankLine> peak_lines;    // of the main device, at most kRankLines
  std::uint64_t peak_lines_bytes = 0;  // what was held at the peak by all lines, those left out here included
  std::vector<RankLeak> leaks;         // at most kRankLeaks
  std::uint64_t leak_count = 0, leaked_bytes = 0;
  double cache_growth_per_step = 0;  // of PyTorch's cache, where that is the finding (Verdict::kGrowing)
  std::optional<RankRefusal> refusal;
  std::uint64_t refusals = 0;
  std::vector<CodeLine> lines;  // what the indices mean; empty after the merge. Line 0 is "(no stack)"

  bool has_device() const { return !devices.empty(); }
  const RankDevice& device() const { return devices[main_device]; }
  std::uint64_t peak_bytes() const { return has_device() ? device().peak_bytes : 0; }
  std::uint64_t tensor_peak_bytes() const { return has_device() ? device().tensor_peak_bytes : 0; }
  std::uint64_t live_bytes() const { return has_device() ? device().live_bytes : 0; }
  // What lines are compared by: the peak of the tensors where those were seen, else of the device.
  std::uint64_t compared_bytes() const { return lines_of_tensors ? tensor_peak_bytes() : peak_bytes(); }
  std::int64_t end_realtime_ns() const { return start_realtime_ns + duration_ns; }
};

// path: the snapshot's file.
RankSummary SummariseRank(const Report& report, const std::string& path);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_RANKS_RANK_SUMMARY_H_
