#include "analysis/reports/remedy_json.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "analysis/reports/remedy_words.h"

namespace cuheap::analysis {
namespace {

using Json = nlohmann::ordered_json;

std::string_view Word(Confidence confidence) {
  switch (confidence) {
    case Confidence::kLow:
      return "low";
    case Confidence::kMedium:
      return "medium";
    case Confidence::kHigh:
      break;
  }
  return "high";
}

Json PlaceJson(const PeakPlace& place) {
  Json json = {{"bytes", place.bytes},
               {"time_ns", place.time_ns},
               {"step", place.step},
               {"phase", Word(place.phase)},
               {"by_category", Json::object()}};
  for (std::size_t category = 0; category < kCategories; ++category)
    json["by_category"][Word(static_cast<Category>(category))] = place.by_category[category];
  return json;
}

Json RemedyJson(const Report& report, const Remedy& remedy) {
  Json json = {{"kind", Word(remedy.kind)},      {"title", TitleOf(report, remedy)},
               {"terms", TermsOf(remedy)},       {"confidence", Word(remedy.confidence)},
               {"saved_bytes", remedy.saved},    {"saved_at_old_peak_bytes", remedy.saved_at_old_peak},
               {"peak", PlaceJson(remedy.after)}};
  if (remedy.count != 0) json["count"] = remedy.count;
  if (remedy.added != 0) json["added_bytes"] = remedy.added;
  if (remedy.example) json["example"] = true;
  if (remedy.kind == RemedyKind::kCheckpointing) {
    const Snapshot& snapshot = *report.snapshot;
    const Frame& frame = snapshot.frames[remedy.target_frame];
    json["forward"] = remedy.target;
    json["called_at"] = {{"file", snapshot.strings[frame.file]}, {"line", frame.line}};
  }
  json["lines"] = Json::array();
  for (const LineBytes& line : remedy.lines)
    json["lines"].push_back(
        {{"line", Describe(report.lines.line(line.line))}, {"bytes", line.bytes}, {"blocks", line.blocks}});
  return json;
}

}  // namespace

Json RemediesJson(const Report& report, const Remedies& remedies) {
  Json json = {{"device", remedies.scope.device}, {"peak", PlaceJson(remedies.peak)}, {"remedies", Json::array()}};
  for (const Remedy& remedy : remedies.entries) json["remedies"].push_back(RemedyJson(report, remedy));
  return json;
}

}  // namespace cuheap::analysis
