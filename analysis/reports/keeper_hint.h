// A guess from the source at what keeps a tensor: references are not recorded, only allocations.
#ifndef CUHEAP_ANALYSIS_REPORTS_KEEPER_HINT_H_
#define CUHEAP_ANALYSIS_REPORTS_KEEPER_HINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/source_lines.h"

namespace cuheap::analysis {

// Note [Keepers]
// What a Python line allocates is kept by another line as a rule: `total += loss`, `self.history.append(h)`,
// `cache[step] = features`. Such a line is looked for in the function that holds the allocating line, from there on:
// first among those that name what the allocating line assigns, then any. A hook or a callback keeps tensors of other
// functions: if the function has no such line, those of the file are taken, unless they are many. Lines that take
// numbers or let go of the graph (.item(), .detach(), float()) are passed over, unless `values` says that plain tensors
// are kept, which they do not prevent.
struct KeeperHint {
  std::vector<std::uint32_t> lines;  // from 1, at most kMostHints; the likeliest first; empty: no guess
};
inline constexpr std::size_t kMostHints = 3;

// values: tensors without a graph, so that detach() is no reason against.
KeeperHint GuessKeeper(const SourceFile& source, std::uint32_t line, bool values);
// Gradients have no line of their own: lines of the file that put something with `.grad` where it stays.
KeeperHint GuessGradientKeeper(const SourceFile& source);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_KEEPER_HINT_H_
