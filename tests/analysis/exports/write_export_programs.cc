// Writes the snapshots of export_programs.h: usage: write_export_programs FOLDER
#include <cstdio>
#include <string>
#include <utility>

#include "analysis/snapshot_writer.h"
#include "tests/analysis/exports/export_programs.h"
#include "tests/analysis/test_snapshot.h"

int main(int argc, char** argv) {
  using cuheap::analysis::CutProgram;
  using cuheap::analysis::DistinctSnapshot;
  using cuheap::analysis::LeakyProgram;
  using cuheap::analysis::Snapshot;
  using cuheap::analysis::WriteSnapshot;
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  for (const auto& [name, snapshot] : {std::pair<const char*, Snapshot>("leaky", LeakyProgram()),
                                       std::pair<const char*, Snapshot>("cut", CutProgram()),
                                       std::pair<const char*, Snapshot>("distinct", DistinctSnapshot()),
                                       std::pair<const char*, Snapshot>("empty", Snapshot{})}) {
    const absl::Status written = WriteSnapshot(snapshot, folder + "/" + name + ".json");
    if (!written.ok()) {
      std::fprintf(stderr, "%s\n", std::string(written.message()).c_str());
      return 1;
    }
  }
  return 0;
}
