// Lines of code that many processes have in common, each once.
//
// Note [The same line in another process]
// The processes of a run execute the same files, so a line is the same if basis, function, number, the file's path and
// the module's name are. Nodes may have a copy each: paths that lie in a process's working directory are compared
// relative to it. Functions count without template arguments and parameters, as everywhere in the reports.
#ifndef CUHEAP_ANALYSIS_RANKS_SHARED_LINES_H_
#define CUHEAP_ANALYSIS_RANKS_SHARED_LINES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/reports/lines.h"

namespace cuheap::analysis {

class SharedLines {
 public:
  SharedLines() { Of(CodeLine{}, ""); }
  // working_directory: of the process whose line it is; may be empty. Line 0 is "(no stack)".
  std::uint32_t Of(const CodeLine& line, const std::string& working_directory);
  // As the first process that had it wrote it.
  const CodeLine& line(std::uint32_t index) const { return lines_[index]; }
  // The file's path relative to the working directory, where it lies in there: what is shown.
  const std::string& file(std::uint32_t index) const { return files_[index]; }
  // The folder of all files of user code; empty if there is none but "/".
  std::string CommonFolder() const;
  std::size_t size() const { return lines_.size(); }
  // Equal for the same line of another run, too. Says what it is, file and number first.
  const std::string& key(std::uint32_t index) const { return *keys_[index]; }
  // Order for output: never by index, which depends on which process came first.
  bool Before(std::uint32_t a, std::uint32_t b) const { return *keys_[a] < *keys_[b]; }

 private:
  std::map<std::string, std::uint32_t> index_;
  std::vector<const std::string*> keys_;
  std::vector<CodeLine> lines_;
  std::vector<std::string> files_;
};

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_RANKS_SHARED_LINES_H_
