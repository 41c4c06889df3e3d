#include "analysis/ranks/rank_summary.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "analysis/reports/verdict_text.h"

namespace cuheap::analysis {
namespace {

// Each point the most until the next, so that a peak never goes. The totals' points lie at equal distances up to the
// last allocation or free; what was held then was held to the end.
std::vector<CurvePoint> Thinned(const std::vector<CurvePoint>& curve, std::uint64_t live_bytes) {
  std::vector<CurvePoint> thin;
  if (curve.empty()) return thin;
  const std::size_t points = std::min(curve.size(), kRankCurvePoints - 1);
  thin.reserve(points + 1);
  for (std::size_t i = 0; i < points; ++i) {
    const std::size_t begin = i * curve.size() / points, end = (i + 1) * curve.size() / points;
    CurvePoint point = curve[begin];
    for (std::size_t j = begin; j < end; ++j) point.bytes = std::max(point.bytes, curve[j].bytes);
    thin.push_back(point);
  }
  const std::int64_t width_ns = curve.size() < 2 ? 1 : curve[1].time_ns - curve[0].time_ns;
  thin.push_back({curve.back().time_ns + width_ns, live_bytes});
  return thin;
}

// Launchers give a rank its number, and multiprocessing its pipes, as arguments: those differ and mean nothing.
std::string CommandOf(const std::vector<std::string>& arguments) {
  constexpr std::string_view kOfOneRank[] = {"--local-rank", "--local_rank", "--node-rank", "--node_rank", "--rank"};
  std::string command;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string argument = arguments[i];
    const std::string_view name = std::string_view(argument).substr(0, argument.find('='));
    if (std::find(std::begin(kOfOneRank), std::end(kOfOneRank), name) != std::end(kOfOneRank)) {
      if (name.size() == argument.size()) ++i;  // the number is the next argument
      continue;
    }
    if (const std::size_t spawn = argument.find("spawn_main("); spawn != std::string::npos)
      argument.resize(spawn + std::string_view("spawn_main(").size());
    command.append(command.empty() ? "" : " ").append(argument);
  }
  return command;
}

class Summariser {
 public:
  Summariser(const Report& report, const std::string& path) : report_(report), snapshot_(*report.snapshot) {
    summary_.path = path;
    summary_.lines.emplace_back();
    kept_.emplace(0, 0);
  }

  RankSummary Make() {
    AddProcess();
    summary_.verdict = report_.verdict;
    summary_.verdict_word = PutVerdict(report_).word;
    summary_.complete = !report_.record_incomplete();
    summary_.unseen = report_.unseen();
    summary_.steps = report_.steps.count();
    AddDevices();
    AddPeakLines();
    AddLeaks();
    AddRefusals();
    return std::move(summary_);
  }

 private:
  void AddProcess() {
    const Process& process = snapshot_.process;
    summary_.identity = IdentifyRank(process.launcher, summary_.path);
    summary_.pid = process.pid;
    summary_.host = process.host;
    summary_.executable = process.executable;
    summary_.working_directory = process.working_directory;
    summary_.command = CommandOf(process.command_line);
    for (const char* name : {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"}) {
      const auto found = process.launcher.find(name);
      if (summary_.run.empty() && found != process.launcher.end()) summary_.run = found->second;
    }
    summary_.recorder = snapshot_.recorder;
    summary_.simulated = snapshot_.simulated;
    summary_.start_realtime_ns = process.start_realtime_ns;
    summary_.duration_ns = process.duration_ns;
    summary_.end = snapshot_.completeness.end;
    summary_.exit_status = snapshot_.completeness.exit_status;
    summary_.exit_signal = snapshot_.completeness.exit_signal;
  }

  std::uint32_t Keep(std::uint32_t line) {
    const auto [found, fresh] = kept_.try_emplace(line, static_cast<std::uint32_t>(summary_.lines.size()));
    if (fresh) summary_.lines.push_back(report_.lines.line(line));
    return found->second;
  }

  void AddDevices() {
    std::map<std::uint32_t, RankDevice> devices;
    for (const ScopeTotals& totals : report_.totals) {
      if (totals.scope.host) continue;
      RankDevice& device = devices[totals.scope.device];
      device.ordinal = totals.scope.device;
      if (totals.scope.tensors) {
        device.tensors_seen = true;
        device.tensor_peak_bytes = totals.peak_bytes;
        device.tensor_live_bytes = totals.live_bytes;
      } else {
        device.name = totals.name;
        device.capacity_bytes = totals.capacity_bytes;
        device.peak_bytes = totals.peak_bytes;
        device.peak_ns = totals.peak_ns;
        device.live_bytes = totals.live_bytes;
        device.curve = Thinned(totals.curve, totals.live_bytes);
      }
    }
    for (const Device& known : snapshot_.devices) {
      const auto found = devices.find(known.ordinal);
      if (found == devices.end()) continue;
      found->second.uuid = known.uuid;
      found->second.pool_peak_bytes = known.reserved_peak_bytes;
    }
    for (const PoolUse& pool : report_.pools) {
      const auto found = devices.find(pool.device);
      if (found != devices.end()) found->second.idle_beside_live_bytes += pool.idle_pinned_bytes;
    }
    for (const FrameworkCache& cache : report_.framework_caches) {
      const auto found = devices.find(cache.device);
      if (found == devices.end()) continue;
      found->second.cache_peak_bytes = cache.reserved_peak_bytes;
      if (cache.tensors_seen) found->second.idle_beside_live_bytes += cache.at_last.idle_pinned();
    }
    for (auto& [ordinal, device] : devices) {
      if (summary_.devices.empty() || device.peak_bytes > summary_.device().peak_bytes)
        summary_.main_device = summary_.devices.size();
      summary_.devices.push_back(std::move(device));
    }
  }

  void AddPeakLines() {
    if (!summary_.has_device()) return;
    summary_.lines_of_tensors = summary_.device().tensors_seen && summary_.device().tensor_peak_bytes != 0;
    const Scope scope{false, summary_.device().ordinal, summary_.lines_of_tensors};
    for (const ScopeTotals& totals : report_.totals) {
      if (totals.scope != scope) continue;
      for (const LineShare& share : totals.peak_by_line) {
        summary_.peak_lines_bytes += share.bytes;
        if (share.callers.empty()) AddPeakLine(share, 0);
        for (const LineBytes& caller : share.callers)
          AddPeakLine({share.line, caller.bytes, caller.blocks}, caller.line);
      }
    }
  }

  void AddPeakLine(const LineBytes& share, std::uint32_t caller) {
    if (summary_.peak_lines.size() == kRankLines) return;
    summary_.peak_lines.push_back({Keep(share.line), caller == 0 ? 0 : Keep(caller), share.bytes, share.blocks});
  }

  void AddLeaks() {
    summary_.leak_count = report_.leak_count();
    summary_.leaked_bytes = report_.leaked_bytes();
    for (const LeakFinding& finding : report_.findings) {
      if (finding.leak_class != LeakClass::kLeak || summary_.leaks.size() == kRankLeaks) continue;
      summary_.leaks.push_back({Keep(finding.line), finding.caller == 0 ? 0 : Keep(finding.caller), finding.scope,
                                finding.blocks, finding.bytes, finding.bytes_per_step});
    }
    if (const CacheGrowth* cache = report_.growing_cache(); cache != nullptr)
      summary_.cache_growth_per_step = cache->segments.bytes_per_step;
  }

  void Refused(const RankRefusal& refusal) {
    if (!summary_.refusal || refusal.time_ns < summary_.refusal->time_ns) summary_.refusal = refusal;
  }

  void AddRefusals() {
    for (const Failure& failure : report_.failures) {
      if (failure.result != kOutOfMemoryResult || failure.outcome != FailureOutcome::kTold) continue;
      summary_.refusals += failure.count;
      Refused({failure.first_ns, failure.scope.host ? kUnknownDevice : failure.scope.device, failure.line,
               report_.lines.CallerOfStack(failure.stack), failure.figures.request, false});
    }
    for (const FrameworkCache& cache : report_.framework_caches) {
      summary_.refusals += cache.refusal_count;
      if (cache.refusals.empty()) continue;
      const FrameworkRefusal& first = cache.refusals.front();
      Refused({first.time_ns, first.device, report_.lines.OfStack(first.stack),
               report_.lines.CallerOfStack(first.stack), first.request, true});
    }
    if (!summary_.refusal) return;
    summary_.refusal->line = Keep(summary_.refusal->line);
    if (summary_.refusal->caller != 0) summary_.refusal->caller = Keep(summary_.refusal->caller);
  }

  const Report& report_;
  const Snapshot& snapshot_;
  RankSummary summary_;
  std::map<std::uint32_t, std::uint32_t> kept_;  // line of the report -> of the summary
};

}  // namespace

RankSummary SummariseRank(const Report& report, const std::string& path) { return Summariser(report, path).Make(); }

}  // namespace cuheap::analysis
