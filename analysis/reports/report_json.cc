#include "analysis/reports/report_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "analysis/printable.h"
#include "analysis/reports/advice.h"
#include "analysis/reports/allocator_settings_words.h"
#include "analysis/reports/category_json.h"
#include "analysis/reports/driver_objects_text.h"
#include "analysis/reports/driver_time_text.h"
#include "analysis/reports/fragmentation_json.h"
#include "analysis/reports/framework_json.h"
#include "analysis/reports/line_json.h"
#include "analysis/reports/remedy_json.h"
#include "analysis/reports/replaced_text.h"
#include "analysis/reports/turnover_text.h"
#include "analysis/snapshot_names.h"

namespace cuheap::analysis {
namespace {

using Json = nlohmann::ordered_json;

// The words of this format: they never change their meaning.
constexpr std::array<std::string_view, 6> kVerdicts = {"out_of_memory", "leaks",        "growing",
                                                       "no_leaks",      "nothing_seen", "incomplete"};
constexpr std::array<std::string_view, 7> kStepSources = {"none",     "marks",           "optimizer", "gradients",
                                                          "backward", "synchronization", "allocation"};
constexpr std::array<std::string_view, 3> kPeakBases = {"exact", "partial", "outside_window"};
constexpr std::array<std::string_view, 7> kClasses = {"leak",    "freed_at_end", "cache", "library",
                                                      "context", "replaced",     "held"};
constexpr std::array<std::string_view, 8> kShapes = {"every_step", "every_few_steps", "irregular", "over_time",
                                                     "bounded",    "stopped",         "replaced",  "once"};
constexpr std::array<std::string_view, 6> kCauses = {"none",   "graph",    "scalar",
                                                     "tensor", "gradient", "optimizer_state"};
constexpr std::array<std::string_view, 3> kConfidences = {"low", "medium", "high"};
constexpr std::array<std::string_view, 5> kOomVerdicts = {"not_known", "unexplained", "capacity", "other_owner",
                                                          "idle_in_pool"};
constexpr std::array<std::string_view, 4> kObservations = {"loss", "unseen", "hole", "limit"};
constexpr std::array<std::string_view, 3> kFrameworks = {"none", "pytorch", "none"};  // by Allocator
constexpr std::array<std::string_view, 3> kFailureOutcomes = {"told", "behind_framework", "recovered"};

template <std::size_t kCount, typename Enum>
std::string_view Word(const std::array<std::string_view, kCount>& words, Enum value) {
  return words.at(static_cast<std::size_t>(value));
}

class Writer {
 public:
  explicit Writer(const Report& report) : report_(report), snapshot_(*report.snapshot) {}

  Json Write() const {
    Json json;
    json["cuheap_report"] = kReportVersion;
    json["cuheap_version"] = snapshot_.cuheap_version;
    json["verdict"] = Word(kVerdicts, report_.verdict);
    json["complete"] = !report_.record_incomplete();
    json["leak_count"] = report_.leak_count();
    json["leaked_bytes"] = report_.leaked_bytes();
    json["process"] = ProcessOf();
    json["steps"] = {{"source", Word(kStepSources, report_.steps.source)},
                     {"count", report_.steps.count()},
                     {"agreement", report_.steps.agreement},
                     {"stack", StackOf(report_.steps.stack)}};
    json["leaks"] = Json::array();
    json["held"] = Json::array();
    for (const LeakFinding& finding : report_.findings)
      json[finding.leak_class == LeakClass::kLeak ? "leaks" : "held"].push_back(Finding(finding));
    json["memory"] = Json::array();
    json["tensors"] = Json::array();
    for (const ScopeTotals& totals : report_.totals)
      json[totals.scope.tensors ? "tensors" : "memory"].push_back(Memory(totals));
    json["kinds"] = Json::array();
    for (const KindUse& use : report_.kinds) json["kinds"].push_back(Kind(use));
    json["framework_segments"] = Json::array();
    for (const FrameworkSegments& segments : report_.framework_segments)
      json["framework_segments"].push_back(Segments(segments));
    json["framework_caches"] = Json::array();
    for (const FrameworkCache& cache : report_.framework_caches)
      json["framework_caches"].push_back(FrameworkCacheJson(report_, cache));
    json["caches"] = Json::array();
    for (const CacheGrowth& cache : report_.caches) json["caches"].push_back(Cache(cache));
    json["replaced"] = Json::array();
    for (const Replaced& replaced : report_.replaced) json["replaced"].push_back(ReplacedOf(replaced));
    json["driver_objects"] = Json::array();
    for (const DriverObjects& objects : report_.driver_objects)
      json["driver_objects"].push_back(DriverObjectsOf(objects));
    json["remedies"] = Json::array();
    for (const Remedies& remedies : report_.remedies) json["remedies"].push_back(RemediesJson(report_, remedies));
    json["allocator_settings"] = Json::array();
    for (const AllocatorSettings& settings : report_.allocator_settings)
      json["allocator_settings"].push_back(AllocatorSettingsJson(settings));
    json["pools"] = Json::array();
    for (const PoolUse& pool : report_.pools) json["pools"].push_back(Pool(pool));
    json["fragmentation"] = Json::array();
    for (const Fragmentation& fragmentation : report_.fragmentation)
      json["fragmentation"].push_back(FragmentationJson(report_, fragmentation));
    json["late_frees"] = Json::array();
    for (const LateFree& late : report_.late_frees) json["late_frees"].push_back(LateFreeJson(report_, late));
    json["churn"] = Json::array();
    for (const Churn& churn : report_.churn) json["churn"].push_back(ChurnJson(report_, churn));
    json["driver_time"] = DriverTimeJson(report_);
    json["failures"] = Json::array();
    for (const Failure& failure : report_.failures) json["failures"].push_back(FailureOf(failure));
    json["not_observed"] = Json::array();
    for (const NotObserved& entry : report_.not_observed) {
      json["not_observed"].push_back(
          {{"kind", Word(kObservations, entry.kind)}, {"code", entry.code}, {"text", entry.text}});
    }
    return json;
  }

 private:
  Json ProcessOf() const {
    const Process& process = snapshot_.process;
    Json json = {{"pid", process.pid},
                 {"host", process.host},
                 {"executable", process.executable},
                 {"command_line", process.command_line},
                 {"start_realtime_ns", process.start_realtime_ns},
                 {"duration_ns", process.duration_ns},
                 {"end", snapshot_.completeness.end},
                 {"simulated", snapshot_.simulated}};
    if (snapshot_.completeness.exit_status) json["exit_status"] = *snapshot_.completeness.exit_status;
    if (snapshot_.completeness.exit_signal) json["exit_signal"] = *snapshot_.completeness.exit_signal;
    return json;
  }

  static Json ScopeOf(const Scope& scope) {
    if (scope.host) return {{"kind", "host"}};
    return {{"kind", scope.tensors ? "tensors" : "device"},
            {"device", scope.device == kUnknownDevice ? Json() : Json(scope.device)}};
  }

  Json LineOf(std::uint32_t index) const { return LineJson(report_.lines.line(index)); }

  Json StackOf(std::uint32_t stack) const {
    Json frames = Json::array();
    if (stack == 0 || stack >= snapshot_.stacks.size()) return frames;
    for (const std::uint32_t index : snapshot_.stacks[stack].frames) {
      const Frame& frame = snapshot_.frames[index];
      Json json = {{"function", snapshot_.strings[frame.function]},
                   {"file", snapshot_.strings[frame.file]},
                   {"line", frame.line},
                   {"module", frame.module == 0 ? std::string() : snapshot_.modules[frame.module - 1].path},
                   {"offset", frame.offset}};
      if (frame.inlined) json["inlined"] = true;
      frames.push_back(std::move(json));
    }
    return frames;
  }

  static void AddAdvice(Json& json, const std::string& advice) {
    if (!advice.empty()) json["advice"] = advice;
  }

  Json Finding(const LeakFinding& finding) const {
    Json json;
    json["class"] = Word(kClasses, finding.leak_class);
    json["shape"] = Word(kShapes, finding.shape);
    json["confidence"] = Word(kConfidences, finding.confidence);
    json["scope"] = ScopeOf(finding.scope);
    json["line"] = LineOf(finding.line);
    if (finding.caller != 0) json["caller"] = LineOf(finding.caller);
    if (!finding.library.empty()) json["library"] = finding.library;
    json["blocks"] = finding.blocks;
    json["bytes"] = finding.bytes;
    json["reserved_bytes"] = finding.reserved_bytes;
    json["bytes_per_step"] = finding.bytes_per_step;
    json["bytes_per_occurrence"] = finding.bytes_per_occurrence;
    json["slope_bytes_per_step"] = finding.slope_bytes_per_step;
    json["slope_r2"] = finding.slope_r2;
    json["period"] = finding.period;
    if (finding.shape == GrowthShape::kOverTime) json["interval_ns"] = finding.interval_ns;
    json["step_count"] = finding.step_count;
    json["step_thread"] = finding.step_thread == 0 || finding.step_thread > snapshot_.threads.size()
                              ? Json()
                              : Json(snapshot_.threads[finding.step_thread - 1].tid);
    json["first_step"] = finding.first_step;
    json["last_step"] = finding.last_step;
    json["steps"] = finding.steps;
    json["first_ns"] = finding.first_ns;
    json["last_ns"] = finding.last_ns;
    if (finding.before_window != 0) json["before_window"] = finding.before_window;
    if (finding.outside_steps) json["outside_steps"] = true;
    if (finding.replaces.blocks != 0)
      json["replaces"] = {{"blocks", finding.replaces.blocks}, {"bytes", finding.replaces.bytes}};
    json["line_allocations"] = finding.line_allocations;
    json["line_frees"] = finding.line_frees;
    json["freed_at_exit"] = finding.freed_at_exit;
    json["freed_with_context"] = finding.freed_with_context;
    json["companions"] = Json::array();
    for (const std::uint32_t line : finding.companions) json["companions"].push_back(LineOf(line));
    if (finding.cause != LeakCause::kNone) json["cause"] = Word(kCauses, finding.cause);
    for (const LeakPart& part : finding.parts) {
      json["parts"].push_back({{"line", LineOf(part.line)},
                               {"blocks", part.blocks},
                               {"bytes", part.bytes},
                               {"bytes_per_step", part.bytes_per_step}});
    }
    AddAdvice(json, AdviceFor(report_, finding));
    json["stacks"] = Json::array();
    for (const StackShare& share : finding.stacks) {
      json["stacks"].push_back({{"bytes", share.bytes}, {"blocks", share.blocks}, {"frames", StackOf(share.stack)}});
    }
    return json;
  }

  Json Shares(const std::vector<LineShare>& shares) const {
    Json json = Json::array();
    for (const LineShare& share : shares) {
      Json entry = {{"line", LineOf(share.line)}, {"bytes", share.bytes}, {"blocks", share.blocks}};
      for (const LineBytes& caller : share.callers) {
        entry["callers"].push_back({{"line", LineOf(caller.line)}, {"bytes", caller.bytes}, {"blocks", caller.blocks}});
      }
      json.push_back(std::move(entry));
    }
    return json;
  }

  static Json Parts(const std::vector<PartBytes>& parts, const char* key) {
    Json json = Json::array();
    for (const PartBytes& part : parts)
      json.push_back({{key, part.kind}, {"name", part.name}, {"bytes", part.bytes}, {"blocks", part.blocks}});
    return json;
  }

  Json ReplacedOf(const Replaced& replaced) const {
    Json json = {{"scope", ScopeOf(replaced.scope)},
                 {"peak_bytes", replaced.peak_bytes},
                 {"saving_bytes", replaced.saving_bytes},
                 {"lines", Json::array()}};
    for (const Replacement& line : replaced.lines) {
      Json entry = {{"line", LineOf(line.line)},
                    {"times", line.times},
                    {"old_bytes", line.old_bytes},
                    {"old_blocks", line.old_blocks},
                    {"saving_bytes", line.saving_bytes}};
      if (line.caller != 0) entry["caller"] = LineOf(line.caller);
      json["lines"].push_back(std::move(entry));
    }
    AddAdvice(json, AdviceFor(replaced));
    return json;
  }

  static Json DriverObjectsOf(const DriverObjects& objects) {
    Json json = {{"kind", objects.kind},
                 {"created", objects.created},
                 {"destroyed", objects.destroyed},
                 {"piling_up", objects.piling_up}};
    AddAdvice(json, AdviceFor(objects));
    return json;
  }

  static Json CacheShare(const LineBytes& cache) { return {{"bytes", cache.bytes}, {"blocks", cache.blocks}}; }

  Json Memory(const ScopeTotals& totals) const {
    Json json;
    json["scope"] = ScopeOf(totals.scope);
    json["name"] = totals.name;
    json["capacity_bytes"] = totals.capacity_bytes;
    json["live_bytes"] = totals.live_bytes;
    json["live_blocks"] = totals.live_blocks;
    json["live_reserved_bytes"] = totals.live_reserved_bytes;
    json["live_by_line"] = Shares(totals.live_by_line);
    json["peak"] = {{"bytes", totals.peak_bytes},
                    {"blocks", totals.peak_blocks},
                    {"time_ns", totals.peak_ns},
                    {"step", report_.steps.StepOf(totals.peak_ns)},
                    {"basis", Word(kPeakBases, totals.basis)},
                    {"composed_bytes", totals.composed_bytes},
                    {"by_line", Shares(totals.peak_by_line)},
                    {"by_library", Parts(totals.peak_by_library, "kind")},
                    {"by_lifetime", Parts(totals.peak_by_lifetime, "lifetime")}};
    if (totals.peak_cache.blocks != 0) json["peak"]["framework_cache"] = CacheShare(totals.peak_cache);
    if (totals.live_cache.blocks != 0) json["live_framework_cache"] = CacheShare(totals.live_cache);
    if (totals.powers_of_two.blocks != 0) json["powers_of_two"] = CacheShare(totals.powers_of_two);
    json["categories"] = CategoriesJson(report_.categories_of(totals));
    json["allocations"] = totals.allocations;
    json["frees"] = totals.frees;
    json["allocated_bytes"] = totals.allocated_bytes;
    json["curve"] = {{"time_ns", Json::array()}, {"bytes", Json::array()}};
    for (const CurvePoint& point : totals.curve) {
      json["curve"]["time_ns"].push_back(point.time_ns);
      json["curve"]["bytes"].push_back(point.bytes);
    }
    return json;
  }

  static Json Kind(const KindUse& use) {
    return {{"kind", ToString(use.kind)},   {"blocks", use.blocks},
            {"peak_bytes", use.peak_bytes}, {"live_blocks", use.live_blocks},
            {"live_bytes", use.live_bytes}, {"live_blocks_without_size", use.live_blocks_without_size}};
  }

  static Json Segments(const FrameworkSegments& segments) {
    Json json = {{"framework", Word(kFrameworks, segments.framework)},
                 {"device", segments.device == kUnknownDevice ? Json() : Json(segments.device)},
                 {"allocations", segments.allocations},
                 {"frees", segments.frees},
                 {"count", segments.held.size()},
                 {"bytes", segments.bytes},
                 {"segments", Json::array()}};
    for (const FrameworkSegment& segment : segments.held)
      json["segments"].push_back({{"address", segment.address}, {"bytes", segment.bytes}});
    return json;
  }

  Json Cache(const CacheGrowth& cache) const {
    const LeakFinding& segments = cache.segments;
    Json json = {{"scope", ScopeOf(segments.scope)},
                 {"growing", cache.growing},
                 {"shape", Word(kShapes, segments.shape)},
                 {"confidence", Word(kConfidences, segments.confidence)},
                 {"segments", segments.blocks},
                 {"bytes", segments.bytes},
                 {"bytes_per_step", segments.bytes_per_step},
                 {"bytes_per_occurrence", segments.bytes_per_occurrence},
                 {"period", segments.period},
                 {"step_count", segments.step_count},
                 {"first_step", segments.first_step},
                 {"last_step", segments.last_step}};
    AddAdvice(json, AdviceFor(report_, cache));
    return json;
  }

  static Json Pool(const PoolUse& pool) {
    Json json = {{"device", pool.device},
                 {"utilisation", pool.utilisation},
                 {"peak_active_bytes", pool.peak_active_bytes},
                 {"peak_active_exact", pool.peak_active_exact},
                 {"peak_reserved_bytes", pool.peak_reserved_bytes},
                 {"reserved_bytes", pool.reserved_bytes},
                 {"requested_bytes", pool.requested_bytes},
                 {"used_bytes", pool.used_bytes},
                 {"rounding_bytes", pool.rounding_bytes()},
                 {"quarantined_bytes", pool.quarantined_bytes},
                 {"idle_bytes", pool.idle_bytes()},
                 {"idle_whole_bytes", pool.idle_whole_bytes},
                 {"idle_pinned_bytes", pool.idle_pinned_bytes},
                 {"largest_idle", pool.largest_idle},
                 {"largest_hole", pool.largest_hole},
                 {"idle_exact", pool.idle_exact()},
                 {"fragmentation", pool.fragmentation()},
                 {"blocks", pool.blocks}};
    AddAdvice(json, AdviceFor(pool));
    json["segments"] = Json::array();
    for (const SegmentUse& segment : pool.map) {
      json["segments"].push_back({{"address", segment.address},
                                  {"bytes", segment.bytes},
                                  {"used_bytes", segment.used_bytes},
                                  {"largest_idle", segment.largest_idle},
                                  {"blocks", segment.blocks}});
    }
    return json;
  }

  Json FailureOf(const Failure& failure) const {
    Json json = {{"scope", ScopeOf(failure.scope)},
                 {"line", LineOf(failure.line)},
                 {"result", failure.result},
                 {"count", failure.count},
                 {"largest_request", failure.largest_request},
                 {"first_ns", failure.first_ns},
                 {"first_step", failure.first_step},
                 {"request", failure.figures.request},
                 {"verdict", Word(kOomVerdicts, failure.verdict)}};
    if (failure.result == kOutOfMemoryResult && !failure.scope.host) {
      json["total"] = failure.figures.total;
      json["live"] = failure.figures.live;
      json["idle"] = failure.figures.idle;
      json["rounding"] = failure.figures.rounding;
      json["free"] = failure.free_known ? Json(failure.figures.free) : Json();
      json["outside"] = failure.free_known ? Json(failure.figures.outside()) : Json();
    }
    json["outcome"] = Word(kFailureOutcomes, failure.outcome);
    AddOomContext(json, report_, failure.context);
    AddAdvice(json, AdviceFor(report_, failure));
    json["stack"] = StackOf(failure.stack);
    return json;
  }

  const Report& report_;
  const Snapshot& snapshot_;
};

}  // namespace

std::string RenderJson(const Report& report) {
  // Names come from the program and need not be UTF-8.
  return PrintableJson(Writer(report).Write().dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace cuheap::analysis
