#include "analysis/exports/speedscope.h"

#include <algorithm>
#include <cstdint>

#include "analysis/exports/frame_names.h"
#include "analysis/exports/held.h"
#include "analysis/exports/json_text.h"

namespace cuheap::analysis {
namespace {

// Frames are written as they are met first, so that only those of the moment are in the file.
class FrameTable {
 public:
  FrameTable(const Snapshot& snapshot, TextSink& sink)
      : names_(snapshot), sink_(sink), numbers_(snapshot.frames.size() + kParts) {}

  void Add(const HeldStack& entry, const std::vector<std::uint32_t>& frames) {
    if (entry.part != HeldPart::kBlocks || frames.empty()) AddPart(entry.part);
    for (const std::uint32_t frame : frames) AddFrame(frame);
  }
  // Outermost first.
  std::string Sample(const HeldStack& entry, const std::vector<std::uint32_t>& frames) const {
    if (entry.part != HeldPart::kBlocks || frames.empty())
      return "[" + std::to_string(numbers_[static_cast<std::size_t>(entry.part)] - 1) + "]";
    std::string sample;
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
      sample.append(sample.empty() ? "[" : ",").append(std::to_string(numbers_[*frame + kParts] - 1));
    return sample + "]";
  }

 private:
  static constexpr std::size_t kParts = 3;  // what stands for a stack where there is none

  bool IsNew(std::size_t at) {
    if (numbers_[at] != 0) return false;
    numbers_[at] = ++count_;
    sink_.Write(count_ == 1 ? "\n" : ",\n");
    return true;
  }
  void AddPart(HeldPart part) {
    if (IsNew(static_cast<std::size_t>(part))) sink_.Write("{\"name\":" + JsonString(NameOf(part)) + "}");
  }
  void AddFrame(std::uint32_t frame) {
    if (!IsNew(frame + kParts)) return;
    std::string text = "{\"name\":" + JsonString(names_.Function(frame));
    if (const std::string file = names_.File(frame); !file.empty()) {
      text += ",\"file\":" + JsonString(file);
      if (names_.Line(frame) != 0) text += ",\"line\":" + std::to_string(names_.Line(frame));
    }
    sink_.Write(text + "}");
  }

  FrameNames names_;
  TextSink& sink_;
  std::vector<std::uint32_t> numbers_;  // in the file, from 1; 0: not in it
  std::uint32_t count_ = 0;
};

void WriteProfile(const Snapshot& snapshot, const Held& held, const Moment& moment, const FrameTable& table,
                  TextSink& sink) {
  sink.Write("{\"type\":\"sampled\",\"name\":" + JsonString(NameOf(held) + ", " + Describe(moment)) +
             ",\"unit\":\"bytes\",\"startValue\":0,\"endValue\":" + std::to_string(held.bytes) + ",\"samples\":[");
  const char* separator = "\n";
  for (const HeldStack& entry : held.stacks) {
    if (entry.bytes == 0) continue;
    sink.Write(separator + table.Sample(entry, snapshot.stacks[entry.stack].frames));
    separator = ",\n";
  }
  sink.Write("],\"weights\":[");
  separator = "\n";
  for (const HeldStack& entry : held.stacks) {
    if (entry.bytes == 0) continue;
    sink.Write(separator + std::to_string(entry.bytes));
    separator = ",";
  }
  sink.Write("]}");
}

}  // namespace

absl::Status SpeedscopeProfile::Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest& request,
                                      TextSink& sink, std::vector<std::string>& notes) const {
  const std::vector<Held> places = HeldAt(snapshot, blocks, request.at);
  AddHeldNotes(snapshot, blocks, request.at, places, notes);
  sink.Write("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":" +
             JsonString(ExporterName(snapshot)) + ",\"name\":" + JsonString(TitleOf(snapshot, request.at)) +
             ",\"activeProfileIndex\":0,\"shared\":{\"frames\":[");
  FrameTable table(snapshot, sink);
  for (const Held& held : places) {
    for (const HeldStack& entry : held.stacks) {
      if (entry.bytes == 0) continue;
      table.Add(entry, snapshot.stacks[entry.stack].frames);
    }
  }
  sink.Write("]},\"profiles\":[");
  const char* separator = "\n";
  for (const Held& held : places.empty() ? std::vector<Held>{Held{}} : places) {
    sink.Write(separator);
    separator = ",\n";
    WriteProfile(snapshot, held, request.at, table, sink);
  }
  sink.Write("]}\n");
  return absl::OkStatus();
}

}  // namespace cuheap::analysis
