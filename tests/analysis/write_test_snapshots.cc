// Writes the snapshots that the schema test validates: usage: write_test_snapshots FOLDER
#include <cstdio>
#include <string>

#include "analysis/journal_reader.h"
#include "analysis/snapshot_writer.h"
#include "tests/analysis/journal_builder.h"
#include "tests/analysis/test_snapshot.h"

int main(int argc, char** argv) {
  using namespace cuheap::analysis;
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const auto journal = ReadJournalFromMemory(DistinctJournal().bytes(), "distinct.journal");
  if (!journal.ok()) return 1;
  for (const auto& [name, snapshot] :
       {std::pair<const char*, Snapshot>("distinct", DistinctSnapshot()),
        std::pair<const char*, Snapshot>("empty", Snapshot{}), std::pair<const char*, Snapshot>("journal", *journal)}) {
    const absl::Status written = WriteSnapshot(snapshot, folder + "/" + name + ".json");
    if (!written.ok()) {
      std::fprintf(stderr, "%s\n", std::string(written.message()).c_str());
      return 1;
    }
  }
  return 0;
}
