#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "analysis/printable.h"
#include "analysis/ranks/rank_rendering.h"
#include "analysis/ranks/rank_words.h"
#include "analysis/reports/line_json.h"

namespace cuheap::analysis {
namespace {

using Json = nlohmann::ordered_json;

// The words of this format: they never change their meaning.
constexpr std::array<std::string_view, 6> kVerdicts = {"out_of_memory", "leaks",        "growing",
                                                       "no_leaks",      "nothing_seen", "incomplete"};
constexpr std::array<std::string_view, 3> kSources = {"none", "launcher", "file_name"};
constexpr std::array<std::string_view, kRankTraits> kTraits = {"device", "command", "end", "world_size", "run"};

template <std::size_t kCount, typename Enum>
std::string_view Word(const std::array<std::string_view, kCount>& words, Enum value) {
  return words.at(static_cast<std::size_t>(value));
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

class Writer {
 public:
  explicit Writer(const RankReport& report) : report_(report) {
    std::vector<bool> used(report.lines.size(), false);
    for (const RankSummary& rank : report.ranks) {
      for (const RankLine& line : rank.peak_lines) used[line.line] = used[line.caller] = true;
    }
    for (std::uint32_t i = 0; i < used.size(); ++i) {
      if (used[i]) table_.push_back(i);
    }
    std::sort(table_.begin(), table_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return report.lines.Before(a, b); });
    in_table_.resize(used.size());
    for (std::size_t i = 0; i < table_.size(); ++i) in_table_[table_[i]] = i;
  }

  Json Write() const {
    Json json;
    json["cuheap_ranks"] = kRankReportVersion;
    json["verdict"] = Word(kVerdicts, report_.verdict);
    json["ranks_known"] = report_.ranks_known;
    json["world_size"] = report_.world_size == 0 ? Json() : Json(report_.world_size);
    json["missing"] = Json::array();
    for (const RankRange& range : report_.missing) json["missing"].push_back({range.first, range.last});
    json["begin_realtime_ns"] = report_.begin_ns;
    json["end_realtime_ns"] = report_.end_ns;
    json["leaked_bytes"] = report_.leaked_bytes();
    json["mains"] = report_.mains;
    json["figures"] = Json::array();
    for (const FigureSpread& figure : report_.figures) {
      Json entry = SpreadOf(figure.spread);
      entry["figure"] = FigureWord(figure.figure);
      json["figures"].push_back(std::move(entry));
    }
    json["imbalance"] = ImbalanceOf();
    json["leaks"] = Json::array();
    for (const RankLeakLine& leak : report_.leaks) json["leaks"].push_back(Leak(leak));
    json["refused"] = report_.refused;
    json["differences"] = Json::array();
    for (const TraitDifference& difference : report_.differences) json["differences"].push_back(Difference(difference));
    json["shared_devices"] = Json::array();
    for (const DeviceUse& use : report_.devices) json["shared_devices"].push_back(Shared(use));
    json["lines"] = Json::array();
    for (const std::uint32_t line : table_) json["lines"].push_back(LineOf(line));
    json["ranks"] = Json::array();
    for (const RankSummary& rank : report_.ranks) json["ranks"].push_back(Rank(rank));
    json["unread"] = Json::array();
    for (const UnreadFile& file : report_.unread)
      json["unread"].push_back({{"file", file.path}, {"rank", OrNull(file.rank)}, {"error", file.error}});
    json["left_out"] = report_.not_snapshots;
    return json;
  }

 private:
  static Json SpreadOf(const Spread& spread) {
    Json json = {{"count", spread.count},
                 {"least", spread.least},
                 {"most", spread.most},
                 {"most_rank", spread.most_rank},
                 {"mean", spread.mean},
                 {"median", spread.median},
                 {"median_rank", spread.median_rank},
                 {"deviation", spread.deviation},
                 {"imbalance", spread.imbalance()},
                 {"outliers", Json::array()}};
    for (const RankValue& outlier : spread.outliers)
      json["outliers"].push_back({{"rank", outlier.rank}, {"value", outlier.value}});
    return json;
  }

  Json LineOf(std::uint32_t index) const { return LineJson(report_.lines.line(index)); }

  Json ImbalanceOf() const {
    const Imbalance& imbalance = report_.imbalance;
    Json json = {{"of", imbalance.of_tensors ? "tensor_peak_bytes" : "peak_bytes"},
                 {"largest", imbalance.spread.count == 0 ? Json() : Json(imbalance.spread.most_rank)},
                 {"median", imbalance.spread.count == 0 ? Json() : Json(imbalance.spread.median_rank)},
                 {"factor", imbalance.spread.imbalance()},
                 {"lines", Json::array()}};
    for (const ImbalanceLine& line : imbalance.lines) {
      Json& entry = json["lines"].emplace_back(Json{{"line", LineOf(line.line)}});
      if (line.caller != 0) entry["caller"] = LineOf(line.caller);
      entry["largest_bytes"] = line.largest;
      entry["median_bytes"] = line.median;
    }
    return json;
  }

  Json Leak(const RankLeakLine& leak) const {
    Json json = {{"line", LineOf(leak.line)}};
    if (leak.caller != 0) json["caller"] = LineOf(leak.caller);
    json["host_memory"] = leak.host;
    json["ranks"] = leak.ranks;
    json["everywhere"] = leak.ranks.size() == report_.ranks.size();
    json["blocks"] = leak.blocks;
    json["bytes"] = leak.bytes;
    json["most_rank"] = leak.most_rank;
    json["most_bytes"] = leak.most_bytes;
    json["least_bytes_per_step"] = leak.least_per_step;
    json["most_bytes_per_step"] = leak.most_per_step;
    return json;
  }

  static Json Difference(const TraitDifference& difference) {
    Json json = {{"trait", Word(kTraits, difference.trait)}, {"values", Json::array()}};
    for (const TraitValue& value : difference.values)
      json["values"].push_back({{"value", value.value}, {"ranks", value.ranks}});
    return json;
  }

  Json Shared(const DeviceUse& use) const {
    Json json = {{"uuid", use.uuid},
                 {"name", use.name},
                 {"host", use.host},
                 {"ordinal", use.ordinal},
                 {"capacity_bytes", use.capacity_bytes},
                 {"together_bytes", use.together_bytes},
                 {"together_realtime_ns", use.together_realtime_ns},
                 {"users", Json::array()}};
    for (const DeviceUser& user : use.users) json["users"].push_back({{"rank", user.rank}, {"bytes", user.bytes}});
    return json;
  }

  Json Rank(const RankSummary& rank) const {
    Json json = {{"file", rank.path},
                 {"rank", OrNull(rank.identity.rank)},
                 {"rank_source", Word(kSources, rank.identity.source)},
                 {"local_rank", OrNull(rank.identity.local_rank)},
                 {"world_size", OrNull(rank.identity.world_size)},
                 {"pid", rank.pid},
                 {"host", rank.host},
                 {"executable", rank.executable},
                 {"command", rank.command},
                 {"run", rank.run},
                 {"recorder", rank.recorder},
                 {"simulated", rank.simulated},
                 {"start_realtime_ns", rank.start_realtime_ns},
                 {"duration_ns", rank.duration_ns},
                 {"end", rank.end}};
    if (rank.exit_status) json["exit_status"] = *rank.exit_status;
    if (rank.exit_signal) json["exit_signal"] = *rank.exit_signal;
    json["verdict"] = Word(kVerdicts, rank.verdict);
    json["complete"] = rank.complete;
    json["unseen"] = rank.unseen;
    json["steps"] = rank.steps;
    json["leak_count"] = rank.leak_count;
    json["leaked_bytes"] = rank.leaked_bytes;
    if (rank.refusal) json["refusal"] = Refusal(rank);
    json["main_device"] = rank.has_device() ? Json(rank.device().ordinal) : Json();
    json["devices"] = Json::array();
    for (const RankDevice& device : rank.devices) json["devices"].push_back(DeviceOf(device));
    json["lines_of_tensors"] = rank.lines_of_tensors;
    Json& by_line = json["peak_by_line"] = {
        {"line", Json::array()}, {"caller", Json::array()}, {"bytes", Json::array()}, {"blocks", Json::array()}};
    for (const RankLine& line : rank.peak_lines) {
      by_line["line"].push_back(in_table_[line.line]);
      by_line["caller"].push_back(line.caller == 0 ? Json() : Json(in_table_[line.caller]));
      by_line["bytes"].push_back(line.bytes);
      by_line["blocks"].push_back(line.blocks);
    }
    json["peak_lines_bytes"] = rank.peak_lines_bytes;
    return json;
  }

  Json Refusal(const RankSummary& rank) const {
    Json json = {{"count", rank.refusals},
                 {"time_ns", rank.refusal->time_ns},
                 {"device", rank.refusal->device == kUnknownDevice ? Json() : Json(rank.refusal->device)},
                 {"request", rank.refusal->request},
                 {"by_framework", rank.refusal->by_framework},
                 {"line", LineOf(rank.refusal->line)}};
    if (rank.refusal->caller != 0) json["caller"] = LineOf(rank.refusal->caller);
    return json;
  }

  static Json DeviceOf(const RankDevice& device) {
    Json json = {{"ordinal", device.ordinal == kUnknownDevice ? Json() : Json(device.ordinal)},
                 {"name", device.name},
                 {"uuid", device.uuid},
                 {"capacity_bytes", device.capacity_bytes},
                 {"peak_bytes", device.peak_bytes},
                 {"peak_ns", device.peak_ns},
                 {"live_bytes", device.live_bytes},
                 {"tensors_seen", device.tensors_seen},
                 {"tensor_peak_bytes", device.tensor_peak_bytes},
                 {"tensor_live_bytes", device.tensor_live_bytes},
                 {"pool_peak_bytes", device.pool_peak_bytes},
                 {"cache_peak_bytes", device.cache_peak_bytes},
                 {"idle_beside_live_bytes", device.idle_beside_live_bytes},
                 {"curve", {{"time_ns", Json::array()}, {"bytes", Json::array()}}}};
    for (const CurvePoint& point : device.curve) {
      json["curve"]["time_ns"].push_back(point.time_ns);
      json["curve"]["bytes"].push_back(point.bytes);
    }
    return json;
  }

  const RankReport& report_;
  // The lines of peaks, which all ranks have: written once, in an order that no file's place changes.
  std::vector<std::uint32_t> table_;
  std::vector<std::size_t> in_table_;
};

}  // namespace

std::string RenderRanksJson(const RankReport& report) {
  return PrintableJson(Writer(report).Write().dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace cuheap::analysis
