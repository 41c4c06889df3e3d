#include "analysis/exports/chrome_trace.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>

#include "analysis/exports/block_timeline.h"
#include "analysis/exports/frame_names.h"
#include "analysis/exports/json_text.h"
#include "analysis/reports/lines.h"
#include "analysis/snapshot_names.h"

namespace cuheap::analysis {
namespace {

constexpr std::size_t kCounterPoints = 100'000;
constexpr std::size_t kSliceFrames = 12;           // of a stack, from the frame that the report charges outward
constexpr std::uint32_t kHostProcess = 1'000'000;  // behind all devices

std::string Microseconds(std::int64_t ns) {
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "%" PRId64 ".%03d", ns / 1000, static_cast<int>(ns % 1000));
  return text.data();
}

std::uint32_t ProcessOf(const Block& block) { return Blocks::OnHost(block.kind) ? kHostProcess : block.device + 1; }

// The memory of one process of the trace.
class Counter {
 public:
  Counter(std::uint32_t process, bool tensors) : process_(process), tensors_seen_(tensors) {}

  void Change(const Block& block, bool more) {
    std::uint64_t& sum = block.is_tensor() ? now_.tensors : block.in_framework_cache() ? now_.cache : now_.program;
    sum = more ? sum + block.bytes : sum - std::min(sum, block.bytes);
  }
  // After a change: keeps what was most, of tensors where there are any, and lets it out after `every` changes.
  template <typename Emit>
  void Mark(std::int64_t ns, std::size_t every, Emit emit) {
    if (changes_ == 0 || Height(now_) >= Height(best_)) {
      best_ = now_;
      best_ns_ = ns;
    }
    if (++changes_ >= every) Flush(emit);
  }
  template <typename Emit>
  void Flush(Emit emit) {
    if (changes_ == 0) return;
    emit(Text(best_, best_ns_));
    changes_ = 0;
  }
  std::string Now(std::int64_t ns) const { return Text(now_, ns); }

 private:
  struct Sums {
    std::uint64_t tensors = 0, cache = 0, program = 0;
  };
  std::pair<std::uint64_t, std::uint64_t> Height(const Sums& sums) const {
    return {sums.tensors, sums.cache + sums.program};
  }
  std::string Text(const Sums& sums, std::int64_t ns) const {
    std::string text = R"({"ph":"C","name":"memory held","pid":)" + std::to_string(process_) + R"(,"tid":0,"ts":)" +
                       Microseconds(ns) + R"(,"args":{)";
    if (process_ == kHostProcess) return text + R"("pinned":)" + std::to_string(sums.program + sums.cache) + "}}";
    if (tensors_seen_) {
      text += R"("tensors":)" + std::to_string(sums.tensors) + R"(,"cache, in no tensor":)" +
              std::to_string(sums.cache - std::min(sums.cache, sums.tensors)) + ",";
    } else if (sums.cache != 0 || sums.tensors != 0) {
      text += R"("cache":)" + std::to_string(sums.cache) + ",";
    }
    return text + R"("program":)" + std::to_string(sums.program) + "}}";
  }

  std::uint32_t process_;
  bool tensors_seen_;
  Sums now_, best_;
  std::int64_t best_ns_ = 0;
  std::size_t changes_ = 0;
};

class TraceWriter {
 public:
  TraceWriter(const Snapshot& snapshot, const Blocks& blocks, std::size_t drawn, TextSink& sink)
      : snapshot_(snapshot),
        blocks_(blocks),
        timeline_(blocks, snapshot.events.size()),
        lines_(snapshot, {}),
        names_(snapshot),
        sink_(sink),
        span_(ActiveSpan(snapshot, blocks)) {
    Choose(drawn);
    std::map<std::uint32_t, bool> tensors;
    for (const Device& device : snapshot.devices) tensors[device.ordinal + 1];
    for (const Block& block : blocks.program) {
      if (Draws(block)) tensors[ProcessOf(block)] |= block.is_tensor();
    }
    for (const auto& [process, seen] : tensors) counters_.emplace(process, Counter(process, seen));
    every_ = 1 + snapshot.events.size() / kCounterPoints;
  }

  void Write() {
    sink_.Write(R"({"displayTimeUnit":"ms","otherData":{"exporter":)" + JsonString(ExporterName(snapshot_)) +
                R"(,"program":)" + JsonString(snapshot_.process.executable) + R"(,"blocks_without_slice":)" +
                JsonString(std::to_string(left_out())) + R"(},"traceEvents":[)");
    for (const auto& [process, counter] : counters_) WriteName(process);
    WriteBeginning();
    for (std::size_t i = 0; i < snapshot_.events.size(); ++i) WriteEvent(i);
    WriteEnd();
    sink_.Write("\n]}\n");
  }

  std::uint64_t left_out() const { return drawable_ - std::min<std::uint64_t>(drawable_, chosen_count_); }

 private:
  static bool Draws(const Block& block) {
    return Blocks::OnDevice(block.kind) || Blocks::OnHost(block.kind) || block.is_tensor();
  }

  void Choose(std::size_t drawn) {
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < blocks_.program.size(); ++i) {
      if (Draws(blocks_.program[i])) order.push_back(i);
    }
    drawable_ = order.size();
    chosen_count_ = std::min(drawn, order.size());
    const auto largest = [&](std::uint32_t a, std::uint32_t b) {
      return std::tuple(blocks_.program[b].bytes, a) < std::tuple(blocks_.program[a].bytes, b);
    };
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(chosen_count_), order.end(), largest);
    chosen_.resize(blocks_.program.size());
    for (std::size_t i = 0; i < chosen_count_; ++i) chosen_[order[i]] = true;
  }

  void Emit(const std::string& event) {
    sink_.Write(first_ ? "\n" : ",\n");
    first_ = false;
    sink_.Write(event);
  }

  void WriteName(std::uint32_t process) {
    std::string name = "host memory pinned for CUDA";
    if (process != kHostProcess) {
      name = process == kUnknownDevice + 1 ? "GPU of unknown number" : "GPU " + std::to_string(process - 1);
      for (const Device& device : snapshot_.devices) {
        if (device.ordinal + 1 == process && !device.name.empty()) name += ", " + device.name;
      }
    }
    Emit(R"({"ph":"M","name":"process_name","pid":)" + std::to_string(process) + R"(,"tid":0,"args":{"name":)" +
         JsonString(name) + "}}");
    Emit(R"({"ph":"M","name":"process_sort_index","pid":)" + std::to_string(process) +
         R"(,"tid":0,"args":{"sort_index":)" + std::to_string(process) + "}}");
  }

  // What was there before the events that were kept.
  void WriteBeginning() {
    for (std::uint32_t number = 0; number < blocks_.program.size(); ++number) {
      const Block& block = blocks_.program[number];
      if (block.allocated_at != 0 || !Draws(block)) continue;
      const std::int64_t ns =
          block.allocated_ns == kBeforeWindow ? span_.begin_ns : std::max<std::int64_t>(0, block.allocated_ns);
      counters_.at(ProcessOf(block)).Change(block, true);
      if (chosen_[number]) WriteSlice(number, "b", std::min(ns, span_.begin_ns));
    }
    for (const auto& [process, counter] : counters_) Emit(counter.Now(span_.begin_ns));
  }

  void WriteEvent(std::size_t i) {
    const std::int64_t ns = std::max<std::int64_t>(0, snapshot_.events.time_ns[i]);
    const EventType type = snapshot_.events.type[i];
    if (type == EventType::kStepMark) WriteInstant(i, "step", ns);
    if (type == EventType::kAllocateFailed) WriteInstant(i, "allocation failed", ns);
    if (type == EventType::kFrameworkOutOfMemory) WriteInstant(i, "out of memory", ns);
    const std::uint32_t number = timeline_.At(i);
    if (number >= blocks_.program.size() || !Draws(timeline_.block(number))) return;
    const Block& block = blocks_.program[number];
    const bool allocation = timeline_.IsAllocation(number, i);
    Counter& counter = counters_.at(ProcessOf(block));
    counter.Change(block, allocation);
    counter.Mark(ns, every_, [&](const std::string& text) { Emit(text); });
    if (chosen_[number]) WriteSlice(number, allocation ? "b" : "e", ns);
  }

  void WriteEnd() {
    const std::int64_t end_ns =
        std::max({span_.end_ns, snapshot_.process.duration_ns,
                  snapshot_.events.size() == 0 ? std::int64_t{0} : snapshot_.events.time_ns.back()});
    for (std::uint32_t number = 0; number < blocks_.program.size(); ++number) {
      if (chosen_[number] && blocks_.program[number].freed_at == kNoPosition) WriteSlice(number, "e", end_ns);
    }
    for (auto& [process, counter] : counters_) {
      counter.Flush([&](const std::string& text) { Emit(text); });
      Emit(counter.Now(end_ns));
    }
  }

  void WriteSlice(std::uint32_t number, std::string_view phase, std::int64_t ns) {
    const Block& block = blocks_.program[number];
    const std::string name = Describe(lines_.line(lines_.OfStack(block.stack)));
    std::string text = R"({"ph":")" + std::string(phase) + R"(","cat":")" + std::string(ToString(block.kind)) +
                       R"(","id":")" + std::to_string(number) + R"(","name":)" + JsonString(name) + R"(,"pid":)" +
                       std::to_string(ProcessOf(block)) + R"(,"tid":0,"ts":)" + Microseconds(ns);
    if (phase == "b") {
      std::array<char, 24> address;
      std::snprintf(address.data(), address.size(), "0x%" PRIx64, block.address);
      text += R"(,"args":{"bytes":)" + std::to_string(block.bytes) + R"(,"address":")" + address.data() +
              R"(","stream":)" + std::to_string(block.stream) + R"(,"held_at_end":)" + (block.live ? "true" : "false") +
              R"(,"stack":[)";
      const std::vector<std::uint32_t>& frames = snapshot_.stacks[block.stack].frames;
      const std::size_t begin = lines_.PositionInStack(block.stack);
      for (std::size_t i = begin; i < std::min(frames.size(), begin + kSliceFrames); ++i)
        text.append(i == begin ? "" : ",").append(JsonString(names_.Label(frames[i])));
      text += "]}";
    }
    Emit(text + "}");
  }

  void WriteInstant(std::size_t i, std::string_view name, std::int64_t ns) {
    const auto process = counters_.find(snapshot_.events.device[i] + 1);
    const std::uint32_t where = process != counters_.end() ? process->first
                                : counters_.empty()        ? 0
                                                           : counters_.begin()->first;
    Emit(R"({"ph":"i","s":"g","cat":"marks","name":)" + JsonString(name) + R"(,"pid":)" + std::to_string(where) +
         R"(,"tid":0,"ts":)" + Microseconds(ns) + R"(,"args":{"bytes":)" + std::to_string(snapshot_.events.bytes[i]) +
         "}}");
  }

  const Snapshot& snapshot_;
  const Blocks& blocks_;
  BlockTimeline timeline_;
  LineTable lines_;
  FrameNames names_;
  TextSink& sink_;
  Span span_;
  std::vector<bool> chosen_;
  std::uint64_t drawable_ = 0, chosen_count_ = 0;
  std::map<std::uint32_t, Counter> counters_;
  std::size_t every_ = 1;
  bool first_ = true;
};

}  // namespace

absl::Status ChromeTrace::Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest& request,
                                TextSink& sink, std::vector<std::string>& notes) const {
  TraceWriter writer(snapshot, blocks, request.drawn_blocks, sink);
  writer.Write();
  if (writer.left_out() != 0) {
    notes.push_back(
        std::to_string(writer.left_out()) +
        " of the smaller blocks are in the counters only, so that viewers stay quick (--blocks N draws more)");
  }
  return absl::OkStatus();
}

}  // namespace cuheap::analysis
