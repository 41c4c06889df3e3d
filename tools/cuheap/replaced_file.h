// What a file that a command is told to write would replace.
#ifndef CUHEAP_TOOLS_CUHEAP_REPLACED_FILE_H_
#define CUHEAP_TOOLS_CUHEAP_REPLACED_FILE_H_

#include <string>

namespace cuheap::tools {

// Why `output` must not be written, in words that name it: it is the snapshot that is read, or another one. A snapshot
// is hours of a run, and `report --html a.json b.json` is soon typed. Empty: nothing is lost that could not be made
// again.
//
// input: what is read; "-" is standard input.
std::string RefusalToReplace(const std::string& input, const std::string& output);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_REPLACED_FILE_H_
