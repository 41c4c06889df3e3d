#include "analysis/html/page_data.h"

#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/html/block_categories.h"
#include "analysis/html/line_rows.h"
#include "analysis/html/listed_blocks.h"
#include "analysis/html/memory_history.h"
#include "analysis/html/page_stacks.h"
#include "analysis/html/section_canvas.h"
#include "analysis/html/segment_map.h"
#include "analysis/printable.h"
#include "analysis/reports/finding_text.h"
#include "analysis/reports/kinds.h"
#include "analysis/reports/report_text.h"
#include "analysis/reports/verdict_text.h"
#include "analysis/snapshot_names.h"

namespace cuheap::analysis {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostCards = 100;
constexpr std::size_t kMostBoundaries = 2'000;  // of steps

std::string Hex(std::uint64_t number) {
  std::array<char, 20> text;
  std::snprintf(text.data(), text.size(), "%llx", static_cast<unsigned long long>(number));
  return text.data();
}

std::string_view Tone(TextColor color) {
  return color == TextColor::kGood ? "good" : color == TextColor::kBad ? "bad" : "warn";
}

std::string_view ClassName(LeakClass leak_class) {
  switch (leak_class) {
    case LeakClass::kLeak:
      return "leak";
    case LeakClass::kFreedAtEnd:
      return "freed only at the end";
    case LeakClass::kCache:
      return "PyTorch's cache";
    case LeakClass::kLibrary:
      return "kept by a library";
    case LeakClass::kContext:
      return "freed with its context";
    case LeakClass::kReplaced:
      return "held until replaced";
    case LeakClass::kHeld:
      break;
  }
  return "held";
}

// Times ascend, so that differences have fewer digits.
template <typename Number>
Json Differences(const std::vector<Number>& numbers) {
  Json column = Json::array();
  Number before = 0;
  for (const Number number : numbers) {
    column.push_back(number - before);
    before = number;
  }
  return column;
}

// Bytes repeat: each number once, and its index where it is meant.
class Numbers {
 public:
  std::uint32_t Of(std::uint64_t number) {
    const auto [entry, fresh] = index_.try_emplace(number, static_cast<std::uint32_t>(numbers_.size()));
    if (fresh) numbers_.push_back(number);
    return entry->second;
  }
  const std::vector<std::uint64_t>& all() const { return numbers_; }

 private:
  std::map<std::uint64_t, std::uint32_t> index_;
  std::vector<std::uint64_t> numbers_;
};

class Writer {
 public:
  Writer(const Report& report, SourceLines* source)
      : report_(report),
        snapshot_(*report.snapshot),
        source_(source),
        blocks_(report.blocks),
        categories_(CategoriesOf(report)),
        histories_(TellMemoryHistory(report, blocks_, categories_.of_block)),
        list_(ChooseBlocks(report, blocks_, histories_)),
        stacks_(report) {
    for (std::size_t row = 0; row < list_.blocks.size(); ++row)
      row_of_block_.emplace(list_.blocks[row].block, static_cast<std::uint32_t>(row));
  }

  Json Write() {
    Json json;
    json["title"] = Title();
    json["made_by"] = snapshot_.cuheap_version;
    const VerdictWords verdict = PutVerdict(report_);
    json["verdict"] = {{"word", verdict.word}, {"text", verdict.text}, {"tone", Tone(verdict.color)}};
    json["simulated"] = snapshot_.simulated;
    json["sections"] = Sections();
    json["findings"] = FindingColumns();
    json["categories"] = categories_.names;
    json["steps"] = StepsOf();
    json["places"] = Json::array();
    for (const MemoryHistory& history : histories_) json["places"].push_back(PlaceOf(history));
    json["line_rows"] = LineColumns();
    json["blocks"] = BlockColumns();
    json["maps"] = Json::array();
    for (const SegmentMap& map : DrawSegmentMaps(report_, blocks_, histories_)) json["maps"].push_back(MapOf(map));
    json["not_observed"] = Json::array();
    for (const NotObserved& entry : report_.not_observed)
      json["not_observed"].push_back({entry.kind <= ObservationKind::kUnseen ? 1 : 0, entry.text});
    json["counts"] = {{"events", snapshot_.events.size()},
                      {"blocks", list_.all},
                      {"stacks", snapshot_.stacks.size() - 1},
                      {"lost_events", snapshot_.completeness.events_overwritten}};
    stacks_.Write(json);
    return json;
  }

 private:
  std::string Title() const {
    const Process& process = snapshot_.process;
    if (process.command_line.empty()) {
      const std::string& program = process.executable;
      return program.empty() ? "memory snapshot of PyTorch" : program.substr(program.rfind('/') + 1);
    }
    std::string title;
    for (const std::string& argument : process.command_line) title += (title.empty() ? "" : " ") + argument;
    return title;
  }

  Json Sections() const {
    constexpr std::array<std::string_view, 9> kStyles = {"strong", "detail",    "advice", "dim", "line",
                                                         "field",  "paragraph", "item",   "gap"};
    TextOptions options;
    options.top = kMostCards;
    options.source = source_;
    SectionCanvas canvas(options);
    WriteText(report_, canvas);
    Json sections = Json::array();
    for (const ReportSection& section : canvas.sections()) {
      Json entries = Json::array();
      for (const SectionEntry& entry : section.entries) {
        Json row = {kStyles.at(static_cast<std::size_t>(entry.style)), entry.text};
        if (!entry.name.empty() || entry.warning) row.push_back(entry.warning ? "warning" : entry.name);
        entries.push_back(std::move(row));
      }
      sections.push_back({{"title", section.title}, {"text", section.text}, {"entries", std::move(entries)}});
    }
    return sections;
  }

  Json FindingColumns() {
    Json findings = Json::array();
    for (const LeakFinding& finding : report_.findings) {
      findings.push_back({{"class", ClassName(finding.leak_class)},
                          {"leak", finding.leak_class == LeakClass::kLeak},
                          {"line", stacks_.Line(finding.line)},
                          {"caller", finding.caller == 0 ? Json() : Json(stacks_.Line(finding.caller))},
                          {"scope", ScopeName(finding.scope)},
                          {"bytes", finding.bytes},
                          {"blocks", finding.blocks},
                          {"growth", GrowthPhrase(finding)},
                          {"confidence", ConfidenceWord(finding.confidence)}});
    }
    return findings;
  }

  // Every so many, if there are very many: for marks on the time axis. Instants carry their exact step.
  Json StepsOf() const {
    const std::vector<std::int64_t>& all = report_.steps.boundaries_ns;
    const std::size_t every = (all.size() + kMostBoundaries - 1) / kMostBoundaries;
    std::vector<std::int64_t> kept;
    for (std::size_t i = 0; i < all.size(); i += std::max<std::size_t>(1, every)) kept.push_back(all[i]);
    return {{"count", all.size()}, {"every", every}, {"boundaries", Differences(kept)}};
  }

  Json PlaceOf(const MemoryHistory& history) {
    Json json = {{"name", history.host ? "host memory" : NameOfDevice(history.device)},
                 {"host", history.host},
                 {"tensors", history.tensors},
                 {"capacity", 0}};
    for (const ScopeTotals& totals : report_.totals) {
      if (totals.scope.host != history.host || (!history.host && totals.scope.device != history.device)) continue;
      if (!totals.scope.tensors) {
        json["model"] = totals.name;
        json["capacity"] = totals.capacity_bytes;
      }
      json[totals.scope.tensors ? "tensor_peak" : "peak"] = {totals.peak_bytes, totals.peak_ns};
    }
    std::vector<std::uint32_t> steps;
    steps.reserve(history.time_ns.size());
    for (const std::int64_t time : history.time_ns) steps.push_back(report_.steps.StepOf(time));
    json["time"] = Differences(history.time_ns);
    json["step"] = steps;
    json["named"] = Json::array();
    for (const NamedInstant& named : history.named) json["named"].push_back({named.name, named.instant});
    json["groups"] = Json::array();
    Numbers numbers;
    for (std::size_t i = 0; i < history.groups.size(); ++i) {
      const MemoryGroup& group = history.groups[i];
      // Pairs of how many instants later, and which number of bytes.
      Json changes = Json::array();
      std::uint32_t before = 0;
      for (const GroupChange& change : history.changes[i]) {
        changes.push_back(change.instant - before);
        changes.push_back(numbers.Of(change.bytes));
        before = change.instant;
      }
      json["groups"].push_back({static_cast<int>(group.part),
                                group.part == GroupPart::kStack ? Json(stacks_.Stack(group.stack)) : Json(),
                                group.category, std::move(changes)});
    }
    json["numbers"] = numbers.all();
    return json;
  }

  static std::string NameOfDevice(std::uint32_t device) {
    return device == kUnknownDevice ? "unknown device" : "device " + std::to_string(device);
  }

  Json LineColumns() {
    const LineRows table = CountLines(report_, blocks_, histories_);
    Json rows = Json::array();
    for (const LineRow& row : table.rows) {
      rows.push_back({row.place, stacks_.Line(row.line), row.peak_bytes, row.peak_blocks, row.end_bytes, row.end_blocks,
                      row.allocations, row.allocated_bytes, row.frees, row.largest, row.leaked_bytes});
    }
    return {{"rows", std::move(rows)}, {"left_out", table.left_out}};
  }

  Json BlockColumns() {
    Json address = Json::array(), bytes = Json::array(), allocated = Json::array(), lifetime = Json::array(),
         stack = Json::array(), category = Json::array(), kind = Json::array(), place = Json::array(),
         thread = Json::array(), finding = Json::array(), stream = Json::array(), step = Json::array(),
         rule = Json::array();
    std::map<AllocationKind, std::uint32_t> kinds;
    Json kind_names = Json::array();
    std::map<std::uint64_t, std::uint32_t> streams;
    Json stream_names = Json::array();
    std::int64_t before = 0;
    for (const ListedBlock& listed : list_.blocks) {
      const Block& block = blocks_.program[listed.block];
      const bool known = block.allocated_ns != kBeforeWindow;
      address.push_back(Hex(block.address));
      bytes.push_back(block.bytes);
      allocated.push_back(known ? Json(block.allocated_ns - before) : Json());
      if (known) before = block.allocated_ns;
      const bool freed = block.freed_ns != kNotFreed;
      lifetime.push_back(!freed ? Json() : Json(block.freed_ns - (known ? block.allocated_ns : 0)));
      stack.push_back(stacks_.Stack(block.stack));
      category.push_back(categories_.of_block[listed.block]);
      rule.push_back(categories_.rule_of_block[listed.block]);
      const auto [kind_entry, new_kind] = kinds.try_emplace(block.kind, static_cast<std::uint32_t>(kinds.size()));
      if (new_kind) kind_names.push_back(ToString(block.kind));
      kind.push_back(kind_entry->second);
      const auto [stream_entry, new_stream] =
          streams.try_emplace(block.stream, static_cast<std::uint32_t>(streams.size()));
      if (new_stream) stream_names.push_back(Hex(block.stream));
      stream.push_back(stream_entry->second);
      place.push_back(PlaceIndex(block));
      thread.push_back(block.thread);
      finding.push_back(listed.finding == kNoFinding ? Json() : Json(listed.finding));
      step.push_back(known ? report_.steps.StepOf(block.allocated_ns) : 0);
    }
    Json threads = {"not known"};
    for (const ThreadInfo& info : snapshot_.threads) {
      std::string name = std::to_string(info.tid);
      if (!info.name.empty()) name.append(" ").append(Printable(info.name));
      threads.push_back(std::move(name));
    }
    Json json = {{"all", list_.all}};
    json["address"] = std::move(address);
    json["bytes"] = std::move(bytes);
    json["allocated"] = std::move(allocated);
    json["lifetime"] = std::move(lifetime);
    json["stack"] = std::move(stack);
    json["category"] = std::move(category);
    json["rule"] = std::move(rule);
    json["kind"] = std::move(kind);
    json["stream"] = std::move(stream);
    json["place"] = std::move(place);
    json["thread"] = std::move(thread);
    json["finding"] = std::move(finding);
    json["step"] = std::move(step);
    json["kind_names"] = std::move(kind_names);
    json["stream_names"] = std::move(stream_names);
    json["thread_names"] = std::move(threads);
    json["rule_names"] = categories_.rules;
    return json;
  }

  int PlaceIndex(const Block& block) const {
    for (std::size_t i = 0; i < histories_.size(); ++i) {
      if (histories_[i].host == Blocks::OnHost(block.kind) &&
          (histories_[i].host || histories_[i].device == block.device))
        return static_cast<int>(i);
    }
    return -1;  // of somebody else
  }

  Json MapOf(const SegmentMap& map) {
    Json segments = Json::array();
    for (const MappedSegment& segment : map.segments) {
      // Five numbers a part: bytes; what it is (-1 idle, -2 several, else the stack); category; row in the list of
      // blocks, or -1; bytes in use of several.
      Json parts = Json::array();
      for (const MappedPart& part : segment.parts) {
        parts.push_back(part.bytes);
        const bool single = part.block != MappedPart::kIdle && part.block != MappedPart::kSeveral;
        if (single) {
          const auto row = row_of_block_.find(part.block);
          parts.push_back(stacks_.Stack(blocks_.program[part.block].stack));
          parts.push_back(categories_.of_block[part.block]);
          parts.push_back(row == row_of_block_.end() ? -1 : static_cast<int>(row->second));
          parts.push_back(0);
        } else {
          parts.push_back(part.block == MappedPart::kIdle ? -1 : -2);
          parts.push_back(part.blocks);
          parts.push_back(-1);
          parts.push_back(part.used);
        }
      }
      segments.push_back({static_cast<int>(segment.owner), Hex(segment.address), segment.bytes, segment.used,
                          segment.blocks, std::move(parts)});
    }
    return {{"place", PlaceOfDevice(map.device)},
            {"moment", map.moment},
            {"time", map.time_ns},
            {"segments", std::move(segments)},
            {"left_out", {map.left_out_blocks, map.left_out_bytes}}};
  }

  int PlaceOfDevice(std::uint32_t device) const {
    for (std::size_t i = 0; i < histories_.size(); ++i) {
      if (!histories_[i].host && histories_[i].device == device) return static_cast<int>(i);
    }
    return -1;
  }

  const Report& report_;
  const Snapshot& snapshot_;
  SourceLines* source_;
  const Blocks& blocks_;
  BlockCategories categories_;
  std::vector<MemoryHistory> histories_;
  BlockList list_;
  PageStacks stacks_;
  std::map<std::uint32_t, std::uint32_t> row_of_block_;
};

}  // namespace

std::string PageData(const Report& report, SourceLines* source) {
  const std::string json =
      PrintableJson(Writer(report, source).Write().dump(-1, ' ', false, Json::error_handler_t::replace));
  std::string escaped;
  escaped.reserve(json.size() + json.size() / 64);
  // These stand in strings only. Nothing in a name can end the block, nor begin a comment in it.
  for (const char c : json) {
    switch (c) {
      case '<':
        escaped += "\\u003c";
        break;
      case '>':
        escaped += "\\u003e";
        break;
      case '&':
        escaped += "\\u0026";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace cuheap::analysis
