// Any snapshot is merged with itself as another rank, and with none; what is written of it is JSON, and text without
// control characters. The input is a file's name, too.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "analysis/ranks/rank_diff.h"
#include "analysis/ranks/rank_rendering.h"
#include "analysis/ranks/rank_report.h"
#include "analysis/snapshot_loader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cuheap::analysis;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::optional<std::uint32_t> rank = RankInFileName(text);
  if (rank && *rank >= kMostRanks) std::abort();
  const absl::StatusOr<Snapshot> snapshot = LoadSnapshotFromMemory(text, "fuzz");
  if (!snapshot.ok()) return 0;
  const Report report = MakeReport(*snapshot);
  RankMerge one, two;
  one.Add(SummariseRank(report, "rank0.json"));
  for (const char* path : {"rank0.json", "rank1.json"}) two.Add(SummariseRank(report, path));
  two.AddUnread({"x", "x: is damaged", 2});
  const RankReport alone = one.Finish(), both = two.Finish();
  const RankDiff diff = CompareRanks(alone, both);
  for (const std::string& json : {RenderRanksJson(both), RenderRankDiffJson(diff)}) {
    if (nlohmann::json::parse(json, nullptr, false).is_discarded()) std::abort();
  }
  for (const std::string& shown : {RenderRanksText(both), RenderRankDiffText(diff)}) {
    for (const char byte : shown) {
      if (static_cast<unsigned char>(byte) < 0x20 && byte != '\n') std::abort();
    }
  }
  return 0;
}
