// Whether a file to be written is one that is read: writing would destroy the user's record.
#ifndef CUHEAP_TOOLS_CUHEAP_SAME_FILE_H_
#define CUHEAP_TOOLS_CUHEAP_SAME_FILE_H_

#include <string>

namespace cuheap::tools {

// The same regular file, by whatever names (links included). False if one of them is not there.
bool IsSameFile(const std::string& a, const std::string& b);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_SAME_FILE_H_
