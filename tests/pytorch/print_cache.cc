// Prints PyTorch's cache as the analysis sees it at every cuheap_step() of a snapshot, and the totals of its tensors, for
// comparison with torch.cuda.memory_snapshot() taken by the script right there.
//
// usage: print_cache SNAPSHOT      (stdout: one JSON object)
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "analysis/reports/blocks.h"
#include "analysis/reports/framework_cache.h"
#include "analysis/snapshot.h"
#include "analysis/snapshot_loader.h"

namespace cuheap::analysis {
namespace {

nlohmann::json StateOf(const CacheState& state) {
  nlohmann::json json = {{"reserved", state.reserved}, {"used", state.used}, {"outside", state.outside}};
  json["segments"] = nlohmann::json::array();
  for (const CacheSegment& segment : state.segments) {
    nlohmann::json blocks = nlohmann::json::array();
    for (const CacheBlock& block : segment.blocks) blocks.push_back({block.address, block.bytes, !block.idle()});
    json["segments"].push_back(
        {{"address", segment.address}, {"bytes", segment.bytes}, {"expandable", segment.expandable}, {"blocks", blocks}});
  }
  return json;
}

int Print(const char* path) {
  const absl::StatusOr<Snapshot> snapshot = LoadSnapshot(path);
  if (!snapshot.ok()) {
    std::fprintf(stderr, "%s\n", std::string(snapshot.status().message()).c_str());
    return 1;
  }
  const Blocks blocks = JoinBlocks(*snapshot);
  const FrameworkCaches caches(*snapshot, blocks);
  nlohmann::json result = {{"marks", nlohmann::json::array()}};
  for (std::size_t i = 0; i < snapshot->events.size(); ++i) {
    if (snapshot->events.type[i] != EventType::kStepMark) continue;
    nlohmann::json mark = {{"number", snapshot->events.bytes[i]}, {"devices", nlohmann::json::object()}};
    for (const std::uint32_t device : caches.devices()) {
      mark["devices"][std::to_string(device)] = StateOf(caches.At(device, i + 1));
    }
    result["marks"].push_back(mark);
  }
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace cuheap::analysis

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return cuheap::analysis::Print(argv[1]);
}
