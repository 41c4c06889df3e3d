#include "analysis/reports/fragmentation_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "analysis/reports/fragmentation_text.h"

namespace cuheap::analysis {
namespace {

using Json = nlohmann::ordered_json;

// The words of this format: they never change their meaning.
constexpr std::array<std::string_view, kIdleCauses> kCauses = {"rounding", "whole_segments", "other_part",
                                                               "beside_blocks"};
constexpr std::array<std::string_view, 4> kMoments = {"refusal", "growth", "last_tensor", "end"};
constexpr std::array<std::string_view, 3> kParts = {"any", "small", "size_class"};

std::string LineText(const Report& report, std::uint32_t line) { return Describe(report.lines.line(line)); }

Json CausesJson(const Report& report, const FragmentationState& state) {
  Json json = Json::object();
  for (std::size_t cause = 0; cause < kIdleCauses; ++cause) {
    const CauseShare& share = state.causes[cause];
    Json entry = {{"bytes", share.bytes}, {"segments", share.segments}, {"lines", Json::array()}};
    for (const CauseLine& line : share.lines)
      entry["lines"].push_back({{"line", LineText(report, line.line)}, {"bytes", line.bytes}});
    json[std::string(kCauses[cause])] = std::move(entry);
  }
  return json;
}

Json SegmentsJson(const Report& report, const FragmentationState& state) {
  Json json = Json::array();
  for (std::size_t i = 0; i < state.map.segments.size(); ++i) {
    const MapSegment& segment = state.map.segments[i];
    Json entry = {{"address", segment.address},
                  {"bytes", segment.bytes},
                  {"requested_bytes", segment.requested()},
                  {"largest_idle", segment.largest_idle()},
                  {"part", kParts[static_cast<std::size_t>(segment.part)]},
                  {"line", LineText(report, state.segments[i].line)},
                  {"causes", Json::object()},
                  {"blocks", Json::array()}};
    if (segment.stream != 0) entry["stream"] = segment.stream;
    for (std::size_t cause = 0; cause < kIdleCauses; ++cause) {
      if (state.segments[i].bytes[cause] != 0)
        entry["causes"][std::string(kCauses[cause])] = state.segments[i].bytes[cause];
    }
    for (const MapBlock& block : segment.blocks) {
      entry["blocks"].push_back({{"address", block.address},
                                 {"bytes", block.bytes},
                                 {"requested_bytes", block.requested},
                                 {"line", LineText(report, report.lines.OfStack(block.stack))}});
    }
    json.push_back(std::move(entry));
  }
  return json;
}

Json StateJson(const Report& report, const FragmentationState& state) {
  Json json = {{"moment", kMoments[static_cast<std::size_t>(state.moment)]},
               {"time_ns", state.time_ns},
               {"step", report.steps.StepOf(state.time_ns)},
               {"request", state.request == 0 ? Json() : Json(state.request)},
               {"reserved_bytes", state.reserved},
               {"requested_bytes", state.requested},
               {"largest_idle", state.largest_idle},
               {"causes", CausesJson(report, state)},
               {"in_pages_bytes", state.in_pages}};
  if (state.cut_up.bytes != 0) {
    json["cut_up"] = {{"bytes", state.cut_up.bytes},
                      {"segments", state.cut_up.segments},
                      {"block_bytes", state.cut_up.block},
                      {"line", LineText(report, state.cut_up.line)},
                      {"largest_piece", state.cut_up.largest_piece}};
  }
  return json;
}

}  // namespace

Json FragmentationJson(const Report& report, const Fragmentation& fragmentation) {
  Json json = {{"owner", fragmentation.owner == MapOwner::kPyTorch ? "pytorch" : "pool"},
               {"device", fragmentation.device == kUnknownDevice ? Json() : Json(fragmentation.device)},
               {"matters", fragmentation.matters()},
               {"verdict", FragmentationVerdict(fragmentation)}};
  if (const std::string advice = AdviceFor(report, fragmentation); fragmentation.matters() && !advice.empty())
    json["advice"] = advice;
  json["moments"] = Json::array();
  for (const FragmentationState& state : fragmentation.states) json["moments"].push_back(StateJson(report, state));
  json["map"] = {{"moment", kMoments[static_cast<std::size_t>(fragmentation.main().moment)]},
                 {"segments", SegmentsJson(report, fragmentation.main())}};
  return json;
}

}  // namespace cuheap::analysis
