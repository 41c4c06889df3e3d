#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "analysis/printable.h"
#include "analysis/reports/diff_text.h"
#include "analysis/reports/diff_words.h"
#include "analysis/snapshot_names.h"

namespace cuheap::analysis {
namespace {

using Json = nlohmann::ordered_json;

class Writer {
 public:
  explicit Writer(const DiffDocument& document) : document_(document), diff_(*document.diff) {}

  Json Write() const {
    Json json;
    json["cuheap_diff"] = kDiffVersion;
    json["different"] = diff_.different();
    json["changes"] = diff_.changes;
    json["small_changes"] = diff_.small_changes;
    json["threshold"] = {
        {"bytes", diff_.threshold.bytes}, {"count", diff_.threshold.count}, {"share", diff_.threshold.share}};
    json["before"] = Run(*diff_.before, document_.name_before);
    json["after"] = Run(*diff_.after, document_.name_after);
    json["settings"] = Json::array();
    for (const Setting& setting : diff_.settings)
      json["settings"].push_back({{"name", setting.name}, {"before", setting.before}, {"after", setting.after}});
    json["steps"] = Pair(diff_.steps);
    json["leak_count"] = Pair(diff_.leak_count);
    json["leaked_bytes"] = Pair(diff_.leaked_bytes);
    json["refusals"] = Pair(diff_.refusals);
    json["leaks"] = Json::array();
    for (const LeakDiff& leak : diff_.leaks) json["leaks"].push_back(Leak(leak));
    json["memory"] = Json::array();
    for (const ScopeDiff& scope : diff_.scopes) json["memory"].push_back(Memory(scope));
    json["kinds"] = Json::array();
    for (const KindDiff& kind : diff_.kinds) {
      json["kinds"].push_back({{"kind", ToString(kind.kind)},
                               {"peak_bytes", Pair(kind.peak_bytes)},
                               {"live_bytes", Pair(kind.live_bytes)},
                               {"blocks", Pair(kind.blocks)}});
    }
    json["held"] = Json::array();
    for (const HeldDiff& held : diff_.held) json["held"].push_back(Held(held));
    json["limits"] = Json::array();
    for (const Limit& limit : diff_.limits) json["limits"].push_back({{"code", limit.code}, {"text", limit.text}});
    json["fail_on"] = Json::array();
    for (const Judgement& judgement : document_.judgements) json["fail_on"].push_back(Condition(judgement));
    return json;
  }

 private:
  static Json Pair(const BeforeAfter& value) { return {{"before", value.before}, {"after", value.after}}; }

  static Json Run(const Report& report, const std::string& name) {
    const Snapshot& snapshot = *report.snapshot;
    return {{"file", name},
            {"recorder", snapshot.recorder},
            {"pid", snapshot.process.pid},
            {"host", snapshot.process.host},
            {"command_line", snapshot.process.command_line},
            {"simulated", snapshot.simulated},
            {"events_complete", snapshot.completeness.events_complete()}};
  }

  static Json ScopeOf(const Scope& scope) {
    if (scope.host) return {{"kind", "host"}};
    return {{"kind", scope.tensors ? "tensors" : "device"},
            {"device", scope.device == kUnknownDevice ? Json() : Json(scope.device)}};
  }

  static Json Line(const LineTable& lines, std::uint32_t index) {
    if (index == kNoLine) return {};
    const CodeLine& line = lines.line(index);
    return {{"text", Describe(line)},
            {"function", line.function},
            {"file", line.file},
            {"line", line.line},
            {"module", line.module}};
  }

  Json Lines(const LinePair& lines) const {
    return {{"match", MatchWord(lines.match())},
            {"before", Line(diff_.before->lines, lines.before)},
            {"after", Line(diff_.after->lines, lines.after)}};
  }

  static Json Kinds(const std::set<AllocationKind>& kinds) {
    Json json = Json::array();
    for (const AllocationKind kind : kinds) json.push_back(ToString(kind));
    return json;
  }

  Json Leak(const LeakDiff& leak) const {
    Json json = {{"change", LeakChangeWord(leak.change)}, {"scope", ScopeOf(leak.scope)}, {"cache", leak.cache}};
    if (!leak.cache) json["line"] = Lines(leak.lines);
    if (leak.callers != LinePair{}) json["caller"] = Lines(leak.callers);
    json["blocks"] = Pair(leak.blocks);
    json["bytes"] = Pair(leak.bytes);
    json["bytes_per_step"] = {{"before", leak.rate_before}, {"after", leak.rate_after}};
    return json;
  }

  Json Memory(const ScopeDiff& scope) const {
    Json json = {{"scope", ScopeOf(scope.scope)},        {"name_before", scope.name_before},
                 {"name_after", scope.name_after},       {"peak_bytes", Pair(scope.peak_bytes)},
                 {"live_bytes", Pair(scope.live_bytes)}, {"live_blocks", Pair(scope.live_blocks)},
                 {"peak_by_line", scope.peak_by_line},   {"counts", scope.counts}};
    json["allocations"] = scope.counts ? Pair(scope.allocations) : Json();
    json["allocated_bytes"] = scope.counts ? Pair(scope.allocated_bytes) : Json();
    json["peak_cache_bytes"] = Pair(scope.peak_cache);
    json["live_cache_bytes"] = Pair(scope.live_cache);
    json["lines"] = Json::array();
    for (const LineDiff& line : scope.lines) {
      Json entry = {{"line", Lines(line.lines)},
                    {"kinds_before", Kinds(line.kinds_before)},
                    {"kinds_after", Kinds(line.kinds_after)}};
      if (scope.peak_by_line) {
        entry["peak_bytes"] = Pair(line.peak_bytes);
        entry["peak_blocks"] = Pair(line.peak_blocks);
        AddCallers(entry, "peak_callers", line.peak_callers);
      }
      entry["live_bytes"] = Pair(line.live_bytes);
      entry["live_blocks"] = Pair(line.live_blocks);
      AddCallers(entry, "live_callers", line.live_callers);
      if (scope.counts) {
        entry["allocations"] = Pair(line.allocations);
        entry["allocated_bytes"] = Pair(line.allocated_bytes);
      }
      json["lines"].push_back(std::move(entry));
    }
    return json;
  }

  void AddCallers(Json& entry, const char* name, const std::map<LinePair, BeforeAfter>& callers) const {
    for (const auto& [lines, bytes] : callers) entry[name].push_back({{"line", Lines(lines)}, {"bytes", Pair(bytes)}});
  }

  static Json Held(const HeldDiff& held) {
    return {{"holder", held.framework ? "pytorch" : "pool"},
            {"device", held.device},
            {"peak_bytes", Pair(held.peak_bytes)},
            {"bytes", Pair(held.bytes)},
            {"pinned_bytes", Pair(held.pinned_bytes)},
            {"fragmentation", {{"before", held.fragmentation_before}, {"after", held.fragmentation_after}}}};
  }

  static Json Condition(const Judgement& judgement) {
    Json json = {{"condition", judgement.condition.text},
                 {"figure", FigureName(judgement.condition.figure)},
                 {"known", judgement.known},
                 {"met", judgement.met},
                 {"where", judgement.where},
                 {"text", judgement.text}};
    if (judgement.known) json["value"] = Pair(judgement.value);
    return json;
  }

  const DiffDocument& document_;
  const Diff& diff_;
};

}  // namespace

std::string RenderDiffJson(const DiffDocument& document) {
  return PrintableJson(Writer(document).Write().dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace cuheap::analysis
