// Fuzzes the snapshot loader: any text ends in one error or in a snapshot, and what was loaded and written again loads
// as the same.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "analysis/snapshot_loader.h"
#include "analysis/snapshot_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = cuheap::analysis::LoadSnapshotFromMemory(text, "fuzzed");
  if (!first.ok()) return 0;
  const std::string written = cuheap::analysis::SnapshotToJson(*first);
  const auto second = cuheap::analysis::LoadSnapshotFromMemory(written, "fuzzed");
  if (!second.ok() || cuheap::analysis::SnapshotToJson(*second) != written) {
    const std::string why = second.ok() ? "differs after loading" : second.status().ToString();
    std::fprintf(stderr, "what the writer wrote cannot be loaded: %s\n", why.c_str());
    std::abort();
  }
  return 0;
}
