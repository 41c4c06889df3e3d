#include "analysis/exports/folded.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "analysis/exports/frame_names.h"
#include "analysis/exports/held.h"

namespace cuheap::analysis {

absl::Status FoldedStacks::Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest& request,
                                 TextSink& sink, std::vector<std::string>& notes) const {
  FrameNames names(snapshot);
  const std::vector<Held> places = HeldAt(snapshot, blocks, request.at);
  AddHeldNotes(snapshot, blocks, request.at, places, notes);
  for (const Held& held : places) {
    // Stacks that differ in what no label shows are one line.
    std::map<std::string, std::uint64_t> lines;
    for (const HeldStack& entry : held.stacks) {
      if (entry.bytes == 0) continue;
      std::string line = NameOf(held);
      const std::vector<std::uint32_t>& frames = snapshot.stacks[entry.stack].frames;
      if (entry.part != HeldPart::kBlocks || frames.empty()) line.append(";").append(NameOf(entry.part));
      for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
        std::string label = names.Label(*frame);
        std::replace(label.begin(), label.end(), ';', ',');
        line.append(";").append(label);
      }
      lines[line] += entry.bytes;
    }
    for (const auto& [line, bytes] : lines) sink.Write(line + " " + std::to_string(bytes) + "\n");
  }
  return absl::OkStatus();
}

}  // namespace cuheap::analysis
