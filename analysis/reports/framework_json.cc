#include "analysis/reports/framework_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace cuheap::analysis {
namespace {

using Json = nlohmann::ordered_json;

std::string LineText(const Report& report, std::uint32_t stack) {
  return Describe(report.lines.line(report.lines.OfStack(stack)));
}

Json SegmentJson(const Report& report, const CacheSegment& segment) {
  Json json = {{"address", segment.address},       {"bytes", segment.bytes},
               {"used_bytes", segment.used},       {"largest_idle", segment.largest_idle},
               {"expandable", segment.expandable}, {"small", segment.small},
               {"blocks", Json::array()}};
  for (const CacheBlock& block : segment.blocks) {
    Json entry = {{"address", block.address}, {"bytes", block.bytes}, {"idle", block.idle()}};
    if (!block.idle()) {
      entry["id"] = block.tensor;
      entry["line"] = LineText(report, block.stack);
    }
    json["blocks"].push_back(std::move(entry));
  }
  return json;
}

Json StateJson(const Report& report, const CacheState& state) {
  Json json = {{"time_ns", state.time_ns},
               {"step", report.steps.StepOf(state.time_ns)},
               {"reserved_bytes", state.reserved},
               {"used_bytes", state.used},
               {"idle_bytes", state.idle()},
               {"idle_whole_bytes", state.idle_whole},
               {"idle_pinned_bytes", state.idle_pinned()},
               {"largest_idle", state.largest_idle},
               {"tensors", state.tensors},
               {"outside_bytes", state.outside},
               {"idle_unusable", Json::array()},
               {"segments", Json::array()}};
  for (std::uint64_t request = std::uint64_t{1} << 20; request <= std::uint64_t{4} << 30; request *= 4) {
    json["idle_unusable"].push_back({{"request", request}, {"bytes", state.IdleUnusable(request)}});
  }
  for (const CacheSegment& segment : state.segments) json["segments"].push_back(SegmentJson(report, segment));
  return json;
}

Json SharesJson(const Report& report, const std::vector<CacheShare>& shares) {
  Json json = Json::array();
  for (const CacheShare& share : shares) {
    json.push_back({{"line", Describe(report.lines.line(share.line))},
                    {"tensors", share.tensors},
                    {"bytes", share.bytes},
                    {"idle_bytes", share.idle}});
  }
  return json;
}

Json RefusalJson(const Report& report, const FrameworkRefusal& refusal) {
  Json json = {{"time_ns", refusal.time_ns},
               {"step", report.steps.StepOf(refusal.time_ns)},
               {"line", LineText(report, refusal.stack)},
               {"request", refusal.request},
               {"told_tensor_bytes", refusal.told_tensors},
               {"told_reserved_bytes", refusal.told_reserved},
               {"tensors", refusal.tensors},
               {"idle_bytes", refusal.idle},
               {"idle_unusable_bytes", refusal.unusable},
               {"largest_idle", refusal.largest_idle},
               {"by_line", SharesJson(report, refusal.lines)}};
  AddOomContext(json, report, refusal.context);
  return json;
}

}  // namespace

void AddOomContext(Json& json, const Report& report, const OomContext& context) {
  constexpr std::array<std::string_view, 6> kCauses = {"none",      "leaks",      "weights",
                                                       "optimizer", "first_step", "last_step"};
  constexpr std::array<std::string_view, kTensorRoles> kRoles = {"weights", "gradients", "optimizer_state",
                                                                 "activations", "other"};
  json["cause"] = kCauses[static_cast<std::size_t>(context.cause)];
  if (context.all() == 0) return;
  for (std::size_t role = 0; role < kTensorRoles; ++role) json["by_role"][kRoles[role]] = context.bytes[role];
  if (context.cause != OomCause::kFirstStep && context.cause != OomCause::kLastStep) return;
  json["step_bytes"] = context.step_bytes;
  json["finished_step_bytes"] = context.finished_bytes;
  if (context.cause == OomCause::kFirstStep) json["a_step_was_done"] = context.step_done;
  json["step_line"] = Describe(report.lines.line(context.line));
  json["step_line_bytes"] = context.line_bytes;
}

Json FrameworkCacheJson(const Report& report, const FrameworkCache& cache) {
  Json json = {{"framework", "pytorch"},
               {"device", cache.device == kUnknownDevice ? Json() : Json(cache.device)},
               {"tensors_seen", cache.tensors_seen},
               {"allocations", cache.allocations},
               {"frees", cache.frees},
               {"tensor_peak_bytes", cache.tensor_peak_bytes},
               {"tensor_peak_ns", cache.tensor_peak_ns},
               {"tensor_peak_exact", cache.peak_exact},
               {"reserved_peak_bytes", cache.reserved_peak_bytes},
               {"reserved_peak_ns", cache.reserved_peak_ns},
               {"at_peak", StateJson(report, cache.at_peak)},
               {"at_last", StateJson(report, cache.at_last)},
               {"at_end", StateJson(report, cache.at_end)},
               {"pins", SharesJson(report, cache.pins)},
               {"refusal_count", cache.refusal_count},
               {"refusals", Json::array()}};
  for (const FrameworkRefusal& refusal : cache.refusals) json["refusals"].push_back(RefusalJson(report, refusal));
  json["curve"] = {{"time_ns", Json::array()}, {"tensor_bytes", Json::array()}, {"reserved_bytes", Json::array()}};
  for (const CachePoint& point : cache.curve) {
    json["curve"]["time_ns"].push_back(point.time_ns);
    json["curve"]["tensor_bytes"].push_back(point.tensors);
    json["curve"]["reserved_bytes"].push_back(point.reserved);
  }
  return json;
}

}  // namespace cuheap::analysis
