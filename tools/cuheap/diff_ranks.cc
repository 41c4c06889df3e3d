#include "tools/cuheap/diff_ranks.h"

#include <filesystem>
#include <string>

#include "analysis/ranks/rank_diff.h"
#include "analysis/ranks/rank_report.h"
#include "tools/cuheap/message.h"
#include "tools/cuheap/rank_files.h"
#include "tools/cuheap/standard_output.h"

namespace cuheap::tools {
namespace {

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// False, and said, if there is nothing to compare.
bool Read(const std::string& folder, const DiffOptions& options, analysis::RankReport* report) {
  RankFileList list;
  if (const std::string problem = ListRankFiles({folder}, &list); !problem.empty()) {
    Say(problem);
    return false;
  }
  *report = ReadRanks(list, {options.ignore});
  for (const analysis::UnreadFile& file : report->unread) Say(file.error);
  if (report->ranks.empty()) Say(folder + ": no snapshot of it could be read");
  return !report->ranks.empty();
}

// What the ranks' comparison cannot do is not left out silently.
std::string Refusal(const DiffOptions& options) {
  if (!IsFolder(options.before) || !IsFolder(options.after))
    return "one of the two is a folder, and the other is not: compare two snapshots, or two folders of ranks";
  if (!options.fail_on.empty())
    return "--fail-on compares two snapshots, not folders; of ranks, judge the members of --json, for instance with jq";
  if (!options.markdown.empty()) return "--markdown compares two snapshots, not folders; of ranks there is --json";
  return {};
}

}  // namespace

bool AreFolders(const DiffOptions& options) { return IsFolder(options.before) || IsFolder(options.after); }

int CompareFolders(const DiffOptions& options) {
  if (const std::string refusal = Refusal(options); !refusal.empty()) {
    Say(refusal);
    return kUsageError;
  }
  analysis::RankReport before, after;
  if (!Read(options.before, options, &before) || !Read(options.after, options, &after)) return kUsageError;
  const analysis::RankDiff diff = analysis::CompareRanks(before, after, options.threshold);
  const int status = Print(options.json ? analysis::RenderRankDiffJson(diff)
                                        : analysis::RenderRankDiffText(diff, TextOptionsFor(options.display)));
  return status == 0 && (!before.unread.empty() || !after.unread.empty()) ? kUsageError : status;
}

}  // namespace cuheap::tools
