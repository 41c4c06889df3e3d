// Blocks that took the place of others which were made before the record began.
#ifndef CUHEAP_ANALYSIS_REPORTS_REPLACERS_H_
#define CUHEAP_ANALYSIS_REPORTS_REPLACERS_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analysis/reports/blocks.h"

namespace cuheap::analysis {

// By block that was kept: bytes of the older one that it replaced. A block of unknown line that is freed is taken for
// the predecessor of the youngest kept block of its size that is never freed: x = f(x) frees the old one right after
// the new one is there. Of PyTorch's tensors a size is what was asked for in an event, and up to 1 MiB more in a block
// that is live.
std::unordered_map<const Block*, std::uint64_t> FindReplacers(const std::vector<const Block*>& unknown,
                                                              const std::vector<const Block*>& kept);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_REPLACERS_H_
