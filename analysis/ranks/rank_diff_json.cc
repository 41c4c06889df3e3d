#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "analysis/printable.h"
#include "analysis/ranks/rank_diff.h"
#include "analysis/ranks/rank_words.h"
#include "analysis/reports/line_json.h"

namespace cuheap::analysis {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kChanges = {"new", "grew", "shrank", "gone", "alike"};

Json Pair(const BeforeAfter& value) { return {{"before", value.before}, {"after", value.after}}; }

Json LineOf(const RankReport& report, std::uint32_t index) {
  return index == kNoLine ? Json() : LineJson(report.lines.line(index));
}

void AddLines(Json& json, const RankDiff& diff, const RankLinePair& pair) {
  json["line"] = {{"before", LineOf(*diff.before, pair.before)}, {"after", LineOf(*diff.after, pair.after)}};
  if (pair.caller_before == 0 && pair.caller_after == 0) return;
  json["caller"] = {{"before", pair.caller_before == 0 ? Json() : LineOf(*diff.before, pair.caller_before)},
                    {"after", pair.caller_after == 0 ? Json() : LineOf(*diff.after, pair.caller_after)}};
}

}  // namespace

std::string RenderRankDiffJson(const RankDiff& diff) {
  Json json;
  json["cuheap_ranks_diff"] = kRankDiffVersion;
  json["different"] = diff.different();
  json["ranks"] = Pair(diff.ranks);
  json["refused"] = Pair(diff.refused);
  json["leaked_bytes"] = Pair(diff.leaked_bytes);
  json["figures"] = Json::array();
  for (const RankFigureDiff& figure : diff.figures) {
    json["figures"].push_back(
        {{"figure", FigureWord(figure.figure)}, {"most", Pair(figure.most)}, {"median", Pair(figure.median)}});
  }
  json["leaks"] = Json::array();
  for (const RankLeakDiff& leak : diff.leaks) {
    Json entry = {{"change", kChanges.at(static_cast<std::size_t>(leak.change))}};
    AddLines(entry, diff, leak.line);
    entry["bytes"] = Pair(leak.bytes);
    entry["ranks"] = Pair(leak.ranks);
    entry["most_bytes_per_step"] = {{"before", leak.rate_before}, {"after", leak.rate_after}};
    json["leaks"].push_back(std::move(entry));
  }
  json["of"] = diff.of_tensors ? "tensor_peak_bytes" : "peak_bytes";
  json["lines_comparable"] = diff.lines_comparable;
  json["lines"] = Json::array();
  for (const RankLineDiff& line : diff.lines) {
    Json entry;
    AddLines(entry, diff, line.line);
    entry["sum_bytes"] = Pair(line.sum);
    entry["most_bytes"] = Pair(line.most);
    entry["ranks"] = Pair(line.ranks);
    json["lines"].push_back(std::move(entry));
  }
  json["small_lines"] = diff.small_lines;
  return PrintableJson(json.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace cuheap::analysis
