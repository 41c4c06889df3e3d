// `cuheap diff` of two folders: the ranks of two runs.
#ifndef CUHEAP_TOOLS_CUHEAP_DIFF_RANKS_H_
#define CUHEAP_TOOLS_CUHEAP_DIFF_RANKS_H_

#include "tools/cuheap/diff_arguments.h"

namespace cuheap::tools {

// One of the two is a folder: then both have to be.
bool AreFolders(const DiffOptions& options);
// The exit status: 2 if a file could not be read, after the comparison of the others.
int CompareFolders(const DiffOptions& options);

}  // namespace cuheap::tools

#endif  // CUHEAP_TOOLS_CUHEAP_DIFF_RANKS_H_
