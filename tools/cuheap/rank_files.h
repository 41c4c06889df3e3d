// The snapshots of many processes: which files they are, and reading them one by one, a few at a time.
#ifndef CUHEAP_TOOLS_CUHEAP_RANK_FILES_H_
#define CUHEAP_TOOLS_CUHEAP_RANK_FILES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/ranks/rank_report.h"
#include "analysis/reports/lines.h"

namespace cuheap::tools {

struct RankFile {
  std::string path;
  bool listed = false;  // found in a folder: it may be anything, and need not be a snapshot
};

struct RankFileList {
  std::vector<RankFile> files;        // by path, each once
  std::vector<std::string> left_out;  // of the folders: what cuheap export made of snapshots
};

// Folders stand for the snapshots directly in them: names ending in .json, .pickle or .pkl, and in those with .zst.
// Returns what is wrong, empty if nothing is: a path that does not exist, a folder that cannot be read or holds none.
std::string ListRankFiles(const std::vector<std::string>& paths, RankFileList* list);

// Reads, analyses and lets go of each file in turn, several at once: as many as there are processors, up to 8, but no
// more than make 512 MiB of text together (or one, if it is larger). What is kept is the merge's summary. A file that
// cannot be read is in the report with its error. Progress is told on standard error if that is a terminal and it takes
// longer than a second.
analysis::RankReport ReadRanks(const RankFileList& list, const analysis::LineRule& rule);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_RANK_FILES_H_
